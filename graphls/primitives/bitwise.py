"""Operations on the bits of integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.ir.types import Type, int8, int32, int64, uint8
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Elementwise, no_gradient, of, sample
from graphls.primitives.shape import by_halves

FIRST_OPSET = 18
"""The opset that has brought operators of bits."""


class Bitwise(Elementwise, abstract=True):
    """An integer from the bits of two, broadcasting: those that as many of them have as `counts` says."""

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
        """By single bits before opset 18, and on a GPU, which have no operator of bits."""
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
        """1 where as many of the two have the bit as the operation asks for, and else 0."""
        is_one = [e.Equal(counts, e.scalar(count)) for count in self.counts]
        return e.cast(is_one[0] if len(is_one) == 1 else e.Or(*is_one), e.in_types[0].dtype)


def _bits(e: Emitter, x: str, powers: str, two: str) -> str:
    """All bits but that of the sign along a new last axis: how often a power of 2 fits into x, modulo 2."""
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
    """The bits that just one of x and y has, broadcasting; integers."""

    counts = (1,)
    numpy = np.bitwise_xor
