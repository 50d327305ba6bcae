"""Operator classes of what computes with numbers: the tables that `graphls.ops.operations` makes them of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphls.ir.types import float32
from graphls.ops import (
    arithmetic,
    bitwise,
    comparisons,
    creation,
    einstein,
    elementwise,
    exponentials,
    gamma_functions,
    linear_algebra,
    movement,
    norms,
    operands,
    ranges,
    reductions,
    scans,
    selection,
    shapes,
    statistics,
    trigonometric,
)
from graphls.ops.operator import REQUIRED, described_as


def _with_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the position of an extreme, then the extreme, by one that gives them in the other order."""

    def position_first(x: Any, axis: int = 0, keep_dims: bool = False) -> Any:
        return function(x, axis, keep_dims)[::-1]

    position_first.__doc__ = f"{inspect.getdoc(function)}\n\nThe position comes first."
    return position_first


def _einsum(inputs: Any, equation: str) -> Any:
    """The sum of products that an equation says, of the tensors in a tuple."""
    return einstein.einsum(equation, *inputs)


def _lp_norm(x: Any, axis: Any, p: int = 2, keep_dims: bool = False, epsilon: float = 1e-12) -> Any:
    """The norm of order `p` along axes, `epsilon` or more."""
    return elementwise.maximum(norms.vector_norm(x, p, axis, keep_dims), epsilon)


def _reduced_std(x: Any, axis: Any = (), unbiased: bool = True, keep_dims: bool = False) -> Any:
    """The standard deviation, over one element less where `unbiased`, and the mean along axes."""
    return statistics.std_mean(x, axis, int(unbiased), keep_dims)


def _euclidean_norm(x: Any, axes: Any, keep_dims: bool = False) -> Any:
    """The root of the sum of squares along axes that are known, all of them for none."""
    return norms.vector_norm(x, 2, operands.shape_of(axes) or None, keep_dims)


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


@described_as(exponentials.logit)
def _logit(input: Any, eps: float = -1.0) -> Any:
    return exponentials.logit(input, None if eps < 0 else eps)


@described_as(ranges.logspace)
def _log_space(start: Any, end: Any, steps: int = 10, base: int = 10, dtype: Any = float32) -> Any:
    return ranges.logspace(start, end, steps, base, dtype=dtype)


def _buckets(input: Any, boundaries: Any) -> Any:
    """The int32 number of the bucket between rising boundaries in which each element is, in the upper on one."""
    return selection.bucketize(input, boundaries, right=True)


@described_as(gamma_functions.mvlgamma)
def _multivariate(x: Any, p: int) -> Any:
    return gamma_functions.mvlgamma(x, p)


@described_as(gamma_functions.polygamma)
def _polygamma(a: Any, x: Any) -> Any:
    return gamma_functions.polygamma(int(operands.tensor_of(a).item()), x)


PLAIN: dict[str, Callable[..., Any]] = {
    "ACos": trigonometric.acos,
    "AccumulateNV2": elementwise.addn,
    "Acosh": trigonometric.acosh,
    "Addcdiv": arithmetic.addcdiv,
    "Addcmul": arithmetic.addcmul,
    "Asin": trigonometric.asin,
    "Asinh": trigonometric.asinh,
    "Atan": trigonometric.atan,
    "Atan2": trigonometric.atan2,
    "Atanh": trigonometric.atanh,
    "BiasAdd": arithmetic.bias_add,
    "BitwiseAnd": bitwise.bitwise_and,
    "BitwiseOr": bitwise.bitwise_or,
    "BitwiseXor": bitwise.bitwise_xor,
    "Cosh": trigonometric.cosh,
    "Digamma": gamma_functions.digamma,
    "DivNoNan": arithmetic.div_no_nan,
    "Erfc": exponentials.erfc,
    "Erfinv": exponentials.erfinv,
    "Fmax": arithmetic.fmax,
    "Fmin": arithmetic.fmin,
    "Ger": linear_algebra.ger,
    "Heaviside": arithmetic.heaviside,
    "Hypot": trigonometric.hypot,
    "Invert": bitwise.invert,
    "LeftShift": bitwise.bitwise_left_shift,
    "Lerp": arithmetic.lerp,
    "LerpScalar": arithmetic.lerp,
    "Lgamma": gamma_functions.lgamma,
    "LogAddExp": exponentials.logaddexp,
    "LogAddExp2": exponentials.logaddexp2,
    "Mod": arithmetic.fmod,
    "MulNoNan": arithmetic.mul_no_nan,
    "Polygamma": _polygamma,
    "RightShift": bitwise.bitwise_right_shift,
    "Sinc": trigonometric.sinc,
    "Sinh": trigonometric.sinh,
    "SquareSumAll": arithmetic.square_sum_all,
    "SquaredDifference": arithmetic.squared_difference,
    "Tan": trigonometric.tan,
    "Trace": linear_algebra.trace,
    "Trunc": arithmetic.trunc,
    "TruncateDiv": elementwise.truncate_div,
    "TruncateMod": arithmetic.fmod,
    "Xdivy": exponentials.xdivy,
    "Xlogy": exponentials.xlogy,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ApproximateEqual": (comparisons.approximate_equal, {"tolerance": 1e-05}),
    "ArgMaxWithValue": (_with_value(reductions.max), {"axis": 0, "keep_dims": False}),
    "ArgMinWithValue": (_with_value(reductions.min), {"axis": 0, "keep_dims": False}),
    "Bucketize": (_buckets, {"boundaries": REQUIRED}),
    "Cross": (linear_algebra.cross, {"dim": None}),
    "CumProd": (scans.cumprod, {"exclusive": False, "reverse": False}),
    "CumSum": (scans.cumsum, {"exclusive": False, "reverse": False}),
    "Cummax": (scans.cummax, {"axis": REQUIRED}),
    "Cummin": (scans.cummin, {"axis": REQUIRED}),
    "CumulativeLogsumexp": (_log_cum_sum_exp, {"exclusive": False, "reverse": False}),
    "Einsum": (_einsum, {"equation": REQUIRED}),
    "EuclideanNorm": (_euclidean_norm, {"keep_dims": False}),
    "IsClose": (comparisons.isclose, {"rtol": 1e-05, "atol": 1e-08, "equal_nan": False}),
    "L2Normalize": (norms.l2_normalize, {"axis": 0, "epsilon": 1e-4}),
    "Logit": (_logit, {"eps": -1.0}),
    "LogSpace": (_log_space, {"steps": 10, "base": 10, "dtype": float32}),
    "LpNorm": (_lp_norm, {"axis": REQUIRED, "p": 2, "keep_dims": False, "epsilon": 1e-12}),
    "MatrixPower": (linear_algebra.matrix_power, {"n": REQUIRED}),
    "Mvlgamma": (_multivariate, {"p": REQUIRED}),
    "NanToNum": (arithmetic.nan_to_num, {"nan": None, "posinf": None, "neginf": None}),
    "ReduceStd": (_reduced_std, {"axis": (), "unbiased": True, "keep_dims": False}),
}
