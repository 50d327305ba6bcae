"""Readers of MindRecord files, row by row or as a dataset.

The file begins with the length of the header (uint64, little endian) and the header, JSON, whose `header_size` is the
offset of the pages, `page_size` bytes apart. A RAW_DATA page has for each row the numbers and texts, as a map of
MessagePack; a BLOB_DATA page has the arrays and bytes. A row of either is its length (uint64, little endian) and that
many bytes. Where there are several blobs, each has its length (uint64, big endian) before it. Arrays of integers are
always compressed; `compression_size` is the number of bytes that this has saved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.dataset import checks
from graphls.dataset.checks import type_error
from graphls.dataset.columns import Array
from graphls.dataset.mindrecord.encoding import decompressed, unpacked
from graphls.dataset.mindrecord.schema import Field, Row, Schema, fault
from graphls.dataset.readers import files
from graphls.dataset.readers.files import Files, FileSampler, Paths, Shuffle, Source, corrupt
from graphls.dataset.samplers import SamplerLike

__all__ = ["FileReader", "MindDataset"]

Span = tuple[int, int]

_LENGTH = 8
_TYPES = {name: np.dtype(name) for name in ("int32", "int64", "float32", "float64")}


class MindRecordFile:
    """One file: its schema, and its rows, whose lengths are checked when the file is opened."""

    def __init__(self, path: str) -> None:
        self.path, self._data = path, files.mapped(path)
        self.header = header = self._read_header()
        try:
            self._pages_from, self._page_size = int(header["header_size"]), int(header["page_size"])
            (schema,) = header["schema"]
            self.schema: Schema = dict(schema["schema"])
            self._blobs: list[str] = list(schema["blob_fields"])
            self.shards = [str(name) for name in header["shard_addresses"]]
            pages = [(str(p["page_type"]), int(p["page_id"]), int(p["page_size"])) for p in header["page"] or []]
            self._check_types()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise corrupt(path, f"its header is not that of a MindRecord file ({error!r})") from None
        self._raw, blobs = self._rows(pages, "RAW_DATA"), self._rows(pages, "BLOB_DATA")
        if self._blobs and len(blobs) != len(self._raw):
            raise corrupt(path, f"it has {len(self._raw)} rows of numbers, but {len(blobs)} of arrays")
        self._blob_rows = blobs

    def _read_header(self) -> dict[str, Any]:
        length = int.from_bytes(bytes(self._data[:_LENGTH]), "little")
        if length > len(self._data) - _LENGTH:
            raise corrupt(self.path, f"a header of {length} bytes is announced, more than the file has")
        try:
            header = json.loads(bytes(self._data[_LENGTH : _LENGTH + length]).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise corrupt(self.path, f"its header is not JSON ({error})") from None
        if not isinstance(header, dict):
            raise corrupt(self.path, "its header is not a JSON object")
        return header

    def _check_types(self) -> None:
        for name, field in self.schema.items():
            kinds = _TYPES if "shape" in field else {*_TYPES, "string", "bytes"}
            if field["type"] not in kinds or (name in self._blobs) != ("shape" in field or field["type"] == "bytes"):
                raise ValueError(f"the column {name!r} has the type {field!r}")
            if not all(type(size) is int for size in field.get("shape", [])):
                raise ValueError(f"the column {name!r} has the shape {field['shape']!r}")
        if not set(self._blobs) <= self.schema.keys() or len(set(self._blobs)) != len(self._blobs):
            raise ValueError(f"the blobs are {self._blobs!r}")

    def _rows(self, pages: list[tuple[str, int, int]], page_type: str) -> list[Span]:
        pages_of_type = sorted((index, used) for kind, index, used in pages if kind == page_type)
        if len({index for index, _ in pages_of_type}) != len(pages_of_type):
            raise corrupt(self.path, f"a page of {page_type} appears twice in its header")
        return [span for index, used in pages_of_type for span in self._page(index, used)]

    def _page(self, index: int, used: int) -> Iterator[Span]:
        """The offset and the length of each row of a page."""
        position = self._pages_from + index * self._page_size
        end = position + used
        if min(index, used, self._pages_from, self._page_size) < 0 or used > self._page_size or end > len(self._data):
            raise corrupt(self.path, f"its header speaks of {used} bytes in page {index}, which are not there")
        while position < end:
            start = position + _LENGTH
            length = int.from_bytes(bytes(self._data[position:start]), "little")
            if start + length > end:
                raise corrupt(self.path, f"a row of {length} bytes is announced in page {index}, which has less left")
            yield start, length
            position = start + length

    def __len__(self) -> int:
        return len(self._raw)

    def row(self, index: int) -> Row:
        """The numbers, texts and arrays of a row by name; bytes are uint8 of (N,)."""
        with self._damage(index):
            numbers = self._numbers(index)
            row = {name: v if isinstance(v, str) else self._typed(name, v) for name, v in numbers.items()}
            return row | self._arrays(self._content(self._blob_rows[index])) if self._blobs else row

    def numbers(self, index: int) -> Row:
        """The numbers and texts of a row, as they were packed."""
        with self._damage(index):
            return self._numbers(index)

    @contextmanager
    def _damage(self, index: int) -> Iterator[None]:
        """Turn errors in a block into the error of a damaged row."""
        try:
            yield
        except (GraphValueError, OverflowError) as error:
            raise corrupt(self.path, f"row {index} is damaged: {files.reason_of(error)}") from None

    def _numbers(self, index: int) -> Row:
        raw = unpacked(self._content(self._raw[index]))
        return {name: self._number(name, raw.get(name)) for name in self.schema.keys() - set(self._blobs)}

    def pages_of(self, index: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """The page of a row, with its offsets there, begin and end: of its numbers, and of its arrays."""
        return self._page_and_offsets(self._raw[index]), self._page_and_offsets(self._blob_rows[index])

    def _page_and_offsets(self, span: Span) -> tuple[int, int, int]:
        start, length = span
        page, offset = divmod(start - _LENGTH - self._pages_from, self._page_size)
        return page, offset, offset + _LENGTH + length

    def _typed(self, name: str, value: float) -> Any:
        return np.array(value, _TYPES[self.schema[name]["type"]])[()]

    def _content(self, span: Span) -> bytes:
        start, length = span
        return bytes(self._data[start : start + length])

    def _number(self, name: str, value: Any) -> Any:
        expected = self.schema[name]["type"]
        kinds: dict[str, type | tuple[type, ...]] = {"string": str, "int32": int, "int64": int}
        if not isinstance(value, kinds.get(expected, (int, float))):
            raise GraphValueError(f"the column {name!r} has {str(value)[:40]!r}, which is not of the type {expected}")
        return value

    def _arrays(self, content: bytes) -> dict[str, Array]:
        parts = [content] if len(self._blobs) == 1 else list(_parts(content))
        if len(parts) != len(self._blobs):
            raise GraphValueError(f"it has {len(parts)} arrays, not {len(self._blobs)}")
        return {name: self._array(name, part) for name, part in zip(self._blobs, parts, strict=True)}

    def _array(self, name: str, content: bytes) -> Array:
        field = self.schema[name]
        if field["type"] == "bytes":
            return np.frombuffer(content, np.uint8).copy()
        dtype = _TYPES[field["type"]]
        try:
            if dtype.kind == "i":
                return decompressed(content, dtype).reshape(field["shape"])
            return np.frombuffer(content, dtype).reshape(field["shape"]).copy()
        except ValueError as error:
            raise GraphValueError(f"the column {name!r} does not fit {field!r} ({error})") from None


def _parts(content: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(content):
        start = position + _LENGTH
        position = start + int.from_bytes(content[start - _LENGTH : start], "big")
        if position > len(content):
            raise GraphValueError("an array is longer than its row")
        yield content[start:position]


@dataclass
class Layout:
    """The layout of all rows by the header: the schema, the indexed columns, the offset and the size of pages."""

    schema: Schema
    indexes: list[str]
    desc: str = ""
    header_size: int = 1 << 24
    page_size: int = 1 << 25


def layout_of(file: MindRecordFile) -> Layout:
    """The layout in the header of a file; raises GraphRuntimeError where it is missing or damaged."""
    try:
        header, (schema,) = file.header, file.header["schema"]
        indexes = [str(index["index_field"]) for index in header["index_fields"] or []]
        if not set(indexes) <= file.schema.keys() - set(schema["blob_fields"]):
            raise ValueError(indexes)
        sizes = int(header["header_size"]), int(header["page_size"])
        return Layout(file.schema, indexes, str(schema.get("desc", "")), *sizes)
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(file.path, f"its header does not say what rows are found by ({error!r})") from None


class MindRecordSource(Source):
    """Rows of MindRecord files in order: columns by name, or those of `columns_list`.

    One path includes all files that were written with it; a list, just these. Numbers have the dtypes of the schema and
    the shape (), as strings do; arrays have its dtypes and shapes, and bytes are uint8 of (N,). Raises GraphTypeError
    for anything but names, GraphValueError for missing files and columns, GraphRuntimeError for damaged files.
    """

    def __init__(self, dataset_files: Paths, columns_list: Sequence[str] | None) -> None:
        paths = files.matching_files(dataset_files)
        self.files = [MindRecordFile(path) for path in paths]
        if isinstance(dataset_files, (str, os.PathLike)) and len(paths) == 1:
            self.files = _shards_of(paths[0], self.files[0])
        schema = self.files[0].schema
        if any(file.schema != schema for file in self.files):
            raise GraphValueError(f"The files {paths} have different schemas.")
        self.columns = sorted(schema) if columns_list is None else _checked_columns(columns_list, schema, paths[0])
        self.lengths = list(map(len, self.files))
        self._rows = [(file, row) for file in self.files for row in range(len(file))]

    def row(self, index: int) -> Row:
        """The columns of a row by name."""
        file, row_index = self._rows[index]
        row = file.row(row_index)
        return {name: row[name] for name in self.columns}

    def numbers(self, index: int) -> Row:
        """The numbers and texts of a row, as they were packed."""
        file, row_index = self._rows[index]
        numbers: Row = file.numbers(row_index)
        return numbers

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(map(np.asarray, self.row(index).values()))


def _checked_columns(columns_list: object, schema: Schema, path: str) -> list[str]:
    if not isinstance(columns_list, (list, tuple)) or not all(isinstance(name, str) for name in columns_list):
        raise type_error("columns_list", columns_list, "a list of names")
    for index, name in enumerate(columns_list):
        if name not in schema:
            raise GraphValueError(f"There is no column {name!r} in {path}, which has {', '.join(sorted(schema))}.")
        if name in columns_list[:index]:
            raise GraphValueError(f"'columns_list': Invalid parameter, duplicate column names are not allowed: {name}.")
    return list(columns_list)


def _shards_of(path: str, file: MindRecordFile) -> list[MindRecordFile]:
    """The files that were written with this one, in the same folder."""
    if len(file.shards) < 2:
        return [file]
    paths = [files.inside(os.path.dirname(path), os.path.basename(name), path) for name in file.shards]
    return [MindRecordFile(each) for each in files.matching_files(paths)]


def check_padding(columns_list: Sequence[str] | None, padded_sample: object, num_padded: object) -> None:
    """Raise GraphRuntimeError for incomplete arguments, GraphTypeError and GraphValueError for invalid ones."""
    if padded_sample is None:
        if num_padded is not None:
            raise GraphRuntimeError("num_padded is specified but padded_sample is not.")
        return
    if not isinstance(padded_sample, dict):
        raise type_error("padded_sample", padded_sample, "a dict")
    for name, value in (("columns_list", columns_list), ("num_padded", num_padded)):
        if not value and value != 0:
            raise GraphRuntimeError(f"padded_sample is specified and requires {name} as well.")
    if type(num_padded) is not int:
        raise type_error("num_padded", num_padded, "an integer")
    if num_padded < 0:
        raise GraphValueError(f"num_padded is invalid, num_padded={num_padded}.")
    if not set(columns_list or ()) <= padded_sample.keys():
        raise GraphValueError("padded_sample cannot match columns_list.")


class PaddedRows(Source):
    """The rows of files, followed by one row `count` times.

    Raises GraphValueError for a row that does not fit the schema, GraphRuntimeError where `num_shards` do not divide
    the number of rows.
    """

    def __init__(self, source: MindRecordSource, sample: Row, count: int, num_shards: int | None) -> None:
        self.columns, self._source, self._rows = source.columns, source, range(len(source) + count)
        self.lengths = [*source.lengths, count]
        schema = {name: source.files[0].schema[name] for name in self.columns}
        message = fault(schema, sample)
        if message:
            raise GraphValueError(f"padded_sample does not fit the files: {message}")
        if num_shards and len(self) % num_shards:
            text = f"Invalid data, the size of dataset and padded samples: {len(self)} can not be divisible by the "
            raise GraphRuntimeError(f"{text}value of 'num_shards'. Please adjust the value of 'num_padded'.")
        self._row = tuple(_column(sample[name], schema[name]) for name in self.columns)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._source[index] if index < len(self._source) else self._row


def _column(value: Any, field: Field) -> np.ndarray[Any, Any]:
    if field["type"] == "bytes":
        return np.frombuffer(value, np.uint8)
    if field["type"] == "string":
        return np.asarray(value)
    return np.asarray(value, field["type"]).reshape(field.get("shape", ()))


class FileReader:
    """The rows of MindRecord files, in order; `num_consumer` has no effect. Raises what MindRecordSource does.

    Raises GraphValueError for operators, which are not offered.

    Examples:
        >>> from graphls.dataset.mindrecord import FileReader
        >>> from graphls.dataset.mindrecord.writer import FileWriter
        >>> writer = FileWriter("rows.mindrecord")
        >>> _ = writer.add_schema({"label": {"type": "int32"}}, "numbers")
        >>> _ = writer.write_raw_data([{"label": 3}, {"label": 5}])
        >>> _ = writer.commit()
        >>> reader = FileReader("rows.mindrecord")
        >>> [int(row["label"]) for row in reader.get_next()]
        [3, 5]
    """

    def __init__(
        self, file_name: Paths, num_consumer: int = 4, columns: Sequence[str] | None = None, operator: object = None
    ) -> None:
        if operator is not None:
            raise GraphValueError(refusal("file operators"))
        self._source = MindRecordSource(file_name, columns or None)

    def get_next(self) -> Iterator[Row]:
        """Each row as a dict of Python numbers, strings, bytes and arrays."""
        schema = self.schema()
        for index in range(len(self._source)):
            yield plain_row(self._source.row(index), schema)

    def schema(self) -> Schema:
        """The type of each column, and the shapes of arrays."""
        return self._source.files[0].schema

    def len(self) -> int:
        """The number of rows."""
        return len(self._source)

    def close(self) -> None:
        """Do nothing; files are closed when they are no longer used."""


def plain_row(row: Row, schema: Schema) -> Row:
    """A row with Python's numbers, strings and bytes, and arrays."""
    return {name: _plain_value(value, schema[name]["type"]) for name, value in row.items()}


