"""The larger and the smaller of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type
from graphls.primitives.arithmetic import INTEGERS, PAIRS
from graphls.primitives.primitive import Array, Elementwise, f32, sample

TIES = ("shared", "first")


class OneOfTwo(Elementwise, abstract=True):
    """One of x and y, broadcasting, nan where either is.

    `ties` says who gets the gradient of equal ones: "shared" gives half of it to each, and of a nan all of it to both;
    "first" gives it to x, and that of a nan to nobody.
    """

    half = "exact"
    samples = (*PAIRS, *INTEGERS, sample(f32(2, 3), f32(3), ties="first"))

    def infer(self, *types: Type, ties: str = "shared") -> Type:
        if ties not in TIES:
            raise GraphValueError(f"The 'ties' of {self.name} are 'shared' or 'first', not {ties!r}.")
        return super().infer(*types)


class Maximum(OneOfTwo):
    """The larger of x and y, broadcasting, nan where either is; see `OneOfTwo` for ties."""

    def numpy(self, x: Array, y: Array, ties: str = "shared") -> Array:
        return np.maximum(x, y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value, ties: str = "shared") -> Any:
        return _to_first(e, g, x, y, "greater") if ties == "first" else _shared(e, g, x, y, "less", "greater")

    def onnx(self, e: Any, x: str, y: str, ties: str = "shared") -> Any:
        return e.Max(x, y)


class Minimum(OneOfTwo):
    """The smaller of x and y, broadcasting, nan where either is; see `OneOfTwo` for ties."""

    def numpy(self, x: Array, y: Array, ties: str = "shared") -> Array:
        return np.minimum(x, y)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, out: Value, ties: str = "shared") -> Any:
        return _to_first(e, g, x, y, "less") if ties == "first" else _shared(e, g, x, y, "greater", "less")

    def onnx(self, e: Any, x: str, y: str, ties: str = "shared") -> Any:
        return e.Min(x, y)


def _shared(e: Builder, g: Value, x: Value, y: Value, x_loses: str, y_loses: str) -> tuple[Value, Value]:
    """Equal ones get a half; a comparison with nan is false, so nobody loses then."""
    zero, dtype = e.constant(0.0, g.type.dtype), g.type.dtype
    share = e.mul(g, e.sub(1.0, e.mul(e.cast(e.equal(x, y), dtype=dtype), 0.5)))
    return (
        e.where(getattr(e, x_loses)(x, y), zero, share),
        e.where(getattr(e, y_loses)(x, y), zero, share),
    )


def _to_first(e: Builder, g: Value, x: Value, y: Value, first_wins: str) -> tuple[Value, Value]:
    zero = e.constant(0.0, g.type.dtype)
    return e.where(getattr(e, f"{first_wins}_equal")(x, y), g, zero), e.where(getattr(e, first_wins)(y, x), g, zero)
