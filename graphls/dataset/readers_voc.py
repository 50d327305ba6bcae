"""The images of PASCAL VOC, with boxes around objects or with a picture of their classes."""

from __future__ import annotations

import os
from typing import Any
from xml.etree import ElementTree

import numpy as np

from graphls.dataset.readers_files import corrupt, folder, inside, mapped, number_in, text_of
from graphls.dataset.readers_images import Images
from graphls.dataset.transforms.checks import boolean, integer, string, type_error, value_error

_LARGEST_XML = 2**22
_DEEPEST_XML = 64

Objects = list[tuple[str, tuple[float, ...]]]  # the name; the box, difficult, truncated


class VOCSource:
    """Rows of images, in the order of the list `ImageSets/Segmentation/USAGE.txt` or `ImageSets/Main/USAGE.txt`.

    "Segmentation": image, target, both as Images reads them. "Detection": image; bbox, float32 of (objects, 4) with
    left, top, width, height; label, difficult and truncate, uint32 of (objects, 1). With `class_indexing` the other
    classes are left out, with the images that have none of them; else classes are numbered in order of their names.
    `extra_metadata` adds the column _meta-filename, a string of (). Raises GraphValueError for wrong arguments and
    files that are not there, GraphRuntimeError for annotations that cannot be read.
    """

    def __init__(
        self, dataset_dir: Any, task: Any, part: Any, indexing: Any, decode: Any, extra_metadata: Any, decrypt: Any
    ) -> None:
        self._directory = folder(dataset_dir)
        if task not in ("Segmentation", "Detection"):
            raise value_error(f"Invalid task : {task!r}; it is Segmentation or Detection.")
        self._boxes, self._named = task == "Detection", boolean("extra_metadata", extra_metadata)
        if indexing is not None and not self._boxes:
            raise value_error("class_indexing is not supported in Segmentation task.")
        self._image = Images(decode, decrypt)
        self._names = _listed(self._directory, "Main" if self._boxes else "Segmentation", string("usage", part))
        self.classes = {} if indexing is None else _numbers(indexing)
        self._objects: dict[str, Objects] = {}
        if self._boxes:
            self._read_objects(indexing is None)
        boxes = ["bbox", "label", "difficult", "truncate"] if self._boxes else ["target"]
        self.columns = ["image", *boxes, *["_meta-filename"] * self._named]

    def _read_objects(self, all_classes: bool) -> None:
        found = {name: _objects(os.path.join(self._directory, "Annotations", f"{name}.xml")) for name in self._names}
        if all_classes:
            names = sorted({name for objects in found.values() for name, _ in objects})
            self.classes = {name: number for number, name in enumerate(names)}
        self._objects = {key: [o for o in objects if o[0] in self.classes] for key, objects in found.items()}
        self._names = [name for name in self._names if self._objects[name]]
        if not self._names:
            raise value_error(f"No image in {self._directory} has an object of the classes {sorted(self.classes)}.")

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        name = self._names[index]
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
        raise value_error(f"The file {path} does not exist; usage is the name of a list in {os.path.dirname(path)}.")
    names = [line.strip() for line in text_of(path).splitlines() if line.strip()]
    for name in names:
        inside(directory, name, path)
    if not names:
        raise corrupt(path, "it lists no image")
    return names


def _numbers(indexing: Any) -> dict[str, int]:
    if not isinstance(indexing, dict) or not indexing:
        raise type_error("class_indexing", indexing, "a dict of names to numbers")
    return {string("class_indexing", k): integer("class_indexing", v, 0, 2**32 - 1) for k, v in indexing.items()}


class _Builder(ElementTree.TreeBuilder):
    """Elements of a document that declares no entities and is not deep, because either can take all memory."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._depth = path, 0

    def doctype(self, *_: Any) -> None:
        """Refuse the declarations that entities need."""
        raise corrupt(self._path, "it has a DOCTYPE, which annotations do not need")

    def start(self, tag: Any, attrs: Any) -> Any:
        """Go one element deeper."""
        self._depth += 1
        if self._depth > _DEEPEST_XML:
            raise corrupt(self._path, f"its elements are more than {_DEEPEST_XML} deep")
        return super().start(tag, attrs)

    def end(self, tag: Any) -> Any:
        """Come back."""
        self._depth -= 1
        return super().end(tag)


def _objects(path: str) -> Objects:
    """The objects of an annotation; raises GraphRuntimeError where there is none, or one without name or box."""
    data = mapped(path)
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
        raise corrupt(path, f"the box of {name[:40]!r} from ({left}, {top}) to ({right}, {bottom}) is no area above 0")
    flags = [number_in(path, flag, element.findtext(flag) or "0", 0, 1) for flag in ("difficult", "truncated")]
    return name, (left, top, right - left, bottom - top, *flags)
