"""Comparisons, logic and selection of every element alone."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.types import bool_
from graphls.ops.operands import apply, float_of, numbers, operand_of, tensor_of
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor

__all__ = [
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal", "select", "where",
]  # fmt: skip


def equal(x: Any, y: Any) -> Tensor:
    """Whether x == y, broadcasting."""
    return apply("equal", *dispatch.promoted(operand_of(x), operand_of(y)))


def not_equal(x: Any, y: Any) -> Tensor:
    """Whether x != y, broadcasting."""
    return apply("not_equal", *dispatch.promoted(operand_of(x), operand_of(y)))


def less(x: Any, y: Any) -> Tensor:
    """Whether x < y, broadcasting."""
    return apply("less", *numbers(x, y))


def less_equal(x: Any, y: Any) -> Tensor:
    """Whether x <= y, broadcasting."""
    return apply("less_equal", *numbers(x, y))


def greater(x: Any, y: Any) -> Tensor:
    """Whether x > y, broadcasting."""
    return apply("greater", *numbers(x, y))


def greater_equal(x: Any, y: Any) -> Tensor:
    """Whether x >= y, broadcasting."""
    return apply("greater_equal", *numbers(x, y))


def logical_and(x: Any, y: Any) -> Tensor:
    """Whether both are true, broadcasting; a number is true where it is not 0."""
    return apply("logical_and", bool_of(x), bool_of(y))


def logical_or(x: Any, y: Any) -> Tensor:
    """Whether one or both are true, broadcasting."""
    return apply("logical_or", bool_of(x), bool_of(y))


def logical_xor(x: Any, y: Any) -> Tensor:
    """Whether just one is true, broadcasting."""
    return apply("logical_xor", bool_of(x), bool_of(y))


def logical_not(x: Any) -> Tensor:
    """Whether x is false."""
    return apply("logical_not", bool_of(x))


def bool_of(x: Any) -> Tensor:
    """A bool tensor; numbers are true where they are not 0."""
    x = tensor_of(x)
    return x if x.dtype is bool_ else not_equal(x, 0)


def isfinite(x: Any) -> Tensor:
    """Whether a number is neither an infinity nor nan."""
    return apply("is_finite", float_of(x))


def isnan(x: Any) -> Tensor:
    """Whether a number is nan."""
    x = tensor_of(x)
    return not_equal(x, x)


def isinf(x: Any) -> Tensor:
    """Whether a number is an infinity."""
    return equal(apply("abs", float_of(x)), math.inf)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition is true and y elsewhere, all broadcasting."""
    return apply("where", bool_of(condition), *dispatch.promoted(operand_of(x), operand_of(y)))


select = where
