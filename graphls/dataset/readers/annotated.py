"""Datasets of images with annotated objects or attributes: CelebA, KITTI and PASCAL VOC."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.dataset.checks import boolean, integer, string, type_error
from graphls.dataset.columns import Array, StrPath
from graphls.dataset.readers import files
from graphls.dataset.readers.files import Images, corrupt, number_in
from graphls.dataset.samplers import SamplerLike

_ATTRIBUTES, _PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
_PARTS = {"train": "0", "valid": "1", "test": "2"}
_BITS = {"1": 1, "-1": 0, "0": 0}


class CelebASource(files.Source):
    """The rows of CelebADataset."""

    columns = ["image", "attr"]  # noqa: RUF012

    def __init__(self, dataset_dir: StrPath, part: str | None, image: Images, extensions: Sequence[str] | None) -> None:
        directory, part = files.folder(dataset_dir), files.usage(part, "train", "valid", "test", "all")
        self._image = image
        self._list = os.path.join(directory, _ATTRIBUTES)
        names = None if part == "all" else _names(os.path.join(directory, _PARTITION), _PARTS[part])
        endings = None if extensions is None else files.extensions_of(extensions)
        self._rows = [
            (files.inside(directory, name, self._list), bits)
            for name, bits in _attributes(self._list)
            if (names is None or name in names) and (endings is None or os.path.splitext(name)[1] in endings)
        ]
        if not self._rows:
            raise GraphRuntimeError(f"{self._list} has no image for usage {part!r} and extensions.")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, bits = self._rows[index]
        return self._image(path), bits.astype(np.uint32)


def _attributes(path: str) -> list[tuple[str, Array]]:
    """The name of each image and a byte for each of its attributes."""
    count, _, rest = files.text_of(path).partition("\n")
    names, _, body = rest.partition("\n")
    lines = files.words_of(body)
    if count.strip() != str(len(lines)):
        raise corrupt(path, f"its first line speaks of {count.strip()[:40]!r} images, but it lists {len(lines)}")
    return [(line[0], _bits(path, line, len(names.split()))) for line in lines]


def _bits(path: str, line: list[str], width: int) -> Array:
    if len(line) != width + 1 or not _BITS.keys() >= set(line[1:]):
        fault = f"the line of {line[0][:40]!r} does not have 1 or -1 for each of the {width} attributes"
        raise corrupt(path, fault)
    return np.array([_BITS[word] for word in line[1:]], np.uint8)


def _names(path: str, part: str) -> set[str]:
    lines = files.words_of(files.text_of(path))
    wrong = next((line for line in lines if len(line) != 2 or line[1] not in _PARTS.values()), None)
    if wrong is not None:
        raise corrupt(path, f"the line of {wrong[0][:40]!r} is not a file name with 0, 1 or 2")
    return {name for name, code in lines if code == part}


class CelebADataset(files.Files):
    r"""The faces of CelebA: columns `image` and `attr`, uint32 of (attributes,), 1 where the face has one.

    `image` is the file's bytes, uint8 of (N,), or with `decode` its pixels, uint8 of (H, W, 3); `decrypt(path)` returns
    the bytes of an encrypted file. Rows are in the order of `list_attr_celeba.txt`, which has the number of images, the
    names of the attributes, and a line for each image; the images lie beside it. `usage` is "train", "valid", "test" or
    "all"; parts need `list_eval_partition.txt`. Raises GraphValueError for a missing folder,
    GraphRuntimeError for lists that contradict themselves.

    Examples:
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> Path("faces").mkdir()
        >>> _ = cv2.imwrite("faces/1.jpg", np.zeros((4, 6, 3), np.uint8))
        >>> _ = Path("faces/list_attr_celeba.txt").write_text("1\nSmiling Young\n1.jpg 1 -1\n")
        >>> [(image.shape, attr.tolist()) for image, attr in ds.CelebADataset("faces", decode=True)]
        [((4, 6, 3), [1, 0])]
    """

    def __init__(
        self, dataset_dir: StrPath, num_parallel_workers: int | None = None, shuffle: bool | None = None,
        usage: str = "all", sampler: SamplerLike | None = None, decode: bool = False,
        extensions: list[str] | None = None, num_samples: int | None = None, num_shards: int | None = None,
        shard_id: int | None = None, cache: object = None, decrypt: files.Decrypt | None = None,
    ) -> None:  # fmt: skip
        source = CelebASource(dataset_dir, usage, Images(decode, decrypt), extensions)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


_FIELDS = 15  # the kind and 14 numbers; results of detectors have a score after them
_MOST_OCCLUDED = 255
_COLUMNS = {"truncated": 1, "occluded": 1, "alpha": 1, "bbox": 4, "dimensions": 3, "location": 3, "rotation_y": 1}

StreetObjects = tuple[list[str], Array]


class KITTISource(files.Source):
    """The rows of KITTIDataset."""

    def __init__(self, dataset_dir: StrPath, part: str | None, decode: bool) -> None:
        directory = files.folder(dataset_dir)
        is_test = files.usage(part, "train", "test") == "test"
        images = os.path.join(directory, "data_object_image_2", "testing" if is_test else "training", "image_2")
        self._rows = _images(images)
        self._image = Images(decode)
        self.columns = ["image"] if is_test else ["image", "label", *_COLUMNS]
        labels = os.path.join(directory, "data_object_label_2", "training", "label_2")
        self._objects = (
            [] if is_test else [_street_objects(os.path.join(labels, _label_file(path))) for path in self._rows]
        )
        kinds = sorted({kind for objects, _ in self._objects for kind in objects})
        self._indices = {kind: index for index, kind in enumerate(kinds)}

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        image = self._image(self._rows[index])
        return (image, *self._described(*self._objects[index])) if self._objects else (image,)

    def _described(self, kinds: list[str], values: Array) -> list[Array]:
        labels = np.array([[self._indices[kind]] for kind in kinds], np.uint32)
        ends = np.cumsum(list(_COLUMNS.values()))
        columns = dict(zip(_COLUMNS, np.split(values, ends[:-1], 1), strict=True))
        occluded = columns.pop("occluded").astype(np.int64).astype(np.uint32)
        truncated, *rest = (column.astype(np.float32) for column in columns.values())
        return [labels, truncated, occluded, *rest]


def _images(directory: str) -> list[str]:
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    paths = [os.path.join(directory, name) for name in names if os.path.splitext(name)[1].lower() in files.IMAGES]
    if not paths:
        raise GraphRuntimeError(f"There are no images in {directory}.")
    return paths


def _label_file(path: str) -> str:
    return f"{os.path.splitext(os.path.basename(path))[0]}.txt"


def _street_objects(path: str) -> StreetObjects:
    lines = files.words_of(files.text_of(path))
    wrong = next((line for line in lines if len(line) not in (_FIELDS, _FIELDS + 1)), None)
    if wrong is not None or not lines:
        fault = f"a line has {len(wrong)} fields, not {_FIELDS}" if wrong is not None else "there is no line in it"
        raise corrupt(path, fault)
    values = [[number_in(path, f"a number of {line[0][:40]!r}", word) for word in line[1:_FIELDS]] for line in lines]
    array = np.array(values, np.float64)
    if np.abs(array[:, 1]).max() > _MOST_OCCLUDED:
        raise corrupt(path, f"an occlusion is not within [-{_MOST_OCCLUDED}, {_MOST_OCCLUDED}]")
    return [line[0] for line in lines], array


class KITTIDataset(files.DecodedParts):
    r"""The street scenes of KITTI, in order of their names: for "test" the column `image`, else also objects.

    `usage` is "train", the default, or "test". `label` (the indices of the kinds in order of their names) and
    `occluded` are uint32, `truncated`, `alpha` and `rotation_y` float32 of (objects, 1), `bbox` float32 of
    (objects, 4), `dimensions` and `location` of (objects, 3). An occlusion of -1, for an unknown one, is 4294967295.
    Raises GraphValueError for a missing folder, GraphRuntimeError for no image at all, and for descriptions that are
    missing or have other fields.

    Examples:
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> images, labels = (Path(f"kitti/data_object_{kind}_2/training/{kind}_2") for kind in ("image", "label"))
        >>> images.mkdir(parents=True), labels.mkdir(parents=True)
        (None, None)
        >>> _ = cv2.imwrite(f"{images}/000000.png", np.zeros((4, 6, 3), np.uint8))
        >>> _ = (labels / "000000.txt").write_text("Car 0.00 0 1.5 1 0 4 2 1.5 1.6 3.9 2.0 1.7 9.0 1.6\n")
        >>> (row,) = ds.KITTIDataset("kitti", decode=True).create_dict_iterator(output_numpy=True)
        >>> row["image"].shape, row["label"].tolist(), row["bbox"].tolist()
        ((4, 6, 3), [[0]], [[1.0, 0.0, 4.0, 2.0]])
    """

    _read = KITTISource


_LARGEST_XML = 2**22
_DEEPEST_XML = 64

Objects = list[tuple[str, tuple[float, ...]]]  # the name; the box, difficult, truncated


class VOCSource(files.Source):
    """The rows of VOCDataset."""

    def __init__(
        self, dataset_dir: StrPath, task: str, part: str, indexing: Mapping[str, int] | None, image: Images, named: bool
    ) -> None:
        self._directory = files.folder(dataset_dir)
        if task not in ("Segmentation", "Detection"):
            raise GraphValueError(f"Invalid task : {task!r}; it is Segmentation or Detection.")
        self._boxes, self._named, self._image = task == "Detection", boolean("extra_metadata", named), image
        if indexing is not None and not self._boxes:
            raise GraphValueError("class_indexing is not supported in Segmentation task.")
        self._rows = _listed(self._directory, "Main" if self._boxes else "Segmentation", string("usage", part))
        self.classes = {} if indexing is None else _class_indices(indexing)
        self._objects: dict[str, Objects] = {}
        if self._boxes:
            self._read_objects(indexing is None)
        boxes = ["bbox", "label", "difficult", "truncate"] if self._boxes else ["target"]
        self.columns = ["image", *boxes, *["_meta-filename"] * self._named]

    def _read_objects(self, all_classes: bool) -> None:
        annotations = {
            name: _objects(os.path.join(self._directory, "Annotations", f"{name}.xml")) for name in self._rows
        }
        if all_classes:
            names = sorted({name for objects in annotations.values() for name, _ in objects})
            self.classes = {name: index for index, name in enumerate(names)}
        self._objects = {key: [o for o in objects if o[0] in self.classes] for key, objects in annotations.items()}
        self._rows = [name for name in self._rows if self._objects[name]]
        if not self._rows:
            raise GraphValueError(f"No image in {self._directory} has an object of the classes {sorted(self.classes)}.")

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        name = self._rows[index]
        image = self._image(os.path.join(self._directory, "JPEGImages", f"{name}.jpg"))
        rest = self._described(name) if self._boxes else self._target(name)
        return (image, *rest, *[np.array(name)] * self._named)

    def _target(self, name: str) -> tuple[Any, ...]:
        return (self._image(os.path.join(self._directory, "SegmentationClass", f"{name}.png")),)

    def _described(self, name: str) -> tuple[Any, ...]:
        objects = self._objects[name]
        values = np.array([numbers for _, numbers in objects], np.float32)
        labels = np.array([[self.classes[kind]] for kind, _ in objects], np.uint32)
        return values[:, :4].copy(), labels, values[:, 4:5].astype(np.uint32), values[:, 5:].astype(np.uint32)


def _listed(directory: str, kind: str, part: str) -> list[str]:
    path = os.path.join(directory, "ImageSets", kind, f"{part}.txt")
    if not os.path.isfile(path):
        raise GraphValueError(
            f"The file {path} does not exist; usage is the name of a list in {os.path.dirname(path)}."
        )
    names = [line.strip() for line in files.text_of(path).splitlines() if line.strip()]
    for name in names:
        files.inside(directory, name, path)
    if not names:
        raise corrupt(path, "it lists no image")
    return names


def _class_indices(indexing: object) -> dict[str, int]:
    if not isinstance(indexing, dict) or not indexing:
        raise type_error("class_indexing", indexing, "a dict of names to indices")
    return {string("class_indexing", k): integer("class_indexing", v, 0, 2**32 - 1) for k, v in indexing.items()}


class _Builder(ElementTree.TreeBuilder):
    """Builds elements of a document without entities and deep nesting, because either can exhaust the memory."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._depth = path, 0

    def doctype(self, *_: str | None) -> None:
        """Refuse the declarations that entities need."""
        raise corrupt(self._path, "it has a DOCTYPE, which annotations do not need")

    def start(self, tag: str, attrs: dict[str, str]) -> Any:
        """Enter an element."""
        self._depth += 1
        if self._depth > _DEEPEST_XML:
            raise corrupt(self._path, f"its elements are more than {_DEEPEST_XML} deep")
        return super().start(tag, attrs)

    def end(self, tag: str) -> Any:
        """Leave an element."""
        self._depth -= 1
        return super().end(tag)


