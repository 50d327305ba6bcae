"""The product of two low arrays with scales, which devices with units for it compute from 8 bits or 4."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import (
    Type,
    as_dtype,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
)
from graphls.primitives.emitter import Emitter
from graphls.primitives.linear import Matmul, swapped
from graphls.primitives.low_precision import in_float32
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array, Primitive, f32, no_gradient, of, sample
from graphls.primitives.shape import reshaped

PAIRS = (float8_e4m3fn, float8_e4m3fn), (float8_e5m2, float8_e4m3fn), (float8_e4m3fn, float8_e5m2)
"""The dtypes of two operands with one scale each that the units of accelerators multiply."""
BLOCKS = {
    float8_e4m3fn: (float8_e8m0fnu, 32), float8_e5m2: (float8_e8m0fnu, 32), float4_e2m1fn: (float8_e4m3fn, 16)
}  # fmt: skip
"""The dtype of the scales of an operand's blocks that they multiply, and the size of a block: MXFP8 and NVFP4."""
UNIT = 16
"""What divides the sizes of matrices of float8 for cuBLASLt: rows begin at multiples of 16 bytes."""
FIRST_OPSET = 19
"""The version of ONNX's operators from which on a Cast gives float8."""

MATMUL, GEMM = Matmul(), ("GemmFloat8", "com.microsoft")
TRANSPOSED: dict[str, Any] = {"transpose_a": True, "transpose_b": True}


