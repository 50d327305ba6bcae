"""Functions of `mindspore.numpy` composed of `graphls.ops`: rounding, sums, statistics and polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from graphls import ops
from graphls.base.reporting import guard_functions
from graphls.compat.numpy.functions import ravel
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike
from graphls.ops.operands import Axis, Operand, float_of, tensor_of

__all__ = [
    "average", "cbrt", "convolve", "corrcoef", "correlate", "cov", "cross", "divmod", "ediff1d", "fabs", "fix",
    "float_power", "gradient", "interp", "multi_dot", "nancumsum", "nanmax", "nanmin", "nanstd", "nansum", "nanvar",
    "polyadd", "polyder", "polyint", "polymul", "polysub", "polyval", "ptp", "radians", "rint", "trapz", "unwrap",
]  # fmt: skip


def _in(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    return x if dtype is None else ops.cast(x, dtype)


def average(x: TensorLike, axis: Axis = None, weights: TensorLike | None = None, returned: bool = False) -> Any:
    """The mean, weighted if there are weights, and with `returned` the sum of the weights."""
    x = float_of(x)
    along = tensor_of(1.0 if weights is None else weights)
    if isinstance(axis, int) and along.ndim == 1 and x.ndim > 1:
        along = ops.reshape(along, tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim)))
    along = ops.broadcast_to(ops.cast(along, x.dtype), x.shape)
    total = ops.sum(along, axis)
    mean = ops.div(ops.sum(ops.mul(x, along), axis), total)
    return (mean, total) if returned else mean


def cbrt(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """The cube root."""
    x = float_of(x)
    return _in(ops.mul(ops.sign(x), ops.pow(ops.abs(x), 1 / 3)), dtype)


def fabs(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """The absolute value as a float."""
    return _in(ops.abs(float_of(x)), dtype)


def float_power(x1: TensorLike, x2: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """A power of floats."""
    return _in(ops.pow(float_of(x1), float_of(x2)), dtype)


def fix(x: TensorLike) -> Tensor:
    """The next integer towards zero."""
    return ops.trunc(float_of(x))


def rint(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """The nearest integer; halves round to even."""
    return _in(ops.round(float_of(x)), dtype)


def radians(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Degrees as radians."""
    return _in(ops.deg2rad(x), dtype)


def divmod(x1: TensorLike, x2: TensorLike, dtype: DTypeLike | None = None) -> tuple[Tensor, Tensor]:
    """The quotient, rounded down, and the remainder."""
    return _in(ops.floor_divide(x1, x2), dtype), _in(ops.floor_mod(x1, x2), dtype)


def ptp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element less the smallest."""
    return ops.sub(ops.amax(x, axis, keepdims), ops.amin(x, axis, keepdims))


def multi_dot(arrays: Sequence[TensorLike]) -> Tensor:
    """The product of several matrices."""
    return reduce(ops.matmul, map(tensor_of, arrays))


def _padded(*polynomials: TensorLike) -> list[Tensor]:
    """Vectors of one length, with zeros before the shorter ones."""
    rows = list(map(ravel, polynomials))
    size = max(row.size for row in rows)
    return [ops.pad(row, [size - row.size, 0]) for row in rows]


def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Tensor:
    """The discrete convolution of two vectors, of "full", "same" or "valid" overlap."""
    a, v = float_of(ravel(a)), float_of(ravel(v))
    a, v = (a, v) if a.size >= v.size else (v, a)
    sides = {"full": (v.size - 1,) * 2, "same": (v.size // 2, (v.size - 1) // 2), "valid": (0, 0)}[mode]
    rows = ops.reshape(ops.pad(a, list(sides)), (1, 1, -1))
    return ops.reshape(ops.conv1d(rows, ops.reshape(ops.flip(v, (0,)), (1, 1, -1))), (-1,))


def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Tensor:
    """The correlation of two vectors: the convolution with the second one reversed."""
    a, v = ravel(a), ravel(v)
    if a.size < v.size:
        return ops.flip(correlate(v, a, mode), (0,))
    return convolve(a, ops.flip(v, (0,)), mode)


def cov(
    m: TensorLike, y: TensorLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: TensorLike | None = None, aweights: TensorLike | None = None, dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """The covariances of the variables in rows, or in columns."""
    rows = [float_of(m)] if y is None else [float_of(m), float_of(y)]
    rows = [each if rowvar or each.ndim < 2 else ops.swapaxes(each, 0, 1) for each in rows]
    all_rows = ops.concat([ops.reshape(each, (-1, each.shape[-1])) for each in rows]) if y is not None else rows[0]
    correction = ddof if ddof is not None else int(not bias)
    return _in(ops.cov(all_rows, correction=correction, fweights=fweights, aweights=aweights), dtype)


def corrcoef(x: TensorLike, y: TensorLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Tensor:
    """The correlations of the variables in rows, or in columns."""
    covariances = cov(x, y, rowvar)
    if covariances.ndim == 0:
        return _in(ops.ones_like(covariances), dtype)
    scale = ops.sqrt(ops.diagonal(covariances))
    return _in(ops.div(covariances, ops.mul(ops.expand_dims(scale, 1), scale)), dtype)


def cross(
    a: TensorLike, b: TensorLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The cross product of vectors of 3 elements along an axis."""
    first, second, last = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    product = ops.cross(ops.movedim(tensor_of(a), first, -1), ops.movedim(tensor_of(b), second, -1), -1)
    return ops.movedim(product, -1, last)


