"""The encodings of MindRecord files: MessagePack for numbers and texts, and integers of variable size.

MessagePack (described at msgpack.org) is supported as far as these files use it: maps of names to numbers and texts.
Arrays of integers are their number (uint32, big endian), the power of two of each size (four in a byte), and the
integers, each in as few bytes as it needs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset.columns import Array, ArrayDType

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDE: 2, 0xDF: 4}


def unpacked(data: bytes) -> dict[str, Any]:
    """The map encoded in some bytes; raises GraphValueError for other content, and for bytes too few or too many."""
    count, position = _length(data, 0, 0x80, 0xF0, (0xDE, 0xDF), "a map")
    entries: dict[str, Any] = {}
    for _ in range(count):
        name, position = _text(data, position)
        entries[name], position = _value(data, position)
    if position != len(data):
        raise GraphValueError(f"{len(data) - position} bytes follow the map")
    return entries


def _read(data: bytes, position: int, count: int) -> tuple[bytes, int]:
    if position + count > len(data):
        raise GraphValueError("the map ends within a value")
    return data[position : position + count], position + count


def _length(data: bytes, position: int, fixed: int, mask: int, wide: tuple[int, ...], what: str) -> tuple[int, int]:
    """A length in the first byte, or in those after it."""
    (first,), position = _read(data, position, 1)
    if first & mask == fixed:
        return first & ~mask & 0xFF, position
    if first not in wide:
        raise GraphValueError(f"there is no {what.removeprefix('a ')} at byte {position - 1}")
    number, position = _read(data, position, _LENGTHS[first])
    return int.from_bytes(number, "big"), position


def _text(data: bytes, position: int) -> tuple[str, int]:
    count, position = _length(data, position, 0xA0, 0xE0, (0xD9, 0xDA, 0xDB), "a text")
    text, position = _read(data, position, count)
    try:
        return text.decode("utf-8"), position
    except UnicodeDecodeError:
        raise GraphValueError(f"the text before byte {position} is not UTF-8") from None


def _value(data: bytes, position: int) -> tuple[Any, int]:
    (first,), after = _read(data, position, 1)
    if first < 0x80 or first >= 0xE0:
        return first - 0x100 * (first >= 0xE0), after
    if first in _CONSTANTS:
        return _CONSTANTS[first], after
    if first in _NUMBERS:
        number, after = _read(data, after, struct.calcsize(_NUMBERS[first]))
        return struct.unpack(_NUMBERS[first], number)[0], after
    return _text(data, position)


def packed(entries: Mapping[str, float | str]) -> bytes:
    """A map of names to numbers and texts, each in the fewest bytes; floats in 4 bytes where these are exact."""
    parts = [_length_header(len(entries), 0x80, 16, ((0xDE, 2), (0xDF, 4)))]
    for name, value in entries.items():
        parts += _packed_text(name), _packed_value(value)
    return b"".join(parts)


def _length_header(count: int, fixed: int, below: int, wide: tuple[tuple[int, int], ...]) -> bytes:
    """A length in the first byte if it is below a bound, else in the bytes after it, as many as it needs."""
    if count < below:
        return bytes([fixed | count])
    first, size = next((first, size) for first, size in wide if count < 1 << 8 * size)
    return bytes([first]) + count.to_bytes(size, "big")


def _packed_text(text: str) -> bytes:
    data = text.encode("utf-8")
    return _length_header(len(data), 0xA0, 32, ((0xD9, 1), (0xDA, 2), (0xDB, 4))) + data


def _packed_value(value: float | str) -> bytes:
    if isinstance(value, str):
        return _packed_text(value)
    if isinstance(value, float):
        return _packed_float(value)
    if -32 <= value < 128:
        return value.to_bytes(1, "big", signed=value < 0)
    size = next(size for size in (1, 2, 4, 8) if -(1 << 8 * size - 1) <= value < 1 << 8 * size)
    first = (0xD0 if value < 0 else 0xCC) + size.bit_length() - 1
    return bytes([first]) + value.to_bytes(size, "big", signed=value < 0)


def _packed_float(value: float) -> bytes:
    try:
        short = struct.pack(">f", value)
    except OverflowError:
        short = b""
    is_exact = short and struct.unpack(">f", short)[0] == value
    return b"\xca" + short if is_exact else b"\xcb" + struct.pack(">d", value)


_SIZES = (1, 2, 4, 8)


def compressed(values: Array) -> bytes:
    """The integers of an array in order, each in as few bytes as it needs."""
    flat = values.reshape(-1).astype(np.int64)
    # The code of an integer is the power of two of its bytes: one more for each of 1, 2, 4 that do not suffice.
    padded = np.zeros(-(-flat.size // 4) * 4, np.uint8)
    for size in _SIZES[:-1]:
        padded[: flat.size] += (flat < -(1 << 8 * size - 1)) | (flat >= 1 << 8 * size - 1)
    quads = padded.reshape(-1, 4) << np.array([6, 4, 2, 0], np.uint8)
    bytes_of = flat.astype("<i8").view(np.uint8).reshape(-1, 8)
    is_significant = np.arange(8) < (1 << padded[: flat.size, None])
    parts = flat.size.to_bytes(4, "big"), quads.sum(1).astype(np.uint8).tobytes(), bytes_of[is_significant].tobytes()
    return b"".join(parts)


def decompressed(content: bytes, dtype: ArrayDType) -> Array:
    """The integers of these bytes; raises ValueError for bytes too few or too many."""
    count = int.from_bytes(content[:4], "big")
    start = 4 + (count + 3) // 4
    if start > len(content):
        raise ValueError(f"{count} integers in {len(content)} bytes")
    codes = np.frombuffer(content[4:start], np.uint8)[:, None] >> np.array([6, 4, 2, 0], np.uint8) & 3
    sizes = 1 << codes.reshape(-1)[:count].astype(np.int64)
    offsets = start + np.cumsum(sizes) - sizes  # each begins at the sum of the sizes before it
    if start + sizes.sum() != len(content) or sizes.max(initial=0) > dtype.itemsize:
        raise ValueError(f"{count} integers in {len(content)} bytes")
    values, data = np.zeros(count, dtype), np.frombuffer(content, np.uint8)
    # All integers of one size are read at once, in NumPy.
    for size in _SIZES:
        indices = np.flatnonzero(sizes == size)
        values[indices] = data[offsets[indices, None] + np.arange(size)].view(f"<i{size}").reshape(-1)
    return values
