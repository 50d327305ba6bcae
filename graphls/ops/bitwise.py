"""Operations on the bits of integers, of every element alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError
from graphls.ir.types import bool_, float64, int64, uint8
from graphls.ops.elementwise import addn, cast, floor_div, mul, pow, round, sub
from graphls.ops.logic import greater_equal, less, logical_and, logical_not, logical_or, logical_xor, where
from graphls.ops.operands import apply, operand_of, tensor_of
from graphls.ops.record import operation
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation(classes="BitwiseAnd", symbol="and")
def bitwise_and(x: Any, other: Any) -> Tensor:
    """The bits that both integers have, broadcasting; of bools, whether both are true."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_and(x, other) if x.dtype is bool_ else apply("bitwise_and", x, other)


@operation(classes="BitwiseOr", symbol="or")
def bitwise_or(x: Any, other: Any) -> Tensor:
    """The bits that one or both integers have, broadcasting; of bools, whether one is true."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_or(x, other) if x.dtype is bool_ else apply("bitwise_or", x, other)


@operation(classes="BitwiseXor", symbol="xor")
def bitwise_xor(x: Any, other: Any) -> Tensor:
    """The bits that just one integer has, broadcasting; of bools, whether just one is true."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return logical_xor(x, other) if x.dtype is bool_ else apply("bitwise_xor", x, other)


@operation(names="bitwise_not", classes="Invert")
def invert(x: Any) -> Tensor:
    """The bits that an integer does not have: -1 - x where it is signed; of a bool, whether it is false."""
    x = tensor_of(x)
    if x.dtype is bool_:
        return logical_not(x)
    _require_integers("invert", x)
    every = np.iinfo(x.dtype.numpy).max if x.dtype.kind == "uint" else -1
    return apply("bitwise_xor", x, every)


@operation(classes="LeftShift", symbol="lshift")
def bitwise_left_shift(x: Any, other: Any) -> Tensor:
    """x * 2 ** other of integers, broadcasting; bits that leave the dtype are lost.

    0 where the shift is negative or as large as the dtype has bits.
    """
    return _shifted("bitwise_left_shift", mul, x, other)


@operation(classes="RightShift", symbol="rshift")
def bitwise_right_shift(x: Any, other: Any) -> Tensor:
    """x / 2 ** other of integers, rounded down, broadcasting.

    0, or -1 of a negative x, where the shift is negative or as large as the dtype has bits.
    """
    return _shifted("bitwise_right_shift", floor_div, x, other)


def _shifted(name: str, function: Callable[[Tensor, Tensor], Tensor], x: Any, other: Any) -> Tensor:
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
def population_count(x: Any) -> Tensor:
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
