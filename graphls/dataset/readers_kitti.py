"""The street scenes of KITTI, with boxes around objects."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graphls.dataset.readers_files import corrupt, folder, number_in, text_of, usage
from graphls.dataset.readers_images import IMAGES, Images
from graphls.ir.errors import GraphRuntimeError

_FIELDS = 15  # the kind and 14 numbers; results of detectors have a score behind them
_MOST_OCCLUDED = 255
_COLUMNS = {"truncated": 1, "occluded": 1, "alpha": 1, "bbox": 4, "dimensions": 3, "location": 3, "rotation_y": 1}

Objects = tuple[list[str], np.ndarray[Any, Any]]


class KITTISource:
    """Rows of images, in order of their names, for "train" with the objects that `label_2` has for each.

    label (numbers of the kinds in order of their names) and occluded are uint32, truncated, alpha and rotation_y
    float32 of (objects, 1), bbox float32 of (objects, 4), dimensions and location of (objects, 3). An occlusion of -1,
    which stands for none known, is 4294967295. Raises GraphValueError for a folder that is not there, GraphRuntimeError
    for no image at all, and for descriptions that are missing or have other fields.
    """

    def __init__(self, dataset_dir: Any, part: Any, decode: Any) -> None:
        directory = folder(dataset_dir)
        is_test = usage(part, "train", "test") == "test"
        images = os.path.join(directory, "data_object_image_2", "testing" if is_test else "training", "image_2")
        self._paths = _images(images)
        self._image = Images(decode)
        self.columns = ["image"] if is_test else ["image", "label", *_COLUMNS]
        labels = os.path.join(directory, "data_object_label_2", "training", "label_2")
        self._objects = [] if is_test else [_objects(os.path.join(labels, _stem(path))) for path in self._paths]
        kinds = sorted({kind for found, _ in self._objects for kind in found})
        self._numbers = {kind: number for number, kind in enumerate(kinds)}

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        image = self._image(self._paths[index])
        return (image, *self._described(*self._objects[index])) if self._objects else (image,)

    def _described(self, kinds: list[str], values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        labels = np.array([[self._numbers[kind]] for kind in kinds], np.uint32)
        ends = np.cumsum(list(_COLUMNS.values()))
        columns = dict(zip(_COLUMNS, np.split(values, ends[:-1], 1), strict=True))
        occluded = columns.pop("occluded").astype(np.int64).astype(np.uint32)
        truncated, *rest = (column.astype(np.float32) for column in columns.values())
        return [labels, truncated, occluded, *rest]


def _images(directory: str) -> list[str]:
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    paths = [os.path.join(directory, name) for name in names if os.path.splitext(name)[1].lower() in IMAGES]
    if not paths:
        raise GraphRuntimeError(f"There are no images in {directory}.")
    return paths


def _stem(path: str) -> str:
    return f"{os.path.splitext(os.path.basename(path))[0]}.txt"


def _objects(path: str) -> Objects:
    lines = [line.split() for line in text_of(path).splitlines() if line.strip()]
    wrong = next((line for line in lines if len(line) not in (_FIELDS, _FIELDS + 1)), None)
    if wrong is not None or not lines:
        fault = f"a line has {len(wrong)} fields, not {_FIELDS}" if wrong is not None else "there is no line in it"
        raise corrupt(path, fault)
    values = [[number_in(path, f"a number of {line[0][:40]!r}", word) for word in line[1:_FIELDS]] for line in lines]
    array = np.array(values, np.float64)
    if np.abs(array[:, 1]).max() > _MOST_OCCLUDED:
        raise corrupt(path, f"an occlusion is not within [-{_MOST_OCCLUDED}, {_MOST_OCCLUDED}]")
    return [line[0] for line in lines], array
