"""The product of two float8 arrays with a scale for each, which devices with units for it compute from 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Value
from graphls.ir.types import Type, float8_e4m3fn, float8_e5m2, float16, float32
from graphls.primitives.emitter import Emitter
from graphls.primitives.linear import Matmul, swapped
from graphls.primitives.low_precision import in_float32
from graphls.primitives.primitive import Array, Primitive, f32, no_gradient, of, sample
from graphls.primitives.shape import reshaped

PAIRS = (float8_e4m3fn, float8_e4m3fn), (float8_e5m2, float8_e4m3fn), (float8_e4m3fn, float8_e5m2)
"""The dtypes of two operands that the units of accelerators multiply."""
UNIT = 16
"""What divides the sizes of matrices of float8 for cuBLASLt: rows begin at multiples of 16 bytes."""
FIRST_OPSET = 19
"""The version of ONNX's operators from which on a Cast gives float8."""

MATMUL, GEMM = Matmul(), ("GemmFloat8", "com.microsoft")
TRANSPOSED: dict[str, Any] = {"transpose_a": True, "transpose_b": True}


class ScaledMatmul(Primitive):
    """The matrix product of two float8 arrays in float32, times the scale of the first, times that of the second.

    A scale is one number, of any float dtype. Engines have it in place of a `matmul` of what `dequantize` gives, where
    the operands times their scales are rounded. Shapes and attributes are those of `matmul`.
    """

    is_product = takes_low = takes_values = True
    is_bounded = False
    samples = (
        sample(of(float8_e4m3fn, 2, 3), of(float8_e4m3fn, 3, 4), f32(), f32(1, 1), gradient=False),
        sample(of(float8_e5m2, 3, 2), of(float8_e4m3fn, 4, 3), f32(1), f32(1, 1), gradient=False, **TRANSPOSED),
        sample(of(float8_e4m3fn, 2, 16, 16), of(float8_e5m2, 32, 16), f32(), f32(), gradient=False, transpose_b=True),
        sample(of(float8_e4m3fn, 5, 2, 3), of(float8_e5m2, 5, 3, 4), f32(), f32(), gradient=False),
        sample(of(float8_e4m3fn, 2, 0), of(float8_e4m3fn, 0, 4), f32(), f32(), gradient=False),
    )
    vjp = no_gradient
    summed_axes = Matmul.summed_axes

    def infer(
        self, a: Type, b: Type, scale_a: Type, scale_b: Type, transpose_a: bool = False, transpose_b: bool = False
    ) -> Type:
        if (a.dtype, b.dtype) not in PAIRS:
            text = f"{self.name} takes operands of float8_e4m3fn, one of which may be float8_e5m2"
            raise GraphTypeError(f"{text}, not {a} and {b}; cast them, or dequantize them for a matmul.")
        for scale in (scale_a, scale_b):
            if not scale.dtype.is_float or scale.size != 1:
                raise GraphValueError(f"A scale of {self.name} is one number of a float dtype, not {scale}.")
        return MATMUL.infer(a.with_dtype(float32), b.with_dtype(float32), transpose_a, transpose_b)

    def numpy(
        self, a: Array, b: Array, scale_a: Array, scale_b: Array, transpose_a: bool = False, transpose_b: bool = False
    ) -> Any:
        with np.errstate(all="ignore"):
            product = MATMUL.numpy(in_float32(a), in_float32(b), transpose_a, transpose_b)
            return product * in_float32(scale_a).reshape(()) * in_float32(scale_b).reshape(())

    def xla(
        self, jax: Any, a: Array, b: Array, scale_a: Array, scale_b: Array, transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> Any:  # fmt: skip
        """By the precision, sums on a GPU are those of float32, as those of Transformer Engine's gradients."""
        a, b = a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
        product = jax.numpy.matmul(a, b, precision="highest", preferred_element_type=np.float32)
        return product * scale_a.reshape(()).astype(np.float32) * scale_b.reshape(()).astype(np.float32)

    def onnx(
        self, e: Emitter, a: Value, b: Value, scale_a: Value, scale_b: Value, transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> str:  # fmt: skip
        if 0 in (*a.type.shape, *b.type.shape):
            return e.const(np.zeros(e.out_types[0].shape), float32)
        has_units = e.is_gpu and not missing(e) and not unfit(a.type, b.type, transpose_a)
        rule = _by_units if has_units else _by_matmul
        return rule(e, a, b, scale_a, scale_b, transpose_a, transpose_b)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """Those of `matmul`, and two products with scales for each element."""
        return MATMUL.flops(inputs, outputs, attrs) + 2 * outputs[0].size


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
