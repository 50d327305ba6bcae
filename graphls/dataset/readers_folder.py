"""Images in one folder for each class."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graphls.dataset.readers_files import folder
from graphls.dataset.readers_images import IMAGES, Images, extensions_of
from graphls.dataset.transforms.checks import integer, string, type_error, value_error
from graphls.ir.errors import GraphRuntimeError


class ImageFolderSource:
    """Rows (image, label): the bytes of a file, uint8 of (N,), or its pixels of (H, W, 3); int32 of () by folder.

    Classes are the folders of `dataset_dir` in order of their names, or those of `class_indexing` with its numbers;
    the images of a class are the files directly in its folder, in order of their names. `extensions` such as [".png"]
    are exact; without them the endings of images count, in upper or lower case. Raises GraphValueError for a folder
    that is not there or a class that has none, GraphRuntimeError where there is no image.
    """

    def __init__(
        self, dataset_dir: Any, extensions: Any = None, class_indexing: Any = None, decode: bool = False
    ) -> None:
        directory = folder(dataset_dir)
        self._extensions = None if extensions is None else extensions_of(extensions)
        self._image = Images(decode)
        classes = _classes(directory, class_indexing)
        self._rows = [(path, label) for name, label in classes.items() for path in self._files(directory, name)]
        if not self._rows:
            raise GraphRuntimeError(f"There are no images in the folders of {directory}.")

    def _files(self, directory: str, name: str) -> list[str]:
        with os.scandir(os.path.join(directory, name)) as entries:
            return sorted(entry.path for entry in entries if entry.is_file() and self._is_image(entry.name))

    def _is_image(self, name: str) -> bool:
        ending = os.path.splitext(name)[1]
        return ending.lower() in IMAGES if self._extensions is None else ending in self._extensions

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self._rows[index]
        return self._image(path), np.array(label, np.int32)


def _classes(directory: str, indexing: Any) -> dict[str, int]:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if indexing is None:
        return {name: number for number, name in enumerate(names)}
    if not isinstance(indexing, dict):
        raise type_error("class_indexing", indexing, "a dict of folder names to numbers")
    numbers = {
        string("class_indexing", name): integer("class_indexing", number) for name, number in indexing.items()
    }
    for name in numbers.keys() - set(names):
        raise value_error(f"class_indexing has the class {name!r}, but {directory} has no folder of that name.")
    return {name: numbers[name] for name in names if name in numbers}
