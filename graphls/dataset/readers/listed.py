"""Datasets of images that are listed in text files: Food-101, Flickr, and manifests."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.dataset import checks
from graphls.dataset.checks import integer, string
from graphls.dataset.columns import StrPath
from graphls.dataset.readers import files
from graphls.dataset.readers.files import corrupt
from graphls.dataset.samplers import SamplerLike


class Food101Source(files.Source):
    """The rows of Food101Dataset."""

    columns = ["image", "label"]  # noqa: RUF012

    def __init__(self, dataset_dir: StrPath, part: str | None, decode: bool) -> None:
        directory, part = files.folder(dataset_dir), files.usage(part, "train", "test", "all")
        self._image = files.Images(decode)
        lists = [os.path.join(directory, "meta", f"{each}.txt") for each in ("train", "test") if part in (each, "all")]
        names = [(path, line.strip()) for path in lists for line in files.text_of(path).splitlines() if line.strip()]
        images = os.path.join(directory, "images")
        self._rows = [(files.inside(images, f"{name}.jpg", path), name.partition("/")[0]) for path, name in names]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self._rows[index]
        return self._image(path), np.array(label)


class Food101Dataset(files.DecodedParts):
    r"""The dishes of Food-101: columns `image`, bytes or pixels, and `label`, the name of the dish, a string of ().

    `usage` is "train" or "test", for the list `meta/train.txt` and so on, or "all", the default; the images lie in
    `images`. Raises GraphValueError for a missing folder, GraphRuntimeError for missing lists or images.

    Examples:
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> Path("food/images/soup").mkdir(parents=True), Path("food/meta").mkdir()
        (None, None)
        >>> _ = cv2.imwrite("food/images/soup/1.jpg", np.zeros((4, 6, 3), np.uint8))
        >>> _ = Path("food/meta/test.txt").write_text("soup/1\n")
        >>> [(image.shape, str(label)) for image, label in ds.Food101Dataset("food", "test", decode=True)]
        [((4, 6, 3), 'soup')]
    """

    _read = Food101Source


class FlickrSource(files.Source):
    """The rows of FlickrDataset."""

    columns = ["image", "annotation"]  # noqa: RUF012

    def __init__(self, dataset_dir: StrPath, annotation_file: StrPath, decode: bool | None) -> None:
        directory, path = files.folder(dataset_dir), files.existing_file("annotation_file", annotation_file)
        self._image = files.Images(bool(decode))
        captions: dict[str, list[str]] = {}
        for line in filter(str.strip, files.text_of(path).splitlines()):
            name, hash_mark, caption = line.partition("#")
            if not hash_mark or "\t" not in caption:
                raise corrupt(path, f"the line {line[:40]!r} is not a file name, #, a number, a tab and a caption")
            captions.setdefault(files.inside(directory, name, path), []).append(caption.partition("\t")[2])
        self._rows = list(captions.items())

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, captions = self._rows[index]
        return self._image(path), np.array(captions)


class FlickrDataset(files.Files):
    r"""The photos of Flickr8k and Flickr30k: columns `image` and `annotation`, the captions, strings of (captions,).

    Each line of `annotation_file` is the name of an image in `dataset_dir`, #, a number, a tab and a caption. Raises
    GraphValueError for missing files, GraphRuntimeError for other lines.

    Examples:
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> Path("photos").mkdir()
        >>> _ = cv2.imwrite("photos/1.jpg", np.zeros((4, 6, 3), np.uint8))
        >>> _ = Path("photos.token").write_text("1.jpg#0\tA cat.\n1.jpg#1\tNo dog.\n")
        >>> rows = ds.FlickrDataset("photos", "photos.token", decode=True)
        >>> [(image.shape, captions.tolist()) for image, captions in rows]
        [((4, 6, 3), ['A cat.', 'No dog.'])]
    """

    def __init__(
        self, dataset_dir: StrPath, annotation_file: StrPath, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, decode: bool | None = None,
        sampler: SamplerLike | None = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: object = None,
    ) -> None:  # fmt: skip
        source = FlickrSource(dataset_dir, annotation_file, decode)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class ManifestSource(files.Source):
    """The rows of ManifestDataset."""

    columns = ["image", "label"]  # noqa: RUF012

    def __init__(self, dataset_file: StrPath, part: str, indexing: object, decode: bool) -> None:
        path = files.existing_file("dataset_file", dataset_file)
        if string("usage", part) not in ("train", "eval", "inference"):
            raise GraphRuntimeError(f"usage is train, eval or inference, not {part!r}.")
        self._image = files.Images(decode)
        entries = [_entry(path, line) for line in filter(str.strip, files.text_of(path).splitlines())]
        rows = [(image, names) for image, kind, names in entries if kind == part]
        self.classes = _indices(rows) if indexing is None else _checked(indexing)
        indices = [(image, [self.classes[name] for name in names if name in self.classes]) for image, names in rows]
        self._rows = [row for row in indices if row[1]]
        if not self._rows:
            raise GraphRuntimeError(f"{path} has no image for usage {part!r} and its classes.")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, labels = self._rows[index]
        return self._image(path), np.array(labels if len(labels) > 1 else labels[0], np.int32)


def _entry(path: str, line: str) -> tuple[str, str, list[str]]:
    """The image, the usage and the names of the classes of a line."""
    try:
        entry = json.loads(line)
        image, kind, names = entry["source"], entry["usage"], [each["name"] for each in entry["annotation"]]
        if all(isinstance(text, str) and "\0" not in text for text in (image, kind, *names)):
            return image, kind.lower(), names
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise corrupt(path, f"the line {line[:40]!r} is not a JSON object with source, usage and annotation")


def _indices(rows: list[tuple[str, list[str]]]) -> dict[str, int]:
    return {name: index for index, name in enumerate(sorted({name for _, names in rows for name in names}))}


def _checked(indexing: object) -> dict[str, int]:
    indices = checks.instance("class_indexing", indexing, dict, "a dict of names to indices")
    return {string("class_indexing", name): integer("class_indexing", index, 0) for name, index in indices.items()}


class ManifestDataset(files.Files):
    r"""The images of a manifest: columns `image` and `label`, int32 of (), or of (labels,) where there are several.

    Each line of `dataset_file` is a JSON object: `source`, the path of the image, `usage`, "train", "eval" or
    "inference", and `annotation`, a list of objects with a `name`. Classes have indices in order of their names, or
    those of `class_indexing`, without which others are left out. Raises GraphValueError for a missing file,
    GraphRuntimeError for other lines and usages.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> _ = cv2.imwrite("1.jpg", np.zeros((4, 6, 3), np.uint8))
        >>> row = {"source": "1.jpg", "usage": "TRAIN", "annotation": [{"name": "cat"}]}
        >>> _ = Path("cats.manifest").write_text(json.dumps(row))
        >>> [(image.shape, int(label)) for image, label in ds.ManifestDataset("cats.manifest", decode=True)]
        [((4, 6, 3), 0)]
    """

    def __init__(
        self, dataset_file: StrPath, usage: str = "train", num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, sampler: SamplerLike | None = None,
        class_indexing: dict[str, int] | None = None, decode: bool = False, num_shards: int | None = None,
        shard_id: int | None = None, cache: object = None,
    ) -> None:  # fmt: skip
        source = ManifestSource(dataset_file, usage, class_indexing, decode)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)
