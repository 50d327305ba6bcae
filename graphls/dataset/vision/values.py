"""Normalization of pixel values, and conversions between layouts, dtypes, arrays and PIL images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset.checks import DTypeLike, boolean, dtype, number, sequence, string, type_error
from graphls.dataset.transforms.operations import TypeCast
from graphls.dataset.vision.image import Array, ImageOperation, PilImage, check_image, is_pil, pillow, wrong_shape
from graphls.dataset.vision.opencv import scaled

__all__ = [
    "HWC2CHW", "LinearTransformation", "Normalize", "NormalizePad", "Rescale", "ToNumpy", "ToPIL", "ToTensor", "ToType",
]  # fmt: skip


class Rescale(ImageOperation):
    """image * rescale + shift, float32 of the same shape; raises GraphTypeError for anything but a number.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Rescale(1 / 255, 0.0)(image)[0, 0].round(2)
        array([0.39, 0.39, 0.39], dtype=float32)
    """

    def __init__(self, rescale: float, shift: float) -> None:
        self.rescale, self.shift = number("rescale", rescale), number("shift", shift)

    def on_array(self, image: Array) -> Array:
        return scaled(image, self.rescale, self.shift)


class Normalize(ImageOperation):
    """(image - mean) / std by channel, float32 of the same shape; `mean` and `std` have one number for each, or one.

    Takes (..., H, W, C) or (H, W), or with `is_hwc=False` (..., C, H, W), or a PIL image. The numbers of `mean` are in
    [0, 255], those of `std` in (0, 255]. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.Normalize([100.0] * 3, [50.0] * 3)(image)[0, 0]
        array([0., 0., 0.], dtype=float32)
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], is_hwc: bool = True) -> None:
        self.mean, self.std = _channels("mean", mean), _channels("std", std)
        if len(self.mean) != len(self.std):
            raise GraphValueError(f"mean and std have the same length, not {len(self.mean)} and {len(self.std)}.")
        if min(self.std) == 0:
            raise GraphValueError("Input std is not within the required interval of (0, 255].")
        self.is_hwc = boolean("is_hwc", is_hwc)

    def on_array(self, image: Array) -> Array:
        check_image(self, image, more=True)
        channels = 1 if image.ndim == 2 else image.shape[-1 if self.is_hwc else -3]
        if len(self.mean) not in (1, channels):
            raise wrong_shape(self, image, f"an image of {len(self.mean)} channels")
        rows, count = image, 1
        if self.is_hwc and len(self.mean) > 1:  # by rows of pixels: NumPy is slow with few numbers at a time
            rows, count = image.reshape(*image.shape[:-2], image.shape[-2] * channels), image.shape[-2]
        mean, std = _repeated(self.mean, count), _repeated(self.std, count)
        if not self.is_hwc and image.ndim > 2:
            mean, std = mean[:, None, None], std[:, None, None]
        result = rows.astype(np.float32, order="C")
        result -= mean
        result /= std
        return result.reshape(image.shape)


@lru_cache(maxsize=256)
def _repeated(values: tuple[float, ...], count: int) -> Array:
    return np.tile(np.array(values, np.float32), count)


class NormalizePad(Normalize):
    """`Normalize` of an image, then one channel of zeros more; `dtype` is "float32" or "float16".

    Raises GraphValueError for another `dtype`.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.NormalizePad([100.0] * 3, [50.0] * 3)(image)[0, 0]
        array([0., 0., 0., 0.], dtype=float32)
    """

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], dtype: str = "float32", is_hwc: bool = True
    ) -> None:
        super().__init__(mean, std, is_hwc)
        if string("dtype", dtype) not in ("float32", "float16"):
            raise GraphValueError(f'dtype is "float32" or "float16", not {dtype!r}.')
        self.dtype = np.dtype(dtype)

    def on_array(self, image: Array) -> Array:
        normal, axis = super().on_array(image), -1 if self.is_hwc else -3
        normal = normal[(..., None) if self.is_hwc else (None,)] if image.ndim == 2 else normal
        shape = list(normal.shape)
        shape[axis] += 1
        result = np.zeros(shape, self.dtype)
        for plane, values in zip(np.moveaxis(result, axis, 0), np.moveaxis(normal, axis, 0), strict=False):
            plane[...] = values  # one by one: NumPy is slow with few numbers at a time
        return result


