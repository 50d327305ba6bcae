"""Further elementwise arithmetic: remainders, rounding, signs, comparison with tolerance, bits, common divisors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import bool_, broadcast_shapes, float64, int32, int64, uint8
from graphls.ops.arrays import shapes
from graphls.ops.arrays.shapes import broadcast_to, reshape
from graphls.ops.control_flow import while_loop
from graphls.ops.math import elementwise
from graphls.ops.math.elementwise import (
    abs,
    add,
    addn,
    cast,
    floor,
    floor_div,
    isfinite,
    isnan,
    largest_number,
    less,
    logical_and,
    logical_or,
    logical_xor,
    mul,
    not_equal,
    reciprocal,
    round,
    sub,
    where,
)
from graphls.ops.math.reductions import all, any, sum
from graphls.ops.math.reductions import sum as total
from graphls.ops.operands import ShapeLike, apply, float_of, floats, in_single, numbers, operand_of, tensor_of
from graphls.ops.record import in_place, operation, operator_class


@operation
def true_divide(dividend: TensorLike, divisor: TensorLike) -> Tensor:
    """The quotient as floats, broadcasting; integers become float32."""
    return elementwise.div(dividend, divisor)


@operation(in_place="sub_")
def subtract(x: TensorLike, other: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
    """x - alpha * other, broadcasting."""
    return sub(x, other if alpha == 1 else mul(other, alpha))


@operation(symbol="pos")
def positive(x: TensorLike) -> Tensor:
    """x itself; raises GraphTypeError for bools."""
    tensor = tensor_of(x)
    if tensor.dtype.kind == "bool":
        raise GraphTypeError(f"positive takes numbers, not {tensor.type}; cast it first.")
    return tensor


@operation(classes="Trunc", also="numpy mint")
def trunc(x: TensorLike) -> Tensor:
    """x rounded towards 0."""
    tensor = tensor_of(x)
    return copysign(floor(abs(tensor)), tensor) if tensor.dtype.is_float else tensor


@operation(also="mint")
def frac(x: TensorLike) -> Tensor:
    """The fractional part of x, with the sign of x."""
    return sub(x, trunc(x))


@operation(names="truncate_mod", classes="Mod TruncateMod", also="mint")
def fmod(x: TensorLike, other: TensorLike) -> Tensor:
    """The remainder of x / other with the sign of x, broadcasting."""
    return apply("fmod", *numbers(x, other))


@operation(classes="Fmax")
def fmax(x: TensorLike, other: TensorLike) -> Tensor:
    """The larger of two, broadcasting; where one is nan, the other."""
    return _without_nans("maximum", x, other)


@operation(classes="Fmin")
def fmin(x: TensorLike, other: TensorLike) -> Tensor:
    """The smaller of two, broadcasting; where one is nan, the other."""
    return _without_nans("minimum", x, other)


def _without_nans(name: str, x: TensorLike, other: TensorLike) -> Tensor:
    x, other = numbers(x, other)
    larger = apply(name, x, other, ties="first")
    return where(isnan(other), x, where(isnan(x), other, larger))


@operator_class("DivNoNan")
def div_no_nan(x: TensorLike, y: TensorLike) -> Tensor:
    """x / y, broadcasting; 0 where y is 0."""
    x, y = floats(x, y)
    is_zero = y == 0.0
    return where(is_zero, 0.0, elementwise.div(x, where(is_zero, 1.0, y)))


@operator_class("MulNoNan")
def mul_no_nan(x: TensorLike, y: TensorLike) -> Tensor:
    """x * y, broadcasting; 0 where y is 0, also of an infinity or nan."""
    x, y = numbers(x, y)
    is_zero = y == 0
    return where(is_zero, 0, where(is_zero, 0, x) * y)


@operator_class("SquaredDifference")
def squared_difference(x: TensorLike, y: TensorLike) -> Tensor:
    """(x - y) ** 2, broadcasting."""
    return elementwise.square(sub(x, y))


@operator_class("SquareSumAll")
def square_sum_all(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    """The sums of the squares of all elements of each."""
    return sum(elementwise.square(x)), sum(elementwise.square(y))


@operation(classes="Lerp LerpScalar", also="mint")
def lerp(x: TensorLike, end: ShapeLike, weight: TensorLike) -> Tensor:
    """x + weight * (end - x), broadcasting."""
    return in_single(lambda x, end, weight: x + weight * (end - x), *floats(x, end, weight))


@operation(classes="Addcmul")
def addcmul(x: TensorLike, tensor1: TensorLike, tensor2: TensorLike, value: TensorLike = 1) -> Tensor:
    """x + value * tensor1 * tensor2, broadcasting."""
    return in_single(lambda x, a, b, v: x + v * (a * b), x, tensor1, tensor2, value)


@operation(classes="Addcdiv")
def addcdiv(x: TensorLike, tensor1: TensorLike, tensor2: TensorLike, value: TensorLike = 1) -> Tensor:
    """x + value * tensor1 / tensor2, broadcasting."""
    return in_single(lambda x, a, b, v: x + v * (a / b), *floats(x, tensor1, tensor2, value))


@operation
def signbit(x: TensorLike) -> Tensor:
    """True where the sign is minus, also for -0.0; false for nan."""
    x = tensor_of(x)
    negative = x < 0
    return negative | (reciprocal(x) < 0) if x.dtype.is_float else negative


@operation
def copysign(x: TensorLike, other: TensorLike) -> Tensor:
    """The absolute value of x with the sign of the other one, broadcasting."""
    x, other = floats(x, other)
    plus = elementwise.cast(1.0, x.dtype)
    return abs(x) * where(signbit(other), -plus, plus)


@operation(classes="Heaviside", also="numpy")
def heaviside(x: TensorLike, values: TensorLike) -> Tensor:
    """0 below 0, 1 above it, and `values` at 0, broadcasting."""
    x, values = numbers(x, values)
    step = elementwise.cast(x > 0, x.dtype)
    return where(x == 0, values, where(isnan(x), x, step))


@operation(classes="NanToNum", settings="nan posinf neginf", also="mint")
def nan_to_num(
    x: TensorLike, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """x with nan replaced by a number, 0 by default, and infinities by the largest finite numbers or given ones."""
    x = float_of(x)
    largest = largest_number(x.dtype)
    x = where(isnan(x), 0.0 if nan is None else nan, x)
    x = where(x == np.inf, largest if posinf is None else posinf, x)
    return where(x == -np.inf, -largest if neginf is None else neginf, x)


@operation(classes="BiasAdd")
def bias_add(x: TensorLike, bias: TensorLike) -> Tensor:
    """x with one number added for each position along its axis 1, the channels.

    Raises GraphValueError unless x has two axes or more and the bias is a vector of that size.
    """
    x, bias = dispatch.promoted(tensor_of(x), tensor_of(bias))
    if x.ndim < 2 or bias.shape != x.shape[1:2]:
        message = f"bias_add takes a bias for each position along axis 1, not {bias.type} for {x.type}."
        raise GraphValueError(message)
    return x + bias.reshape((-1, *[1] * (x.ndim - 2)))


@in_place("add_")
def _added(x: TensorLike, other: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
    """x + alpha * other, broadcasting."""
    return add(x, other if alpha == 1 else mul(other, alpha))


@operator_class("CompareAndBitpack")
def _bitpacked(x: TensorLike, threshold: TensorLike) -> Tensor:
    """Elementwise x > threshold, with eight results of the last axis packed in one uint8, the first one highest."""
    values = tensor_of(x)
    if not values.ndim or values.shape[-1] % 8:
        message = f"CompareAndBitpack takes a last axis of a multiple of 8, not {values.type}."
        raise GraphValueError(message)
    bits = cast(less(threshold, values), int32)
    eights = shapes.reshape(bits, (*values.shape[:-1], values.shape[-1] // 8, 8))
    return cast(total(eights * Tensor([128, 64, 32, 16, 8, 4, 2, 1], int32), -1), uint8)


@operation(classes="IsClose", settings="rtol atol equal_nan", also="mint")
def isclose(
    x: TensorLike, other: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Tests |x - other| <= atol + rtol * |other|, broadcasting; equal infinities are close, nans if `equal_nan`."""
    x, other = (t if t.dtype.is_float else cast(t, "float64") for t in numbers(x, other))
    near = abs(x - other) <= abs(other) * rtol + atol
    close = (x == other) | (isfinite(other) & near)
    return close | (isnan(x) & isnan(other)) if equal_nan else close


