"""Resize and Upsample: each axis of an image is a product with weights that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.conversion import check_size
from graphls.onnx.table import operator
from graphls.onnx.values import Array, integers, places_of
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
    """How one axis is resized: its old and new size, the factor between them, and the part of it that is shown."""

    size: int
    count: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def places(self, kind: str) -> Array:
        """Where the new elements lie among the old ones."""
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
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    settings = Settings(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias),
        extrapolation_value,
    )  # fmt: skip
    x = tensor_of(x)
    chosen = places_of(range(x.ndim) if axes is None else axes, x.ndim)
    factors = None if scales is None or not np.size(scales) else [float(s) for s in scales]
    wanted = None if sizes is None or not np.size(sizes) else list(integers(sizes))
    old = [x.shape[axis] for axis in chosen]
    new, factors = _sizes(old, factors, wanted, keep_aspect_ratio_policy)
    shown = [float(r) for r in roi] if coordinate_transformation_mode == "tf_crop_and_resize" else []
    parts = [(shown[i], shown[len(old) + i]) if shown else (0.0, 1.0) for i in range(len(old))]
    described = [
        Axis(size, count, factor, *part) for size, count, factor, part in zip(old, new, factors, parts, strict=True)
    ]
    return resized(x, chosen, described, settings)


def _sizes(
    old: list[int], factors: list[float] | None, wanted: list[int] | None, policy: str
) -> tuple[list[int], list[float]]:
    """The new sizes and the factors, by either of them."""
    if wanted is None:
        if factors is None:
            raise GraphValueError("it has neither scales nor sizes.")
        return [int(np.floor(n * s)) for n, s in zip(old, factors, strict=True)], factors
    exact = [w / n for w, n in zip(wanted, old, strict=True)]
    if policy == "stretch":
        return wanted, exact
    factor = min(exact) if policy == "not_larger" else max(exact)
    return [int(np.floor(factor * n + 0.5)) for n in old], [factor] * len(old)


@operator("Resize", known=(1,))
def resize_10(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return _by_scales(x, scales, mode)


@operator("Upsample")
def upsample_7(x: Any, *, scales: Any, mode: str = "nearest") -> Any:
    return _by_scales(x, scales, mode)


@operator("Upsample", since=9, known=(1,))
def upsample(x: Any, scales: Any, *, mode: str = "nearest") -> Any:
    return _by_scales(x, scales, mode)


def _by_scales(x: Any, scales: Any, mode: str) -> Any:
    """What these operators were before version 11: by positions times the scale, the nearest below, above to shrink."""
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
        places = axis.places(settings.positions)
        if settings.positions == "tf_crop_and_resize":
            beyond = (places < 0) | (places > axis.size - 1)
            column = beyond.reshape([-1 if i == number else 1 for i in range(x.ndim)])
            outside = column if outside is None else outside | column
        if (axis.size, axis.scale) == (axis.count, 1.0) and np.array_equal(places, np.arange(axis.count)):
            continue
        x = _along(x, number, axis, places, settings)
    if outside is not None and outside.any():
        x = ops.where(Tensor(np.broadcast_to(outside, x.shape)), ops.cast(settings.outside, x.dtype), x)
    return ops.cast(x, dtype)


def _along(x: Tensor, number: int, axis: Axis, places: Array, settings: Settings) -> Tensor:
    if settings.mode == "nearest":
        nearest = np.clip(_ROUNDINGS[settings.nearest](places), 0, axis.size - 1).astype(np.int64)
        return picked(x, number, nearest)
    x = x if x.dtype.is_float else ops.cast(x, "float32")
    weights = Tensor(_weights(axis, places, settings).astype(x.dtype.numpy))
    return ops.movedim(ops.matmul(ops.movedim(x, number, -1), ops.transpose(weights)), -1, number)


def _weights(axis: Axis, places: Array, settings: Settings) -> Array:
    """How much of each old element is in each new one."""
    reach = 1 if settings.mode == "linear" else 2
    shrink = min(axis.scale, 1.0) if settings.filters else 1.0
    first = int(np.floor(-reach / shrink)) + 1
    low = np.ceil(places) - 1
    steps = np.arange(first, 2 - first)
    at = low[:, None] + steps
    distance = np.abs(at - places[:, None]) * shrink
    share = np.clip(1 - distance, 0, 1) if settings.mode == "linear" else _keys(distance, settings.cubic)
    if settings.excludes:
        share = np.where((at < 0) | (at > axis.size - 1), 0.0, share)
    if settings.excludes or settings.filters:
        share = share / share.sum(1, keepdims=True)
    weights = np.zeros((len(places), axis.size))
    rows = np.broadcast_to(np.arange(len(places))[:, None], at.shape)
    np.add.at(weights, (rows, np.clip(at, 0, axis.size - 1).astype(np.int64)), share)
    return weights


def _keys(d: Array, a: float) -> Array:
    """The cubic of Keys (1981)."""
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
