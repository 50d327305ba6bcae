"""Adaptive pooling, to a given output size.

Window i of n along an axis of m elements covers those from floor(i * m / n) to ceil((i + 1) * m / n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from graphls.base.checks import Check, boolean
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import int32
from graphls.ops.arrays.shapes import gather
from graphls.ops.math.elementwise import cast, mod, where
from graphls.ops.math.reductions import mean, sum
from graphls.ops.network.pooling import batched
from graphls.ops.operands import OutputSizes, ShapeLike, apply, shape_of
from graphls.ops.record import by_axes, cell, operator_class

Array = np.ndarray[Any, Any]


def check_output_size(output_size: OutputSizes, axes: int) -> tuple[int | None, ...]:
    """One size, or one for each axis, of 1 or more; None keeps the size of the image.

    Raises GraphTypeError or GraphValueError for anything else.
    """
    sizes: tuple[int | None, ...]
    sizes = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * axes  # type: ignore[assignment]
    if len(sizes) != axes or any(isinstance(n, bool) or not isinstance(n, (int, type(None))) for n in sizes):
        raise GraphTypeError(f"The 'output_size' is an integer, or {axes}, not {output_size!r}.")
    if any(n is not None and n < 1 for n in sizes):
        raise GraphValueError(f"The 'output_size' is 1 or more, not {output_size!r}.")
    return sizes


def _checks(axes: int) -> dict[str, Check]:
    """The checks of the settings of a cell."""
    return {"output_size": lambda cell, name, value: check_output_size(value, axes), "return_indices": boolean}


@by_axes(1, 2, 3, also="mint.nn.functional")
def adaptive_avg_pool(axes: int) -> Callable[..., Tensor]:
    """Average pooling of {images} (N, C, {sizes}) or (C, {sizes}) to a given size.

    `output_size` is an integer, or one for each axis, where None keeps the size of the image. Windows overlap where
    sizes do not divide. Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    name = f"adaptive_avg_pool{axes}d"

    def pooled(input: TensorLike, output_size: OutputSizes) -> Tensor:
        sizes = check_output_size(output_size, axes)

        def pool(x: Tensor) -> Tensor:
            targets = _target_sizes(name, x, sizes)
            if set(targets) == {1}:
                return mean(x, tuple(range(2, x.ndim)), keepdims=True)
            # Axes whose sizes divide take a plain pool; the windows of others differ in length, and are gathered.
            even = tuple(m // n if m % n == 0 else 1 for m, n in zip(x.shape[2:], targets, strict=True))
            if max(even) > 1:
                x = apply("avg_pool", x, kernel=even, strides=even)
            for axis, size in enumerate(targets, 2):
                x = x if x.shape[axis] == size else _averaged(x, axis, size)
            return x

        return batched(name, axes, input, pool)

    return pooled


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = adaptive_avg_pool
operator_class("AdaptiveAvgPool2D", "output_size")(adaptive_avg_pool2d)
operator_class("AdaptiveAvgPool3D", "output_size")(adaptive_avg_pool3d)
for _axes, _function in enumerate(adaptive_avg_pool, start=1):
    cell(f"AdaptiveAvgPool{_axes}d", "output_size", checks=_checks(_axes), shown="output_size")(_function)


def _target_sizes(name: str, x: Tensor, sizes: Sequence[int | None]) -> tuple[int, ...]:
    if 0 in x.shape[2:]:
        raise GraphValueError(f"{name} takes images with elements, not {x.type}.")
    return tuple(m if n is None else n for m, n in zip(x.shape[2:], sizes, strict=True))


def _windows(size: int, count: int) -> tuple[Array, Array]:
    """The positions of `count` windows over an axis, padded with their first ones, and a mask without the padding."""
    starts = np.arange(count) * size // count
    stops = -(-(np.arange(count) + 1) * size // count)
    positions = starts[:, None] + np.arange((stops - starts).max())
    inside = positions < stops[:, None]
    return np.where(inside, positions, starts[:, None]), inside


def _averaged(x: Tensor, axis: int, count: int) -> Tensor:
    """The means of windows along one axis, by gathering their elements."""
    positions, inside = _windows(x.shape[axis], count)
    patches = gather(x, Tensor(positions), axis)
    after = (1,) * (x.ndim - axis - 1)
    masked = where(Tensor(inside.reshape(*inside.shape, *after)), patches, 0.0)
    shares = Tensor((1 / inside.sum(axis=1)).reshape(-1, *after).astype(x.dtype.numpy), x.dtype)
    return sum(masked, axis + 1) * shares


@by_axes(1, 2, 3)
def adaptive_max_pool(axes: int) -> Callable[..., Any]:
    """Maximum pooling of {images} (N, C, {sizes}) or (C, {sizes}) to a given size.

    Sizes are as in `adaptive_avg_pool2d`. With `return_indices` also the int64 position of each element in its image,
    counted in row-major order; the gradient goes to that element.
    """
    name = f"adaptive_max_pool{axes}d"

    def pooled(input: TensorLike, output_size: OutputSizes, return_indices: bool = False) -> Any:
        sizes = check_output_size(output_size, axes)

        def pool(x: Tensor) -> Any:
            every = [_windows(m, n)[0] for m, n in zip(x.shape[2:], _target_sizes(name, x, sizes), strict=True)]
            kernel = tuple(positions.shape[1] for positions in every)
            patches, origin = x, np.arange(prod(x.shape[2:])).reshape(x.shape[2:])
            for axis, positions in enumerate(every, 2):
                if positions.size != x.shape[axis]:
                    patches = gather(patches, Tensor(positions.reshape(-1)), axis)
                origin = np.take(origin, positions.reshape(-1), axis - 2)
            y, positions_in_windows = dispatch.apply("max_pool", patches, kernel=kernel, strides=kernel)
            if not return_indices:
                return y
            return y, gather(Tensor(origin.reshape(-1)), mod(positions_in_windows, origin.size), 0)

        return batched(name, axes, input, pool)

    return pooled


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = adaptive_max_pool
for _axes, _function in enumerate(adaptive_max_pool, start=1):
    _settings = "output_size return_indices"
    cell(f"AdaptiveMaxPool{_axes}d", _settings, checks=_checks(_axes), shown="output_size")(_function)


@operator_class("AdaptiveMaxPool2D", "output_size", like=adaptive_max_pool2d)
def _largest_operator(x: TensorLike, output_size: OutputSizes) -> tuple[Tensor, Tensor]:
    y, positions = adaptive_max_pool2d(x, output_size, return_indices=True)
    return y, positions


@operator_class("AdaptiveMaxPool3D", like=adaptive_max_pool3d)
def _largest_of_volumes(x: TensorLike, output_size: ShapeLike) -> tuple[Tensor, Tensor]:
    y, positions = adaptive_max_pool3d(x, shape_of(output_size), return_indices=True)
    return y, cast(positions, int32)
