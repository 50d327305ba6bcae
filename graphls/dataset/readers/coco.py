"""COCO: images with annotations from a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.files.files import open_file
from graphls.dataset.checks import boolean
from graphls.dataset.columns import Array, StrPath
from graphls.dataset.readers import files
from graphls.dataset.readers.files import LARGEST, Decrypt, Files, Images, Source, corrupt
from graphls.dataset.samplers import SamplerLike

_LARGEST_UINT = 2**32 - 1
_MOST_ELEMENTS = 2**26  # of one row's padded column
_FILE_NAME = "_meta-filename"


class Entry:
    """One object of the annotation file, whose fields are checked when they are read."""

    def __init__(self, path: str, value: object, kind: str) -> None:
        if not isinstance(value, dict):
            raise corrupt(path, f"an entry of {kind!r} is not a JSON object")
        self.path, self._fields, self._kind = path, value, kind

    def get(self, name: str, kind: type | tuple[type, ...], default: object = None) -> Any:
        """A field of that type; raises GraphRuntimeError for a missing one without a default, and for another type."""
        value = self._fields.get(name, default)
        if value is None or not isinstance(value, kind) or isinstance(value, bool):
            state = "lacks" if value is None else f"has {str(value)[:40]!r} for"
            raise corrupt(self.path, f"an entry of {self._kind!r} {state} {name!r}")
        return value

    def unsigned(self, name: str, default: int | None = None) -> int:
        """A number of uint32, cut to an integer."""
        value = self.get(name, (int, float), default)
        if not 0 <= value <= _LARGEST_UINT:
            raise corrupt(self.path, f"{name!r} is {str(value)[:40]}, which is not within [0, {_LARGEST_UINT}]")
        return int(value)

    def floats(self, name: str, values: object) -> list[float]:
        """A list of numbers that are finite in float32."""
        if not isinstance(values, list) or not all(type(v) in (int, float) and abs(v) <= LARGEST for v in values):
            raise corrupt(self.path, f"{name!r} of an entry of {self._kind!r} is not a list of finite numbers")
        return values

    def entries(self, name: str) -> list[Entry]:
        """The entries of a list that the file must have."""
        return [Entry(self.path, value, name) for value in self.get(name, list)]


def padded(path: str, rows: list[list[float]]) -> Array:
    """Lists as the rows of one array, float32, padded with -1."""
    longest = max(map(len, rows), default=0)
    if longest * len(rows) > _MOST_ELEMENTS:
        raise corrupt(path, f"{len(rows)} lists of up to {longest} numbers for one image are too many")
    return np.array([row + [-1] * (longest - len(row)) for row in rows], np.float32).reshape(len(rows), longest)


def _unsigned(entries: list[Entry], name: str, default: int | None = None) -> Array:
    return np.array([[entry.unsigned(name, default)] for entry in entries], np.uint32).reshape(-1, 1)


def _boxes(entries: list[Entry]) -> Array:
    boxes = [entry.floats("bbox", entry.get("bbox", list)) for entry in entries]
    if any(len(box) != 4 for box in boxes):
        raise corrupt(entries[0].path, "a 'bbox' does not have four numbers")
    return np.array(boxes, np.float32)


def _detection(entries: list[Entry]) -> list[Array]:
    return [_boxes(entries), _unsigned(entries, "category_id"), _unsigned(entries, "iscrowd", 0)]


def _panoptic(entries: list[Entry]) -> list[Array]:
    return [*_detection(entries), _unsigned(entries, "area")]


def _stuff(entries: list[Entry]) -> list[Array]:
    polygons = [polygon for entry in entries for polygon in _polygons(entry)]
    return [padded(entries[0].path, polygons), _unsigned(entries, "iscrowd", 0)]


def _polygons(entry: Entry) -> list[list[float]]:
    """The outlines of an object, or the lengths of the runs in a mask of several."""
    outline = entry.get("segmentation", (list, dict))
    lists = [outline.get("counts")] if isinstance(outline, dict) else outline
    return [entry.floats("segmentation", values) for values in lists]


def _keypoints(entries: list[Entry]) -> list[Array]:
    points = [entry.floats("keypoints", entry.get("keypoints", list)) for entry in entries]
    return [padded(entries[0].path, points), _unsigned(entries, "num_keypoints")]


def _captions(entries: list[Entry]) -> list[Array]:
    captions = [entry.get("caption", str) for entry in entries]
    if max(map(len, captions)) * len(captions) > _MOST_ELEMENTS:
        raise corrupt(entries[0].path, f"{len(captions)} captions for one image are too long together")
    return [np.array(captions)[:, None]]


_TASKS: dict[str, tuple[list[str], Callable[[list[Entry]], list[Array]]]] = {
    "Detection": (["bbox", "category_id", "iscrowd"], _detection),
    "Stuff": (["segmentation", "iscrowd"], _stuff),
    "Keypoint": (["keypoints", "num_keypoints"], _keypoints),
    "Panoptic": (["bbox", "category_id", "iscrowd", "area"], _panoptic),
    "Captioning": (["captions"], _captions),
}


class CocoSource(Source):
    """The rows of CocoDataset."""

    def __init__(
        self, dataset_dir: StrPath, annotation_file: StrPath, task: str, image: Images, extra_metadata: bool
    ) -> None:
        self._directory = files.folder(dataset_dir)
        if task not in _TASKS:
            raise GraphValueError(f"Invalid task type: {task!r}; it is one of {', '.join(_TASKS)}.")
        self.task, (columns, self._described) = task, _TASKS[task]
        self._named, self._image = boolean("extra_metadata", extra_metadata), image
        self.columns = ["image", *columns, *[_FILE_NAME] * self._named]
        content = _content(annotation_file)
        self._path = content.path
        self._read_categories(content)
        self._read_images(content)

    def _read_categories(self, content: Entry) -> None:
        """Read the ids of the categories by name, in Panoptic with 1 for things and 0 for stuff."""
        self.classes: dict[str, list[int]] = {}
        self._categories: set[int] | None = None
        if self.task in ("Detection", "Panoptic"):
            entries = content.entries("categories")
            extra = ["isthing"] if self.task == "Panoptic" else []
            for entry in entries:
                self.classes[entry.get("name", str)] = [entry.unsigned(name) for name in ["id", *extra]]
            self._categories = {entry.unsigned("id") for entry in entries}

    def _read_images(self, content: Entry) -> None:
        names = [(entry.get("id", int), entry.get("file_name", str)) for entry in content.entries("images")]
        annotations: dict[int, list[Entry]] = {image_id: [] for image_id, _ in names}
        for entry in content.entries("annotations"):
            image_id = entry.get("image_id", int)
            if image_id not in annotations:
                fault = f"an annotation is for the image {str(image_id)[:40]}, which is not in 'images'"
                raise corrupt(self._path, fault)
            annotations[image_id] += entry.entries("segments_info") if self.task == "Panoptic" else [entry]
        self._rows = [
            (files.inside(self._directory, name, self._path), annotations[i]) for i, name in names if annotations[i]
        ]
        self._check_rows()

    def _check_rows(self) -> None:
        if not self._rows:
            raise corrupt(self._path, "no image in it has an annotation")
        if self._categories is not None:
            used = {entry.unsigned("category_id") for _, entries in self._rows for entry in entries}
            for category in sorted(used - self._categories):
                raise corrupt(self._path, f"an annotation has the category {category}, which is not in 'categories'")

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        path, entries = self._rows[index]
        name = np.array(os.path.splitext(os.path.basename(path))[0])
        return (self._image(path), *self._described(entries), *[name] * self._named)


def _content(annotation_file: StrPath) -> Entry:
    path = files.existing_file("annotation_file", annotation_file)
    try:
        with open_file(path, "r", encoding="utf-8") as file:
            return Entry(path, json.load(file), "the file")
    except OSError as error:
        raise GraphRuntimeError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"it is not JSON ({error})") from None


class CocoDataset(Files):
    """The images of COCO that have annotations, in the order of the file's `images`, with the columns of the task.

    "Detection": `image`; `bbox`, float32 of (objects, 4) with left, top, width, height; `category_id` and `iscrowd`,
    uint32 of (objects, 1); "Panoptic" also `area`. "Stuff": `segmentation`, float32 of (polygons, longest), padded with
    -1, and `iscrowd`. "Keypoint": `keypoints`, float32 of (objects, longest), and `num_keypoints`. "Captioning":
    `captions`, strings of (captions, 1). `image` is bytes, uint8 of (N,), or with `decode` pixels, uint8 of (H, W, 3).
    `extra_metadata` adds _meta-filename, a string of (). Raises GraphValueError for wrong arguments and missing
    files, GraphRuntimeError for annotations that contradict themselves.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> Path("photos").mkdir()
        >>> _ = cv2.imwrite("photos/1.png", np.zeros((4, 6, 3), np.uint8))
        >>> box = {"id": 1, "image_id": 7, "category_id": 1, "bbox": [1, 0, 3, 2], "area": 6, "iscrowd": 0}
        >>> images, categories = [{"id": 7, "file_name": "1.png"}], [{"id": 1, "name": "cat"}]
        >>> text = json.dumps({"images": images, "categories": categories, "annotations": [box]})
        >>> _ = Path("boxes.json").write_text(text)
        >>> rows = ds.CocoDataset("photos", "boxes.json", decode=True)
        >>> rows.get_class_indexing()
        {'cat': [1]}
        >>> [(image.shape, bbox.tolist(), category.tolist()) for image, bbox, category, _ in rows]
        [((4, 6, 3), [[1.0, 0.0, 3.0, 2.0]], [[1]])]
    """

    def __init__(
        self, dataset_dir: StrPath, annotation_file: StrPath, task: str = "Detection", num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, decode: bool = False,
        sampler: SamplerLike | None = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: object = None, extra_metadata: bool = False, decrypt: Decrypt | None = None,
    ) -> None:  # fmt: skip
        source = CocoSource(dataset_dir, annotation_file, task, Images(decode, decrypt), extra_metadata)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)

    def get_class_indexing(self) -> dict[str, list[int]]:
        """The id of each category, in Panoptic with 1 for a thing; raises GraphRuntimeError in other tasks."""
        if not self.source.classes:
            raise GraphRuntimeError("Only 'Detection' and 'Panoptic' tasks support get_class_indexing.")
        return dict(self.source.classes)