@operation(also="mint")
def allclose(
    x: TensorLike, other: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """True if all elements are close (see `isclose`), as a tensor without axes."""
    return all(isclose(x, other, rtol, atol, equal_nan))


@operation(classes="ApproximateEqual", settings="tolerance")
def approximate_equal(x: TensorLike, y: TensorLike, tolerance: float = 1e-05) -> Tensor:
    """Elementwise |x - y| < tolerance, broadcasting."""
    return abs(sub(x, y)) < tolerance


@operation
def isposinf(x: TensorLike) -> Tensor:
    """True where a number is positive infinity."""
    return float_of(x) == math.inf


@operation
def isneginf(x: TensorLike) -> Tensor:
    """True where a number is negative infinity."""
    return float_of(x) == -math.inf


@operator_class("EqualCount")
def _equal_count(x: TensorLike, y: TensorLike) -> Tensor:
    """The number of equal elements of two tensors of one shape, as a vector of one int32."""
    first, second = tensor_of(x), tensor_of(y)
    if first.shape != second.shape:
        message = f"EqualCount takes tensors of one shape, not {first.type} and {second.type}."
        raise GraphValueError(message)
    return reshape(sum(cast(first == second, int32)), (1,))


@operation(classes="BitwiseAnd", symbol="and", also="numpy")
def bitwise_and(x: TensorLike, other: TensorLike) -> Tensor:
    """Bitwise and of integers, or logical and of bools, broadcasting."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_and(x, other) if x.dtype is bool_ else apply("bitwise_and", x, other)


@operation(classes="BitwiseOr", symbol="or", also="numpy")
def bitwise_or(x: TensorLike, other: TensorLike) -> Tensor:
    """Bitwise or of integers, or logical or of bools, broadcasting."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_or(x, other) if x.dtype is bool_ else apply("bitwise_or", x, other)


@operation(classes="BitwiseXor", symbol="xor", also="numpy")
def bitwise_xor(x: TensorLike, other: TensorLike) -> Tensor:
    """Bitwise exclusive or of integers, or logical exclusive or of bools, broadcasting."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_xor(x, other) if x.dtype is bool_ else apply("bitwise_xor", x, other)


@operation(names="bitwise_not", classes="Invert")
def invert(x: TensorLike) -> Tensor:
    """Bitwise not of integers: -1 - x where they are signed; logical not of bools."""
    x = tensor_of(x)
    if x.dtype is bool_:
        return ~x
    _require_integers("invert", x)
    every = np.iinfo(x.dtype.numpy).max if x.dtype.kind == "uint" else -1
    return apply("bitwise_xor", x, every)


@operation(classes="LeftShift", symbol="lshift")
def bitwise_left_shift(x: TensorLike, other: TensorLike) -> Tensor:
    """x * 2 ** other of integers, broadcasting; bits that leave the dtype are lost.

    0 where the shift is negative or as large as the dtype has bits.
    """
    return _shifted("bitwise_left_shift", mul, x, other)


@operation(classes="RightShift", symbol="rshift")
def bitwise_right_shift(x: TensorLike, other: TensorLike) -> Tensor:
    """x / 2 ** other of integers, rounded down, broadcasting.

    0, or -1 of a negative x, where the shift is negative or as large as the dtype has bits.
    """
    return _shifted("bitwise_right_shift", floor_div, x, other)


def _shifted(name: str, function: Callable[[Tensor, Tensor], Tensor], x: TensorLike, other: TensorLike) -> Tensor:
    """Two shifts by half of the bits, in int64, so that no power of two overflows."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    _require_integers(name, x)
    width = 8 * x.dtype.itemsize
    bits = cast(other, int64)
    bits = where((bits >= 0) & (bits < width), bits, width)
    half = bits // 2
    once = function(cast(x, int64), _power_of_two(half))
    return cast(function(once, _power_of_two(bits - half)), x.dtype)


@operation(classes="PopulationCount")
def population_count(x: TensorLike) -> Tensor:
    """The number of 1 bits of each integer, in two's complement, as uint8."""
    x = tensor_of(x)
    _require_integers("population_count", x)
    bits = [bitwise_and(bitwise_right_shift(x, position), 1) for position in range(8 * x.dtype.itemsize)]
    return cast(addn(bits), uint8)


def _require_integers(name: str, x: Tensor) -> None:
    if x.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"{name} takes integers, not {x.type}; cast it first.")


