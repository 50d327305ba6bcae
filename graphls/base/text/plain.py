"""Names and numbers for terminals: escaped control characters, display width, clipping and units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from graphls.base.errors import visible

LONGEST = 200
"""Characters that are shown of a name."""

BREAKS = (r"(?<=, )|(?<=\.)(?=.)", r"(?<=[/_ :-])(?=.)", r"(?<=[a-z0-9])(?=[A-Z])")
"""Patterns of the positions where a name or a list of names may break, the best ones first."""

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_THOUSANDS = ("", " k", " M", " G", " T", " P", " E")


def shown(name: str, most: int = LONGEST) -> str:
    """A name on one line: control characters and marks that turn the direction of text escaped, a long one cut.

    It takes `most` characters and columns at most.
    """
    text = visible(name[:most]).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(name) <= most and columns(text) <= most else f"{_beginning(text, most - 1)}…"


def clipped(text: str, most: int) -> str:
    """The text in so many characters at most: a longer one ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shortened(text: str, most: int) -> str:
    """The text in so many characters at most: a longer one has an ellipsis in place of its middle."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def columns(text: str) -> int:
    """The width of a text in terminal columns: two for wide characters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, width: int, right: bool = False) -> str:
    """The text in exactly so many columns: padded, or cut with an ellipsis."""
    if columns(text) > width:
        text = f"{_beginning(text, width - 1)}…"
    padding = " " * (width - columns(text))
    return padding + text if right else text + padding


def broken(text: str, width: int) -> list[str]:
    """A text in lines of so many columns at most, cut nowhere.

    They end after dots and between names, where that is not enough after slashes and the like, else anywhere.
    """
    return [line.rstrip(" ") for line in _broken(text, width, BREAKS)]


def _broken(text: str, width: int, breaks: Sequence[str]) -> list[str]:
    """The lines, with the spaces after them."""
    if columns(text.rstrip(" ")) <= width:
        return [text]
    if not breaks:
        first = _beginning(text, width)
        return [first, *_broken(text[len(first) :], width, breaks)]
    lines: list[str] = []
    for part in re.split(breaks[0], text):
        if lines and columns((lines[-1] + part).rstrip(" ")) <= width:
            lines[-1] += part
        else:
            lines += _broken(part, width, breaks[1:])
    return lines


def _beginning(text: str, width: int) -> str:
    """The longest beginning of a text that fits so many columns."""
    width_so_far = 0
    for index, character in enumerate(text):
        width_so_far += _columns(character)
        if width_so_far > width:
            return text[:index]
    return text


def size(count: int) -> str:
    """A number of bytes, in units of 1024: `512 B`, `1.5 KiB`."""
    number, unit = float(count), 0
    while number >= 1023.5 and unit < len(_BYTES) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} {_BYTES[unit]}" if unit == 0 or number >= 99.95 else f"{number:.1f} {_BYTES[unit]}"


def short(count: int) -> str:
    """A number with three digits and a unit of thousands: `950`, `1.25 M`."""
    number, unit = float(count), 0
    while number >= 999.5 and unit < len(_THOUSANDS) - 1:
        number, unit = number / 1000, unit + 1
    if unit == 0:
        return str(count)
    return f"{number:.{2 if number < 9.995 else 1 if number < 99.95 else 0}f}{_THOUSANDS[unit]}"