def _plain_value(value: Any, kind: str) -> Any:
    if kind == "bytes":
        return value.tobytes()
    return value.item() if isinstance(value, np.generic) else value


class MindDataset(Files):
    """The rows of MindRecord files, in the columns that they have, or in those of `columns_list`.

    One path includes all files that were written with it. Rows are shuffled over all files, or as `Shuffle` says,
    unless `shuffle` is False; shards have every `num_shards`-th row. `num_padded` rows of `padded_sample`, a dict of
    the columns of `columns_list`, follow those of the files, so that shards are equally long. Raises what
    MindRecordSource and PaddedRows do.

    Raises GraphValueError for a negative `num_padded` and for a `padded_sample` without the columns,
    GraphRuntimeError where one of both is given without the other.

    Examples:
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.writer import FileWriter
        >>> writer = FileWriter("rows.mindrecord")
        >>> _ = writer.add_schema({"label": {"type": "int32"}}, "numbers")
        >>> _ = writer.write_raw_data([{"label": 3}, {"label": 5}])
        >>> _ = writer.commit()
        >>> [int(label) for (label,) in ds.MindDataset("rows.mindrecord", shuffle=False)]
        [3, 5]
    """

    def __init__(
        self, dataset_files: Paths, columns_list: list[str] | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | Shuffle | None = None, num_shards: int | None = None, shard_id: int | None = None,
        sampler: SamplerLike | None = None, padded_sample: Row | None = None, num_padded: int | None = None,
        num_samples: int | None = None, cache: object = None,
    ) -> None:  # fmt: skip
        check_padding(columns_list, padded_sample, num_padded)
        rows = MindRecordSource(dataset_files, columns_list)
        source = rows if padded_sample is None else PaddedRows(rows, padded_sample, num_padded or 0, num_shards)
        kind = files.shuffle_of(shuffle)
        if kind in (Shuffle.FILES, Shuffle.INFILE) and sampler is None:
            if num_samples is not None:
                raise GraphValueError(f"{kind!r} and num_samples cannot be specified at the same time.")
            shard = None if num_shards is None else checks.shard(num_shards, shard_id)
            sampler = FileSampler(source.lengths, kind, shard, is_dealt=True)
            num_shards = shard_id = shuffle = None
        shuffled = None if shuffle is None else kind is not Shuffle.FALSE
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffled, sampler, num_shards, shard_id)