def _power_of_two(x: Tensor) -> Tensor:
    """2 ** x, which is exact in float64; rounded, as a GPU's power may be slightly less."""
    return cast(round(2.0 ** cast(x, float64)), int64)


@operation(classes="Gcd")
def gcd(input: TensorLike, other: TensorLike) -> Tensor:
    """The greatest common divisors of integers, broadcasting; of 0 and a number, its absolute value.

    Raises GraphTypeError for other dtypes.
    """
    return _gcd(*_integers("gcd", input, other))


@operation(classes="Lcm")
def lcm(input: TensorLike, other: TensorLike) -> Tensor:
    """The least common multiples of integers, broadcasting; 0 where one is 0. Raises GraphTypeError as `gcd`."""
    x, y = _integers("lcm", input, other)
    divisor = _gcd(x, y)
    return abs(x // where(divisor == 0, 1, divisor)) * abs(y)


def _integers(name: str, *operands: Any) -> tuple[Tensor, ...]:
    tensors = dispatch.promoted(*map(operand_of, operands))
    if tensors[0].dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"{name} takes integers, not {tensors[0].type}; cast it first.")
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)


def _gcd(x: Tensor, y: Tensor) -> Tensor:
    """Euclid's algorithm, until all elements are done."""

    def reduced(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        larger, smaller = state
        is_done = smaller == 0
        remainder = larger % where(is_done, 1, smaller)
        return where(is_done, larger, smaller), where(is_done, 0, remainder)

    result: Tensor = while_loop(lambda state: any(not_equal(state[1], 0)), reduced, (abs(x), abs(y)))[0]
    return result