def _objects(path: str) -> Objects:
    """The objects of an annotation; raises GraphRuntimeError for none, or one without name or box."""
    data = files.mapped(path)
    if len(data) > _LARGEST_XML:
        raise corrupt(path, f"it has {len(data)} bytes, more than the {_LARGEST_XML} that an annotation may have")
    try:
        root = ElementTree.fromstring(bytes(data), ElementTree.XMLParser(target=_Builder(path)))
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise corrupt(path, f"it is not XML ({error})") from None
    objects = [_object(path, element) for element in root.findall("object")]
    if not objects:
        raise corrupt(path, "it has no element <object>")
    return objects


def _object(path: str, element: ElementTree.Element) -> tuple[str, tuple[float, ...]]:
    name, box = (element.findtext("name") or "").strip(), element.find("bndbox")
    if not name or box is None:
        raise corrupt(path, "an <object> lacks its <name> or its <bndbox>")
    sides = ("xmin", "ymin", "xmax", "ymax")
    left, top, right, bottom = (number_in(path, side, box.findtext(side) or "") for side in sides)
    if not (0 < left < right and 0 < top < bottom):
        raise corrupt(path, f"the box of {name[:40]!r} from ({left}, {top}) to ({right}, {bottom}) has no area")
    flags = [number_in(path, flag, element.findtext(flag) or "0", 0, 1) for flag in ("difficult", "truncated")]
    return name, (left, top, right - left, bottom - top, *flags)