def ediff1d(ary: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None) -> Tensor:
    """The differences of consecutive elements, preceded by `to_begin` and followed by `to_end`."""
    parts = [to_begin, ops.diff(ravel(ary)), to_end]
    return ops.concat([ravel(part) for part in parts if part is not None])


def gradient(f: TensorLike, *varargs: Operand, axis: Axis = None, edge_order: int = 1) -> Any:
    """Central differences along each axis, one-sided at its ends, divided by a distance, by default 1."""
    f = float_of(f)
    axes = [*range(f.ndim)] if axis is None else [axis] if isinstance(axis, int) else [*axis]
    distances = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    slopes = [_slopes(f, along % f.ndim, distance) for along, distance in zip(axes, distances, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slopes(f: Tensor, axis: int, distance: Operand) -> Tensor:
    size = f.shape[axis]

    def part(start: int, stop: int) -> Tensor:
        return ops.narrow(f, axis, start, stop - start)

    inner = ops.div(ops.sub(part(2, size), part(0, size - 2)), 2)
    ends = ops.sub(part(1, 2), part(0, 1)), ops.sub(part(size - 1, size), part(size - 2, size - 1))
    return ops.div(ops.concat([ends[0], inner, ends[1]], axis), distance)


def interp(
    x: TensorLike, xp: TensorLike, fp: TensorLike, left: Operand | None = None, right: Operand | None = None
) -> Tensor:
    """Linear interpolation at x between points with rising `xp`; `left` and `right` outside of them."""
    x, xp, fp = float_of(x), float_of(xp), float_of(fp)
    at = ops.clamp(ops.searchsorted(xp, x, right=True), 1, xp.size - 1)
    low, high = ops.gather(xp, ops.sub(at, 1), 0), ops.gather(xp, at, 0)
    first, second = ops.gather(fp, ops.sub(at, 1), 0), ops.gather(fp, at, 0)
    line = ops.add(first, ops.mul(ops.sub(second, first), ops.div(ops.sub(x, low), ops.sub(high, low))))
    line = ops.where(ops.less(x, xp[0]), fp[0] if left is None else left, line)
    return ops.where(ops.greater(x, xp[-1]), fp[-1] if right is None else right, line)


def nansum(a: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements that are not nan."""
    return ops.nansum(a, axis, keepdims, dtype=dtype)


def nancumsum(a: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative sums along an axis, in which a nan counts as 0; without an axis, over all elements in order."""
    a = ops.where(ops.isnan(float_of(a)), 0.0, float_of(a))
    return _in(ops.cumsum(ravel(a), 0) if axis is None else ops.cumsum(a, axis), dtype)


def _without_nan(reduction: Callable[..., Tensor], least: float) -> Callable[..., Tensor]:
    def reduced(a: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
        """The largest or smallest element that is not nan; nan if all are."""
        a, missing = float_of(a), ops.isnan(float_of(a))
        result = reduction(ops.where(missing, least, a), axis, keepdims)
        every = ops.equal(ops.sum(ops.cast(missing, a.dtype), axis, keepdims=keepdims), a.size // max(result.size, 1))
        return _in(ops.where(every, math.nan, result), dtype)

    return reduced


nanmax, nanmin = _without_nan(ops.amax, -math.inf), _without_nan(ops.amin, math.inf)


def nanvar(
    a: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, ddof: int = 0, keepdims: bool = False
) -> Tensor:
    """The variance of the elements that are not nan."""
    a = float_of(a)
    counts = ops.cast(ops.logical_not(ops.isnan(a)), a.dtype)
    distance = ops.sub(a, ops.nanmean(a, axis, True))
    squares = ops.nansum(ops.square(distance), axis, keepdims)
    return _in(ops.div(squares, ops.sub(ops.sum(counts, axis, keepdims=keepdims), ddof)), dtype)


def nanstd(
    a: TensorLike, axis: Axis = None, dtype: DTypeLike | None = None, ddof: int = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation of the elements that are not nan."""
    return ops.sqrt(nanvar(a, axis, dtype, ddof, keepdims))


def trapz(y: TensorLike, x: TensorLike | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral by the trapezoidal rule."""
    return ops.trapz(y, x, dx=dx, axis=axis)


def polyadd(a1: TensorLike, a2: TensorLike) -> Tensor:
    """The sum of two polynomials, whose coefficients start with the highest power."""
    return ops.add(*_padded(a1, a2))


def polysub(a1: TensorLike, a2: TensorLike) -> Tensor:
    """The difference of two polynomials."""
    return ops.sub(*_padded(a1, a2))


def polymul(a1: TensorLike, a2: TensorLike) -> Tensor:
    """The product of two polynomials."""
    return convolve(a1, a2)


def polyval(p: TensorLike, x: Operand) -> Tensor:
    """The value of a polynomial at x."""
    x, coefficients = tensor_of(x), ravel(p)
    return reduce(lambda value, each: ops.add(ops.mul(value, x), each), coefficients, ops.zeros_like(x))


def polyder(p: TensorLike, m: int = 1) -> Tensor:
    """The m-th derivative of a polynomial."""
    p = ravel(p)
    powers = Tensor([float(power) for power in range(p.size - 1, 0, -1)])
    return p if not m else polyder(ops.mul(ops.narrow(p, 0, 0, p.size - 1), powers), m - 1)


def polyint(p: TensorLike, m: int = 1, k: Any = None) -> Tensor:
    """The m-th integral of a polynomial, with the constants k."""
    p, constants = ravel(p), [0.0] * m if k is None else [k] if isinstance(k, (int, float)) else list(k)
    if not m:
        return p
    powers = Tensor([float(power) for power in range(p.size, 0, -1)])
    return polyint(ops.concat([ops.div(p, powers), tensor_of([float(constants[0])])]), m - 1, constants[1:])


def unwrap(p: TensorLike, discont: float = math.pi, axis: int = -1) -> Tensor:
    """Angles with full turns added, so that neighbours differ by less than one."""
    p = float_of(p)
    steps = ops.diff(p, 1, axis)
    turned = ops.sub(ops.floor_mod(ops.add(steps, math.pi), 2 * math.pi), math.pi)
    turned = ops.where(ops.logical_and(ops.equal(turned, -math.pi), ops.greater(steps, 0.0)), math.pi, turned)
    missing = ops.where(ops.less(ops.abs(steps), discont), 0.0, ops.sub(turned, steps))
    first = ops.narrow(p, axis % p.ndim, 0, 1)
    rest = ops.narrow(p, axis % p.ndim, 1, p.shape[axis] - 1)
    return ops.concat([first, ops.add(rest, ops.cumsum(missing, axis % p.ndim))], axis)


guard_functions(globals())
