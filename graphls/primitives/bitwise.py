"""Operations on the bits of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphTypeError
from graphls.ir.graph import Value
from graphls.ir.types import Type, int8, int32, int64, uint8
from graphls.primitives.primitive import Array, Elementwise, of, sample


class Bitwise(Elementwise, abstract=True):
    """An integer from the bits of two, broadcasting."""

    samples = (
        sample(of(int32, 2, 9), of(int32, 9), integers=(-99, 99)),
        sample(of(int64, 3, 1), of(int64, 3)),
        sample(of(uint8, 9), of(uint8, 9), integers=(0, 256)),
        sample(of(int8, 9), of(int8), integers=(-128, 128)),
        sample(of(int32, 0, 3), of(int32, 3)),
    )

    def infer(self, *types: Type) -> Type:
        for kind in types:
            if kind.dtype.kind not in ("int", "uint"):
                raise GraphTypeError(f"{self.name} takes integers, not {kind}; cast it first.")
        return super().infer(*types)

    def vjp(self, e: Builder, g: Any, x: Value, y: Value, out: Value) -> Any:
        return None, None


class BitwiseAnd(Bitwise):
    """The bits that both x and y have, broadcasting; integers."""

    onnx = "BitwiseAnd"

    def numpy(self, x: Array, y: Array) -> Array:
        return np.bitwise_and(x, y)


class BitwiseOr(Bitwise):
    """The bits that x or y has, broadcasting; integers."""

    onnx = "BitwiseOr"

    def numpy(self, x: Array, y: Array) -> Array:
        return np.bitwise_or(x, y)


class BitwiseXor(Bitwise):
    """The bits that just one of x and y has, broadcasting; integers."""

    onnx = "BitwiseXor"

    def numpy(self, x: Array, y: Array) -> Array:
        return np.bitwise_xor(x, y)
