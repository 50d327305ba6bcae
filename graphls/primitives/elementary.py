"""Elementary functions as ONNX operators, correct where a runtime's own kernel is wrong, or takes float32 only.

The float64 forms use Exp, Log, Sin, Sqrt and arithmetic, which every runtime has in float64, and are within a few
roundings of the exact value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from graphls.ir.types import bfloat16, float32, float64
from graphls.primitives.emitter import Emitter


def square_root(e: Emitter, x: str) -> str:
    """The square root; by way of float64, whose kernel is another one, if that of float32 is wrong."""
    if e.in_types[0].dtype is float64 or e.is_right("Sqrt"):
        return e.Sqrt(x)
    return e.cast(e.Sqrt(e.cast(x, float64)), e.in_types[0].dtype)


def exponential(e: Emitter, x: str) -> str:
    """e ** x; where the kernel of float64 does not reach 0, the square of exp(x / 2)."""
    if e.is_right("Exp"):
        return e.Exp(x)
    half = e.Exp(e.Mul(x, e.scalar(0.5)))
    return e.Where(e.Less(x, e.scalar(-700.0)), e.Mul(half, half), e.Exp(x))


def logarithm(e: Emitter, x: str) -> str:
    """The natural logarithm; where the kernel is wrong for denormal numbers, by that of a multiple of them.

    Without a Where, which is ten times as slow when it selects from tensors.
    """
    if e.is_right("Log"):
        return e.Log(x)
    dtype, powers = e.in_types[0].dtype, 64
    is_tiny = e.cast(e.Less(x, e.scalar(float(np.finfo(dtype.numpy).tiny))), dtype)
    multiple = e.Mul(x, e.Add(e.Mul(is_tiny, e.scalar(2.0**powers)), e.scalar(1.0)))
    return e.Sub(e.Log(multiple), e.Mul(is_tiny, e.scalar(powers * math.log(2))))


def log_of_one_plus(e: Emitter, x: str) -> str:
    """The ONNX log1p: x * log(u) / (u - 1) with u = 1 + x corrects the rounding of u (W. Kahan)."""
    one = e.scalar(1.0)
    u = e.Add(x, one)
    is_itself = e.Or(e.Equal(u, one), e.Equal(x, e.scalar(math.inf)))
    return e.Mul(x, e.Where(is_itself, one, e.Div(e.Log(u), e.Sub(u, one))))


def exponential_minus_one(e: Emitter, x: str) -> str:
    """The ONNX expm1: x * (u - 1) / log(u) with u = exp(x) corrects the rounding of u (W. Kahan)."""
    one, u = e.scalar(1.0), exponential(e, x)
    less = e.Sub(u, one)
    near = e.Mul(x, e.Where(e.Equal(u, one), one, e.Div(less, e.Log(u))))
    is_far = e.Or(e.Equal(less, e.scalar(-1.0)), e.Greater(u, e.scalar(1e4)))
    return e.Where(is_far, less, near)


def logistic(e: Emitter, x: str) -> str:
    """u / (1 + u) with u = exp(x), exact where it is tiny, unlike kernels that compute 1 - something there.

    x is clipped at 40, from where the result is 1 in every dtype. In 16 bits, and in other runtimes than ONNX Runtime,
    a kernel may be as exact.
    """
    dtype = e.in_types[0].dtype
    if (dtype.is_half or not (e.runs_as_written or e.is_gpu)) and e.is_right("Sigmoid"):
        return e.Sigmoid(x)
    u = exponential(e, e.Min(x, e.scalar(40.0)))
    return e.Softsign(u) if dtype is float32 else e.Div(u, e.Add(u, e.scalar(1.0)))


def floor(e: Emitter, x: str) -> str:
    """The integer below; where the kernel loses the sign of zero, by the nearest one, whose kernel does not."""
    if e.is_right("Floor"):
        return e.Floor(x)
    nearest = e.Round(x)
    return e.Sub(nearest, e.cast(e.Greater(nearest, x), e.in_types[0].dtype))


def ceiling(e: Emitter, x: str) -> str:
    """The integer above, with the sign of x where it is zero."""
    return e.Ceil(x) if e.is_right("Ceil") else e.Neg(floor(e, e.Neg(x)))


def with_sign_of(e: Emitter, x: str, size: str) -> str:
    """A non-negative number with the sign of x, for odd functions."""
    return e.Mul(size, e.Where(is_negative(e, x), e.scalar(-1.0), e.scalar(1.0)))


def is_negative(e: Emitter, x: str) -> str:
    """True where the sign bit is set, also for -0.0."""
    zero = e.scalar(0.0)
    return e.Or(e.Less(x, zero), e.Less(e.Reciprocal(x), zero))


def polynomial(e: Emitter, x: str, coefficients: Iterable[float]) -> str:
    """A polynomial by Horner's rule; the coefficient of the highest power comes first."""
    first, *others = coefficients
    result = e.scalar(first)
    for coefficient in others:
        result = e.Add(e.Mul(result, x), e.scalar(coefficient))
    return str(result)


