"""Norms of vectors and matrices, distances, and clipping by norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import between, positive
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError, TraceError
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import float32
from graphls.ops import operands
from graphls.ops.arrays.shapes import expand_dims, gather, stack
from graphls.ops.math import elementwise as e
from graphls.ops.math.elementwise import (
    abs,
    addn,
    cast,
    isfinite,
    maximum,
    sqrt,
    square,
    sub,
    where,
)
from graphls.ops.math.reductions import amax, amin, sum
from graphls.ops.math.transcendental import root
from graphls.ops.operands import Axis, Sizes, axes_of, axis_of, float_of, floats, in_single
from graphls.ops.record import operation, operator_class


@operation(spelled=True, also="mint.linalg")
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of a vector along one axis, or of a matrix along two; of all elements without axes and `ord`.

    `ord` is that of `vector_norm` or `matrix_norm`; None is the square root of the sum of squares. Raises
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


@operation(spelled=True, checks={"ord": between(-math.inf)}, also="mint.linalg")
def vector_norm(x: Any, ord: Any = 2, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of order `ord` along axes: the sum of |x| ** ord to the power 1 / ord; its gradient at 0 is 0.

    With inf and -inf it is the largest and the smallest |x|, with 0 the number of nonzero elements. Raises
    GraphTypeError for an `ord` that is not a number.
    """
    return in_single(lambda x: _vector_norm(x, ord, axis, keepdims), float_of(x if dtype is None else cast(x, dtype)))


def _vector_norm(x: Tensor, ord: float, axis: Axis, keepdims: bool) -> Tensor:
    if ord == math.inf:
        return amax(abs(x), axis, keepdims)
    if ord == -math.inf:
        return amin(abs(x), axis, keepdims)
    if ord == 0:
        return sum(cast(x != 0.0, x.dtype), axis, keepdims)
    if ord == 1:
        return sum(abs(x), axis, keepdims)
    if ord == 2:
        return root(sum(square(x), axis, keepdims))
    return root(sum(_power(abs(x), ord), axis, keepdims), ord)


def _power(x: Tensor, exponent: float) -> Tensor:
    """x ** exponent for non-negative x, with gradient 0 at 0 where the exponent is below 1."""
    if exponent >= 1:
        return x**exponent
    is_zero = x == 0.0
    return where(is_zero, 0.0 if exponent > 0 else math.inf, where(is_zero, 1.0, x) ** exponent)


@operation(spelled=True, also="mint.linalg")
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
def dist(x: TensorLike, other: TensorLike, p: float = 2) -> Tensor:
    """The norm of order p of all elements of x - other."""
    return in_single(lambda x, y: vector_norm(sub(x, y), p), *floats(x, other))


@operation(checks={"p": positive, "maxnorm": between(0)})
def renorm(input: TensorLike, p: float, axis: int, maxnorm: float) -> Tensor:
    """x with every slice along an axis scaled down to the norm `maxnorm` of order `p` where it is above that.

    Raises GraphValueError for a `p` that is not above 0 and for a negative `maxnorm`.
    """

    def computed(x: Tensor) -> Tensor:
        at = axis_of(axis, x.ndim)
        others = tuple(i for i in range(x.ndim) if i != at)
        norms = vector_norm(x, p, others, keepdims=True) if others else abs(x)
        is_longer = norms > maxnorm
        return x * where(is_longer, maxnorm / (where(is_longer, norms, 1.0) + 1e-7), 1.0)

    return in_single(computed, float_of(input))


@operation(classes="L2Normalize", settings="axis epsilon")
def l2_normalize(x: TensorLike, axis: Axis = 0, epsilon: float = 1e-4) -> Tensor:
    """x divided by the square root of its sum of squares along axes, or of `epsilon` if that is larger."""

    def normalized(x: Tensor) -> Tensor:
        return x / sqrt(maximum(sum(square(x), axis, keepdims=True), epsilon))

    return in_single(normalized, float_of(x))


@operator_class("LpNorm", "axis p keep_dims epsilon")
def _lp_norm(x: TensorLike, axis: Any, p: int = 2, keep_dims: bool = False, epsilon: float = 1e-12) -> Any:
    """The norm of order `p` along axes, at least `epsilon`."""
    return e.maximum(vector_norm(x, p, axis, keep_dims), epsilon)


@operator_class("EuclideanNorm", "keep_dims")
def _euclidean_norm(x: TensorLike, axes: Sizes, keep_dims: bool = False) -> Any:
    """The root of the sum of squares along constant axes, all of them for none."""
    return vector_norm(x, 2, operands.shape_of(axes) or None, keep_dims)


@operator_class("Renorm", "p dim maxnorm", like=renorm)
def _renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Tensor:
    return renorm(x, p, dim, maxnorm)


