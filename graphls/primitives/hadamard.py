"""The random Hadamard transform of 16 numbers, whose sums have the same order on every engine."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.types import Type
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array, Primitive, f32, require_float, sample
from graphls.primitives.shape import reshaped

SIZE = 16
SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""Random signs, drawn once: those of Transformer Engine, jax/quantize/hadamard.py."""

MATRIX = np.array([[(-1) ** (i & j).bit_count() * SIGNS[j] / 4 for j in range(SIZE)] for i in range(SIZE)])
"""H @ diag(signs) / 4, which is orthogonal, with Sylvester's Hadamard matrix H."""
MATRIX.setflags(write=False)


class HadamardTransform(Primitive):
    """x with each 16 numbers along an axis, whose size 16 divides, multiplied by an orthogonal matrix; same type.

    The matrix is H @ diag(signs) / 4 with Sylvester's Hadamard matrix H. A sum has the order of the numbers, so that
    all engines give the same bits. The product of two operands that are transformed along the axis over which it sums
    is that of the operands themselves. `is_inverse` takes the transposed matrix. Source: "Pretraining Large Language
    Models with NVFP4" (arXiv 2509.25149), appendix C.
    """

    flops_per_element = 2 * SIZE
    samples = (
        sample(f32(32, 3), axis=0),
        sample(f32(2, 16, 3), axis=1),
        sample(f32(3, 32), axis=1, is_inverse=True),
        sample(f32(16), axis=0),
        sample(f32(0, 16), axis=1),
    )

    def infer(self, x: Type, axis: int, is_inverse: bool = False) -> Type:
        require_float(self.name, x)
        if not 0 <= axis < x.rank or x.shape[axis] % SIZE:
            raise GraphValueError(f"{self.name} takes an axis whose size {SIZE} divides, not axis {axis} of {x}.")
        return x

    def vjp(self, e: Any, g: Any, x: Any, y: Any, axis: int, is_inverse: bool = False) -> tuple[Any]:
        return (e.hadamard_transform(g, axis=axis, is_inverse=not is_inverse),)

    def numpy(self, x: Array, axis: int, is_inverse: bool = False) -> Any:
        xp, factors = namespace(x), matrix(is_inverse).astype(x.dtype)[:, :, None]
        before, after = parted(x.shape, axis)
        if after > 1:
            parts = x.reshape(before, SIZE, after)
            return _summed(parts, factors).reshape(x.shape)
        return xp.swapaxes(_summed(x.reshape(before, SIZE).T[None], factors)[0], 0, 1).reshape(x.shape)

    def onnx(self, e: Emitter, x: str, axis: int, is_inverse: bool = False) -> str:
        """One product with the matrix where the kernel of the runtime adds in this order."""
        shape, kind, factors = e.in_types[0].shape, e.in_types[0].dtype, matrix(is_inverse)
        before, after = parted(shape, axis)
        is_product = e.runs_as_written and e.is_right("MatMul") and before * after > 1
        if is_product and after == 1:
            return reshaped(e, e.MatMul(reshaped(e, x, (before, SIZE)), e.const(factors.T, kind)), shape)
        x = reshaped(e, x, (before, SIZE, after))
        y = e.MatMul(e.const(factors, kind), x) if is_product else _summed_in_onnx(e, x, factors)
        return reshaped(e, y, shape)


def parted(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """The number of transforms before the numbers of one along an axis, and of those side by side behind it."""
    return prod(shape[:axis]) * (shape[axis] // SIZE), prod(shape[axis + 1 :])


def matrix(is_inverse: bool) -> Array:
    """The matrix of 16 numbers, or its inverse."""
    return MATRIX.T if is_inverse else MATRIX


def _summed(parts: Any, columns: Array) -> Any:
    """The products of each number with a column of the matrix, added from the first to the last."""
    total = parts[:, :1] * columns[:, 0]
    for k in range(1, SIZE):
        total = total + parts[:, k : k + 1] * columns[:, k]
    return total


def _summed_in_onnx(e: Emitter, x: str, factors: Array) -> str:
    parts = e.results("Split", [x, e.ints([1] * SIZE)], {"axis": 1}, SIZE)
    products = [e.Mul(part, e.const(factors[:, k, None], e.in_types[0].dtype)) for k, part in enumerate(parts)]
    total = products[0]
    for each in products[1:]:
        total = e.Add(total, each)
    return total
