"""Images from the bytes of files."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from graphls.dataset.transforms.checks import boolean, choice, string, type_error
from graphls.dataset.transforms.operation import TensorOperation
from graphls.dataset.vision.image import Array, is_pil, pillow
from graphls.dataset.vision.utils import ImageReadMode
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

FEW_PIXELS = 2**24
"""Pixels that an image may have in any number of bytes: 64 MiB in memory."""

MOST_PIXELS_PER_BYTE = 10_000
"""What compression reaches: deflate turns 1032 bytes, or 8256 pixels of one bit, into one byte."""

_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


def decoded(data: Any, mode: str | None = "RGB") -> Any:
    """The PIL image in an array of bytes, in a mode or its own; raises GraphRuntimeError where there is none.

    Pillow refuses images of more than about 179 million pixels, and images that no compression makes of so few bytes
    are refused here, so a small file cannot ask for all memory. Formats that are read by other programs, or by
    libraries of many kinds, such as EPS, are not among those that are tried.
    """
    try:
        image = pillow().open(io.BytesIO(bytes(data)), formats=_FORMATS)
        _check_size(image.size, len(data))
        image.load()
        return image if mode is None else image.convert(mode)
    except pillow().DecompressionBombError as error:
        raise GraphRuntimeError(f"The image is too large: {error}") from None
    except (OSError, ValueError, SyntaxError) as error:
        unknown = isinstance(error, pillow().UnidentifiedImageError)
        fault = f"they are in none of the formats {', '.join(_FORMATS)}" if unknown else error
        raise GraphRuntimeError(f"The bytes are no image that can be decoded: {fault}.") from None


def _check_size(size: tuple[int, int], bytes_given: int) -> None:
    """Raise GraphRuntimeError for a large image in a file so small that its header must be wrong, or meant to harm."""
    pixels = size[0] * size[1]
    if pixels > max(FEW_PIXELS, MOST_PIXELS_PER_BYTE * bytes_given):
        text = f"The image is too large: {size[0]} x {size[1]} pixels in {bytes_given} bytes."
        raise GraphRuntimeError(text)


class Decode(TensorOperation):
    """Decode an image to uint8 of (H, W, 3) in RGB, or to a PIL image with `to_pil`.

    Takes bytes or an array of uint8 and one axis. Raises GraphTypeError for anything else, GraphRuntimeError for bytes
    that are no whole image.
    """

    def __init__(self, to_pil: bool = False) -> None:
        self.to_pil = boolean("to_pil", to_pil)

    def prepare(self, column: Any) -> Array:
        return encoded(column)

    def apply(self, column: Any) -> Any:
        image = decoded(column)
        return image if self.to_pil else np.array(image)


def encoded(column: Any) -> Array:
    """The bytes of an image as an array; raises GraphTypeError where they are none."""
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
    """The bytes of a file, uint8 of (N,); raises GraphValueError for a file that is not there."""
    if not os.path.isfile(string("filename", filename)):
        raise GraphValueError(f"{filename} does not exist, or it is not a file.")
    return np.fromfile(filename, np.uint8)


def read_image(filename: str, mode: ImageReadMode = ImageReadMode.UNCHANGED) -> Array:
    """The image in a file, uint8 of (H, W, C); raises GraphValueError or GraphRuntimeError where there is none."""
    modes = {ImageReadMode.UNCHANGED: None, ImageReadMode.GRAYSCALE: "L", ImageReadMode.COLOR: "RGB"}
    image = decoded(read_file(filename), modes[choice("mode", mode, ImageReadMode)])
    image = image.convert("RGBA" if "transparency" in image.info else "RGB") if image.mode in ("P", "1") else image
    array = np.array(image)
    return array[:, :, None] if array.ndim == 2 else array
