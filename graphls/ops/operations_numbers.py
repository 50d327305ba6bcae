"""Operator classes of what computes with numbers: the tables that `graphls.ops.operations` makes them of."""

from __future__ import annotations

from typing import Any

from graphls.ir.types import float32
from graphls.ops import (
    arithmetic,
    creation,
    einstein,
    elementwise,
    exponentials,
    gamma_functions,
    movement,
    norms,
    operands,
    ranges,
    scans,
    selection,
    shapes,
    statistics,
)
from graphls.ops.record import operator_class


@operator_class("Einsum", "equation")
def _einsum(inputs: Any, equation: str) -> Any:
    """The sum of products that an equation says, of the tensors in a tuple."""
    return einstein.einsum(equation, *inputs)


@operator_class("LpNorm", "axis p keep_dims epsilon")
def _lp_norm(x: Any, axis: Any, p: int = 2, keep_dims: bool = False, epsilon: float = 1e-12) -> Any:
    """The norm of order `p` along axes, `epsilon` or more."""
    return elementwise.maximum(norms.vector_norm(x, p, axis, keep_dims), epsilon)


@operator_class("ReduceStd", "axis unbiased keep_dims")
def _reduced_std(x: Any, axis: Any = (), unbiased: bool = True, keep_dims: bool = False) -> Any:
    """The standard deviation, over one element less where `unbiased`, and the mean along axes."""
    return statistics.std_mean(x, axis, int(unbiased), keep_dims)


@operator_class("EuclideanNorm", "keep_dims")
def _euclidean_norm(x: Any, axes: Any, keep_dims: bool = False) -> Any:
    """The root of the sum of squares along axes that are known, all of them for none."""
    return norms.vector_norm(x, 2, operands.shape_of(axes) or None, keep_dims)


@operator_class("CumulativeLogsumexp", "exclusive reverse")
def _log_cum_sum_exp(x: Any, axis: Any, exclusive: bool = False, reverse: bool = False) -> Any:
    """The logarithms of the running sums of exp(x) along an axis, from its end with `reverse`.

    Where `exclusive` without the element itself; the sum of none has the lowest number as its logarithm.
    """
    x, along = operands.float_of(x), int(operands.tensor_of(axis).item())
    x = movement.flip(x, along) if reverse else x
    sums = scans.logcumsumexp(x, along)
    if exclusive:
        first = shapes.cut(sums, operands.axis_of(along, x.ndim), 0, 1)
        lowest = creation.full_like(first, -arithmetic.largest_number(x.dtype))
        sums = shapes.concat((lowest, statistics.without_last(sums, operands.axis_of(along, x.ndim))), along)
    return movement.flip(sums, along) if reverse else sums


@operator_class("Logit", "eps", like=exponentials.logit)
def _logit(input: Any, eps: float = -1.0) -> Any:
    return exponentials.logit(input, None if eps < 0 else eps)


@operator_class("LogSpace", "steps base dtype", like=ranges.logspace)
def _log_space(start: Any, end: Any, steps: int = 10, base: int = 10, dtype: Any = float32) -> Any:
    return ranges.logspace(start, end, steps, base, dtype=dtype)


@operator_class("Bucketize", "boundaries")
def _buckets(input: Any, boundaries: Any) -> Any:
    """The int32 number of the bucket between rising boundaries in which each element is, in the upper on one."""
    return selection.bucketize(input, boundaries, right=True)


@operator_class("Mvlgamma", "p", like=gamma_functions.mvlgamma)
def _multivariate(x: Any, p: int) -> Any:
    return gamma_functions.mvlgamma(x, p)


@operator_class("Polygamma", like=gamma_functions.polygamma)
def _polygamma(a: Any, x: Any) -> Any:
    return gamma_functions.polygamma(int(operands.tensor_of(a).item()), x)