class ScaledMatmul(Primitive):
    """The matrix product of two low arrays times their scales, with sums in float32. Shapes are those of `matmul`.

    The scale of an operand is one number, of any float dtype, by which the sums are multiplied. Or it has a number of a
    low dtype for each block along the summed axis, of equal sizes, by which the operand is: (64, 96) has scales of the
    shape (64, 3) for blocks of 32. Both operands have one number, or both have blocks. Engines have it in place of a
    `matmul` of what `dequantize` gives, which rounds the operands times one number.
    """

    is_product = takes_low = takes_values = True
    is_bounded = False
    samples = (
        sample(of(float8_e4m3fn, 2, 3), of(float8_e4m3fn, 3, 4), f32(), f32(1, 1), gradient=False),
        sample(of(float8_e5m2, 3, 2), of(float8_e4m3fn, 4, 3), f32(1), f32(1, 1), gradient=False, **TRANSPOSED),
        sample(of(float8_e4m3fn, 2, 16, 16), of(float8_e5m2, 32, 16), f32(), f32(), gradient=False, transpose_b=True),
        sample(of(float8_e4m3fn, 5, 2, 3), of(float8_e5m2, 5, 3, 4), f32(), f32(), gradient=False),
        sample(of(float8_e4m3fn, 2, 0), of(float8_e4m3fn, 0, 4), f32(), f32(), gradient=False),
        sample(
            of(float8_e4m3fn, 2, 3, 64), of(float8_e5m2, 64, 4), of(float8_e8m0fnu, 2, 3, 2), of(float8_e8m0fnu, 2, 4),
            gradient=False, integers=(1, 9),
        ),
        sample(
            of(float4_e2m1fn, 48, 2), of(float4_e2m1fn, 4, 48), of(float8_e4m3fn, 3, 2), of(float8_e4m3fn, 4, 3),
            gradient=False, integers=(1, 9), **TRANSPOSED,
        ),
        sample(
            of(float4_e2m1fn, 2, 3, 32), of(float4_e2m1fn, 2, 4, 32), of(float8_e4m3fn, 2, 3, 2),
            of(float8_e4m3fn, 2, 4, 2), gradient=False, integers=(1, 9), transpose_b=True,
        ),
    )  # fmt: skip
    vjp = no_gradient
    summed_axes = Matmul.summed_axes

    def infer(
        self, a: Type, b: Type, scale_a: Type, scale_b: Type, transpose_a: bool = False, transpose_b: bool = False
    ) -> Type:
        wide = a.with_dtype(float32), b.with_dtype(float32)
        result = MATMUL.infer(*wide, transpose_a, transpose_b)
        axes = MATMUL.summed_axes(*wide, transpose_a, transpose_b)
        have_blocks = [_has_blocks(self.name, *each) for each in zip((a, b), (scale_a, scale_b), axes, strict=True)]
        is_known = a.dtype in BLOCKS and b.dtype in BLOCKS if all(have_blocks) else (a.dtype, b.dtype) in PAIRS
        if not is_known or any(have_blocks) != all(have_blocks):
            text = f"{self.name} takes two operands with scales for blocks, or two of float8_e4m3fn with one scale"
            raise GraphTypeError(f"{text}, of which one may be float8_e5m2, not {a} and {b}; dequantize them.")
        return result

    def numpy(
        self, a: Array, b: Array, scale_a: Array, scale_b: Array, transpose_a: bool = False, transpose_b: bool = False
    ) -> Any:
        x, y = in_float32(a), in_float32(b)
        with np.errstate(all="ignore"):
            if _are_blocks(scale_a):
                x = _times_blocks(x, in_float32(scale_a), -2 if transpose_a else -1)
                y = _times_blocks(y, in_float32(scale_b), -1 if transpose_b else -2)
                return MATMUL.numpy(x, y, transpose_a, transpose_b)
            product = MATMUL.numpy(x, y, transpose_a, transpose_b)
            return product * in_float32(scale_a).reshape(()) * in_float32(scale_b).reshape(())

    def xla(
        self, jax: Any, a: Array, b: Array, scale_a: Array, scale_b: Array, transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> Any:  # fmt: skip
        """By the precision, sums on a GPU are those of float32, as those of Transformer Engine's gradients.

        XLA defines scaled_dot by a product in bfloat16, which has all digits of a number times its scale.
        """
        are_blocks = _are_blocks(scale_a)
        if transpose_a:
            a, scale_a = a.swapaxes(-1, -2), scale_a.swapaxes(-1, -2) if are_blocks else scale_a
        if transpose_b:
            b, scale_b = b.swapaxes(-1, -2), scale_b.swapaxes(-1, -2) if are_blocks else scale_b
        if are_blocks:
            return _by_scaled_dot(jax, a, b, scale_a, scale_b)
        product = jax.numpy.matmul(a, b, precision="highest", preferred_element_type=np.float32)
        return product * scale_a.reshape(()).astype(np.float32) * scale_b.reshape(()).astype(np.float32)

    def onnx(
        self, e: Emitter, a: Value, b: Value, scale_a: Value, scale_b: Value, transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> str:  # fmt: skip
        if 0 in (*a.type.shape, *b.type.shape):
            return e.const(np.zeros(e.out_types[0].shape), float32)
        if scale_a.type.dtype.is_low:
            return _by_blocks(e, a, b, scale_a, scale_b, transpose_a, transpose_b)
        has_units = e.is_gpu and not missing(e) and not unfit(a.type, b.type, transpose_a)
        rule = _by_units if has_units else _by_matmul
        return rule(e, a, b, scale_a, scale_b, transpose_a, transpose_b)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """Those of `matmul`, and two products with scales for each element."""
        return MATMUL.flops(inputs, outputs, attrs) + 2 * outputs[0].size


def _has_blocks(name: str, kind: Type, scale: Type, axes: tuple[int, ...]) -> bool:
    """Whether a scale is of blocks; raises GraphValueError for one that fits no blocks of one size, nor is a number."""
    if not scale.dtype.is_low:
        if scale.dtype.is_float and scale.size == 1:
            return False
        text = f"A scale of {name} is one number of a float dtype, or has one of a low dtype for each block"
        raise GraphValueError(f"{text}, not {scale}.")
    (axis,), dims = axes, [*zip(kind.shape, scale.shape, strict=False)]
    fits = scale.rank == kind.rank and all(n == m for i, (n, m) in enumerate(dims) if i != axis)
    if not fits or not scale.shape[axis] or kind.shape[axis] % scale.shape[axis]:
        text = f"The scales of {name} have the shape of {kind} with a number of blocks in place of axis {axis}"
        raise GraphValueError(f"{text}, not {scale}.")
    return True


def _are_blocks(scale: Array) -> bool:
    """Whether the array of a scale, of NumPy or JAX, is of blocks."""
    return as_dtype(scale.dtype).is_low


def _times_blocks(x: Array, scale: Array, axis: int) -> Any:
    return x * namespace(x).repeat(scale, x.shape[axis] // scale.shape[axis], axis)


def _by_scaled_dot(jax: Any, a: Array, b: Array, scale_a: Array, scale_b: Array) -> Any:
    """A product of two matrices, as many as the leading axes have, which are equal for scaled_dot."""
    if not hasattr(jax.lax, "scaled_dot"):  # as in JAX 0.8
        a, b, wide_a, wide_b = (x.astype(np.float32) for x in (a, b, scale_a, scale_b))
        return jax.numpy.matmul(_times_blocks(a, wide_a, -1), _times_blocks(b, wide_b, -2))
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    if b.ndim == 2:
        a, scale_a = (x.reshape(-1, x.shape[-1]) for x in (a, scale_a))
    else:
        a, b, scale_a, scale_b = (
            jax.numpy.broadcast_to(x, (*shape[:-2], *x.shape[-2:])) for x in (a, b, scale_a, scale_b)
        )
    options = {"lhs_scale": scale_a, "rhs_scale": scale_b, "preferred_element_type": np.float32}
    return jax.lax.scaled_dot(a, b, **options).reshape(shape)


def missing(e: Emitter) -> str:
    """What a model for ONNX Runtime lacks to multiply float8 as such, "" for nothing."""
    if e.opset < FIRST_OPSET:
        return f"opset {e.opset} has no Cast to float8"
    operator, domain = GEMM
    if not e.has_kernel(operator, float32, domain):
        return f"no kernel of {operator}"
    return "" if e.is_right(operator, float16) else f"{operator} gives other sums here"


def unfit(a: Type, b: Type, transpose_a: bool) -> str:
    """Why GemmFloat8 does not take operands, "" where it takes them."""
    return "a batch of products" if b.rank != 2 or (transpose_a and a.rank != 2) else ""


def _by_units(
    e: Emitter, a: Value, b: Value, scale_a: Value, scale_b: Value, transpose_a: bool, transpose_b: bool
) -> str:
    """By GemmFloat8, which takes rows along the summed axis of both operands."""
    shape = e.out_types[0].shape
    rows, columns, inner = prod(shape[:-1]), shape[-1], b.type.shape[1 if transpose_b else 0]
    first = swapped(e, e.form(a, float32), a.type.rank, transpose_a)
    first = first if a.type.rank == 2 else reshaped(e, first, (rows, inner))
    second = swapped(e, e.form(b, float32), 2, not transpose_b)
    wide = _padded(e, first, (rows, inner)), _padded(e, second, (columns, inner))
    low = [e.cast(name, value.type.dtype) for name, value in zip(wide, (a, b), strict=True)]
    scales = [reshaped(e, e.form(scale, float32), (1,)) for scale in (scale_a, scale_b)]
    attributes = {"transA": 0, "transB": 1, "dtype": 1}  # 1 is float32
    operator, domain = GEMM
    product = e.operator(operator, [*low, "", *scales], attributes, domain)
    if rows % UNIT or columns % UNIT:
        product = e.Slice(product, e.ints((0, 0)), e.ints((rows, columns)), e.ints((0, 1)))
    return product if len(shape) == 2 else reshaped(e, product, shape)


def _padded(e: Emitter, name: str, shape: tuple[int, int]) -> str:
    """A matrix with zeros behind its rows and columns, up to multiples of UNIT."""
    more = [-size % UNIT for size in shape]
    return e.Pad(name, e.ints((0, 0, *more))) if any(more) else name


def _by_matmul(
    e: Emitter, a: Value, b: Value, scale_a: Value, scale_b: Value, transpose_a: bool, transpose_b: bool
) -> str:
    first = swapped(e, e.form(a, float32), a.type.rank, transpose_a)
    product = e.MatMul(first, swapped(e, e.form(b, float32), b.type.rank, transpose_b))
    for scale in (scale_a, scale_b):
        product = e.Mul(product, reshaped(e, e.form(scale, float32), ()))
    return product


def _by_blocks(
    e: Emitter, a: Value, b: Value, scale_a: Value, scale_b: Value, transpose_a: bool, transpose_b: bool
) -> str:
    first = swapped(e, _times_blocks_in_onnx(e, a, scale_a, -2 if transpose_a else -1), a.type.rank, transpose_a)
    second = swapped(e, _times_blocks_in_onnx(e, b, scale_b, -1 if transpose_b else -2), b.type.rank, transpose_b)
    return e.MatMul(first, second)


def _times_blocks_in_onnx(e: Emitter, value: Value, scale: Value, axis: int) -> str:
    shape, counts = value.type.shape, scale.type.shape
    axis %= len(shape)
    parts = (*shape[:axis], counts[axis], shape[axis] // counts[axis], *shape[axis + 1 :])
    wide = reshaped(e, e.form(scale, float32), (*counts[: axis + 1], 1, *counts[axis + 1 :]))
    return reshaped(e, e.Mul(reshaped(e, e.form(value, float32), parts), wide), shape)
