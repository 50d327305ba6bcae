"""Comparisons, logic and selection of every element alone."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.types import bool_
from graphls.ops.operands import apply, float_of, numbers, operand_of, tensor_of
from graphls.ops.record import operation, tensor_method
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor, TensorLike


@operation(names="eq", classes="Equal", symbol="eq")
def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x == y, broadcasting."""
    return apply("equal", *dispatch.promoted(operand_of(x), operand_of(y)))


@operation(names="ne", classes="NotEqual", symbol="ne")
def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x != y, broadcasting."""
    return apply("not_equal", *dispatch.promoted(operand_of(x), operand_of(y)))


@operation(names="lt tensor_lt", classes="Less", symbol="lt")
def less(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x < y, broadcasting."""
    return apply("less", *numbers(x, y))


@operation(names="le tensor_le", classes="LessEqual", symbol="le")
def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x <= y, broadcasting."""
    return apply("less_equal", *numbers(x, y))


@operation(names="gt tensor_gt", classes="Greater", symbol="gt")
def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x > y, broadcasting."""
    return apply("greater", *numbers(x, y))


@operation(names="ge tensor_ge", classes="GreaterEqual", symbol="ge")
def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether x >= y, broadcasting."""
    return apply("greater_equal", *numbers(x, y))


@operation(classes="LogicalAnd")
def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether both are true, broadcasting; a number is true where it is not 0."""
    return apply("logical_and", bool_of(x), bool_of(y))


@operation(classes="LogicalOr")
def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether one or both are true, broadcasting."""
    return apply("logical_or", bool_of(x), bool_of(y))


@operation(classes="LogicalXor")
def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether just one is true, broadcasting."""
    return apply("logical_xor", bool_of(x), bool_of(y))


@operation(classes="LogicalNot", in_place="logical_not_", symbol="invert")
def logical_not(x: TensorLike) -> Tensor:
    """Whether x is false."""
    return apply("logical_not", bool_of(x))


def bool_of(x: TensorLike) -> Tensor:
    """A bool tensor; numbers are true where they are not 0."""
    x = tensor_of(x)
    return x if x.dtype is bool_ else not_equal(x, 0)


@operation(classes="IsFinite")
def isfinite(x: TensorLike) -> Tensor:
    """Whether a number is neither an infinity nor nan."""
    return apply("is_finite", float_of(x))


@operation(classes="IsNan")
def isnan(x: TensorLike) -> Tensor:
    """Whether a number is nan."""
    x = tensor_of(x)
    return not_equal(x, x)


@operation(classes="IsInf")
def isinf(x: TensorLike) -> Tensor:
    """Whether a number is an infinity."""
    return equal(apply("abs", float_of(x)), math.inf)


@operation(names="select", classes="Select")
def where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the condition is true and y elsewhere, all broadcasting."""
    return apply("where", bool_of(condition), *dispatch.promoted(operand_of(x), operand_of(y)))


@tensor_method("where")
def _where_it_holds(x: TensorLike, condition: TensorLike, y: TensorLike) -> Tensor:
    """x where the condition is true and y elsewhere, all broadcasting."""
    return where(condition, x, y)
