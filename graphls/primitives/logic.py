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
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import (
    Array,
    Elementwise,
    Primitive,
    Sample,
    f32,
    no_gradient,
    of,
    require_float,
    same_dtype,
    sample,
)
from graphls.primitives.shape import by_halves

_PAIRS = (
    sample(f32(2, 3), f32(3), gradient=False),
    sample(of(int32, 9), of(int32, 9)),
    sample(of(int64, 3, 1), of(int64, 3)),
    sample(of(uint8, 5), of(uint8, 5), integers=(0, 3)),
    sample(f32(2, 0), f32()),
)


class Comparison(Primitive, abstract=True):
    """A comparison of two operands of one dtype, broadcasting."""

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
    """Elementwise x == y, broadcasting; nan equals nothing."""

    is_commutative = True
    samples = (*_PAIRS, sample(of(bool_, 6), of(bool_, 6)))
    operator = "Equal"
    numpy = np.equal


class NotEqual(Comparison):
    """Elementwise x != y, broadcasting; true where either is nan."""

    is_commutative = True
    samples = (*_PAIRS, sample(of(bool_, 6), of(bool_, 6)))
    operator = "Equal"
    numpy = np.not_equal

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        return e.Not(super().onnx(e, x, y))


class Less(Comparison):
    """Elementwise x < y, broadcasting; false where either is nan."""

    operator = "Less"
    numpy = np.less


class LessEqual(Comparison):
    """Elementwise x <= y, broadcasting; false where either is nan."""

    operator = "LessOrEqual"
    numpy = np.less_equal


class Greater(Comparison):
    """Elementwise x > y, broadcasting; false where either is nan."""

    operator = "Greater"
    numpy = np.greater


class GreaterEqual(Comparison):
    """Elementwise x >= y, broadcasting; false where either is nan."""

    operator = "GreaterOrEqual"
    numpy = np.greater_equal


class Logical(Primitive, abstract=True):
    """A logical function of bools, broadcasting."""

    half = "exact"
    samples = (sample(of(bool_, 2, 3), of(bool_, 3)), sample(of(bool_, 0, 3), of(bool_)))
    vjp = no_gradient

    def infer(self, *operands: Type) -> Type:
        for operand in operands:
            if operand.dtype is not bool_:
                raise GraphTypeError(f"{self.name} takes bools, not {operand}; compare it with 0 first.")
        return Type(bool_, broadcast_shapes(*(t.shape for t in operands)))


class LogicalAnd(Logical):
    """Elementwise x and y, broadcasting; bools."""

    is_commutative = True
    neutral = ((0, True), (1, True))
    onnx = "And"
    numpy = np.logical_and


class LogicalOr(Logical):
    """Elementwise x or y, broadcasting; bools."""

    is_commutative = True
    neutral = ((0, False), (1, False))
    onnx = "Or"
    numpy = np.logical_or


class LogicalXor(Logical):
    """True where exactly one of x and y is true, broadcasting; bools."""

    is_commutative = True
    onnx = "Xor"
    numpy = np.logical_xor


class LogicalNot(Logical):
    """Elementwise not x; bools."""

    samples = (sample(of(bool_, 2, 3)), sample(of(bool_)))
    onnx = "Not"
    numpy = np.logical_not


class IsFinite(Primitive):
    """True where a float is neither an infinity nor nan."""

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

    def numpy(self, condition: Array, x: Array, y: Array) -> Any:
        return namespace(condition, x, y).where(condition, x, y)

    def vjp(self, e: Builder, g: Value, condition: Value, x: Value, y: Value, out: Value) -> Any:
        zero = e.constant(0.0, g.type.dtype)
        return None, e.where(condition, g, zero), e.where(condition, zero, g)

    def onnx(self, e: Emitter, condition: str, x: str, y: str) -> str:
        if e.in_types[1].dtype is not bool_:
            return e.Where(condition, x, y)
        return e.Or(e.And(condition, x), e.And(e.Not(condition), y))


FIRST_OPSET = 18
"""The first opset with bitwise operators."""


class Bitwise(Elementwise, abstract=True):
    """A bitwise function of two integers, broadcasting: it sets the bits that `counts` of the two have."""

    is_commutative = True
    counts: ClassVar[tuple[int, ...]]

    samples = (
        sample(of(int32, 2, 9), of(int32, 9), integers=(-99, 99)),
        sample(of(int64, 3, 1), of(int64, 3)),
        sample(of(uint8, 9), of(uint8, 9), integers=(0, 256)),
        sample(of(int8, 9), of(int8), integers=(-128, 128)),
        sample(of(int32, 0, 3), of(int32, 3)),
    )
    vjp = no_gradient

    def infer(self, *types: Type) -> Type:
        for kind in types:
            if kind.dtype.kind not in ("int", "uint"):
                raise GraphTypeError(f"{self.name} takes integers, not {kind}; cast it first.")
        return super().infer(*types)

    def onnx(self, e: Emitter, x: str, y: str) -> str:
        """Bit by bit before opset 18 and on a GPU, where there is no bitwise operator."""
        operator = type(self).__name__
        if e.opset >= FIRST_OPSET and e.has_kernel(operator):
            return e.operator(operator, [x, y])
        last = 8 * e.in_types[0].dtype.itemsize - 1
        powers, two = e.const(2 ** np.arange(last), e.in_types[0].dtype), e.scalar(2)
        counts = e.Add(*(_bits(e, name, powers, two) for name in (x, y)))
        bits = e.Mul(self._chosen(e, counts), powers)
        low = e.Squeeze(by_halves(e, e.Add, bits, last), e.ints([-1]))
        negative = e.Add(*(e.cast(e.Less(name, e.scalar(0)), e.in_types[0].dtype) for name in (x, y)))
        return e.Add(low, e.Mul(self._chosen(e, negative), e.scalar(-(2**last))))

    def _chosen(self, e: Emitter, counts: str) -> str:
        """1 where the number of operands with the bit is one of `counts`, else 0."""
        is_one = [e.Equal(counts, e.scalar(count)) for count in self.counts]
        return e.cast(is_one[0] if len(is_one) == 1 else e.Or(*is_one), e.in_types[0].dtype)


def _bits(e: Emitter, x: str, powers: str, two: str) -> str:
    """All bits except the sign bit along a new last axis: x divided by each power of 2, modulo 2."""
    wide = e.Unsqueeze(x, e.ints([-1]))
    return e.Mod(e.Div(e.Sub(wide, e.Mod(wide, powers)), powers), two)


class BitwiseAnd(Bitwise):
    """The bits that both x and y have, broadcasting; integers."""

    counts = (2,)
    numpy = np.bitwise_and


class BitwiseOr(Bitwise):
    """The bits that x or y has, broadcasting; integers."""

    counts = (1, 2)
    numpy = np.bitwise_or


class BitwiseXor(Bitwise):
    """The bits that exactly one of x and y has, broadcasting; integers."""

    counts = (1,)
    numpy = np.bitwise_xor
