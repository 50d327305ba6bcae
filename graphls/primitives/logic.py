"""Comparisons, logic and selection."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_, broadcast_shapes, int8, int32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import (
    Array,
    Primitive,
    Sample,
    f32,
    no_gradient,
    of,
    require_float,
    same_dtype,
    sample,
)

_PAIRS = (
    sample(f32(2, 3), f32(3), gradient=False),
    sample(of(int32, 9), of(int32, 9)),
    sample(of(int64, 3, 1), of(int64, 3)),
    sample(of(uint8, 5), of(uint8, 5), integers=(0, 3)),
    sample(f32(2, 0), f32()),
)


class Comparison(Primitive, abstract=True):
    """A bool for each pair of operands of one dtype, broadcasting."""

    half = "exact"
    samples: ClassVar[tuple[Sample, ...]] = _PAIRS
    operator: ClassVar[str]
    vjp = no_gradient

    def infer(self, x: Type, y: Type) -> Type:
        dtype = same_dtype(self.name, x, y)
        if dtype is bool_ and self.operator != "Equal":
            raise GraphTypeError(f"{self.name} takes numbers, not {x}; cast them first.")
        return Type(bool_, broadcast_shapes(x.shape, y.shape))

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        return e.operator(self.operator, [x, y])


class Equal(Comparison):
    """Whether x == y, broadcasting; nan equals nothing."""

    samples = (*_PAIRS, sample(of(bool_, 6), of(bool_, 6)))
    operator = "Equal"
    numpy = np.equal


class NotEqual(Comparison):
    """Whether x != y, broadcasting; true where either is nan."""

    samples = (*_PAIRS, sample(of(bool_, 6), of(bool_, 6)))
    operator = "Equal"
    numpy = np.not_equal

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        return e.Not(super().onnx(e, x, y))


class Less(Comparison):
    """Whether x < y, broadcasting; false where either is nan."""

    operator = "Less"
    numpy = np.less


class LessEqual(Comparison):
    """Whether x <= y, broadcasting; false where either is nan."""

    operator = "LessOrEqual"
    numpy = np.less_equal


class Greater(Comparison):
    """Whether x > y, broadcasting; false where either is nan."""

    operator = "Greater"
    numpy = np.greater


class GreaterEqual(Comparison):
    """Whether x >= y, broadcasting; false where either is nan."""

    operator = "GreaterOrEqual"
    numpy = np.greater_equal


class Logical(Primitive, abstract=True):
    """A bool from bools, broadcasting."""

    half = "exact"
    samples = (sample(of(bool_, 2, 3), of(bool_, 3)), sample(of(bool_, 0, 3), of(bool_)))
    vjp = no_gradient

    def infer(self, *operands: Type) -> Type:
        for operand in operands:
            if operand.dtype is not bool_:
                raise GraphTypeError(f"{self.name} takes bools, not {operand}; compare it with 0 first.")
        return Type(bool_, broadcast_shapes(*(t.shape for t in operands)))


class LogicalAnd(Logical):
    """Whether both x and y are true, broadcasting."""

    neutral = ((0, True), (1, True))
    onnx = "And"
    numpy = np.logical_and


class LogicalOr(Logical):
    """Whether x or y is true, broadcasting."""

    neutral = ((0, False), (1, False))
    onnx = "Or"
    numpy = np.logical_or


class LogicalXor(Logical):
    """Whether just one of x and y is true, broadcasting."""

    onnx = "Xor"
    numpy = np.logical_xor


class LogicalNot(Logical):
    """Whether x is false."""

    samples = (sample(of(bool_, 2, 3)), sample(of(bool_)))
    onnx = "Not"
    numpy = np.logical_not


class IsFinite(Primitive):
    """Whether a float is neither an infinity nor nan."""

    half = "exact"
    samples = (sample(f32(2, 3), gradient=False), sample(f32(40), low=-1e39, high=1e39, gradient=False))
    vjp = no_gradient
    numpy = np.isfinite

    def infer(self, x: Type) -> Type:
        require_float(self.name, x)
        return x.with_dtype(bool_)

    def onnx(self, e: Emitter, x: str) -> str:
        """A comparison with nan is false, and so is inf < inf."""
        return e.Less(e.Abs(x), e.scalar(math.inf))


class Where(Primitive):
    """x where the condition is true and y where it is false, all broadcasting; x and y of one dtype."""

    half = "exact"
    flops_per_element = 0
    elementwise = True
    integer_gradient = "whole"
    samples = (
        sample(of(bool_, 2, 3), f32(2, 3), f32(2, 3)),
        sample(of(bool_, 3), f32(2, 1), f32()),
        sample(of(bool_, 5), of(int32, 5), of(int32)),
        sample(of(bool_, 5), of(int8, 5), of(int8)),
        sample(of(bool_, 5), of(bool_, 5), of(bool_, 5)),
        sample(of(bool_), f32(0, 2), f32(2)),
    )

    def infer(self, condition: Type, x: Type, y: Type) -> Type:
        if condition.dtype is not bool_:
            raise GraphTypeError(f"where takes a bool condition, not {condition}; compare it with 0 first.")
        dtype = same_dtype(self.name, x, y)
        return Type(dtype, broadcast_shapes(condition.shape, x.shape, y.shape))

    def numpy(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    def vjp(self, e: Builder, g: Value, condition: Value, x: Value, y: Value, out: Value) -> Any:
        zero = e.constant(0.0, g.type.dtype)
        return None, e.where(condition, g, zero), e.where(condition, zero, g)

    def onnx(self, e: Emitter, condition: str, x: str, y: str) -> str:
        if e.in_types[1].dtype is not bool_:
            return e.Where(condition, x, y)
        return e.Or(e.And(condition, x), e.And(e.Not(condition), y))
