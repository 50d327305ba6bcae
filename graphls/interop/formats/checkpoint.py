"""Reads and writes MindSpore's checkpoint files.

A file is a protocol buffer of `Checkpoint`, in the syntax of version 2:

    message Checkpoint {
      message Value {
        required string tag = 1;
        oneof value { TensorProto tensor = 2; MapTensorProto maptensor = 3; }
      }
      repeated Value value = 1;
    }
    message TensorProto {
      repeated int64 dims = 1;
      required string tensor_type = 2;
      required bytes tensor_content = 3;
    }

A tensor of shape () has no dims, and contents are little endian. A tensor larger than a slice is split into several
consecutive values of one tag, each with all dims. A string has the type "str", dims [0] and 4 bytes for each
character. A file may end in `crc_num` and the CRC-32 of everything before it, in 10 bytes, big endian.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.wire import as_bytes, bytes_field, bytes_head, fields, number_field, numbers, signed
from graphls.base.refusals import refusal
from graphls.ir.types import DTYPES, DType, as_dtype, bool_, token

Entry = np.ndarray[Any, Any] | str
"""A value in a checkpoint: an array or a string."""

Part = bytes | memoryview



def _type_name(dtype: DType) -> str:
    """MindSpore's name of a dtype, as Float8E4M3FN, and one of the same form where it has none."""
    if dtype.is_low:
        return dtype.long_name.upper().replace("FLOAT", "Float").replace("_", "")
    return dtype.long_name.title().replace("Uint", "UInt").replace("Bfloat", "BFloat")


TYPES: dict[str, DType] = {_type_name(dtype): dtype for dtype in DTYPES if dtype is not token}
NAMES = {dtype: name for name, dtype in TYPES.items()}
STRING = "str"
IGNORED = "random_op"
"""The tag of the state of MindSpore's random kernels, which has no meaning elsewhere."""

SLICE_BYTES = 512 * 1024 * 1024
CRC_MARK, CRC_LENGTH = b"crc_num", 10
CRC_TOTAL = len(CRC_MARK) + CRC_LENGTH
MOST_AXES, LARGEST = 32, 1 << 48
"""Limits of the axes and elements of a tensor; files with more are damaged."""


class Piece(NamedTuple):
    """One TensorProto: a tensor, or a slice of one."""

    dims: tuple[int, ...]
    kind: str
    content: memoryview


# -- writing ------------------------------------------------------------------------------------------------------


def encode(entries: Mapping[str, Entry], crc_check: bool = False, slice_bytes: int = SLICE_BYTES) -> Iterator[Part]:
    """The parts of a checkpoint file; raises GraphTypeError for dtypes that it cannot hold."""
    crc = 0
    for name, entry in entries.items():
        for part in _encoded(name, entry, slice_bytes):
            crc = binascii.crc32(part, crc) if crc_check else 0
            yield part
    if crc_check:
        yield CRC_MARK + crc.to_bytes(CRC_LENGTH, "big")