_LARGE = 2.0**28
"""From here on, adding 1 to the square of a number changes nothing."""


def cosine(e: Emitter, x: str) -> str:
    """sin(2 x) / (2 sin(x)) where the sine is large, else 1 - 2 sin(x / 2) ** 2; neither rounds the angle."""
    one, two, sine = e.scalar(1.0), e.scalar(2.0), e.Sin(x)
    half = e.Sin(e.Mul(x, e.scalar(0.5)))
    is_large = e.And(e.Greater(e.Abs(sine), e.scalar(0.5)), e.Less(e.Abs(x), e.scalar(2.0**1022)))
    by_double = e.Div(e.Sin(e.Mul(x, two)), e.Mul(sine, two))
    return e.Where(is_large, by_double, e.Sub(one, e.Mul(e.Mul(half, half), two)))


def tangent(e: Emitter, x: str) -> str:
    """The sine divided by the cosine."""
    return e.Div(e.Sin(x), cosine(e, x))


_ATAN = tuple((-1) ** n / (2 * n + 1) for n in reversed(range(22)))
"""The Taylor series of atan(x) / x in powers of x ** 2, long enough up to tan(pi / 8)."""


def arctangent(e: Emitter, x: str) -> str:
    """The nearest angle of 0, pi / 4 and pi / 2, plus the series for the remainder."""
    one, size = e.scalar(1.0), e.Abs(x)
    is_far, is_near = e.Greater(size, e.scalar(math.sqrt(2) + 1)), e.Less(size, e.scalar(math.sqrt(2) - 1))
    middle = e.Div(e.Sub(size, one), e.Add(size, one))
    remainder = e.Where(is_near, size, e.Where(is_far, e.Neg(e.Reciprocal(size)), middle))
    angle = e.Mul(remainder, polynomial(e, e.Mul(remainder, remainder), _ATAN))
    start = e.Where(is_near, e.scalar(0.0), e.Where(is_far, e.scalar(math.pi / 2), e.scalar(math.pi / 4)))
    return with_sign_of(e, x, e.Add(start, angle))


def arcsine(e: Emitter, x: str) -> str:
    """2 atan(x / (1 + sqrt(1 - x ** 2)))."""
    one = e.scalar(1.0)
    width = e.Sqrt(e.Mul(e.Sub(one, x), e.Add(one, x)))
    return e.Mul(arctangent(e, e.Div(x, e.Add(width, one))), e.scalar(2.0))


def arccosine(e: Emitter, x: str) -> str:
    """2 atan(sqrt((1 - x) / (1 + x)))."""
    one = e.scalar(1.0)
    half = arctangent(e, e.Sqrt(e.Div(e.Sub(one, x), e.Add(one, x))))
    return e.Mul(half, e.scalar(2.0))


def hyperbolic_sine(e: Emitter, x: str) -> str:
    """(t + t / (t + 1)) / 2 with t = exp(|x|) - 1, and exp(|x| / 2) ** 2 / 2 where the square would overflow."""
    size, half = e.Abs(x), e.scalar(0.5)
    t = exponential_minus_one(e, size)
    near = e.Mul(e.Add(t, e.Div(t, e.Add(t, e.scalar(1.0)))), half)
    root = exponential(e, e.Mul(size, half))
    far = e.Mul(e.Mul(root, half), root)
    return with_sign_of(e, x, e.Where(e.Less(size, e.scalar(22.0)), near, far))


def hyperbolic_cosine(e: Emitter, x: str) -> str:
    """(r ** 2 + 1 / r ** 2) / 2 with r = exp(|x| / 2), which does not overflow before the result does."""
    half = e.scalar(0.5)
    root = exponential(e, e.Mul(e.Abs(x), half))
    return e.Add(e.Mul(e.Mul(root, half), root), e.Div(e.Div(half, root), root))


def area_hyperbolic_sine(e: Emitter, x: str) -> str:
    """log1p(|x| + x ** 2 / (1 + sqrt(1 + x ** 2)))."""
    one, size = e.scalar(1.0), e.Abs(x)
    square = e.Mul(size, size)
    near = log_of_one_plus(e, e.Add(size, e.Div(square, e.Add(one, e.Sqrt(e.Add(one, square))))))
    return with_sign_of(e, x, _log_if_large(e, size, near))


