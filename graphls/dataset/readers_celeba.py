"""The faces of CelebA, with the list of their attributes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graphls.dataset.readers_files import corrupt, folder, inside, text_of, usage
from graphls.dataset.readers_images import Images, extensions_of
from graphls.ir.errors import GraphRuntimeError

_ATTRIBUTES, _PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
_PARTS = {"train": "0", "valid": "1", "test": "2"}
_BITS = {"1": 1, "-1": 0, "0": 0}


class CelebASource:
    """Rows (image, attr): an image as Images reads it, and uint32 of (attributes,), 1 where the face has one.

    `list_attr_celeba.txt` has the number of images, the names of the attributes, and a line for each image, whose
    order is that of the rows; the images lie beside it. Parts of the data need `list_eval_partition.txt` there.
    Raises GraphValueError for a folder that is not there, GraphRuntimeError for lists that contradict themselves.
    """

    def __init__(self, dataset_dir: Any, part: Any, decode: Any, extensions: Any, decrypt: Any) -> None:
        directory, part = folder(dataset_dir), usage(part, "train", "valid", "test", "all")
        self._image = Images(decode, decrypt)
        self._list = os.path.join(directory, _ATTRIBUTES)
        wanted = None if part == "all" else _names(os.path.join(directory, _PARTITION), _PARTS[part])
        endings = None if extensions is None else extensions_of(extensions)
        self._rows = [
            (inside(directory, name, self._list), bits)
            for name, bits in _attributes(self._list)
            if (wanted is None or name in wanted) and (endings is None or os.path.splitext(name)[1] in endings)
        ]
        if not self._rows:
            raise GraphRuntimeError(f"{self._list} has no image for usage {part!r} and extensions.")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, bits = self._rows[index]
        return self._image(path), bits.astype(np.uint32)


def _attributes(path: str) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """The name of each image and a byte for each of its attributes."""
    count, _, rest = text_of(path).partition("\n")
    names, _, body = rest.partition("\n")
    lines = [line.split() for line in body.splitlines() if line.strip()]
    if count.strip() != str(len(lines)):
        raise corrupt(path, f"its first line speaks of {count.strip()[:40]!r} images, but it lists {len(lines)}")
    return [(line[0], _bits(path, line, len(names.split()))) for line in lines]


def _bits(path: str, line: list[str], width: int) -> np.ndarray[Any, Any]:
    if len(line) != width + 1 or not _BITS.keys() >= set(line[1:]):
        fault = f"the line of {line[0][:40]!r} does not have 1 or -1 for each of the {width} attributes"
        raise corrupt(path, fault)
    return np.array([_BITS[word] for word in line[1:]], np.uint8)


def _names(path: str, part: str) -> set[str]:
    lines = [line.split() for line in text_of(path).splitlines() if line.strip()]
    wrong = next((line for line in lines if len(line) != 2 or line[1] not in _PARTS.values()), None)
    if wrong is not None:
        raise corrupt(path, f"the line of {wrong[0][:40]!r} is not a file name with 0, 1 or 2")
    return {name for name, number in lines if number == part}
