"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.checks import number, positive
from graphls.ir.errors import GraphValueError
from graphls.ops.elementwise import abs, add, cast, div, maximum, mul, pow, sqrt, square, sub
from graphls.ops.logic import equal, greater, not_equal, where
from graphls.ops.operands import Axis, axes_of, axis_of, float_of, floats, in_single
from graphls.ops.record import operation
from graphls.ops.reductions import amax, amin, sum
from graphls.ops.roots import root
from graphls.tensors.tensor import Tensor


@operation(spelled=True)
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of a vector along one axis, or of a matrix along two; without axes and `ord`, that of all elements.

    `ord` is that of `vector_norm` or `matrix_norm`; None is the square root of the sum of squares in both. Raises
    GraphValueError for another one, and for more than two axes.
    """
    x = float_of(x if dtype is None else cast(x, dtype))
    if ord is None:
        return vector_norm(x, 2, axis, keepdims)
    axes = axes_of(axis, x.ndim) or tuple(range(x.ndim))
    if len(axes) == 2:
        return matrix_norm(x, ord, axes, keepdims)
    if len(axes) == 1:
        return vector_norm(x, ord, axes, keepdims)
    raise GraphValueError(f"norm with an 'ord' takes one axis or two, not {len(axes)} of {x.type}.")


@operation(spelled=True)
def vector_norm(x: Any, ord: Any = 2, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of all elements along axes: the sum of |x| ** ord to the power 1 / ord; its gradient at 0 is 0.

    With inf and -inf it is the largest and the smallest |x|, with 0 the number of elements that are not 0. Raises
    GraphValueError for an `ord` that is no number.
    """
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise GraphValueError(f"The 'ord' of the norm of a vector is a number, not {ord!r}.")
    return in_single(lambda x: _vector_norm(x, ord, axis, keepdims), float_of(x if dtype is None else cast(x, dtype)))


def _vector_norm(x: Tensor, ord: float, axis: Axis, keepdims: bool) -> Tensor:
    if ord == math.inf:
        return amax(abs(x), axis, keepdims)
    if ord == -math.inf:
        return amin(abs(x), axis, keepdims)
    if ord == 0:
        return sum(cast(not_equal(x, 0.0), x.dtype), axis, keepdims)
    if ord == 1:
        return sum(abs(x), axis, keepdims)
    if ord == 2:
        return root(sum(square(x), axis, keepdims))
    return root(sum(_power(abs(x), ord), axis, keepdims), ord)


def _power(x: Tensor, exponent: float) -> Tensor:
    """x ** exponent of numbers from 0 on, whose gradient at 0 is 0 where the exponent is below 1."""
    if exponent >= 1:
        return pow(x, exponent)
    is_zero = equal(x, 0.0)
    return where(is_zero, 0.0 if exponent > 0 else math.inf, pow(where(is_zero, 1.0, x), exponent))


@operation(spelled=True)
def matrix_norm(
    x: Any, ord: Any = "fro", axis: tuple[int, int] = (-2, -1), keepdims: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices along two axes, rows first.

    "fro" is the square root of the sum of squares; 1 and -1 are the largest and smallest sum of |x| over a column, inf
    and -inf over a row. Raises GraphValueError for others: 2, -2 and "nuc" need singular values, which graphls lacks.
    """
    x = float_of(x if dtype is None else cast(x, dtype))
    axes = axes_of(axis, x.ndim) or ()
    if len(axes) != 2 or axes[0] == axes[1]:
        raise GraphValueError(f"The norm of a matrix is one along two axes, not {axis!r}.")
    if ord == "fro":
        return vector_norm(x, 2, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        message = f"The 'ord' of the norm of a matrix is 'fro', 1, -1, inf or -inf, not {ord!r}."
        raise GraphValueError(message)
    return in_single(lambda x: _extreme_sum(x, ord, axes, keepdims), x)


def _extreme_sum(x: Tensor, ord: float, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    within, across = axes if math.isfinite(ord) else axes[::-1]
    largest = (amax if ord > 0 else amin)(sum(abs(x), within, keepdims=True), across, keepdims=True)
    return largest if keepdims else sum(largest, axes)


@operation
def dist(x: Any, other: Any, p: float = 2) -> Tensor:
    """The norm of order p of all elements of x - other."""
    return in_single(lambda x, y: vector_norm(sub(x, y), p), *floats(x, other))


@operation
def renorm(input: Any, p: float, axis: int, maxnorm: float) -> Tensor:
    """x with every slice along an axis whose norm of order `p` is above `maxnorm` made shorter, to that norm.

    Raises GraphValueError for a `p` that is not above 0 and for a negative `maxnorm`.
    """
    order, longest = positive("renorm", "p", p), number("renorm", "maxnorm", maxnorm, least=0)

    def computed(x: Tensor) -> Tensor:
        at = axis_of(axis, x.ndim)
        others = tuple(i for i in range(x.ndim) if i != at)
        norms = vector_norm(x, order, others, keepdims=True) if others else abs(x)
        is_longer = greater(norms, longest)
        return mul(x, where(is_longer, div(longest, add(where(is_longer, norms, 1.0), 1e-7)), 1.0))

    return in_single(computed, float_of(input))


@operation(classes="L2Normalize", settings="axis epsilon")
def l2_normalize(x: Any, axis: Axis = 0, epsilon: float = 1e-4) -> Tensor:
    """x divided by the square root of its sum of squares along axes, which is taken for `epsilon` or more."""

    def normalized(x: Tensor) -> Tensor:
        return div(x, sqrt(maximum(sum(square(x), axis, keepdims=True), epsilon)))

    return in_single(normalized, float_of(x))
