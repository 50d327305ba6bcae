"""Names as text that shows every character and takes part in no layout."""

from __future__ import annotations

from unicodedata import combining, east_asian_width


def plain(text: str, most: int | None = None) -> str:
    """The text with a visible escape for each character that has no shape of its own, such as a newline or a mark of
    direction; cut to `most` columns, with an ellipsis."""
    if most is not None and len(text) > most:
        text, cut = text[:most], True
    else:
        cut = False
    shown = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if most is None or (not cut and columns(shown) <= most):
        return shown
    while columns(shown) >= most:
        shown = shown[:-1]
    return f"{shown}…"


def columns(text: str) -> int:
    """How wide a text is in columns of a terminal; wide characters of East Asia have two."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
