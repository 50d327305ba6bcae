"""Columns of Arrow tables as NumPy arrays, which share the memory of the table where their layouts are equal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import load_package
from graphls.dataset.columns import Array

IMAGE = {"bytes", "path"}
"""The fields of a struct that holds a file: its content, or where that is null, its path."""


def arrow() -> Any:
    """The module `pyarrow`, which only tables need; raises GraphRuntimeError where it cannot be loaded."""
    return load_package("pyarrow", "Reading tables needs pyarrow, which", "pip install pyarrow")


class Column:
    """The rows of a column: `column[row]` is one of them, `stack(start, stop)` several along a new first axis."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, row: int) -> Any:
        """The value of a row."""
        raise NotImplementedError

    def stack(self, start: int, stop: int) -> Array:
        """The rows of a range in one array; raises GraphValueError where their shapes differ."""
        rows = [self[row] for row in range(start, stop)]
        if any(isinstance(row, dict) for row in rows):
            raise GraphValueError("lists of structs do not form an array; flatten them to columns")
        shapes = {row.shape for row in rows}
        if len(shapes) > 1:
            listed = " and ".join(map(str, sorted(shapes)[:2]))
            raise GraphValueError(f"a row has lists of different lengths, with the shapes {listed}; pad them first")
        return np.array(rows)


class Numbers(Column):
    """Rows of one shape, in one array."""

    def __init__(self, array: Array) -> None:
        super().__init__(len(array))
        self.array = array

    def __getitem__(self, row: int) -> Array:
        return self.array[row, ...]

    def stack(self, start: int, stop: int) -> Array:
        return self.array[start:stop]


class Binaries(Column):
    """Rows of bytes, uint8 of their number each."""

    def __init__(self, offsets: Array, data: Array) -> None:
        super().__init__(max(len(offsets) - 1, 0))
        self.offsets, self.data = offsets, data

    def __getitem__(self, row: int) -> Array:
        return self.data[self.offsets[row] : self.offsets[row + 1]]


class Texts(Binaries):
    """Rows of text, stored as UTF-8."""

    def __getitem__(self, row: int) -> Array:
        return np.array(bytes(super().__getitem__(row)).decode("utf-8"))


class Lists(Column):
    """Rows of lists, whose items are rows of another column."""

    def __init__(self, offsets: Array, items: Column) -> None:
        super().__init__(max(len(offsets) - 1, 0))
        self.offsets, self.items = offsets, items

    def __getitem__(self, row: int) -> Array:
        return self.items.stack(int(self.offsets[row]), int(self.offsets[row + 1]))


class Structs(Column):
    """Rows of structs, as dicts."""

    def __init__(self, length: int, fields: dict[str, Column]) -> None:
        super().__init__(length)
        self.fields = fields

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: column[row] for name, column in self.fields.items()}


class Files(Column):
    """Rows of the contents of files, uint8 of their number of bytes: stored, or read from their paths."""

    def __init__(self, contents: Column, is_stored: Array, paths: Column) -> None:
        super().__init__(len(contents))
        self.contents, self.is_stored, self.paths = contents, is_stored, paths

    def __getitem__(self, row: int) -> Any:
        return self.contents[row] if self.is_stored[row] else np.fromfile(str(self.paths[row]), np.uint8)


class Encoded(Column):
    """Rows that are codes of values in a dictionary."""

    def __init__(self, codes: Array, values: Column) -> None:
        super().__init__(len(codes))
        self.codes, self.values = codes, values

    def __getitem__(self, row: int) -> Any:
        return self.values[int(self.codes[row])]


class Chunks(Column):
    """A column in several parts."""

    def __init__(self, parts: Sequence[Column]) -> None:
        self.ends = list(accumulate(map(len, parts)))
        super().__init__(self.ends[-1] if parts else 0)
        self.parts = parts

    def __getitem__(self, row: int) -> Any:
        part = bisect_right(self.ends, row)
        return self.parts[part][row - (self.ends[part - 1] if part else 0)]


def column_of(chunked: Any) -> Column:
    """The rows of a `pyarrow.ChunkedArray`; raises GraphTypeError for types that are not numbers, text or bytes."""
    parts = [_part(chunk) for chunk in chunked.chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else Chunks(parts)


def array_of_column(column: Column) -> Array:
    """A complete column as one array, without a copy where it is one; raises GraphValueError where shapes differ."""
    if isinstance(column, Chunks) and all(isinstance(part, Numbers) for part in column.parts) and column.parts:
        shapes = {part.array.shape[1:] for part in column.parts if isinstance(part, Numbers)}
        if len(shapes) == 1:
            return np.concatenate([part.stack(0, len(part)) for part in column.parts])
    return column.stack(0, len(column))


def null_rows(chunked: Any) -> Array:
    """The rows of a `pyarrow.ChunkedArray` that are null or contain a null, int64, in order."""
    starts = accumulate(map(len, chunked.chunks), initial=0)
    return np.concatenate(
        [np.empty(0, np.int64), *(start + _nulls(chunk) for start, chunk in zip(starts, chunked.chunks, strict=False))]
    )


def _nulls(chunk: Any) -> Array:
    """The rows of a part that are null or contain a null."""
    pyarrow = arrow()
    types, kind = pyarrow.types, chunk.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _nulls(chunk.storage)
    own = np.flatnonzero(np.asarray(chunk.is_null())) if chunk.null_count else np.empty(0, np.int64)
    if types.is_fixed_size_list(kind) or _has_offsets(kind):
        inner = _nulls(chunk.values)
        return np.union1d(own, _rows_of(inner, _bounds(chunk))) if len(inner) else own
    if types.is_struct(kind):
        fields = [_nulls(chunk.field(i)) for i in range(kind.num_fields)]
        return np.union1d(own, np.intersect1d(fields[0], fields[1]) if _is_file(kind) else np.concatenate(fields))
    if types.is_dictionary(kind):
        return np.union1d(own, np.flatnonzero(np.isin(_codes(chunk), _nulls(chunk.dictionary))))
    return own


def _rows_of(items: Array, bounds: Array) -> Array:
    """The rows that contain items, where row `i` has those from `bounds[i]` to before `bounds[i + 1]`."""
    rows = np.searchsorted(bounds, items, "right") - 1
    return np.unique(rows[(rows >= 0) & (rows < len(bounds) - 1)])


def _is_file(kind: Any) -> bool:
    pyarrow = arrow()
    fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
    types = pyarrow.types
    return fields.keys() == IMAGE and (types.is_binary(fields["bytes"]) or types.is_large_binary(fields["bytes"]))


def _has_offsets(kind: Any) -> bool:
    pyarrow = arrow()
    return bool(pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind))