def _encoded(name: str, entry: Entry, slice_bytes: int) -> Iterator[Part]:
    if isinstance(entry, str):
        yield from _value(name, (0,), STRING, memoryview(text_bytes(entry)))
        return
    kind = NAMES.get(as_dtype(entry.dtype))
    if kind is None:
        raise GraphTypeError(f"A checkpoint holds no {entry.dtype}, as {name!r} is.")
    flat = np.ascontiguousarray(entry).reshape(-1)
    for part in np.array_split(flat, max(1, -(-flat.nbytes // slice_bytes))):
        yield from _value(name, entry.shape, kind, part.view(np.uint8).data)


def _value(name: str, dims: Sequence[int], kind: str, content: memoryview) -> Iterator[Part]:
    head = b"".join(number_field(1, n) for n in dims) + bytes_field(2, kind.encode()) + bytes_head(3, len(content))
    tensor = bytes_field(1, name.encode()) + bytes_head(2, len(head) + len(content))
    yield bytes_head(1, len(tensor) + len(head) + len(content)) + tensor + head
    yield content


def text_bytes(text: str) -> bytes:
    """A string in NumPy's encoding."""
    return text.encode("utf-32-le") or bytes(4)


# -- reading ------------------------------------------------------------------------------------------------------


def decode(data: bytes, crc_check: bool = False) -> dict[str, Entry]:
    """The values of a checkpoint file by name; arrays share the memory of `data` where possible.

    Raises GraphValueError for contents that MindSpore does not write, and with `crc_check` for a wrong CRC.
    """
    pieces: dict[str, list[Piece]] = {}
    last = None
    for tag, piece in _pieces(_checked_content(data, crc_check)):
        if tag in pieces and tag != last:
            raise GraphValueError(f"{tag!r} appears in it twice")
        pieces.setdefault(tag, []).append(piece)
        last = tag
    pieces.pop(IGNORED, None)
    return {tag: _joined(tag, slices) for tag, slices in pieces.items()}


def has_crc(data: bytes) -> bool:
    """Tells whether a file ends in a CRC."""
    return data[-CRC_TOTAL:-CRC_LENGTH] == CRC_MARK


def _checked_content(data: bytes, crc_check: bool) -> memoryview:
    if not has_crc(data):
        return memoryview(data)
    content = memoryview(data)[:-CRC_TOTAL]
    if crc_check and binascii.crc32(content) != int.from_bytes(data[-CRC_LENGTH:], "big"):
        raise GraphValueError("the crc check is failed, so the file is damaged")
    return content


def _pieces(content: memoryview) -> Iterator[tuple[str, Piece]]:
    for number, value in fields(content):
        if number != 1:
            raise GraphValueError(f"it has a field {number}, which checkpoints do not have")
        parts = _message(as_bytes(value, "value"), {1: "tag", 2: "tensor", 3: "maptensor"})
        if "maptensor" in parts:
            raise GraphValueError(refusal("hash tables").rstrip("."))
        yield _text(_required(parts, "tag")), _piece(_required(parts, "tensor"))


def _piece(tensor: memoryview) -> Piece:
    parts = _message(tensor, {1: "dims", 2: "tensor_type", 3: "tensor_content"}, repeated="dims")
    dims = tuple(signed(n) for value in parts.get("dims", ()) for n in numbers(value))
    return Piece(dims, _text(_required(parts, "tensor_type")), _required(parts, "tensor_content"))


def _message(message: memoryview, names: Mapping[int, str], repeated: str = "") -> dict[str, list[int | memoryview]]:
    """The fields of a message by name."""
    parts: dict[str, list[int | memoryview]] = {}
    for number, value in fields(message):
        name = names.get(number)
        if name is None:
            raise GraphValueError(f"a value has a field {number}, which checkpoints do not have")
        if name in parts and name != repeated:
            raise GraphValueError(f"a value has two fields {name!r}")
        parts.setdefault(name, []).append(value)
    return parts


def _required(parts: Mapping[str, list[int | memoryview]], name: str) -> memoryview:
    if name not in parts:
        raise GraphValueError(f"a value has no {name!r}")
    return as_bytes(parts[name][0], name)


def _text(content: memoryview) -> str:
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError:
        raise GraphValueError("a name is not in UTF-8") from None


def _joined(tag: str, pieces: list[Piece]) -> Entry:
    """The tensor or string of one value or of several slices."""
    dims, kind, content = pieces[0]
    if any(piece[:2] != (dims, kind) for piece in pieces):
        raise GraphValueError(f"the slices of {tag!r} differ in shape or dtype")
    if len(pieces) > 1:  # the caller can keep an array; bytes would need another copy
        content = np.concatenate([np.frombuffer(piece.content, np.uint8) for piece in pieces]).data
    if kind == STRING:
        return _string(tag, content)
    dtype = TYPES.get(kind)
    if dtype is None:
        raise GraphValueError(f"{tag!r} is of the type {kind!r}, which graphls does not support")
    return _array(tag, dims, dtype, content)


def _string(tag: str, content: memoryview) -> str:
    try:
        return str(content, "utf-32-le").rstrip("\0")
    except UnicodeDecodeError:
        raise GraphValueError(f"the string {tag!r} is damaged") from None


def _array(tag: str, dims: tuple[int, ...], dtype: DType, content: memoryview) -> np.ndarray[Any, Any]:
    if dims == (0,) and len(content) == dtype.itemsize:
        dims = ()  # older versions write a tensor of shape () so
    _check_shape(tag, dims)
    if prod(dims) * dtype.itemsize != len(content):
        raise GraphValueError(
            f"{tag!r} has the shape {_shortened(dims)} in {dtype!r} and {len(content)} bytes, which do not fit together"
        )
    return array_of_bytes(tag, dims, dtype, content)


def array_of_bytes(
    name: str, shape: Sequence[int], dtype: DType, content: memoryview | bytearray
) -> np.ndarray[Any, Any]:
    """The array in some bytes; raises GraphValueError for impossible shapes and invalid booleans."""
    _check_shape(name, tuple(shape))
    if dtype is bool_ and len(content) and np.frombuffer(content, np.uint8).max() > 1:
        raise GraphValueError(f"{name!r} holds booleans that are neither 0 nor 1")
    return np.frombuffer(content, dtype.numpy).reshape(shape)


def _check_shape(name: str, dims: tuple[int, ...]) -> None:
    """Raise GraphValueError for an impossible shape, also of an empty array."""
    if len(dims) > MOST_AXES or min(dims, default=0) < 0 or prod(n or 1 for n in dims) > LARGEST:
        raise GraphValueError(f"{name!r} has the impossible shape {_shortened(dims)}")


def _shortened(dims: tuple[int, ...]) -> str:
    return str(dims) if len(dims) <= 8 else f"({', '.join(map(str, dims[:8]))}, ...)"
