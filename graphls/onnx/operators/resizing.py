"""Resize and Upsample: each axis of an image is multiplied by a constant matrix of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.operators.conversion import check_size
from graphls.onnx.table import operator
from graphls.onnx.values import Floats, Input, Ints, axes_of, integers
from graphls.ops.network.images import picked
from graphls.ops.operands import tensor_of


@dataclass(frozen=True)
class Settings:
    """The attributes of Resize."""

    mode: str = "nearest"
    positions: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    excludes: bool = False
    filters: bool = False
    outside: float = 0.0


@dataclass(frozen=True)
class Axis:
    """The resizing of one axis: its old and new size, the factor between them, and the part of it that is sampled."""

    size: int
    count: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def positions(self, kind: str) -> Array:
        """The coordinates of the new elements among the old ones."""
        n, count, steps = self.size, self.count, np.arange(self.count)
        if kind == "asymmetric":
            return np.asarray(steps / self.scale)
        if kind == "align_corners":
            return np.asarray(steps * ((n - 1) / (count - 1) if count > 1 else 0.0))
        if kind == "tf_half_pixel_for_nn":
            return np.asarray((steps + 0.5) / self.scale)
        if kind == "tf_crop_and_resize":
            step = (self.end - self.start) * (n - 1) / (count - 1) if count > 1 else 0.0
            first = self.start if count > 1 else 0.5 * (self.start + self.end)
            return np.asarray(first * (n - 1) + steps * step)
        middle = (steps + 0.5) / self.scale - 0.5
        if kind == "half_pixel_symmetric":
            return np.asarray(n / 2 * (1 - count / (self.scale * n)) + middle)
        if kind == "pytorch_half_pixel" and count == 1:
            return np.zeros(1)
        if kind not in ("half_pixel", "pytorch_half_pixel"):
            raise GraphValueError(f"the coordinate_transformation_mode {kind!r} is not known.")
        return np.asarray(middle)


_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@operator("Resize", since=11, known=(1, 2, 3))
def resize(
    x: Input, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None, *, antialias: int = 0,
    axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    settings = Settings(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias),
        extrapolation_value,
    )  # fmt: skip
    x = tensor_of(x)
    chosen = axes_of(range(x.ndim) if axes is None else axes, x.ndim)
    factors = None if scales is None or not np.size(scales) else [float(s) for s in scales]
    targets = None if sizes is None or not np.size(sizes) else list(integers(sizes))
    old = [x.shape[axis] for axis in chosen]
    new, factors = _sizes(old, factors, targets, keep_aspect_ratio_policy)
    is_cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    if is_cropped and roi is None:
        raise GraphValueError("it has no roi to crop to.")
    region = [float(r) for r in roi] if is_cropped and roi is not None else []
    parts = [(region[i], region[len(old) + i]) if region else (0.0, 1.0) for i in range(len(old))]
    described = [
        Axis(size, count, factor, *part) for size, count, factor, part in zip(old, new, factors, parts, strict=True)
    ]
    return resized(x, chosen, described, settings)


def _sizes(
    old: list[int], factors: list[float] | None, targets: list[int] | None, policy: str
) -> tuple[list[int], list[float]]:
    """The new sizes and the factors, of which the model gives either."""
    if targets is None:
        if factors is None:
            raise GraphValueError("it has neither scales nor sizes.")
        return [int(np.floor(n * s)) for n, s in zip(old, factors, strict=True)], factors
    exact = [target / n for target, n in zip(targets, old, strict=True)]
    if policy == "stretch":
        return targets, exact
    factor = min(exact) if policy == "not_larger" else max(exact)
    return [int(np.floor(factor * n + 0.5)) for n in old], [factor] * len(old)


@operator("Resize", known=(1,))
def resize_10(x: Input, scales: Array, *, mode: str = "nearest") -> Tensor:
    return _by_scales(x, scales, mode)


@operator("Upsample")
def upsample_7(x: Input, *, scales: Floats, mode: str = "nearest") -> Tensor:
    return _by_scales(x, scales, mode)


@operator("Upsample", since=9, known=(1,))
def upsample(x: Input, scales: Array, *, mode: str = "nearest") -> Tensor:
    return _by_scales(x, scales, mode)


def _by_scales(x: Input, scales: Floats | Array, mode: str) -> Tensor:
    """The definition before version 11: asymmetric coordinates, and as nearest the one below, above to shrink."""
    x, axes = tensor_of(x), []
    for n, s in zip(x.shape, scales, strict=True):
        axes.append(Axis(n, int(np.floor(n * float(s))), float(s)))
    for i, axis in enumerate(axes):
        settings = Settings(mode.replace("bilinear", "linear"), "asymmetric", "ceil" if axis.scale < 1 else "floor")
        x = resized(x, [i], [axis], settings)
    return x


def resized(x: Tensor, numbers: Sequence[int], axes: Sequence[Axis], settings: Settings) -> Tensor:
    """x with some axes resized."""
    dtype, outside = x.dtype, None
    for number, axis in zip(numbers, axes, strict=True):
        check_size(axis.count, axis.size if settings.mode != "nearest" else 1)
        positions = axis.positions(settings.positions)
        if settings.positions == "tf_crop_and_resize":
            beyond = (positions < 0) | (positions > axis.size - 1)
            column = beyond.reshape([-1 if i == number else 1 for i in range(x.ndim)])
            outside = column if outside is None else outside | column
        if (axis.size, axis.scale) == (axis.count, 1.0) and np.array_equal(positions, np.arange(axis.count)):
            continue
        x = _along(x, number, axis, positions, settings)
    if outside is not None and outside.any():
        x = ops.where(Tensor(np.broadcast_to(outside, x.shape)), ops.cast(settings.outside, x.dtype), x)
    return ops.cast(x, dtype)


def _along(x: Tensor, number: int, axis: Axis, positions: Array, settings: Settings) -> Tensor:
    if settings.mode == "nearest":
        nearest = np.clip(_ROUNDINGS[settings.nearest](positions), 0, axis.size - 1).astype(np.int64)
        return picked(x, number, nearest)
    x = x if x.dtype.is_float else ops.cast(x, "float32")
    weights = Tensor(_weights(axis, positions, settings).astype(x.dtype.numpy))
    return ops.movedim(ops.matmul(ops.movedim(x, number, -1), ops.transpose(weights)), -1, number)


def _weights(axis: Axis, positions: Array, settings: Settings) -> Array:
    """The weight of each old element in each new one."""
    reach = 1 if settings.mode == "linear" else 2
    shrink = min(axis.scale, 1.0) if settings.filters else 1.0
    first = int(np.floor(-reach / shrink)) + 1
    low = np.ceil(positions) - 1
    steps = np.arange(first, 2 - first)
    at = low[:, None] + steps
    distance = np.abs(at - positions[:, None]) * shrink
    share = np.clip(1 - distance, 0, 1) if settings.mode == "linear" else _keys(distance, settings.cubic)
    if settings.excludes:
        share = np.where((at < 0) | (at > axis.size - 1), 0.0, share)
    if settings.excludes or settings.filters:
        share = share / share.sum(1, keepdims=True)
    weights = np.zeros((len(positions), axis.size))
    rows = np.broadcast_to(np.arange(len(positions))[:, None], at.shape)
    np.add.at(weights, (rows, np.clip(at, 0, axis.size - 1).astype(np.int64)), share)
    return weights


def _keys(d: Array, a: float) -> Array:
    """The cubic convolution kernel of Keys (1981)."""
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
