"""Checkpoints that ONNX Runtime training wrote, which are flatbuffers.

A table of these has, at the offset that stands before its fields, a list of where each field is; a field that is left
out has 0 there. Texts, vectors and tables are named by the offset from where their name stands. The numbers of fields
below are those of `checkpoint.fbs` and `ort.fbs` of ONNX Runtime 1.19.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import helper

from graphls.base.errors import GraphValueError

MARK = b"ODTC"
"""What stands behind the first four bytes."""


class Table:
    """A table of a flatbuffer; raises struct.error for what lies outside of the data."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self.place = place
        self.fields = place - self.number("i", place)

    def number(self, kind: str, place: int) -> Any:
        """A number at a place."""
        if place < 0:
            raise struct.error("a negative offset")
        return struct.unpack_from(f"<{kind}", self.data, place)[0]

    def where(self, field: int) -> int:
        """The place of a field; 0 where it is left out."""
        offset = 4 + 2 * field
        if offset >= self.number("H", self.fields):
            return 0
        found: int = self.number("H", self.fields + offset)
        return self.place + found if found else 0

    def value(self, field: int, kind: str, default: Any = 0) -> Any:
        """The number in a field."""
        place = self.where(field)
        return self.number(kind, place) if place else default

    def table(self, field: int) -> Table | None:
        """The table in a field."""
        place = self.where(field)
        return Table(self.data, place + self.number("I", place)) if place else None

    def vector(self, field: int) -> tuple[int, int]:
        """The place and the number of the elements in a field."""
        place = self.where(field)
        if not place:
            return 0, 0
        start = place + self.number("I", place)
        return start + 4, self.number("I", start)

    def content(self, field: int, width: int = 1) -> bytes:
        """The bytes of a text or a vector of numbers."""
        start, count = self.vector(field)
        found = self.data[start : start + count * width]
        if len(found) != count * width:
            raise struct.error("a vector that is longer than the file")
        return found

    def text(self, field: int) -> str:
        """The text in a field."""
        return self.content(field).decode()

    def tables(self, field: int) -> Iterator[Table]:
        """The tables of a vector."""
        start, count = self.vector(field)
        for place in range(start, start + 4 * min(count, len(self.data)), 4):
            yield Table(self.data, place + self.number("I", place))


def root(data: bytes) -> Table:
    """The table that a file is."""
    return Table(data, struct.unpack_from("<I", data)[0])


def array_of(tensor: Table, name: str) -> np.ndarray[Any, Any]:
    """The elements of a tensor; raises GraphValueError where they are not in the file."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.value(3, "i")))
    shape = np.frombuffer(tensor.content(2, 8), "<i8")
    if tensor.value(6, "q", -1) >= 0:
        raise GraphValueError(f"the data of {name!r} lies in another file")
    return np.frombuffer(tensor.content(4), dtype).reshape(tuple(map(int, shape)))
