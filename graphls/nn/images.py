"""Padding, resizing and cropping of images, and measures of their similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, number, positive, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.ops.network.images import linear, scaled_positions, weighted
from graphls.ops.operands import Sizes, float_of, tensor_of

__all__ = [
    "MSSSIM", "PSNR", "SSIM", "CentralCrop", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ImageGradients", "Pad",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ResizeBilinear", "ZeroPad2d",
]  # fmt: skip


_MODES = {"CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}


class Pad(Cell):
    """x with more elements around: `paddings` has a pair of numbers for each axis, the first axis first.

    The new ones are 0 with the mode "CONSTANT", the mirrored inside without the edge with "REFLECT" and with the edge
    with "SYMMETRIC". Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "paddings mode"

    def __init__(self, paddings: Sequence[Sequence[int]], mode: str = "CONSTANT") -> None:
        super().__init__()
        if not isinstance(paddings, (tuple, list)) or any(
            not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in paddings
        ):
            raise GraphTypeError(f"For 'Pad', the 'paddings' must be a pair for each axis, but got {paddings!r}.")
        if mode not in _MODES:
            raise GraphValueError(
                f"For 'Pad', the 'mode' must be one of {', '.join(map(repr, _MODES))}, but got {mode!r}.",
            )
        self.paddings, self.mode = tuple((first, last) for first, last in paddings), mode

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        if x.ndim != len(self.paddings):
            raise GraphValueError(f"Pad with {len(self.paddings)} pairs takes as many axes, not {x.type}.")  # fmt: skip
        return ops.pad(x, tuple(n for pair in self.paddings[::-1] for n in pair), _MODES[self.mode])


class _ImagePad(Cell):
    """Padding of the last axes: one number for all sides, or (before, after) for each axis, the last axis first."""

    _shown = "padding"
    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        name, count = type(self).__name__, 2 * self.axes
        sides: tuple[Any, ...] = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * count
        if len(sides) != count or any(isinstance(n, bool) or not isinstance(n, int) for n in sides):
            raise GraphTypeError(f"For {name!r}, the 'padding' must be an integer or {count}, but got {padding!r}.")
        self.padding = sides

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        if x.ndim not in self._ranks():
            ranks = " or ".join(map(str, self._ranks()))
            raise GraphValueError(f"{type(self).__name__} takes an input of rank {ranks}, not {x.type}.")  # fmt: skip
        return ops.pad(x, self.padding, self.mode, self.value)

    def _ranks(self) -> tuple[int, ...]:
        return self.axes + 1, self.axes + 2


class ConstantPad2d(_ImagePad):
    """x with a number around its last two axes; `padding` is an integer or (left, right, top, bottom).

    Negative numbers take elements away. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    _shown = "padding value"
    axes = 2

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise GraphTypeError(f"For {type(self).__name__!r}, the 'value' must be a number, but got {value!r}.")
        self.value = value

    def _ranks(self) -> tuple[int, ...]:
        return tuple(range(self.axes, 9))


class ConstantPad1d(ConstantPad2d):
    """x with a number at both ends of its last axis; `padding` is an integer or (left, right)."""

    axes = 1


class ConstantPad3d(ConstantPad2d):
    """x with a number around its last three axes; see ConstantPad2d."""

    axes = 3


class ZeroPad2d(_ImagePad):
    """Images with zeros around; `padding` is an integer or (left, right, top, bottom)."""

    axes = 2


class ReflectionPad1d(_ImagePad):
    """(N, C, L) or (C, L) with its mirrored inside, without the edge, at both ends; an integer or (left, right)."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(_ImagePad):
    """(N, C, H, W) or (C, H, W) with the mirrored inside around; an integer or (left, right, top, bottom)."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(_ImagePad):
    """(N, C, D, H, W) or (C, D, H, W) with the mirrored inside around; an integer or six."""

    axes, mode = 3, "reflect"


class ReplicationPad1d(_ImagePad):
    """(N, C, L) or (C, L) with its ends repeated; an integer or (left, right)."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(_ImagePad):
    """(N, C, H, W) or (C, H, W) with the edges repeated; an integer or (left, right, top, bottom)."""

    axes, mode = 2, "replicate"


class ReplicationPad3d(_ImagePad):
    """(N, C, D, H, W) or (C, D, H, W) with the edges repeated; an integer or six."""

    axes, mode = 3, "replicate"


