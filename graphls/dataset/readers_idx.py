"""The IDX format of MNIST and Fashion-MNIST, plain or compressed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.readers_files import Bytes, Compressed, corrupt, first_of, folder, mapped, usage
from graphls.ir.errors import GraphRuntimeError

_SIDE = 28
_CLASSES = 10
_PREFIXES = {"train": ("train",), "test": ("t10k",), "all": ("t10k", "train")}


def read_idx(path: str, axes: int) -> Bytes:
    """The uint8 array of `axes` axes that an IDX file holds.

    The header is four bytes (0, 0, 8 for uint8, number of axes), then each size as a big-endian uint32. Raises
    GraphRuntimeError where the header is another, or the file is not as long as it says; nothing is read before that.
    """
    start = 4 + 4 * axes
    compressed = Compressed(path) if path.endswith(".gz") else None
    data = compressed.head(start) if compressed else mapped(path)
    shape = _shape(path, bytes(data[:start]), axes)
    length = start + math.prod(shape)
    if compressed:
        data = compressed.whole(length)
    elif len(data) != length:
        raise corrupt(path, f"its header speaks of {length} bytes, but it holds {len(data)}")
    return data[start:].reshape(shape)


def _shape(path: str, header: bytes, axes: int) -> tuple[int, ...]:
    if len(header) < 4 + 4 * axes:
        raise corrupt(path, f"the file ends within its header of {4 + 4 * axes} bytes")
    if header[:4] != bytes([0, 0, 8, axes]):
        magic, expected = (int.from_bytes(part, "big") for part in (header[:4], bytes([0, 0, 8, axes])))
        raise corrupt(path, f"its magic number is {magic}, not {expected}")
    return tuple(int(size) for size in np.frombuffer(header[4:], ">u4"))


class IdxSource:
    """Rows (image, label) of MNIST: uint8 of (28, 28, 1), uint32 of (); the test images first where both are wanted.

    `dataset_dir` has `train-images-idx3-ubyte` and its kin, also ending in `.gz`. Raises GraphValueError for a folder
    that is not there, GraphRuntimeError for files that are missing, damaged, or do not belong together.
    """

    def __init__(self, dataset_dir: Any, part: str | None = None) -> None:
        directory = folder(dataset_dir)
        wanted = _PREFIXES[usage(part, *_PREFIXES)]
        found = [pair for pair in (_paths(directory, prefix) for prefix in wanted) if pair]
        if not found or (part is not None and len(found) < len(wanted)):
            names = " and ".join(f"{prefix}-images-idx3-ubyte" for prefix in wanted)
            raise GraphRuntimeError(f"There are no MNIST files ({names}) in {directory}.")
        self._parts = [_read(*paths) for paths in found]
        self._ends = np.cumsum([len(labels) for _, labels in self._parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        part = int(np.searchsorted(self._ends, index, side="right"))
        images, labels = self._parts[part]
        place = index - int(self._ends[part])  # counted from the end of the part
        return np.array(images[place])[:, :, None], np.array(labels[place], np.uint32)


def _paths(directory: str, prefix: str) -> tuple[str, str] | None:
    images, labels = (
        first_of(directory, *(f"{prefix}-{kind}{sep}{end}" for end in (ending, f"{ending}.gz") for sep in "-."))
        for kind, ending in (("images", "idx3-ubyte"), ("labels", "idx1-ubyte"))
    )
    if images is None and labels is None:
        return None
    if images is None or labels is None:
        raise GraphRuntimeError(f"{directory} has no {prefix} {'labels' if images else 'images'}.")
    return images, labels


def _read(image_path: str, label_path: str) -> tuple[Bytes, Bytes]:
    images, labels = read_idx(image_path, 3), read_idx(label_path, 1)
    if images.shape[1:] != (_SIDE, _SIDE):
        raise corrupt(image_path, f"its images are {images.shape[1]} x {images.shape[2]}, not {_SIDE} x {_SIDE}")
    if len(images) != len(labels):
        raise corrupt(label_path, f"it holds {len(labels)} labels for the {len(images)} images of {image_path}")
    if len(labels) and labels.max() >= _CLASSES:
        raise corrupt(label_path, f"it holds the label {labels.max()}, but there are {_CLASSES} classes")
    return images, labels
