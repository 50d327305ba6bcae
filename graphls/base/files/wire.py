"""Encoding and decoding of the protocol buffer wire format: varints and length-delimited fields.

The format is described at protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphls.base.errors import GraphValueError

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
_FIXED = {EIGHT_BYTES: 8, FOUR_BYTES: 4}
LONGEST = 10
"""Bytes of the longest number: 64 bits, seven in each."""

Field = tuple[int, "int | memoryview"]


def fields(message: memoryview, with_floats: bool = False) -> Iterator[Field]:
    """The fields of a message in order: (number, value).

    Fields of four and eight bytes are read where there may be floats, which are not packed. Raises GraphValueError for
    truncated messages and for other kinds of fields.
    """
    position = 0
    while position < len(message):
        key, position = _number(message, position)
        value, position = _value(message, position, key & 7, with_floats)
        yield key >> 3, value


def _value(message: memoryview, position: int, kind: int, with_floats: bool) -> tuple[int | memoryview, int]:
    if kind not in (NUMBER, BYTES) and not (kind in _FIXED and with_floats):
        raise GraphValueError(f"a field is of kind {kind}, which this format does not have")
    number, position = (_FIXED[kind], position) if kind in _FIXED else _number(message, position)
    if kind == NUMBER:
        return number, position
    if number > len(message) - position:
        raise GraphValueError(f"{number} bytes are announced where only {len(message) - position} are left")
    return message[position : position + number], position + number


def _number(message: memoryview, position: int) -> tuple[int, int]:
    """A number of at most 64 bits, and where it ends."""
    result = 0
    for i, byte in enumerate(message[position : position + LONGEST]):
        result |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if result >> 64:
                break
            return result, position + i + 1
    raise GraphValueError("a number ends too early or is longer than 64 bits")


def numbers(value: int | memoryview) -> Iterator[int]:
    """A number, or those of a field that packs several, which readers of repeated numbers must take, too."""
    if isinstance(value, int):
        yield value
        return
    position = 0
    while position < len(value):
        result, position = _number(value, position)
        yield result


def signed(number: int) -> int:
    """The signed number of an unsigned one of 64 bits."""
    return number - (1 << 64) if number >> 63 else number


def number(value: int) -> bytes:
    """The bytes of a number, which may be negative."""
    value &= (1 << 64) - 1
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def number_field(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return number(field << 3 | NUMBER) + number(value)


def bytes_head(field: int, length: int) -> bytes:
    """The tag and the length before the bytes of a field."""
    return number(field << 3 | BYTES) + number(length)


def bytes_field(field: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return bytes_head(field, len(content)) + content


def as_bytes(value: int | memoryview, name: str) -> memoryview:
    """The bytes of a field; raises GraphValueError where it holds a number."""
    if isinstance(value, int):
        raise GraphValueError(f"the field {name!r} holds a number instead of bytes")
    return value
