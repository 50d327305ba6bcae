"""Comparisons within a tolerance and of infinities, and the short names of the others."""

from __future__ import annotations

import math
from typing import Any

from graphls.ops.elementwise import abs, add, cast, mul, sub
from graphls.ops.logic import (
    equal,
    isfinite,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_or,
)
from graphls.ops.operands import float_of, numbers
from graphls.ops.record import operation
from graphls.ops.reductions import all
from graphls.tensors.tensor import Tensor


@operation(classes="IsClose", settings="rtol atol equal_nan")
def isclose(x: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |x - other| <= atol + rtol * |other|, broadcasting; equal infinities are close, nans if `equal_nan`."""
    x, other = (t if t.dtype.is_float else cast(t, "float64") for t in numbers(x, other))
    near = less_equal(abs(sub(x, other)), add(mul(abs(other), rtol), atol))
    close = logical_or(equal(x, other), logical_and(isfinite(other), near))
    return logical_or(close, logical_and(isnan(x), isnan(other))) if equal_nan else close


@operation
def allclose(x: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close (see `isclose`), as a tensor without axes."""
    return all(isclose(x, other, rtol, atol, equal_nan))


@operation(classes="ApproximateEqual", settings="tolerance")
def approximate_equal(x: Any, y: Any, tolerance: float = 1e-05) -> Tensor:
    """Whether |x - y| < tolerance, broadcasting."""
    return less(abs(sub(x, y)), tolerance)


@operation
def isposinf(x: Any) -> Tensor:
    """Whether a number is positive infinity."""
    return equal(float_of(x), math.inf)


@operation
def isneginf(x: Any) -> Tensor:
    """Whether a number is negative infinity."""
    return equal(float_of(x), -math.inf)