class ResizeBilinear(Cell):
    """Images (N, C, H, W) resized to `size`, or by the integer `scale_factor`, between their four neighbours.

    A new pixel lies at position * old / new, with `half_pixel_centers` between the centres, and with `align_corners`
    where the corners stay. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    def __init__(self, half_pixel_centers: bool = False) -> None:
        super().__init__()
        self.half_pixel_centers = boolean("ResizeBilinear", "half_pixel_centers", half_pixel_centers)

    def construct(
        self, input: TensorLike, size: Sequence[int] | None = None, scale_factor: int | None = None,
        align_corners: bool = False,
    ) -> Tensor:  # fmt: skip
        x = float_of(input)
        if x.ndim != 4 or 0 in x.shape[2:]:
            raise GraphValueError(f"ResizeBilinear takes images with pixels of rank 4, not {x.type}.")
        if self.half_pixel_centers and align_corners:
            raise GraphValueError("ResizeBilinear with half_pixel_centers takes no 'align_corners'.")
        y = x
        for axis, count in enumerate(_sizes(x, size, scale_factor), 2):
            where = scaled_positions(x.shape[axis], count, align_corners, self.half_pixel_centers)
            y = weighted(y, axis, linear(where, x.shape[axis]))
        return y


def _sizes(x: Tensor, size: Sequence[int] | None, scale_factor: int | None) -> tuple[int, int]:
    if (size is None) == (scale_factor is None):
        raise GraphValueError("ResizeBilinear takes either a 'size' or a 'scale_factor'.")
    if size is None:
        factor = positive_int("ResizeBilinear", "scale_factor", scale_factor)
        return x.shape[2] * factor, x.shape[3] * factor
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise GraphTypeError(f"The 'size' of ResizeBilinear is two integers, not {size!r}.")
    return positive_int("ResizeBilinear", "size", size[0]), positive_int("ResizeBilinear", "size", size[1])


class ImageGradients(Cell):
    """The differences of pixels of (N, C, H, W) from the one above and from the one on the left, as a tuple.

    In place of that of the last row or column there is 0.
    """

    def construct(self, images: TensorLike) -> tuple[Tensor, Tensor]:
        x = _images("ImageGradients", images)
        below, right = (ops.diff(x, axis=axis) for axis in (2, 3))
        return ops.pad(below, (0, 0, 0, 1)), ops.pad(right, (0, 1))


class CentralCrop(Cell):
    """Crops images (C, H, W) or (N, C, H, W) to their centre, a fraction of each side.

    Raises GraphTypeError for a fraction that is not a float, GraphValueError for one outside of (0, 1] and other
    images.
    """

    _shown = "central_fraction"

    def __init__(self, central_fraction: float) -> None:
        super().__init__()
        if not isinstance(central_fraction, float):
            message = f"For 'CentralCrop', the 'central_fraction' must be float, but got {central_fraction!r}."
            raise GraphTypeError(message)
        if not 0 < central_fraction <= 1:
            message = f"For 'CentralCrop', the 'central_fraction' must be in (0, 1], but got {central_fraction}."
            raise GraphValueError(message)
        self.central_fraction = central_fraction

    def construct(self, image: TensorLike) -> Tensor:
        x = tensor_of(image)
        if x.ndim not in (3, 4):
            raise GraphValueError(f"CentralCrop takes images of rank 3 or 4, not {x.type}.")
        for axis in (-2, -1):
            start = int((x.shape[axis] - x.shape[axis] * self.central_fraction) / 2)
            x = ops.narrow(x, axis, start, x.shape[axis] - 2 * start)
        return x


def _images(name: str, images: TensorLike) -> Tensor:
    x = tensor_of(images)
    if x.ndim != 4 or 0 in x.shape:
        raise GraphValueError(f"{name} takes images with pixels of shape (N, C, H, W), not {x.type}.")
    return x


def _two_images(name: str, first: TensorLike, second: TensorLike, largest: float) -> tuple[Tensor, Tensor, float]:
    """Images and the largest value as float32; those of integers are shares of the largest integer."""
    x, y = _images(name, first), _images(name, second)
    if x.type != y.type:
        raise GraphTypeError(f"{name} takes images of one dtype and shape, not {x.type}, {y.type}.")
    share = 1.0 if x.dtype.is_float else 1 / float(np.iinfo(x.dtype.numpy).max)
    return ops.mul(ops.cast(x, float32), share), ops.mul(ops.cast(y, float32), share), largest * share


class PSNR(Cell):
    """The ratio of the square of `max_val` to the mean squared difference of images, in decibels: (N,).

    Images are (N, C, H, W) of one dtype; integers, and `max_val` with them, count as shares of their largest one.
    Computed in float32. Raises GraphTypeError and GraphValueError for other images and unless `max_val` is positive.
    """

    _shown = "max_val"

    def __init__(self, max_val: float = 1.0) -> None:
        super().__init__()
        self.max_val = positive("PSNR", "max_val", max_val)

    def construct(self, img1: TensorLike, img2: TensorLike) -> Tensor:
        x, y, largest = _two_images("PSNR", img1, img2, self.max_val)
        error = ops.mean(ops.square(ops.sub(x, y)), (1, 2, 3))
        return ops.mul(ops.log(ops.div(largest * largest, error)), 10 / float(np.log(10)))


class SSIM(Cell):
    """The structural similarity of images (Wang et al., 2004), averaged over windows and channels: (N,).

    Means, variances and covariance are those under a Gaussian window of `filter_size` pixels and deviation
    `filter_sigma`; images are taken as by PSNR, and at least as large as the window.
    """

    _shown = "max_val filter_size filter_sigma"

    def __init__(
        self, max_val: float = 1.0, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01,
        k2: float = 0.03,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        self.max_val = positive(name, "max_val", max_val)
        self.filter_size = positive_int(name, "filter_size", filter_size)
        self.filter_sigma = positive(name, "filter_sigma", filter_sigma)
        self.k1, self.k2 = number(name, "k1", k1), number(name, "k2", k2)

    def construct(self, img1: TensorLike, img2: TensorLike) -> Tensor:
        x, y, largest = _two_images("SSIM", img1, img2, self.max_val)
        return ops.mean(self.similarities(x, y, largest)[0], 1)

    def similarities(self, x: Tensor, y: Tensor, largest: float) -> tuple[Tensor, Tensor]:
        """The similarity of each channel (N, C), and its part that compares contrast and structure."""
        if min(x.shape[2:]) < self.filter_size:
            message = f"{type(self).__name__} with windows of {self.filter_size} takes larger images than {x.type}."
            raise GraphValueError(message)
        c1, c2 = (self.k1 * largest) ** 2, (self.k2 * largest) ** 2
        mean_x, mean_y = self._blurred(x), self._blurred(y)
        product, squares = ops.mul(mean_x, mean_y), ops.add(ops.square(mean_x), ops.square(mean_y))
        covariance = ops.sub(self._blurred(ops.mul(x, y)), product)
        variances = ops.sub(self._blurred(ops.add(ops.square(x), ops.square(y))), squares)
        contrast = ops.div(ops.add(ops.mul(covariance, 2.0), c2), ops.add(variances, c2))
        luminance = ops.div(ops.add(ops.mul(product, 2.0), c1), ops.add(squares, c1))
        return ops.mean(ops.mul(luminance, contrast), (2, 3)), ops.mean(contrast, (2, 3))

    def _blurred(self, x: Tensor) -> Tensor:
        """The means under a Gaussian window of each channel alone, by rows and then by columns."""
        positions = np.arange(-self.filter_size // 2 + 1, self.filter_size // 2 + 1)
        weights = np.exp(-(positions**2) / (2 * self.filter_sigma**2))
        kernel = Tensor((weights / weights.sum()).reshape(1, 1, -1, 1), float32)
        rows = ops.conv2d(ops.reshape(x, (-1, 1, *x.shape[2:])), kernel)
        blurred = ops.conv2d(rows, ops.swapaxes(kernel, 2, 3))
        return ops.reshape(blurred, (*x.shape[:2], *blurred.shape[2:]))


class MSSSIM(SSIM):
    """The structural similarity of images at several scales, each half as large as the one before (Wang et al., 2003).

    The product, over the scales, of contrast and structure to a power each, at the last scale of the whole similarity;
    negative ones count as 0. Otherwise as SSIM; images are large enough for the window at every scale.
    """

    def __init__(
        self, max_val: float = 1.0, power_factors: Sequence[float] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
        filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03,
    ) -> None:  # fmt: skip
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        if not isinstance(power_factors, (tuple, list)) or not power_factors:
            message = f"For 'MSSSIM', the 'power_factors' must be numbers in a tuple, but got {power_factors!r}."
            raise GraphTypeError(message)
        self.power_factors = tuple(number("MSSSIM", "power_factors", factor) for factor in power_factors)

    def construct(self, img1: TensorLike, img2: TensorLike) -> Tensor:
        x, y, largest = _two_images("MSSSIM", img1, img2, self.max_val)
        total: Any = 1.0
        for level, power in enumerate(self.power_factors, 1):
            is_last = level == len(self.power_factors)
            similarity = self.similarities(x, y, largest)[0 if is_last else 1]
            total = ops.mul(ops.pow(ops.relu(similarity), power), total)
            if not is_last:
                x, y = (ops.avg_pool2d(image, 2, 2) for image in (x, y))
        return ops.mean(total, 1)
