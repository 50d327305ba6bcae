"""Matrix products and transposition."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, broadcast_shapes, float32, float64
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, Primitive, f32, of, require_float, sample
from graphls.primitives.shape import reshaped


class Matmul(Primitive):
    """Matrix product over the last two axes, broadcasting the leading ones; floats of rank 2 or more.

    `transpose_a` and `transpose_b` exchange the last two axes of an operand first.
    """

    is_product = True
    lowered_at = ("O1", "auto")
    session_from = 1 << 19
    samples = (
        sample(f32(2, 3), f32(3, 4)),
        sample(f32(3, 2), f32(4, 3), transpose_a=True, transpose_b=True),
        sample(f32(5, 2, 3), f32(3, 4)),
        sample(f32(5, 2, 3), f32(5, 4, 3), transpose_b=True),
        sample(f32(2, 1, 2, 3), f32(4, 3, 2)),
        sample(of(float64, 5, 3, 2), of(float64, 5, 4, 3), transpose_a=True, transpose_b=True),
        sample(f32(4, 3, 2), f32(2, 1, 3, 2), transpose_a=True),
        sample(f32(0, 3), f32(3, 4)),
        sample(f32(2, 0), f32(0, 4)),
        sample(f32(2, 2, 3), f32(3, 0)),
        sample(f32(2, 2, 0), f32(0, 3)),
    )

    def infer(self, a: Type, b: Type, transpose_a: bool = False, transpose_b: bool = False) -> Type:
        dtype = require_float(self.name, a, b)
        if a.rank < 2 or b.rank < 2:
            raise GraphValueError(f"matmul takes operands of rank 2 or more, not {a} and {b}.")
        rows, inner = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
        depth, columns = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
        if inner != depth:
            raise GraphValueError(f"matmul cannot multiply {a} by {b}: the inner sizes {inner} and {depth} differ.")
        return Type(dtype, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns))

    def numpy(self, a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
        a = a.swapaxes(-1, -2) if transpose_a else a
        return a @ (b.swapaxes(-1, -2) if transpose_b else b)

    def xla(self, jax: Any, a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Any:
        """Processors with units for it multiply the 16-bit floats themselves; the sums are of float32."""
        a, b = a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
        return jax.numpy.matmul(a, b, preferred_element_type=jax.numpy.promote_types(a.dtype, np.float32))

    def vjp(
        self, e: Builder, g: Value, a: Value, b: Value, y: Value, transpose_a: bool = False, transpose_b: bool = False
    ) -> Any:
        return (
            e.matmul(b, g, transpose_a=transpose_b, transpose_b=True)
            if transpose_a
            else e.matmul(g, b, transpose_b=not transpose_b),
            _gradient_of_second(e, g, a, b, transpose_a, transpose_b),
        )

    def summed_axes(
        self, a: Type, b: Type, transpose_a: bool = False, transpose_b: bool = False
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The last axis of a, and the last but one of b."""
        return (a.rank - 1 - transpose_a,), (b.rank - 2 + transpose_b,)

    def onnx(self, e: Emitter, a: str, b: str, transpose_a: bool = False, transpose_b: bool = False) -> str:
        ranks = [t.rank for t in e.in_types[:2]]
        if 0 in e.in_types[0].shape:
            # A sum of zero terms, for which some kernels leave the result unwritten.
            return e.const(np.zeros(e.out_types[0].shape), e.out_types[0].dtype)
        if ranks == [2, 2]:
            if transpose_b and not transpose_a and _is_faster_swapped(e):
                return _swapped_product(e, a, b)
            return e.Gemm(a, b, transA=int(transpose_a), transB=int(transpose_b))
        if e.in_types[0].dtype is float64 and 0 not in (*e.in_types[0].shape, *e.in_types[1].shape):
            return _by_einsum(e, a, b, transpose_a, transpose_b)
        return e.MatMul(swapped(e, a, ranks[0], transpose_a), swapped(e, b, ranks[1], transpose_b))

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """A multiplication and an addition for each term of each element: 2 * m * n * k for every matrix."""
        return 2 * outputs[0].size * inputs[0].shape[-2 if attrs.get("transpose_a") else -1]


_FEW_ROWS = range(8, 65)
"""Row counts of a with which a @ b.T is slower than (b @ a.T).T for a large b; for one row it is faster."""


def _is_faster_swapped(e: Emitter) -> bool:
    """True if (b @ a.T).T is faster than a @ b.T: ONNX Runtime copies the second operand, here the larger one.

    With 64, 32 and 16 rows and 1024 x 1024, 1024 x 256 and 1024 x 1024 weights it took 1.16, 1.3 and 1.7 times as long
    (1.19 and 1.31), the transposition of the result included; from 128 rows on and for small weights as long.
    """
    a, b = e.in_types[:2]
    is_large = b.size >= 1 << 17 and b.shape[1] >= 256
    return e.runs_as_written and a.dtype is float32 and a.shape[0] in _FEW_ROWS and is_large


def _swapped_product(e: Emitter, a: str, b: str) -> str:
    """(b @ a.T).T; the Reshape to the same shape prevents the runtime from rewriting it as a @ b.T."""
    shape = e.out_types[0].shape[::-1]
    return e.Transpose(e.Reshape(e.Gemm(b, a, transB=1), e.ints(shape)), perm=[1, 0])


