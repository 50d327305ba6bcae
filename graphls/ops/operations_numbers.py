"""Operator classes of what computes with numbers: the tables that `graphls.ops.operations` makes them of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphls.ops import (
    arithmetic,
    bitwise,
    comparisons,
    einstein,
    elementwise,
    exponentials,
    gamma,
    linear_algebra,
    norms,
    reductions,
    scans,
    statistics,
    trigonometric,
)
from graphls.ops.operator import REQUIRED


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
    "Digamma": gamma.digamma,
    "DivNoNan": arithmetic.div_no_nan,
    "Erfc": exponentials.erfc,
    "Erfinv": exponentials.erfinv,
    "Ger": linear_algebra.ger,
    "Heaviside": arithmetic.heaviside,
    "Hypot": trigonometric.hypot,
    "Invert": bitwise.invert,
    "Lerp": arithmetic.lerp,
    "Lgamma": gamma.lgamma,
    "LogAddExp": exponentials.logaddexp,
    "LogAddExp2": exponentials.logaddexp2,
    "Mod": arithmetic.fmod,
    "MulNoNan": arithmetic.mul_no_nan,
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
    "Cross": (linear_algebra.cross, {"dim": None}),
    "CumProd": (scans.cumprod, {"exclusive": False, "reverse": False}),
    "CumSum": (scans.cumsum, {"exclusive": False, "reverse": False}),
    "Cummax": (scans.cummax, {"axis": REQUIRED}),
    "Cummin": (scans.cummin, {"axis": REQUIRED}),
    "Einsum": (_einsum, {"equation": REQUIRED}),
    "IsClose": (comparisons.isclose, {"rtol": 1e-05, "atol": 1e-08, "equal_nan": False}),
    "L2Normalize": (norms.l2_normalize, {"axis": 0, "epsilon": 1e-4}),
    "LpNorm": (_lp_norm, {"axis": REQUIRED, "p": 2, "keep_dims": False, "epsilon": 1e-12}),
    "MatrixPower": (linear_algebra.matrix_power, {"n": REQUIRED}),
    "NanToNum": (arithmetic.nan_to_num, {"nan": None, "posinf": None, "neginf": None}),
    "ReduceStd": (_reduced_std, {"axis": (), "unbiased": True, "keep_dims": False}),
}