class VOCDataset(files.Files):
    r"""The images of PASCAL VOC: for "Segmentation" columns `image` and `target`, for "Detection" boxes around objects.

    Rows are in the order of the list `ImageSets/Segmentation/USAGE.txt` or `ImageSets/Main/USAGE.txt`; images and
    targets are bytes or, with `decode`, pixels of three channels. "Detection" has `image`; `bbox`, float32 of
    (objects, 4) with left, top, width, height; `label`, `difficult` and `truncate`, uint32 of (objects, 1). With
    `class_indexing` the other classes are left out, with the images that have none of its own; without it classes have
    indices in order of their names. `extra_metadata` adds the column _meta-filename, a string of (). Raises
    GraphValueError for wrong arguments and missing lists, GraphRuntimeError for annotations that are missing
    or damaged.

    Examples:
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> for name in ("ImageSets/Main", "JPEGImages", "Annotations"):
        ...     Path("voc", name).mkdir(parents=True)
        >>> _ = Path("voc/ImageSets/Main/train.txt").write_text("1\n")
        >>> _ = cv2.imwrite("voc/JPEGImages/1.jpg", np.zeros((4, 6, 3), np.uint8))
        >>> box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>3</ymax></bndbox>"
        >>> thing = f"<object><name>cat</name><difficult>0</difficult><truncated>0</truncated>{box}</object>"
        >>> _ = Path("voc/Annotations/1.xml").write_text(f"<annotation>{thing}</annotation>")
        >>> rows = ds.VOCDataset("voc", "Detection", decode=True)
        >>> [(image.shape, bbox.tolist(), label.tolist()) for image, bbox, label, *_ in rows]
        [((4, 6, 3), [[1.0, 1.0, 3.0, 2.0]], [[0]])]
    """

    def __init__(
        self, dataset_dir: StrPath, task: str = "Segmentation", usage: str = "train",
        class_indexing: dict[str, int] | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, decode: bool = False,
        sampler: SamplerLike | None = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: object = None, extra_metadata: bool = False, decrypt: files.Decrypt | None = None,
    ) -> None:  # fmt: skip
        source = VOCSource(dataset_dir, task, usage, class_indexing, Images(decode, decrypt), extra_metadata)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)

    def get_class_indexing(self) -> dict[str, int]:
        """The indices of the classes; raises GraphRuntimeError in other tasks."""
        if "bbox" not in self.source.columns:
            raise GraphRuntimeError("Only 'Detection' tasks support get_class_indexing.")
        return dict(self.source.classes)
