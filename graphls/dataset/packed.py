"""MessagePack, as far as MindRecord files use it: maps of names to numbers and texts (described at msgpack.org)."""

from __future__ import annotations

import struct
from typing import Any

from graphls.ir.errors import GraphValueError

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDE: 2, 0xDF: 4}


def unpacked(data: bytes) -> dict[str, Any]:
    """The map that some bytes are; raises GraphValueError for other content, and for what ends too early or late."""
    count, position = _length(data, 0, 0x80, 0xF0, (0xDE, 0xDF), "a map")
    entries: dict[str, Any] = {}
    for _ in range(count):
        name, position = _text(data, position)
        entries[name], position = _value(data, position)
    if position != len(data):
        raise GraphValueError(f"{len(data) - position} bytes follow the map")
    return entries


def _taken(data: bytes, position: int, count: int) -> tuple[bytes, int]:
    if position + count > len(data):
        raise GraphValueError("the map ends within a value")
    return data[position : position + count], position + count


def _length(data: bytes, position: int, fixed: int, mask: int, wide: tuple[int, ...], what: str) -> tuple[int, int]:
    """A length that is part of the first byte, or stands behind it."""
    (first,), position = _taken(data, position, 1)
    if first & mask == fixed:
        return first & ~mask & 0xFF, position
    if first not in wide:
        raise GraphValueError(f"there is no {what.removeprefix('a ')} at byte {position - 1}")
    number, position = _taken(data, position, _LENGTHS[first])
    return int.from_bytes(number, "big"), position


def _text(data: bytes, position: int) -> tuple[str, int]:
    count, position = _length(data, position, 0xA0, 0xE0, (0xD9, 0xDA, 0xDB), "a text")
    text, position = _taken(data, position, count)
    try:
        return text.decode("utf-8"), position
    except UnicodeDecodeError:
        raise GraphValueError(f"the text before byte {position} is not UTF-8") from None


def _value(data: bytes, position: int) -> tuple[Any, int]:
    (first,), after = _taken(data, position, 1)
    if first < 0x80 or first >= 0xE0:
        return first - 0x100 * (first >= 0xE0), after
    if first in _CONSTANTS:
        return _CONSTANTS[first], after
    if first in _NUMBERS:
        number, after = _taken(data, after, struct.calcsize(_NUMBERS[first]))
        return struct.unpack(_NUMBERS[first], number)[0], after
    return _text(data, position)