def _gradient_of_second(e: Builder, g: Value, a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> Any:
    """The gradient of b; a shared matrix under a batch is one flat product, not a sum of many."""
    if b.type.rank == 2 and a.type.rank > 2 and not transpose_a:
        rows = prod(a.type.shape[:-1])
        a, g = (e.reshape(x, shape=(rows, x.type.shape[-1])) for x in (a, g))
    if transpose_b:
        return e.matmul(g, a, transpose_a=True, transpose_b=transpose_a)
    return e.matmul(a, g, transpose_a=not transpose_a)


def _by_einsum(e: Emitter, a: str, b: str, transpose_a: bool, transpose_b: bool) -> str:
    """A product of float64 batches: the runtime fuses MatMul and a transposition into an operator for float32 only."""
    batch = e.out_types[0].shape[:-2]
    types = e.in_types[:2]
    shapes = ((*batch, *t.shape[-2:]) for t in types)
    a, b = (n if t.shape == s else e.Expand(n, e.ints(s)) for n, t, s in zip((a, b), types, shapes, strict=True))
    first, second = "ji" if transpose_a else "ij", "kj" if transpose_b else "jk"
    return e.Einsum(a, b, equation=f"...{first},...{second}->...ik")


def swapped(e: Emitter, name: str, rank: int, transpose: bool) -> str:
    """A tensor with its last two axes exchanged, if they are to be."""
    if not transpose:
        return name
    return e.Transpose(name, perm=[*range(rank - 2), rank - 1, rank - 2])


class MatmulAdd(Primitive):
    """The product of a (..., m, k) and a matrix (k, n), plus a row (n): floats; 16-bit floats round after the sum.

    `transpose_b` exchanges the axes of the matrix first.
    """

    is_product = True
    lowered_at = ("O1", "auto")
    is_bounded = False
    samples = (
        sample(f32(2, 3), f32(3, 4), f32(4)),
        sample(f32(2, 3), f32(4, 3), f32(4), transpose_b=True),
        sample(f32(5, 2, 3), f32(4, 3), f32(4), transpose_b=True),
        sample(of(float64, 2, 1, 2, 3), of(float64, 3, 2), of(float64, 2)),
        sample(f32(0, 3), f32(3, 4), f32(4)),
        sample(f32(2, 0), f32(0, 4), f32(4)),
        sample(f32(2, 2, 3), f32(3, 0), f32(0)),
        sample(f32(2, 2, 0), f32(0, 3), f32(3)),
    )

    def infer(self, a: Type, b: Type, c: Type, transpose_b: bool = False) -> Type:
        require_float(self.name, a, b, c)
        if b.rank != 2:
            raise GraphValueError(f"matmul_add takes a matrix as its second operand, not {b}.")
        product = _MATMUL.infer(a, b, transpose_b=transpose_b)
        if c.shape != product.shape[-1:]:
            raise GraphValueError(f"matmul_add adds a row of {product.shape[-1]} numbers to {product}, not {c}.")
        return product

    def numpy(self, a: Array, b: Array, c: Array, transpose_b: bool = False) -> Array:
        return _MATMUL.numpy(a, b, transpose_b=transpose_b) + c

    def xla(self, jax: Any, a: Array, b: Array, c: Array, transpose_b: bool = False) -> Any:
        return _MATMUL.xla(jax, a, b, transpose_b=transpose_b) + c

    def vjp(self, e: Builder, g: Value, a: Value, b: Value, c: Value, y: Value, transpose_b: bool = False) -> Any:
        return *_MATMUL.vjp(e, g, a, b, y, transpose_b=transpose_b), e.sum(g, axis=tuple(range(g.type.rank - 1)))

    def summed_axes(
        self, a: Type, b: Type, c: Type, transpose_b: bool = False
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of the product."""
        return _MATMUL.summed_axes(a, b, transpose_b=transpose_b)

    def onnx(self, e: Emitter, a: str, b: str, c: str, transpose_b: bool = False) -> str:
        """One operator in 16 bits, so that it rounds once."""
        x, y = e.in_types[0], e.out_types[0]
        if not x.dtype.is_half or 0 in x.shape:
            return e.Add(_MATMUL.onnx(e, a, b, transpose_b=transpose_b), c)
        rows = a if x.rank == 2 else e.Reshape(a, e.ints((-1, x.shape[-1])))
        total = e.Gemm(rows, b, c, transB=int(transpose_b))
        return total if x.rank == 2 else reshaped(e, total, y.shape)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """The operations of the product, and an addition for each element."""
        return _MATMUL.flops(inputs, outputs, {}) + outputs[0].size


_MATMUL = Matmul()


class Transpose(Primitive):
    """Permutes the axes: axis i of the result is axis `permutation[i]` of x."""

    half = "exact"
    flops_per_element = 0
    moves = True
    integer_gradient = "whole"
    samples = (sample(f32(2, 3), permutation=(1, 0)), sample(f32(2, 3, 4), permutation=(2, 0, 1)))

    def infer(self, x: Type, permutation: tuple[int, ...]) -> Type:
        if sorted(permutation) != list(range(x.rank)):
            raise GraphValueError(f"{permutation} is not an order of the {x.rank} axes of {x}.")
        return x.with_shape(tuple(x.shape[i] for i in permutation))

    def numpy(self, x: Array, permutation: tuple[int, ...]) -> Array:
        return x.transpose(permutation)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, permutation: tuple[int, ...]) -> Any:
        return e.transpose(g, permutation=tuple(int(i) for i in np.argsort(permutation)))

    def onnx(self, e: Emitter, x: str, permutation: tuple[int, ...]) -> str:
        return e.Transpose(x, perm=list(permutation))
