"""Maximum pooling undone: the elements at their places, and zeros elsewhere."""

from __future__ import annotations

from math import prod
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import int32, int64
from graphls.ops.creation import zeros
from graphls.ops.joins import replaced_elements
from graphls.ops.operands import shape_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import check_range, reshape
from graphls.ops.windows import Sizes, check_axes, sizes_of
from graphls.tensors.tensor import Tensor


@operation
def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The elements of (N, C, L) or (C, L) at the places that `max_pool1d` found them; see `max_unpool2d`."""
    return _unpooled("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


@operation
def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The elements of images (N, C, H, W) or (C, H, W) at the places that `max_pool2d` found them, zeros elsewhere.

    `indices` count the places in the result in row-major order; of several for one place the last stays. A size becomes
    (size - 1) * stride - 2 * padding + kernel, or what `output_size` says, which is at most a stride away; it may also
    begin with the sizes of batch and channels. Raises GraphTypeError and GraphValueError for arguments that do not fit,
    GraphIndexError for an index that is known and out of range.
    """
    return _unpooled("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


@operation
def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The elements of (N, C, D, H, W) or (C, D, H, W) at the places that `max_pool3d` found; see `max_unpool2d`."""
    return _unpooled("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


def _unpooled(
    name: str, axes: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    x, places = tensor_of(x), tensor_of(indices)
    check_axes(name, x, axes, unbatched=True)
    if places.dtype not in (int32, int64):
        raise GraphTypeError(f"{name} takes int32 or int64 indices, not {places.type}.")
    if places.shape != x.shape:
        raise GraphValueError(f"{name} takes indices of the shape {x.shape}, not {places.type}.")
    kernel, strides, pads = window_sizes(kernel_size, stride, padding, axes)
    outer, sizes = x.shape[:-axes], _sizes(name, x.shape, kernel, strides, pads, output_size)
    rows = prod(outer)
    background = zeros((rows, prod(sizes)), x.dtype)
    flat = [reshape(t, (rows, prod(x.shape[-axes:]))) for t in (places, x)]
    check_range(background, flat[0], 1)
    found = replaced_elements(background, flat[0], flat[1], 1) if x.size else background
    return reshape(found, (*outer, *sizes))


def window_sizes(kernel_size: Any, stride: Any, padding: Any, axes: int) -> tuple[Sizes, Sizes, Sizes]:
    """Kernel, stride and padding for each axis; a stride of None or 0 is the kernel.

    Raises GraphTypeError or GraphValueError for anything but integers of a fitting size.
    """
    kernel = sizes_of("kernel_size", kernel_size, axes)
    is_kernel = stride is None or stride in (0, (0,) * axes, [0] * axes)
    pads = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * axes
    if len(pads) != axes or any(isinstance(n, bool) or not isinstance(n, int) for n in pads):
        raise GraphTypeError(f"The 'padding' is one integer or {axes}, not {padding!r}.")
    if min(pads) < 0:
        raise GraphValueError(f"The 'padding' is 0 or more, not {padding!r}.")
    return kernel, kernel if is_kernel else sizes_of("stride", stride, axes), pads


def _sizes(name: str, shape: Sizes, kernel: Sizes, strides: Sizes, pads: Sizes, output_size: Any) -> Sizes:
    axes = len(kernel)
    usual = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(shape[-axes:], strides, pads, kernel, strict=True))
    given = shape_of(() if output_size is None else output_size)
    sizes = given[-axes:] or usual
    is_near = len(sizes) == axes and all(abs(n - u) <= s for n, u, s in zip(sizes, usual, strides, strict=True))
    if not is_near or given[:-axes] not in ((), shape[:-axes]) or min(sizes) < 1:
        message = f"{name} makes the sizes {usual} of {shape}, or others a stride away at most, not {output_size}."
        raise GraphValueError(message)
    return sizes
