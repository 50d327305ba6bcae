"""Converters of published data sets to MindRecord files, with the columns of MindSpore's converters."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Any

from graphls.base.errors import GraphFileError, GraphRuntimeError, GraphValueError
from graphls.base.files.files import open_file, read_bytes
from graphls.base.log import warning
from graphls.dataset.columns import Array
from graphls.dataset.mindrecord.schema import PathNotExistsError, Row, Schema, check_filename
from graphls.dataset.mindrecord.writer import FileWriter
from graphls.dataset.readers.labelled import Cifar10Source, Cifar100Source, CifarSource, IdxSource
from graphls.dataset.vision.image import pillow

__all__ = ["Cifar10ToMR", "Cifar100ToMR", "CsvToMR", "ImageNetToMR", "MnistToMR"]

_ROWS = 256


def _write(rows: Iterable[Row], path: str, schema: Schema, indexes: list[str] | None, count: int = 1) -> None:
    writer = FileWriter(path, count)
    writer.add_schema(schema)
    if indexes:
        writer.add_index(indexes)
    remaining = iter(rows)
    while batch := list(islice(remaining, _ROWS)):
        writer.write_raw_data(batch)
    writer.commit()


def _checked_count(partition_number: object) -> int:
    if type(partition_number) is not int:
        raise GraphValueError("The parameter partition_number must be int")
    return partition_number


def _jpeg(image: Array) -> bytes:
    data = io.BytesIO()
    pillow().fromarray(image.squeeze()).save(data, "JPEG", quality=95)
    return data.getvalue()


class CsvToMR:
    r"""Converts a CSV file, whose first line names the columns, to `partition_number` MindRecord files.

    A column of integers is int64, of other numbers float64, of True and False int32, all others are strings. Raises
    GraphValueError for arguments that do not fit.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.convert import CsvToMR
        >>> _ = Path("rows.csv").write_text("label,name\n3,cat\n5,dog\n")
        >>> _ = CsvToMR("rows.csv", "rows.mindrecord").transform()
        >>> [str(name) for label, name in ds.MindDataset("rows.mindrecord", shuffle=False)]
        ['cat', 'dog']
    """

    def __init__(
        self, source: str, destination: str, columns_list: list[str] | None = None, partition_number: int = 1
    ) -> None:
        for name, path in (("source", source), ("destination", destination)):
            if not isinstance(path, str):
                raise GraphValueError(f"The parameter {name} must be str.")
            check_filename(path)
        names = [] if columns_list is None else columns_list
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise GraphValueError("The parameter columns_list must be list of str.")
        self._source, self._destination, self._columns = source, destination, names
        self._count = _checked_count(partition_number)

    def transform(self) -> None:
        """Write the files; raises GraphFileError for a file that cannot be read, and what FileWriter does.

        Raises GraphRuntimeError for a column of `columns_list` that the file lacks.
        """
        names, rows = self._read()
        columns = self._columns or names
        for name in columns:
            if name not in names:
                raise GraphRuntimeError(f"The parameter columns_list is illegal, column {name} does not exist.")
            if name.isdigit():
                text = f"The first line content: {name} of the CSV file is used as a column name and does not allow "
                raise GraphValueError(f"{text}starting with a number.")
        kinds = {name: _kind([row[names.index(name)] for row in rows]) for name in columns}
        schema = {name: {"type": kind} for name, (kind, _) in kinds.items()}
        records = ({name: kinds[name][1](row[names.index(name)]) for name in columns} for row in rows)
        _write(records, self._destination, schema, list(columns), self._count)

    def _read(self) -> tuple[list[str], list[list[str]]]:
        try:
            with open_file(self._source, "r", encoding="utf-8-sig", newline="") as file:
                names, *rows = [line for line in csv.reader(file) if line] or [[]]
        except FileNotFoundError:
            raise GraphFileError(f"Csv file {self._source} do not exist.") from None
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise GraphFileError(f"{self._source} cannot be read: {error}.") from None
        for index, row in enumerate(rows):
            if len(row) != len(names):
                text = f"Row {index} of {self._source} has {len(row)} values for {len(names)} columns."
                raise GraphRuntimeError(text)
        return names, rows


def _kind(texts: Sequence[str]) -> tuple[str, Callable[[str], Any]]:
    """The type of a column, and the conversion of its texts."""
    if all(text in ("True", "False") for text in texts):
        return "int32", lambda text: int(text == "True")
    for kind, convert in (("int64", int), ("float64", float)):
        if all(_converts(convert, text) for text in texts):
            return kind, convert
    return "string", str


def _converts(convert: Callable[[str], object], text: str) -> bool:
    try:
        convert(text)
    except ValueError:
        return False
    return "_" not in text


class ImageNetToMR:
    r"""Converts the images of ImageNet to MindRecord files: `label`, `image`, the bytes of the file, and `file_name`.

    Each line of `map_file` is the name of a folder in `image_dir`, and the index of its class.

    Raises GraphValueError for a number of files that is not an integer.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.convert import ImageNetToMR
        >>> Path("images/n01440764").mkdir(parents=True)
        >>> _ = Path("images/n01440764/1.JPEG").write_bytes(b"bytes of a JPEG")
        >>> _ = Path("map.txt").write_text("n01440764 0\n")
        >>> ImageNetToMR("map.txt", "images", "images.mindrecord").transform()
        >>> (row,) = ds.MindDataset("images.mindrecord").create_dict_iterator(output_numpy=True)
        >>> str(row["file_name"]), int(row["label"]), row["image"].tobytes()
        ('images/n01440764/1.JPEG', 0, b'bytes of a JPEG')
    """

    def __init__(self, map_file: str, image_dir: str, destination: str, partition_number: int = 1) -> None:
        for path in (map_file, image_dir, destination):
            check_filename(path)
        self._map, self._folder, self._destination = map_file, image_dir, destination
        self._count = _checked_count(partition_number)

    def transform(self) -> None:
        """Write the files; raises GraphFileError, PathNotExistsError without folders, and what FileWriter does."""
        schema = {"label": {"type": "int32"}, "image": {"type": "bytes"}, "file_name": {"type": "string"}}
        _write(self._rows(), self._destination, schema, ["label", "file_name"], self._count)

    def _rows(self) -> Iterator[Row]:
        folders = {label: os.path.join(self._folder, name) for name, label in self._classes()}
        if not any(map(os.path.isdir, folders.values())):
            raise PathNotExistsError(f"not valid image dir in {self._folder}")
        for label, folder in folders.items():
            if not os.path.isdir(folder):
                warning("%s dir is not exist", folder)
                continue
            for name in sorted(os.listdir(folder)):
                yield from _image(os.path.join(folder, name), label)

    def _classes(self) -> Iterator[tuple[str, int]]:
        try:
            with open_file(self._map, "r", encoding="utf-8") as file:
                for line in filter(str.strip, file):
                    name, label = line.split()[:2]
                    yield name, int(label)
        except FileNotFoundError:
            raise GraphFileError(f"map file {self._map} not exists") from None
        except (OSError, ValueError) as error:
            raise GraphFileError(f"{self._map} cannot be read: {error}.") from None


def _image(path: str, label: int) -> Iterator[Row]:
    if not path.endswith(("JPEG", "jpg")):
        warning("%s file is not suffix with JPEG/jpg, skip it.", path)
        return
    data = read_bytes(path)
    if not data:
        warning("The image file: %s is invalid.", path)
        return
    yield {"label": label, "image": data, "file_name": path}


class MnistToMR:
    """Converts the digits of MNIST to `..._train.mindrecord` and `..._test.mindrecord`: `label`, and `data` as JPEG.

    Raises what MnistDataset does.

    Raises GraphValueError for a number of files that is not an integer.

    Examples:
        >>> import struct
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.convert import MnistToMR
        >>> for part in ("train", "t10k"):  # a black digit, a 7
        ...     _ = Path(f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, 1, 28, 28) + bytes(784))
        ...     _ = Path(f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 1) + bytes([7]))
        >>> MnistToMR(".", "mnist").transform()
        >>> [int(label) for data, label in ds.MindDataset("mnist_train.mindrecord")]
        [7]
    """

    def __init__(self, source: str, destination: str, partition_number: int = 1) -> None:
        check_filename(source)
        check_filename(destination)
        self._source, self._destination = source, destination
        self._count = _checked_count(partition_number)

    def transform(self) -> None:
        """Write the files; raises what FileWriter does."""
        schema = {"label": {"type": "int64"}, "data": {"type": "bytes"}}
        for part in ("train", "test"):
            source = IdxSource(self._source, part)
            rows = ({"label": int(label), "data": _jpeg(image)} for image, label in source)
            _write(rows, f"{self._destination}_{part}.mindrecord", schema, ["label"], self._count)


class _CifarToMR:
    """Converts the binary files of CIFAR to two MindRecord files, the second of which ends in `_test`."""

    source_class: type[CifarSource]
    labels: tuple[str, ...]

    def __init__(self, source: str, destination: str) -> None:
        check_filename(source)
        check_filename(destination)
        parts = (("train", destination), ("test", f"{destination}_test"))
        self._parts = [(self.source_class(source, part), path) for part, path in parts]

    def transform(self, fields: list[str] | None = None) -> None:
        """Write the files, with indexes of the columns `fields`; raises what FileWriter does."""
        if fields and not isinstance(fields, list):
            raise GraphValueError("The parameter fields should be None or list")
        kinds = {"id": "int64", **dict.fromkeys(self.labels, "int64"), "data": "bytes"}
        schema = {name: {"type": kind} for name, kind in kinds.items()}
        for source, path in self._parts:
            _write(map(self._row, count(), source), path, schema, fields)

    def _row(self, index: int, values: tuple[Any, ...]) -> Row:
        image, *labels = values
        return {"id": index, "data": _jpeg(image), **dict(zip(self.labels, map(int, labels), strict=True))}


class Cifar10ToMR(_CifarToMR):
    """Converts the images of CIFAR-10, in its binary files: `id`, `label`, and `data`, the image as JPEG.

    Raises what Cifar10Dataset does. The version with pickles is not read, since these can run any code.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.convert import Cifar10ToMR
        >>> for name in ("data_batch_1.bin", "test_batch.bin"):  # a black image of the class 3
        ...     _ = Path(name).write_bytes(bytes([3]) + bytes(3 * 32 * 32))
        >>> Cifar10ToMR(".", "cifar.mindrecord").transform()
        >>> [int(row["label"]) for row in ds.MindDataset("cifar.mindrecord").create_dict_iterator()]
        [3]
    """

    source_class, labels = Cifar10Source, ("label",)


class Cifar100ToMR(_CifarToMR):
    """Converts the images of CIFAR-100, in its binary files: `id`, `fine_label`, `coarse_label`, and `data`.

    Raises what Cifar100Dataset does. The version with pickles is not read, since these can run any code.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.convert import Cifar100ToMR
        >>> for name in ("train.bin", "test.bin"):  # a black image of the classes 3 and 50
        ...     _ = Path(name).write_bytes(bytes([3, 50]) + bytes(3 * 32 * 32))
        >>> Cifar100ToMR(".", "cifar.mindrecord").transform()
        >>> rows = ds.MindDataset("cifar.mindrecord").create_dict_iterator()
        >>> [(int(row["coarse_label"]), int(row["fine_label"])) for row in rows]
        [(3, 50)]
    """

    source_class, labels = Cifar100Source, ("coarse_label", "fine_label")