@operation(classes="Cdist", settings="p", checks={"p": between(0)})
def cdist(x1: TensorLike, x2: TensorLike, p: float = 2.0) -> Tensor:
    """The pairwise distances (..., m, n) of vectors (..., m, k) and (..., n, k).

    `p`, from 0 on or inf, is the order of the norm; the gradient of a distance of 0 is 0. Leading axes broadcast.
    Raises GraphValueError for a negative `p` and for vectors of different sizes.
    """
    x1, x2 = floats(x1, x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        message = f"cdist takes lists of vectors of one size, (..., m, k) and (..., n, k), not {x1.type} and {x2.type}."
        raise GraphValueError(message)
    return in_single(lambda a, b: vector_norm(expand_dims(a, -2) - expand_dims(b, -3), p, -1), x1, x2)


@operation(classes="Pdist", settings="p", checks={"p": between(0)})
def pdist(input: TensorLike, p: float = 2.0) -> Tensor:
    """The pairwise distances (..., n (n - 1) / 2) of vectors (..., n, k), those of the first vector first.

    See `cdist`.
    """
    x = float_of(input)
    if x.ndim < 2:
        raise GraphValueError(f"pdist takes a list of vectors, (..., n, k), not {x.type}.")
    first, second = (Tensor(positions) for positions in np.triu_indices(x.shape[-2], 1))
    return in_single(lambda x: vector_norm(gather(x, first, -2) - gather(x, second, -2), p, -1), x)


@operation(also="mint")
def cosine_similarity(x1: TensorLike, x2: TensorLike, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis, broadcasting; `eps` bounds the product of their norms."""

    def computed(a: Tensor, b: Tensor) -> Tensor:
        norms = vector_norm(a, 2, dim, keepdims=True) * vector_norm(b, 2, dim, keepdims=True)
        return sum(a * b / maximum(norms, eps), dim)

    return in_single(computed, *floats(x1, x2))


@operation(checks={"clip_norm": positive})
def clip_by_global_norm(x: TensorLike, clip_norm: float = 1.0, use_norm: TensorLike | None = None) -> Any:
    """Tensors in a tuple or list, scaled so that their global norm is at most `clip_norm`, each in its own dtype.

    The norm n is the square root of the sum of all squares, in float32; each tensor is multiplied by
    clip_norm / max(n, clip_norm). A norm of nan has no effect. Raises GraphTypeError for anything else,
    GraphValueError for a `clip_norm` that is not positive and for any `use_norm`.
    """
    _check_tensors("clip_by_global_norm", x)
    if use_norm is not None:
        raise GraphValueError("clip_by_global_norm computes the norm itself; leave use_norm None.")
    norm = root(addn([sum(e.square(_wide(t))) for t in leaves(x)]))
    coefficient = e.div(clip_norm, where(norm >= clip_norm, norm, clip_norm))
    return map_leaves(lambda t: _scaled(t, coefficient), x)


@operation(checks={"max_norm": positive})
def clip_by_norm(x: TensorLike, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """A tensor, or a tuple or list of them, multiplied by min(max_norm / (n + 1e-6), 1), each in its own dtype.

    n is the norm of order `norm_type`, which may be infinity, of all elements together, in float32. With
    `error_if_nonfinite` an n that is not finite raises GraphRuntimeError; a traced step cannot do that (TraceError).
    Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """
    tensors = (x,) if is_tensor(x) else x
    _check_tensors("clip_by_norm", tensors)
    order = math.inf if norm_type in (math.inf, "inf") else positive("clip_by_norm", "norm_type", norm_type)
    norm = _norm([e.abs(_wide(t)) for t in leaves(tensors)], order)
    if error_if_nonfinite:
        _check_finite(norm)
    coefficient = e.minimum(e.div(max_norm, e.add(norm, 1e-6)), 1.0)
    return map_leaves(lambda t: _scaled(t, coefficient), x)


def _norm(sizes: list[Tensor], order: float) -> Tensor:
    if order == math.inf:
        return amax(stack([amax(t) for t in sizes]))
    if order == 2:
        return root(addn([sum(e.square(t)) for t in sizes]))
    return root(addn([sum(e.pow(t, order)) for t in sizes]), order)


def _check_finite(norm: Tensor) -> None:
    if current_tracer() is not None:
        raise TraceError(
            "A step cannot raise by what it computes; leave error_if_nonfinite False and look at ops.isfinite of the "
            "result.",
        )
    if not isfinite(norm):
        raise GraphRuntimeError(f"The norm of the tensors of clip_by_norm is {norm}.")


def _wide(t: TensorLike) -> Tensor:
    t = float_of(t)
    return cast(t, float32) if t.dtype.is_half else t


def _scaled(t: TensorLike, coefficient: Tensor) -> Tensor:
    t = float_of(t)
    return cast(e.mul(_wide(t), coefficient), t.dtype)


def _check_tensors(name: str, x: TensorLike) -> None:
    if not isinstance(x, (tuple, list)) or not leaves(x) or not all(map(is_tensor, leaves(x))):
        raise GraphTypeError(f"{name} takes a tuple or list of tensors, not {x!r}.")
