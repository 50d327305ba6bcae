"""The binary format of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import os
import re
from typing import Any, ClassVar

import numpy as np

from graphls.dataset.readers_files import Bytes, corrupt, folder, mapped, usage
from graphls.ir.errors import GraphRuntimeError

_SHAPE = (3, 32, 32)
_PIXELS = 3072


class CifarSource:
    """Rows (image, label, ...): uint8 of (32, 32, 3), then a uint32 of () for each label; training images first.

    A record is the bytes of the labels, then 3072 of the image: its red, green and blue plane. Raises GraphValueError
    for a folder that is not there, GraphRuntimeError for files that are missing or damaged.
    """

    classes: ClassVar[tuple[int, ...]]
    files: ClassVar[dict[str, str]]

    def __init__(self, dataset_dir: Any, part: str | None = None) -> None:
        directory = folder(dataset_dir)
        wanted = usage(part, "train", "test", "all")
        self._paths = self._find(directory, ["train", "test"] if wanted == "all" else [wanted])
        self._parts = [self._records(path) for path in self._paths]
        self._ends = np.cumsum([len(records) for records in self._parts])

    def _find(self, directory: str, parts: list[str]) -> list[str]:
        names = sorted(os.listdir(directory))
        found = [[name for name in names if re.fullmatch(self.files[part], name)] for part in parts]
        if not any(found):
            patterns = ", ".join(self.files[part].replace("\\", "") for part in parts)
            raise GraphRuntimeError(f"There are no CIFAR files ({patterns}) in {directory}.")
        return [os.path.join(directory, name) for group in found for name in group]

    def _records(self, path: str) -> Bytes:
        data, width = mapped(path), len(self.classes) + _PIXELS
        if len(data) % width:
            raise corrupt(path, f"its {len(data)} bytes are no whole number of records of {width} bytes")
        return data.reshape(-1, width)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        part = int(np.searchsorted(self._ends, index, side="right"))
        record = self._parts[part][index - int(self._ends[part])]  # counted from the end of the part
        labels, pixels = record[: len(self.classes)], record[len(self.classes) :]
        for label, count in zip(labels, self.classes, strict=True):
            if label >= count:
                raise corrupt(self._paths[part], f"it holds the label {label}, but there are {count} classes")
        image = np.ascontiguousarray(pixels.reshape(_SHAPE).transpose(1, 2, 0))
        return (image, *(np.array(label, np.uint32) for label in labels))


class Cifar10Source(CifarSource):
    """Rows (image, label) of CIFAR-10: `data_batch_1.bin` and its kin for training, `test_batch.bin`."""

    classes = (10,)
    files: ClassVar[dict[str, str]] = {"train": r"data_batch_[1-5]\.bin", "test": r"test_batch\.bin"}


class Cifar100Source(CifarSource):
    """Rows (image, coarse label, fine label) of CIFAR-100: `train.bin` and `test.bin`."""

    classes = (20, 100)
    files: ClassVar[dict[str, str]] = {"train": r"train\.bin", "test": r"test\.bin"}
