"""What an operation on images takes, an array of (H, W) or (H, W, C) or a PIL image, and images from bytes of files."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphls.dataset.checks import boolean, choice, probability, string, type_error
from graphls.dataset.randomness import generator
from graphls.dataset.transforms.operations import TensorOperation, as_column
from graphls.dataset.vision.utils import ImageReadMode
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

if TYPE_CHECKING:
    from PIL.Image import Image as _PilImage

Array = np.ndarray[Any, Any]
PilImage: TypeAlias = "_PilImage"
Image: TypeAlias = "Array | PilImage"
Numbers = float | Sequence[float]
Integers = int | Sequence[int]
Fill = tuple[int, int, int]
FillValue = int | Fill


class ImageOperation(TensorOperation):
    """An operation on an array or a PIL image.

    Subclasses define `on_array`, and `on_pil` where the result for a PIL image is one; else it is made an array.
    """

    def prepare(self, column: object) -> Any:
        if type(column) is np.ndarray:
            array: Array | None = column
        elif is_pil(column):
            return column
        else:
            array = None if isinstance(column, (list, tuple, str, bytes)) else as_column(column)
        if array is None or array.dtype.kind not in "biuf":
            raise type_error("image", column, "an array of numbers or a PIL image")
        return array

    def apply(self, column: Image) -> Any:
        return self.on_array(column) if isinstance(column, np.ndarray) else self.on_pil(column)

    def on_array(self, image: Array) -> Any:
        """The result for an array."""
        raise NotImplementedError

    def on_pil(self, image: PilImage) -> Any:
        """The result for a PIL image."""
        return self.on_array(np.asarray(image))


class WithProbability(ImageOperation):
    """Another operation with a probability; else the image as it is."""

    operation: ImageOperation

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = probability("prob", prob)

    def check(self, image: Array) -> None:
        """Raise GraphRuntimeError for an array that is none of an image, whether the operation happens or not."""
        check_image(self, image)

    def happens(self) -> bool:
        """Whether the operation happens, drawn for each image."""
        return generator().random() < self.prob

    def on_array(self, image: Array) -> Any:
        self.check(image)
        return self.operation.on_array(image) if self.happens() else image


class PilOperation(ImageOperation):
    """An operation on PIL images only; raises GraphTypeError for an array."""

    def on_array(self, image: Array) -> Any:
        text = f"{type(self).__name__} takes a PIL image, not an array; put Decode(to_pil=True) or ToPIL() before it."
        raise GraphTypeError(text)


def pillow(name: str = "Image") -> ModuleType:
    """A module of Pillow; raises GraphRuntimeError that says how to install it."""
    try:
        return import_module(f"PIL.{name}")
    except ImportError:
        text = 'Images are read and changed by Pillow, which is not installed; run pip install "graphls[train]".'
        raise GraphRuntimeError(text) from None


def is_pil(image: object) -> bool:
    """Whether something is an image of Pillow's."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(image).__mro__)


def wrong_shape(operation: object, image: Array, wanted: str) -> GraphRuntimeError:
    """The error for an image of another shape or dtype than an operation takes."""
    found = f"an array of {image.dtype} and shape {image.shape}"
    return GraphRuntimeError(f"{type(operation).__name__} takes {wanted}, not {found}.")


def check_image(operation: object, image: Array, more: bool = False) -> int:
    """The axis of the rows of (H, W) or (H, W, C), or of (..., H, W, C) with `more`; raises GraphRuntimeError."""
    if not image.size:
        raise wrong_shape(operation, image, "an image of one pixel or more")
    if image.ndim in (2, 3):
        return 0
    if more and image.ndim > 3:
        return image.ndim - 3
    raise wrong_shape(operation, image, "an image of (H, W) or " + ("(..., H, W, C)" if more else "(H, W, C)"))


def check_color(operation: object, image: Array) -> Array:
    """An image of (H, W, 3); raises GraphRuntimeError otherwise."""
    if image.ndim != 3 or image.shape[2] != 3:
        raise wrong_shape(operation, image, "a color image of (H, W, 3)")
    return image


def check_channels(operation: object, image: Array, more: bool = False) -> None:
    """Raises GraphRuntimeError for an image of other channels than 1 or 3, or of another shape."""
    check_image(operation, image, more)
    if image.ndim > 2 and image.shape[-1] not in (1, 3):
        raise wrong_shape(operation, image, "an image of 1 or 3 channels")


def check_bytes(operation: object, image: Array) -> Array:
    """An image of uint8; raises GraphRuntimeError otherwise."""
    if image.dtype != np.uint8:
        raise wrong_shape(operation, image, "an image of uint8")
    return image


def saturated(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values in another dtype: rounded to the nearest (ties to even) and cut at its ends if it is one of integers."""
    if np.dtype(dtype).kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(values), limits.min, limits.max).astype(dtype))


FEW_PIXELS = 2**24
"""Pixels that an image may have in any number of bytes: 64 MiB in memory."""

MOST_PIXELS_PER_BYTE = 10_000
"""What compression reaches: deflate turns 1032 bytes, or 8256 pixels of one bit, into one byte."""

_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")


def decoded(data: Array | bytes, mode: str | None = "RGB") -> Any:
    """The PIL image in an array of bytes, in a mode or its own; raises GraphRuntimeError where there is none.

    Pillow refuses images of more than about 179 million pixels, and images that no compression makes of so few bytes
    are refused here, so a small file cannot ask for all memory. Formats that are read by other programs, or by
    libraries of many kinds, such as EPS, are not among those that are tried.
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
        raise GraphRuntimeError(f"The bytes are no image that can be decoded: {fault}.") from None


def _check_size(size: tuple[int, int], bytes_given: int) -> None:
    """Raise GraphRuntimeError for a large image in a file so small that its header must be wrong, or meant to harm."""
    pixels = size[0] * size[1]
    if pixels > max(FEW_PIXELS, MOST_PIXELS_PER_BYTE * bytes_given):
        raise GraphRuntimeError(f"The image is too large: {size[0]} x {size[1]} pixels in {bytes_given} bytes.")


class Decode(TensorOperation):
    """Decode an image to uint8 of (H, W, 3) in RGB, or to a PIL image with `to_pil`.

    Takes bytes or an array of uint8 and one axis. Raises GraphTypeError for anything else, GraphRuntimeError for bytes
    that are no whole image.

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
        image = decoded(column)
        return image.copy() if self.to_pil else np.array(image)  # the copy knows no file


def encoded(column: object) -> Array:
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
    """The bytes of a file, uint8 of (N,); raises GraphValueError for a file that is not there.

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
    """The image in a file, uint8 of (H, W, C); raises GraphValueError or GraphRuntimeError where there is none.

    Examples:
        >>> import cv2
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> _ = cv2.imwrite("image.png", np.zeros((4, 6, 3), np.uint8))
        >>> vision.read_image("image.png").shape
        (4, 6, 3)
    """
    modes = {ImageReadMode.UNCHANGED: None, ImageReadMode.GRAYSCALE: "L", ImageReadMode.COLOR: "RGB"}
    image = decoded(read_file(filename), modes[choice("mode", mode, ImageReadMode)])
    image = image.convert("RGBA" if "transparency" in image.info else "RGB") if image.mode in ("P", "1") else image
    array = np.array(image)
    return array[:, :, None] if array.ndim == 2 else array