def area_hyperbolic_cosine(e: Emitter, x: str) -> str:
    """log1p(t + sqrt(t) * sqrt(t + 2)) with t = x - 1; the roots are nan below 1."""
    t = e.Sub(x, e.scalar(1.0))
    near = log_of_one_plus(e, e.Add(t, e.Mul(e.Sqrt(t), e.Sqrt(e.Add(t, e.scalar(2.0))))))
    return _log_if_large(e, x, near)


def _log_if_large(e: Emitter, size: str, near: str) -> str:
    far = e.Add(e.Log(size), e.scalar(math.log(2)))
    return e.Where(e.Greater(size, e.scalar(_LARGE)), far, near)


def area_hyperbolic_tangent(e: Emitter, x: str) -> str:
    """log1p(2 |x| / (1 - |x|)) / 2."""
    size = e.Abs(x)
    quotient = e.Div(e.Add(size, size), e.Sub(e.scalar(1.0), size))
    return with_sign_of(e, x, e.Mul(log_of_one_plus(e, quotient), e.scalar(0.5)))


_ERF = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in reversed(range(20)))
"""The Taylor series of erf(x) / x in powers of x ** 2."""

_ERFC = (
    3.1114333809897596e-10, -2.6231073471329767e-09, -3.744210080967421e-09, 3.197926671666543e-08,
    2.3263508708871995e-08, -2.485712624801615e-07, -5.7218230603241536e-08, 1.741982158622474e-06,
    -9.735598967367601e-07, -1.1438048033346888e-05, 2.238423915508222e-05, 5.1646529741774155e-05,
    -0.0002901540805408417, 0.000293714378044958, 0.0017556258528952954, -0.009746579683265262, 0.028362277418956406,
    -0.05869339857664934, 0.09230432116037748, -0.10880393014244462, 0.0822767384901452, 0.0035854154854790257,
    -0.14024059858554697, 1.2375126308378275,
)  # fmt: skip
"""(1 + 2 x) exp(x ** 2) erfc(x) in powers of (x - 3.75) / (x + 3.75), for x >= 0.

The Chebyshev series of Shepherd and Laframboise (Mathematics of Computation 36, 1981), computed with mpmath, 40 digits.
"""


def error_function(e: Emitter, x: str) -> str:
    """The series up to 1, and 1 - erfc(|x|) beyond."""
    one, size = e.scalar(1.0), e.Abs(x)
    near = e.Mul(x, polynomial(e, e.Mul(x, x), _ERF))
    far = with_sign_of(e, x, e.Sub(one, _upper_tail(e, size)))
    return e.Where(e.GreaterOrEqual(size, one), far, near)


def complementary_error_function(e: Emitter, x: str) -> str:
    """1 - erf(x), by its own series from 0.5 on and below -0.5."""
    size = e.Abs(x)
    tail = _upper_tail(e, size)
    folded = e.Where(e.Less(x, e.scalar(0.0)), e.Sub(e.scalar(2.0), tail), tail)
    near = e.Sub(e.scalar(1.0), e.Mul(x, polynomial(e, e.Mul(x, x), _ERF)))
    return e.Where(e.Less(size, e.scalar(0.5)), near, folded)


def _upper_tail(e: Emitter, size: str) -> str:
    """erfc of non-negative numbers; the square in the exponent is split in two, as its rounding would be visible."""
    size = e.Min(size, e.scalar(40.0))
    centre = e.scalar(3.75)
    series = polynomial(e, e.Div(e.Sub(size, centre), e.Add(size, centre)), _ERFC)
    scaled = e.Div(series, e.Add(e.Add(size, size), e.scalar(1.0)))
    return e.Mul(scaled, gaussian(e, size))


def gaussian(e: Emitter, size: str) -> str:
    """exp(-x ** 2), as exp(-high ** 2) * exp((high - x) * (high + x)) with a part of x whose square is exact."""
    dtype = e.in_types[0].dtype
    narrow = {float64: float32, float32: bfloat16}.get(dtype, dtype)
    high = e.cast(e.cast(size, narrow), dtype)
    rest = e.Mul(e.Sub(high, size), e.Add(high, size))
    return e.Mul(exponential(e, e.Neg(e.Mul(high, high))), e.Exp(rest))


def inverse_error_function(e: Emitter, x: str, approximate: str) -> str:
    """Two steps of Newton's method from an approximation, with residuals that are exact near 1 as well."""
    one, size, root = e.scalar(1.0), e.Abs(x), e.Abs(approximate)
    for _ in range(2):
        below = e.Sub(error_function(e, root), size)
        above = e.Sub(e.Sub(one, size), complementary_error_function(e, root))
        residual = e.Where(e.Less(size, e.scalar(0.5)), below, above)
        slope = e.Mul(gaussian(e, root), e.scalar(2 / math.sqrt(math.pi)))
        root = e.Sub(root, e.Div(residual, slope))
    return with_sign_of(e, x, e.Where(e.Equal(size, one), e.scalar(np.inf), root))
