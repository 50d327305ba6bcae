"""JPEG files, decoded by OpenCV in less time than Pillow takes.

Both leave it to libjpeg-turbo with its defaults, so the bits are the same. But Pillow parses the header in Python, and
copies rows to an image of four bytes a pixel, and that to an array. Of a damaged file libjpeg-turbo tells here what it
found, at the standard error.
"""

from __future__ import annotations

import struct

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.dataset.vision.image import Array
from graphls.dataset.vision.opencv import opencv

START, END = b"\xff\xd8", b"\xff\xd9"
FRAMES = frozenset((0xC0, 0xC1, 0xC2))
"""Markers of segments with the size of an image: baseline, extended, progressive."""

BEFORE_FRAMES = frozenset((0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)))
"""Markers of the segments before: tables, comments, and what applications add."""

_SEGMENT, _FRAME = struct.Struct(">BBH"), struct.Struct(">BHHB")
_MOST_PIXELS = 2**24


def decoded(data: Array) -> Array | None:
    """The image of a JPEG, uint8 of (H, W, 3) in RGB; None for anything else, and for all that is unusual.

    Unusual are files that are cut, very large, or of other colors than one or three, and damaged ones that OpenCV
    refuses: these are for Pillow, which says what is wrong with them.
    """
    data = np.ascontiguousarray(data).view(np.uint8)
    if not _is_usual(data.data):
        return None
    try:
        cv2 = opencv()
    except GraphRuntimeError:
        return None
    try:
        image = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        return None
    return None if image is None else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))


def _is_usual(data: memoryview) -> bool:
    if data[:2] != START or data[-2:] != END:
        return False
    place = len(START)
    while place + _SEGMENT.size + _FRAME.size <= len(data):
        fill, marker, length = _SEGMENT.unpack_from(data, place)
        place += _SEGMENT.size
        if fill == 0xFF and marker in FRAMES:
            bits, height, width, colors = _FRAME.unpack_from(data, place)
            return bits == 8 and colors in (1, 3) and 0 < height * width <= _MOST_PIXELS
        if fill != 0xFF or marker not in BEFORE_FRAMES:
            return False
        place += length - 2  # the length counts itself
    return False
