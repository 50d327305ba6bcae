"""Datasets of images with one label each: MNIST, CIFAR, and folders of classes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.dataset.checks import integer, string, type_error
from graphls.dataset.columns import StrPath
from graphls.dataset.readers import files
from graphls.dataset.readers.files import Bytes, Decrypt, Files, Source
from graphls.dataset.samplers import SamplerLike

_SIDE = 28
_CLASSES = 10
_PREFIXES = {"train": ("train",), "test": ("t10k",), "all": ("t10k", "train")}


def read_idx(path: str, axes: int) -> Bytes:
    """The uint8 array of `axes` axes in an IDX file.

    The header is four bytes (0, 0, 8 for uint8, number of axes), then each size as a big-endian uint32. Raises
    GraphRuntimeError for another header, or a file of another length; nothing is read before these checks.
    """
    start = 4 + 4 * axes
    compressed = files.Compressed(path) if path.endswith(".gz") else None
    data = compressed.head(start) if compressed else files.mapped(path)
    shape = _shape(path, bytes(data[:start]), axes)
    length = start + math.prod(shape)
    if compressed:
        data = compressed.content(length)
    elif len(data) != length:
        raise files.corrupt(path, f"its header speaks of {length} bytes, but it holds {len(data)}")
    return data[start:].reshape(shape)


def _shape(path: str, header: bytes, axes: int) -> tuple[int, ...]:
    if len(header) < 4 + 4 * axes:
        raise files.corrupt(path, f"the file ends within its header of {4 + 4 * axes} bytes")
    if header[:4] != bytes([0, 0, 8, axes]):
        magic, expected = (int.from_bytes(part, "big") for part in (header[:4], bytes([0, 0, 8, axes])))
        raise files.corrupt(path, f"its magic number is {magic}, not {expected}")
    return tuple(int(size) for size in np.frombuffer(header[4:], ">u4"))


class IdxSource(Source):
    """The rows of MnistDataset."""

    columns = ["image", "label"]  # noqa: RUF012

    def __init__(self, dataset_dir: StrPath, part: str | None = None) -> None:
        directory = files.folder(dataset_dir)
        prefixes = _PREFIXES[files.usage(part, *_PREFIXES)]
        pairs = [pair for pair in (_pair_of(directory, prefix) for prefix in prefixes) if pair]
        if not pairs or (part is not None and len(pairs) < len(prefixes)):
            names = " and ".join(f"{prefix}-images-idx3-ubyte" for prefix in prefixes)
            raise GraphRuntimeError(f"There are no MNIST files ({names}) in {directory}.")
        self._parts = [_read_pair(*paths) for paths in pairs]
        self._rows = files.Parts(len(labels) for _, labels in self._parts)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        part, position = self._rows[index]
        images, labels = self._parts[part]
        return np.array(images[position])[:, :, None], np.array(labels[position], np.uint32)


def _pair_of(directory: str, prefix: str) -> tuple[str, str] | None:
    images, labels = (
        files.first_of(directory, *(f"{prefix}-{kind}{sep}{end}" for end in (ending, f"{ending}.gz") for sep in "-."))
        for kind, ending in (("images", "idx3-ubyte"), ("labels", "idx1-ubyte"))
    )
    if images is None and labels is None:
        return None
    if images is None or labels is None:
        raise GraphRuntimeError(f"{directory} has no {prefix} {'labels' if images else 'images'}.")
    return images, labels


def _read_pair(image_path: str, label_path: str) -> tuple[Bytes, Bytes]:
    images, labels = read_idx(image_path, 3), read_idx(label_path, 1)
    if images.shape[1:] != (_SIDE, _SIDE):
        raise files.corrupt(image_path, f"its images are {images.shape[1]} x {images.shape[2]}, not {_SIDE} x {_SIDE}")
    if len(images) != len(labels):
        raise files.corrupt(label_path, f"it holds {len(labels)} labels for the {len(images)} images of {image_path}")
    if len(labels) and labels.max() >= _CLASSES:
        raise files.corrupt(label_path, f"it holds the label {labels.max()}, but there are {_CLASSES} classes")
    return images, labels


class MnistDataset(files.PartsOfFiles):
    """The digits of MNIST: columns `image`, uint8 of (28, 28, 1), and `label`, uint32 of ().

    `dataset_dir` has `train-images-idx3-ubyte` and the like, also ending in `.gz`. `usage` is "train", "test" or "all",
    the default, which has the test images first. Raises GraphValueError for a missing folder,
    GraphRuntimeError for files that are missing, damaged, or do not belong together.

    Examples:
        >>> import struct
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("mnist").mkdir()
        >>> pixels = struct.pack(">4i", 2051, 2, 28, 28) + bytes(2 * 28 * 28)
        >>> _ = Path("mnist/train-images-idx3-ubyte").write_bytes(pixels)
        >>> _ = Path("mnist/train-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 2) + bytes([7, 3]))
        >>> [(image.shape, int(label)) for image, label in ds.MnistDataset("mnist", "train", shuffle=False)]
        [((28, 28, 1), 7), ((28, 28, 1), 3)]
    """

    _read = IdxSource


class FashionMnistDataset(MnistDataset):
    """The clothes of Fashion-MNIST, whose files and columns are those of MNIST.

    Examples:
        >>> import struct
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("clothes").mkdir()
        >>> _ = Path("clothes/t10k-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, 1, 28, 28) + bytes(28 * 28))
        >>> _ = Path("clothes/t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 1) + bytes([9]))
        >>> [(image.shape, int(label)) for image, label in ds.FashionMnistDataset("clothes", "test")]
        [((28, 28, 1), 9)]
    """


class KMnistDataset(MnistDataset):
    """The Japanese letters of Kuzushiji-MNIST, whose files and columns are those of MNIST.

    Examples:
        >>> import struct
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("letters").mkdir()
        >>> _ = Path("letters/t10k-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, 1, 28, 28) + bytes(28 * 28))
        >>> _ = Path("letters/t10k-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 1) + bytes([7]))
        >>> [(image.shape, int(label)) for image, label in ds.KMnistDataset("letters", "test")]
        [((28, 28, 1), 7)]
    """


_SHAPE = (3, 32, 32)
_PIXELS = 3072


class CifarSource(Source):
    """The rows of CIFAR: an image, and as many labels as `counts`, the number of classes of each label.

    A record is the bytes of the labels, then 3072 of the image: its red, green and blue plane.
    """

    counts: ClassVar[tuple[int, ...]]
    files: ClassVar[dict[str, str]]

    def __init__(self, dataset_dir: StrPath, part: str | None = None) -> None:
        directory = files.folder(dataset_dir)
        usage = files.usage(part, "train", "test", "all")
        self._paths = self._find(directory, ["train", "test"] if usage == "all" else [usage])
        self._parts = [self._records(path) for path in self._paths]
        self._rows = files.Parts(map(len, self._parts))

    def _find(self, directory: str, parts: list[str]) -> list[str]:
        names = sorted(os.listdir(directory))
        matches = [[name for name in names if re.fullmatch(self.files[part], name)] for part in parts]
        if not any(matches):
            patterns = ", ".join(self.files[part].replace("\\", "") for part in parts)
            raise GraphRuntimeError(f"There are no CIFAR files ({patterns}) in {directory}.")
        return [os.path.join(directory, name) for group in matches for name in group]

    def _records(self, path: str) -> Bytes:
        data, width = files.mapped(path), len(self.counts) + _PIXELS
        if len(data) % width:
            raise files.corrupt(path, f"its {len(data)} bytes are not a whole number of records of {width} bytes")
        return data.reshape(-1, width)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        part, position = self._rows[index]
        record = self._parts[part][position]
        labels, pixels = record[: len(self.counts)], record[len(self.counts) :]
        for label, count in zip(labels, self.counts, strict=True):
            if label >= count:
                raise files.corrupt(self._paths[part], f"it holds the label {label}, but there are {count} classes")
        image = np.ascontiguousarray(pixels.reshape(_SHAPE).transpose(1, 2, 0))
        return (image, *(np.array(label, np.uint32) for label in labels))


class Cifar10Source(CifarSource):
    """The rows of Cifar10Dataset."""

    columns = ["image", "label"]  # noqa: RUF012
    counts = (10,)
    files: ClassVar[dict[str, str]] = {"train": r"data_batch_[1-5]\.bin", "test": r"test_batch\.bin"}


class Cifar100Source(CifarSource):
    """The rows of Cifar100Dataset."""

    columns = ["image", "coarse_label", "fine_label"]  # noqa: RUF012
    counts = (20, 100)
    files: ClassVar[dict[str, str]] = {"train": r"train\.bin", "test": r"test\.bin"}


class Cifar10Dataset(files.PartsOfFiles):
    """The images of CIFAR-10: columns `image`, uint8 of (32, 32, 3), and `label`, uint32 of ().

    `dataset_dir` has `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`. `usage` is "train", "test" or
    "all", the default, which has the training images first. Raises GraphValueError for a missing folder,
    GraphRuntimeError for files that are missing or damaged.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("cifar").mkdir()
        >>> _ = Path("cifar/test_batch.bin").write_bytes(bytes([6]) + bytes(3072))
        >>> [(image.shape, int(label)) for image, label in ds.Cifar10Dataset("cifar", "test")]
        [((32, 32, 3), 6)]
    """

    _read = Cifar10Source


class Cifar100Dataset(files.PartsOfFiles):
    """The images of CIFAR-100: columns `image`, uint8 of (32, 32, 3), `coarse_label` and `fine_label`, uint32 of ().

    `dataset_dir` has `train.bin` and `test.bin`; the rest is as in Cifar10Dataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("cifar").mkdir()
        >>> _ = Path("cifar/test.bin").write_bytes(bytes([6, 61]) + bytes(3072))
        >>> [(image.shape, int(coarse), int(fine)) for image, coarse, fine in ds.Cifar100Dataset("cifar", "test")]
        [((32, 32, 3), 6, 61)]
    """

    _read = Cifar100Source


class ImageFolderSource(Source):
    """The rows of ImageFolderDataset."""

    columns = ["image", "label"]  # noqa: RUF012

    def __init__(
        self, dataset_dir: StrPath, extensions: Sequence[str] | None = None,
        class_indexing: Mapping[str, int] | None = None, decode: bool = False, decrypt: Decrypt | None = None,
    ) -> None:  # fmt: skip
        directory = files.folder(dataset_dir)
        self._extensions = None if extensions is None else files.extensions_of(extensions)
        self._image = files.Images(decode, decrypt)
        self.classes = _classes(directory, class_indexing)
        self._rows = [(path, label) for name, label in self.classes.items() for path in self._files(directory, name)]
        if not self._rows:
            raise GraphRuntimeError(f"There are no images in the folders of {directory}.")

    def _files(self, directory: str, name: str) -> list[str]:
        with os.scandir(os.path.join(directory, name)) as entries:
            return sorted(entry.path for entry in entries if entry.is_file() and self._is_image(entry.name))

    def _is_image(self, name: str) -> bool:
        ending = os.path.splitext(name)[1]
        return ending.lower() in files.IMAGES if self._extensions is None else ending in self._extensions

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self._rows[index]
        return self._image(path), np.array(label, np.int32)


def _classes(directory: str, indexing: object) -> dict[str, int]:
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if indexing is None:
        return {name: index for index, name in enumerate(names)}
    if not isinstance(indexing, dict):
        raise type_error("class_indexing", indexing, "a dict of folder names to indices")
    indices = {string("class_indexing", name): integer("class_indexing", index) for name, index in indexing.items()}
    for name in indices.keys() - set(names):
        raise GraphValueError(f"class_indexing has the class {name!r}, but {directory} has no folder of that name.")
    return {name: indices[name] for name in names if name in indices}


class ImageFolderDataset(Files):
    """Images in one folder for each class: columns `image` and `label`, int32 of ().

    `image` is the file's bytes, uint8 of (N,), or with `decode` its pixels, uint8 of (H, W, 3); `decrypt(path)` returns
    the bytes of an encrypted file. Classes are the folders of `dataset_dir` in order of their names, or those of
    `class_indexing` with its indices; the images of a class are the files directly in its folder, in order of their
    names. `extensions` such as [".png"] are exact; without them the endings of images count, in upper or lower case.
    Raises GraphValueError for a missing folder or a class that has none, GraphRuntimeError where there is no
    image.

    Examples:
        >>> from pathlib import Path
        >>> import cv2
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> for name in ("cat", "dog"):
        ...     Path("animals", name).mkdir(parents=True)
        ...     _ = cv2.imwrite(f"animals/{name}/1.png", np.zeros((4, 6, 3), np.uint8))
        >>> [(image.shape, int(label)) for image, label in ds.ImageFolderDataset("animals", decode=True, shuffle=False)]
        [((4, 6, 3), 0), ((4, 6, 3), 1)]
    """

    def __init__(
        self, dataset_dir: StrPath, num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | None = None, sampler: SamplerLike | None = None, extensions: list[str] | None = None,
        class_indexing: dict[str, int] | None = None, decode: bool = False, num_shards: int | None = None,
        shard_id: int | None = None, cache: object = None, decrypt: Decrypt | None = None,
    ) -> None:  # fmt: skip
        source = ImageFolderSource(dataset_dir, extensions, class_indexing, decode, decrypt)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)
