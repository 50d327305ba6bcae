"""The base of image operations, on arrays of (H, W) or (H, W, C) and PIL images, and checks of images."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.base.reporting import load_package
from graphls.dataset.checks import probability, type_error
from graphls.dataset.randomness import generator
from graphls.dataset.transforms.operations import TensorOperation, as_column

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

    Subclasses define `on_array`, and `on_pil` where the result for a PIL image is one; else it becomes an array.
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
    """Another operation with a probability; else the image is unchanged."""

    operation: ImageOperation

    def __init__(self, prob: float = 0.5) -> None:
        self.prob = probability("prob", prob)

    def check(self, image: Array) -> None:
        """Raise GraphRuntimeError for an array that is not an image, whether the operation happens or not."""
        check_image(self, image)

    def happens(self) -> bool:
        """Draw for an image whether the operation happens."""
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
    subject = "Images are read and changed by Pillow, which"
    module: ModuleType = load_package(f"PIL.{name}", subject, 'pip install "graphls[train]"')
    return module


def is_pil(image: object) -> bool:
    """Returns whether an object is an image of Pillow."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(image).__mro__)


def wrong_shape(operation: object, image: Array, expected: str) -> GraphRuntimeError:
    """The error for an image with another shape or dtype than an operation takes."""
    actual = f"an array of {image.dtype} and shape {image.shape}"
    is_file = image.dtype == np.uint8 and image.ndim == 1
    advice = "; vision.Decode(), or decode=True of the dataset, makes an image of a file's bytes" if is_file else ""
    return GraphRuntimeError(f"{type(operation).__name__} takes {expected}, not {actual}{advice}.")


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
    """Values in another dtype; for integers, rounded to the nearest (ties to even) and clipped to its range."""
    if np.dtype(dtype).kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(values), limits.min, limits.max).astype(dtype))