def _channels(name: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)):
        raise type_error(name, value, "a list or tuple")
    if not value:
        raise GraphValueError(f"{name} has one number for each channel, not none.")
    return sequence(name, value, [len(value)], lambda part, item: number(part, item, 0, 255))


class HWC2CHW(ImageOperation):
    """An image of (H, W, C) as (C, H, W); (H, W) stays as it is. Raises GraphRuntimeError for other shapes.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.HWC2CHW()(image).shape
        (3, 4, 6)
    """

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        return np.ascontiguousarray(image.transpose(2, 0, 1)) if image.ndim == 3 else image


class ToTensor(ImageOperation):
    """An image of (H, W, C) or (H, W), divided by 255, as (C, H, W) of `output_type`.

    Raises GraphTypeError, and GraphRuntimeError for other shapes.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.ToTensor()(image).shape
        (3, 4, 6)
    """

    def __init__(self, output_type: DTypeLike = np.float32) -> None:
        self.output_type = dtype("output_type", output_type)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        image = image[:, :, None] if image.ndim == 2 else image
        scaled = image.transpose(2, 0, 1).astype(np.float32, order="C") * np.float32(1 / 255)
        return np.asarray(scaled, self.output_type)


class ToNumpy(ImageOperation):
    """A PIL image as an array.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.ToNumpy()(image).shape
        (4, 6, 3)
    """

    def on_array(self, image: Array) -> Array:
        return np.array(image)


class ToPIL(ImageOperation):
    """An array as a PIL image: uint8 of (H, W, 2 to 4), or one channel of (H, W) or (H, W, 1).

    Raises GraphTypeError for another dtype, GraphValueError for another shape.

    Raises GraphRuntimeError where Pillow is not installed.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.ToPIL()(image).size
        (6, 4)
    """

    def prepare(self, column: object) -> Any:
        if not is_pil(column) and not isinstance(column, np.ndarray):
            raise type_error("image", column, "an array or a PIL image")
        return column

    def on_array(self, image: Array) -> Any:
        if image.ndim not in (2, 3) or (image.ndim == 3 and not 1 <= image.shape[2] <= 4):
            raise GraphValueError(f"A PIL image has the shape (H, W) or (H, W, 1 to 4), not {image.shape}.")
        image = image[:, :, 0] if image.ndim == 3 and image.shape[2] == 1 else image
        if image.ndim == 3 and image.dtype != np.uint8:
            raise GraphTypeError(f"A PIL image of colors has uint8, not {image.dtype}.")
        try:
            return pillow().fromarray(np.ascontiguousarray(image))
        except TypeError:
            raise GraphTypeError(f"There is no PIL image of {image.dtype}.") from None

    def on_pil(self, image: PilImage) -> Any:
        return image


class ToType(TypeCast):
    """The image in another dtype, as one of graphls or NumPy or by its name.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.ToType(np.float32)(image).dtype
        dtype('float32')
    """

    def __init__(self, data_type: DTypeLike) -> None:
        super().__init__(data_type)


class LinearTransformation(ImageOperation):
    """(image.flatten() - mean_vector) @ transformation_matrix, in the image's shape, such as whitening.

    `transformation_matrix` is (D, D), `mean_vector` (D,), D the number of the image's elements. Raises GraphTypeError
    for anything but an array, GraphValueError for shapes that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.ones((2, 2, 1))
        >>> vision.LinearTransformation(np.eye(4), np.ones(4))(image).shape
        (2, 2, 1)
    """

    def __init__(self, transformation_matrix: Array, mean_vector: Array) -> None:
        for name, value in (("transformation_matrix", transformation_matrix), ("mean_vector", mean_vector)):
            if not isinstance(value, np.ndarray):
                raise type_error(name, value, "an array")
        if transformation_matrix.ndim != 2 or len(set(transformation_matrix.shape)) != 1:
            raise GraphValueError(f"transformation_matrix is square, not {transformation_matrix.shape}.")
        if mean_vector.shape != transformation_matrix.shape[:1]:
            raise GraphValueError(
                f"mean_vector has the shape {transformation_matrix.shape[:1]}, not {mean_vector.shape}."
            )
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def on_array(self, image: Array) -> Array:
        if image.size != len(self.mean_vector):
            text = f"LinearTransformation of {len(self.mean_vector)} elements takes no image of {image.shape}."
            raise GraphValueError(text)
        return np.asarray((image.reshape(-1) - self.mean_vector) @ self.transformation_matrix).reshape(image.shape)
