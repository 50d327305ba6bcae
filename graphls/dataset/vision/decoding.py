"""Decoding of images from bytes and files: JPEG by OpenCV, other formats by Pillow."""

from __future__ import annotations

import io
import os
import struct
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.dataset.checks import boolean, choice, string, type_error
from graphls.dataset.transforms.operations import TensorOperation
from graphls.dataset.vision.image import Array, Image, is_pil, pillow
from graphls.dataset.vision.opencv import opencv
from graphls.dataset.vision.utils import ImageReadMode

__all__ = ["Decode", "read_file", "read_image"]

FEW_PIXELS = 2**24
"""Pixels that an image may have in any number of bytes: 64 MiB in memory."""

MOST_PIXELS_PER_BYTE = 10_000
"""A bound of compression: deflate turns at most 1032 bytes, or 8256 pixels of one bit, into one byte."""

_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")

START, END = b"\xff\xd8", b"\xff\xd9"
FRAMES = frozenset((0xC0, 0xC1, 0xC2))
"""Markers of segments with the size of an image: baseline, extended, progressive."""

BEFORE_FRAMES = frozenset((0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)))
"""Markers of the segments before: tables, comments, and what applications add."""

_SEGMENT, _FRAME = struct.Struct(">BBH"), struct.Struct(">BHHB")
_MOST_JPEG_PIXELS = 2**24


def decoded(data: Array) -> Array:
    """The image in an array of bytes, uint8 of (H, W, 3) in RGB; raises GraphRuntimeError for other bytes."""
    image = decoded_jpeg(data)
    return np.array(decoded_pil(data)) if image is None else image


def decoded_pil(data: Array, mode: str | None = "RGB") -> Any:
    """The PIL image in an array of bytes, in a mode or its own; raises GraphRuntimeError for other bytes.

    Pillow refuses images of more than about 179 million pixels, and images that no compression stores in so few bytes
    are refused here, so a small file cannot exhaust the memory. Formats that are read by other programs, or by various
    libraries, such as EPS, are not tried.
    """
    try:
        image = pillow().open(io.BytesIO(bytes(data)), formats=_FORMATS)
        _check_size(image.size, len(data))
        image.load()
        return image if mode in (None, image.mode) else image.convert(mode)
    except pillow().DecompressionBombError as error:
        raise GraphRuntimeError(f"The image is too large: {error}") from None
    except (OSError, ValueError, SyntaxError) as error:
        unknown = isinstance(error, pillow().UnidentifiedImageError)
        fault = f"they are in none of the formats {', '.join(_FORMATS)}" if unknown else error
        raise GraphRuntimeError(f"The bytes are not an image that can be decoded: {fault}.") from None


def _check_size(size: tuple[int, int], length: int) -> None:
    """Raise GraphRuntimeError for a large image in so small a file that its header must be wrong or malicious."""
    pixels = size[0] * size[1]
    if pixels > max(FEW_PIXELS, MOST_PIXELS_PER_BYTE * length):
        raise GraphRuntimeError(f"The image is too large: {size[0]} x {size[1]} pixels in {length} bytes.")


class Decode(TensorOperation):
    """Decode an image to uint8 of (H, W, 3) in RGB, or to a PIL image with `to_pil`.

    Takes bytes or an array of uint8 and one axis. Raises GraphTypeError for anything else, GraphRuntimeError for bytes
    that are not a complete image.

    Examples:
        >>> import cv2
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> encoded = cv2.imencode(".png", np.zeros((4, 6, 3), np.uint8))[1]
        >>> vision.Decode()(encoded.ravel()).shape
        (4, 6, 3)
    """

    def __init__(self, to_pil: bool = False) -> None:
        self.to_pil = boolean("to_pil", to_pil)

    def prepare(self, column: object) -> Array:
        return encoded(column)

    def apply(self, column: Array) -> Image:
        return decoded_pil(column).copy() if self.to_pil else decoded(column)  # the copy has no file


def encoded(column: object) -> Array:
    """The bytes of an image as an array; raises GraphTypeError for anything else."""
    if isinstance(column, bytes):
        return np.frombuffer(column, np.uint8)
    if is_pil(column) or not isinstance(column, np.ndarray):
        raise type_error("image", column, "bytes or an array of them")
    if column.ndim == 0 and column.dtype.kind == "S":
        return np.frombuffer(column.item(), np.uint8)
    if column.ndim != 1 or column.dtype.kind not in "iu" or column.dtype.itemsize != 1:
        text = f"The bytes of an image are uint8 of one axis, not {column.dtype} of shape {column.shape}."
        raise GraphTypeError(text)
    return column


def read_file(filename: str) -> Array:
    """The bytes of a file, uint8 of (N,); raises GraphValueError for a missing file.

    Examples:
        >>> from pathlib import Path
        >>> from graphls.dataset import vision
        >>> _ = Path("file").write_bytes(bytes([1, 2, 3]))
        >>> vision.read_file("file")
        array([1, 2, 3], dtype=uint8)
    """
    if not os.path.isfile(string("filename", filename)):
        raise GraphValueError(f"{filename} does not exist, or it is not a file.")
    return np.fromfile(filename, np.uint8)


def read_image(filename: str, mode: ImageReadMode = ImageReadMode.UNCHANGED) -> Array:
    """The image in a file, uint8 of (H, W, C); raises GraphValueError or GraphRuntimeError for other files.

    Examples:
        >>> import cv2
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> _ = cv2.imwrite("image.png", np.zeros((4, 6, 3), np.uint8))
        >>> vision.read_image("image.png").shape
        (4, 6, 3)
    """
    data = read_file(filename)
    if choice("mode", mode, ImageReadMode) == ImageReadMode.COLOR:
        return decoded(data)
    image = decoded_pil(data, "L" if mode == ImageReadMode.GRAYSCALE else None)
    image = image.convert("RGBA" if "transparency" in image.info else "RGB") if image.mode in ("P", "1") else image
    array = np.array(image)
    return array[:, :, None] if array.ndim == 2 else array


def decoded_jpeg(data: Array) -> Array | None:
    """The image of a JPEG file, uint8 of (H, W, 3) in RGB, decoded by OpenCV; None for unsupported files.

    OpenCV takes less time than Pillow. Both call libjpeg-turbo with its defaults, so the bits are the same. But Pillow
    parses the header in Python, and copies rows to an image of four bytes a pixel, and that to an array. For a damaged
    file libjpeg-turbo writes its findings to the standard error.

    Unsupported are truncated and very large files, other numbers of channels than one or three, and damaged files that
    OpenCV refuses: these are left to Pillow, which reports the error.
    """
    data = np.ascontiguousarray(data).view(np.uint8)
    if not _is_supported(data.data):
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


def _is_supported(data: memoryview) -> bool:
    if data[:2] != START or data[-2:] != END:
        return False
    offset = len(START)
    while offset + _SEGMENT.size + _FRAME.size <= len(data):
        fill, marker, length = _SEGMENT.unpack_from(data, offset)
        offset += _SEGMENT.size
        if fill == 0xFF and marker in FRAMES:
            bits, height, width, colors = _FRAME.unpack_from(data, offset)
            return bits == 8 and colors in (1, 3) and 0 < height * width <= _MOST_JPEG_PIXELS
        if fill != 0xFF or marker not in BEFORE_FRAMES:
            return False
        offset += length - 2  # the length counts itself
    return False