def _part(chunk: Any) -> Column:
    """The rows of a `pyarrow.Array`; raises GraphTypeError for types without arrays."""
    pyarrow = arrow()
    types, kind = pyarrow.types, chunk.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _part(chunk.storage) if kind.extension_name != "arrow.fixed_shape_tensor" else _tensors(chunk)
    if types.is_boolean(kind):
        return Numbers(_bits(chunk))
    if types.is_integer(kind) or types.is_floating(kind):
        return Numbers(_elements(chunk, 1, np.dtype(kind.to_pandas_dtype()), len(chunk)))
    if types.is_fixed_size_list(kind) or _has_offsets(kind):
        return _lists(_bounds(chunk), _part(chunk.values))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        of_text = types.is_string(kind) or types.is_large_string(kind)
        return (Texts if of_text else Binaries)(_bounds(chunk), _bytes(chunk.buffers()[2]))
    if types.is_fixed_size_binary(kind):
        data = _elements(chunk, 1, np.dtype((np.uint8, kind.byte_width)), len(chunk))
        return Numbers(data.reshape(len(chunk), kind.byte_width))
    if types.is_dictionary(kind):
        return Encoded(_codes(chunk), _part(chunk.dictionary))
    if types.is_struct(kind):
        return _structs(chunk)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _part(chunk.cast(pyarrow.large_string() if types.is_string_view(kind) else pyarrow.large_binary()))
    raise GraphTypeError(f"it has the type {kind}, which is not a type of tensors; cast it to numbers or text")


def _structs(chunk: Any) -> Column:
    fields = {field.name: chunk.field(i) for i, field in enumerate(chunk.type)}
    if not _is_file(chunk.type):
        return Structs(len(chunk), {name: _part(field) for name, field in fields.items()})
    return Files(_part(fields["bytes"]), np.asarray(fields["bytes"].is_valid()), _part(fields["path"]))


def _tensors(chunk: Any) -> Column:
    """The tensors of a column of `arrow.fixed_shape_tensor`, with their axes in the order of its permutation."""
    shape, order = chunk.type.shape, chunk.type.permutation
    rows = array_of_column(_part(chunk.storage)).reshape(len(chunk), *shape)
    return Numbers(rows if order is None else rows.transpose(0, *(axis + 1 for axis in order)))


def _lists(bounds: Array, items: Column) -> Column:
    """Lists as rows of one array where all are of one length, else one by one."""
    lengths = np.diff(bounds)
    if isinstance(items, Numbers) and len(lengths) and (lengths == lengths[0]).all() and bounds[-1] <= len(items):
        inner = items.array[bounds[0] : bounds[-1]]
        return Numbers(inner.reshape(len(lengths), int(lengths[0]), *inner.shape[1:]))
    return Lists(bounds, items)


def _bounds(chunk: Any) -> Array:
    """The begin of each row of lists, texts or bytes within their items, and the end of the last one."""
    pyarrow = arrow()
    types, kind = pyarrow.types, chunk.type
    if types.is_fixed_size_list(kind):
        return np.arange(chunk.offset, chunk.offset + len(chunk) + 1) * int(kind.list_size)
    is_large = types.is_large_list(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    return _elements(chunk, 1, np.dtype(np.int64 if is_large else np.int32), len(chunk) + 1)


def _codes(chunk: Any) -> Array:
    kind = chunk.indices.type
    return _elements(chunk.indices, 1, np.dtype(kind.to_pandas_dtype()), len(chunk))


def _elements(chunk: Any, buffer: int, dtype: np.dtype[Any], count: int) -> Array:
    """The elements of a buffer that belong to an array, which may be a slice of a longer one."""
    data = chunk.buffers()[buffer]
    if data is None:
        return np.zeros((count, *dtype.shape), dtype.base)
    return np.frombuffer(data, dtype, chunk.offset + count)[chunk.offset :]


def _bits(chunk: Any) -> Array:
    packed = _bytes(chunk.buffers()[1])
    bits = np.unpackbits(packed, count=chunk.offset + len(chunk), bitorder="little")
    return bits[chunk.offset :].view(np.bool_)


def _bytes(buffer: Any) -> Array:
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
