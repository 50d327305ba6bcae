"""Reads checkpoints of ONNX Runtime training, which are flatbuffers.

A table of these has, at the offset that stands before its fields, a list of where each field is; a field that is left
out has 0 there. Texts, vectors and tables are named by the offset from where their name stands. The numbers of fields
below are those of `checkpoint.fbs` and `ort.fbs` of ONNX Runtime 1.19.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from onnx import helper

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array

MARK = b"ODTC"
"""The identifier of the format, behind the first four bytes."""


class Table:
    """A table of a flatbuffer; raises struct.error for what lies outside of the data."""

    def __init__(self, data: bytes, offset: int) -> None:
        self.data = data
        self.offset = offset
        self.fields = offset - self.integer("i", offset)

    def number(self, kind: str, offset: int) -> float:
        """The number of a kind of `struct` at an offset."""
        if offset < 0:
            raise struct.error("a negative offset")
        number: float = struct.unpack_from(f"<{kind}", self.data, offset)[0]
        return number

    def integer(self, kind: str, offset: int) -> int:
        """The integer of a kind of `struct` at an offset."""
        return int(self.number(kind, offset))

    def field(self, field: int) -> int:
        """The offset of a field; 0 where it is left out."""
        entry = 4 + 2 * field
        if entry >= self.integer("H", self.fields):
            return 0
        offset = self.integer("H", self.fields + entry)
        return self.offset + offset if offset else 0

    def value(self, field: int, kind: str, default: float = 0) -> float:
        """The number in a field."""
        offset = self.field(field)
        return self.number(kind, offset) if offset else default

    def table(self, field: int) -> Table | None:
        """The table in a field."""
        offset = self.field(field)
        return Table(self.data, offset + self.integer("I", offset)) if offset else None

    def vector(self, field: int) -> tuple[int, int]:
        """The offset and the number of the elements in a field."""
        offset = self.field(field)
        if not offset:
            return 0, 0
        start = offset + self.integer("I", offset)
        return start + 4, self.integer("I", start)

    def content(self, field: int, width: int = 1) -> bytes:
        """The bytes of a text or a vector of numbers."""
        start, count = self.vector(field)
        content = self.data[start : start + count * width]
        if len(content) != count * width:
            raise struct.error("a vector that is longer than the file")
        return content

    def text(self, field: int) -> str:
        """The text in a field."""
        return self.content(field).decode()

    def tables(self, field: int) -> Iterator[Table]:
        """The tables of a vector."""
        start, count = self.vector(field)
        for offset in range(start, start + 4 * min(count, len(self.data)), 4):
            yield Table(self.data, offset + self.integer("I", offset))


def root(data: bytes) -> Table:
    """The root table of a file."""
    return Table(data, struct.unpack_from("<I", data)[0])


def array_of(tensor: Table, name: str) -> Array:
    """The elements of a tensor; raises GraphValueError where they are not in the file."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(int(tensor.value(3, "i"))))
    shape = np.frombuffer(tensor.content(2, 8), "<i8")
    if tensor.value(6, "q", -1) >= 0:
        raise GraphValueError(f"the data of {name!r} lies in another file")
    return np.frombuffer(tensor.content(4), dtype).reshape(tuple(map(int, shape)))
