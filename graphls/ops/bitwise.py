"""Functions of integers, of every element alone: their bits, and common divisors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError
from graphls.ir.types import bool_, broadcast_shapes, float64, int64, uint8
from graphls.ops.control_flow import while_loop
from graphls.ops.elementwise import abs, addn, cast, floor_div, mod, mul, pow, round, sub
from graphls.ops.logic import (
    equal,
    greater_equal,
    less,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    where,
)
from graphls.ops.operands import apply, operand_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import any
from graphls.ops.shapes import broadcast_to
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor, TensorLike


@operation(classes="BitwiseAnd", symbol="and")
def bitwise_and(x: TensorLike, other: TensorLike) -> Tensor:
    """The bits that both integers have, broadcasting; of bools, whether both are true."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_and(x, other) if x.dtype is bool_ else apply("bitwise_and", x, other)


@operation(classes="BitwiseOr", symbol="or")
def bitwise_or(x: TensorLike, other: TensorLike) -> Tensor:
    """The bits that one or both integers have, broadcasting; of bools, whether one is true."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_or(x, other) if x.dtype is bool_ else apply("bitwise_or", x, other)


@operation(classes="BitwiseXor", symbol="xor")
def bitwise_xor(x: TensorLike, other: TensorLike) -> Tensor:
    """The bits that just one integer has, broadcasting; of bools, whether just one is true."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_xor(x, other) if x.dtype is bool_ else apply("bitwise_xor", x, other)


@operation(names="bitwise_not", classes="Invert")
def invert(x: TensorLike) -> Tensor:
    """The bits that an integer does not have: -1 - x where it is signed; of a bool, whether it is false."""
    x = tensor_of(x)
    if x.dtype is bool_:
        return logical_not(x)
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
    """Two shifts by half as much, in int64, so that no power of two leaves it."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    _require_integers(name, x)
    width = 8 * x.dtype.itemsize
    bits = cast(other, int64)
    bits = where(logical_and(greater_equal(bits, 0), less(bits, width)), bits, width)
    half = floor_div(bits, 2)
    once = function(cast(x, int64), _power_of_two(half))
    return cast(function(once, _power_of_two(sub(bits, half))), x.dtype)


@operation(classes="PopulationCount")
def population_count(x: TensorLike) -> Tensor:
    """The number of bits of each integer that are 1, those of a negative one in two's complement, as uint8."""
    x = tensor_of(x)
    _require_integers("population_count", x)
    bits = [bitwise_and(bitwise_right_shift(x, place), 1) for place in range(8 * x.dtype.itemsize)]
    return cast(addn(bits), uint8)


def _require_integers(name: str, x: Tensor) -> None:
    if x.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"{name} takes integers, not {x.type}; cast it first.")


def _power_of_two(x: Tensor) -> Tensor:
    """2 ** x, of which float64 holds each one exactly; a GPU's power may be a little less."""
    return cast(round(pow(2.0, cast(x, float64))), int64)


@operation(classes="Gcd")
def gcd(input: TensorLike, other: TensorLike) -> Tensor:
    """The greatest integers that divide both, broadcasting; of 0 and a number, the number without its sign.

    Raises GraphTypeError for what is no integer.
    """
    return _gcd(*_integers("gcd", input, other))


@operation(classes="Lcm")
def lcm(input: TensorLike, other: TensorLike) -> Tensor:
    """The least integers above 0 that both divide, broadcasting; 0 where one is 0. Raises GraphTypeError as `gcd`."""
    x, y = _integers("lcm", input, other)
    divisor = _gcd(x, y)
    return mul(abs(floor_div(x, where(equal(divisor, 0), 1, divisor))), abs(y))


def _integers(name: str, *operands: Any) -> tuple[Tensor, ...]:
    tensors = dispatch.promoted(*map(operand_of, operands))
    if tensors[0].dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"{name} takes integers, not {tensors[0].type}; cast it first.")
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)


def _gcd(x: Tensor, y: Tensor) -> Tensor:
    """Euclid's algorithm, until all are done."""

    def reduced(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        larger, smaller = state
        is_done = equal(smaller, 0)
        rest = mod(larger, where(is_done, 1, smaller))
        return where(is_done, larger, smaller), where(is_done, 0, rest)

    found, _ = while_loop(lambda state: any(not_equal(state[1], 0)), reduced, (abs(x), abs(y)))
    result: Tensor = found
    return result
