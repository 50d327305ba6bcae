"""Quantization: conversions with a straight-through gradient, and products of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DType, as_dtype, float4_e2m1fn, float32
from graphls.onnx.operators.products import ConvolutionAttributes, conv, matmul
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Operand, OptionalInput, OptionalOperand, Quantized, plain
from graphls.ops.gradients import with_gradient
from graphls.ops.operands import apply, axis_of, tensor_of
from graphls.primitives.low_precision import FORMATS

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _spread(scale: Tensor, x: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point that broadcasts with x: one for the tensor, for each slice or for each block."""
    if scale.ndim == 0 or scale.size == 1:
        return ops.reshape(scale, ())
    if scale.ndim == 1 and not block:
        return ops.reshape(scale, [-1 if i == axis_of(axis, x.ndim) else 1 for i in range(x.ndim)])
    wide = ops.repeat_interleave(scale, block or x.shape[axis] // scale.shape[axis], axis)
    return wide[tuple(slice(0, n) for n in x.shape)]


def _supported(x: Input) -> Tensor:
    """A tensor; of a dtype that graphls does not have, such as 4-bit integers, in float32."""
    return Tensor(x.astype(np.float32)) if isinstance(x, np.ndarray) else tensor_of(x)


@operator("QuantizeLinear", untrained=(1,))
def quantize_linear(
    x: Input, scale: Input, zero: OptionalInput = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Quantized:  # fmt: skip
    """Its gradient is that of x / scale + zero point within the range of the result's dtype, and 0 outside.

    The zero point of float8 says no more than the dtype: it is 0, and added it would make 0 of -0.
    """
    x, scale = tensor_of(x), tensor_of(scale)
    dtype, computed = _dtype(zero, output_dtype), _computed(scale, precision)
    scale = _spread(ops.cast(scale, computed), x, axis, block_size)
    quotient = ops.div(ops.cast(x, computed), ops.stop_gradient(scale))
    shift: Tensor | float = 0.0
    kind = as_dtype(dtype)
    if zero is not None and (kind is float4_e2m1fn or not kind.is_low):
        shift = ops.cast(_spread(_supported(zero), x, axis, block_size), computed)
    return _rounded(quotient, shift, kind, bool(saturate))


def _computed(scale: Tensor, dtype: int = 0) -> DType:
    """The dtype of products with a scale and of quotients by it: the one that a node names, or that of the scale."""
    if dtype:
        return as_dtype(helper.tensor_dtype_to_np_dtype(dtype))
    return float32 if scale.dtype.is_low else scale.dtype


def _rounded(quotient: Tensor, shift: Tensor | float, kind: DType, saturate: bool = True) -> Quantized:
    """A quotient by a scale, rounded to integers of a dtype around a zero point, or to floats of a low dtype."""
    low, high = _ends(kind)
    margin = 0.0 if kind.is_low else 0.5

    def rounded(exact: Tensor) -> Tensor:
        y: Tensor
        if kind.is_low:
            shifted = exact + shift if isinstance(shift, Tensor) else exact
            y = ops.cast(ops.cast(shifted, kind, saturate=saturate), exact.dtype)
        else:
            y = ops.clip_by_value(ops.round(exact) + shift, low, high)
        return y

    def straight_through(exact: Tensor, result: Tensor, gradient: Tensor) -> tuple[Tensor]:
        shifted = exact + shift
        inside = ops.logical_and(ops.greater_equal(shifted, low - margin), ops.less_equal(shifted, high + margin))
        return (ops.where(inside, gradient, ops.zeros_like(gradient)),)

    wide = with_gradient(rounded, straight_through, quotient)
    return Quantized(ops.cast(wide, kind, **({"saturate": saturate} if kind.is_low else {})), wide)


def _ends(kind: DType) -> tuple[float, float]:
    """The least and the largest finite number of integers or of a low dtype."""
    if kind.is_low:
        return FORMATS[kind].lowest, FORMATS[kind].most
    return float(np.iinfo(kind.numpy).min), float(np.iinfo(kind.numpy).max)


def _dtype(zero: OptionalInput, output_dtype: int) -> np.dtype[Any]:
    if zero is not None:
        return zero.dtype if isinstance(zero, np.ndarray) else tensor_of(zero).dtype.numpy
    return helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else np.dtype(np.uint8)


@operator("DequantizeLinear", untrained=(1,), quantized=True)
def dequantize_linear(
    x: Input | Quantized, scale: Input, zero: OptionalInput | Quantized = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    scale, zero_point = tensor_of(scale), plain(zero)
    numbers = x.wide if isinstance(x, Quantized) else _supported(x)
    computed = float32 if output_dtype else _computed(scale)
    y = ops.cast(numbers, computed)
    if zero_point is not None:
        y = y - ops.cast(_spread(_supported(zero_point), numbers, axis, block_size), computed)
    y = y * _spread(ops.cast(scale, computed), numbers, axis, block_size)
    return ops.cast(y, _computed(scale, output_dtype)) if output_dtype else y


@operator("MatMulInteger", quantized=True)
def matmul_integer(
    a: Operand, b: Operand, a_zero: OptionalOperand = None, b_zero: OptionalOperand = None
) -> Quantized:
    return summed(matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1)))


def summed(product: Tensor) -> Quantized:
    """A sum of products, which is exact in float64, as int32 through which gradients flow."""
    return Quantized(ops.cast(product, "int32"), product)


def wide_of(x: Operand) -> Tensor:
    """The numbers of integers in float64, with the gradient of those that were rounded in the graph."""
    return ops.cast(x.wide if isinstance(x, Quantized) else _supported(x), "float64")


def shifted(x: Operand, zero: OptionalOperand, axis: int) -> Tensor:
    """Integers minus their zero point, one or one for each row (`axis=-2`) or column (-1) of matrices, in float64."""
    if zero is None:
        return wide_of(x)
    point = wide_of(zero)
    if point.ndim == 1 and point.size > 1:
        point = ops.reshape(point, (-1, 1) if axis == -2 else (1, -1))
    elif point.ndim <= 1:
        point = ops.reshape(point, ())
    return wide_of(x) - point


@operator("ConvInteger", quantized=True)
def conv_integer(
    x: Operand, w: Operand, x_zero: OptionalOperand = None, w_zero: OptionalOperand = None,
    **geometry: Unpack[ConvolutionAttributes],
) -> Quantized:  # fmt: skip
    return summed(_convolved(x, w, x_zero, w_zero, geometry))


def _convolved(
    x: Operand, w: Operand, x_zero: OptionalOperand, w_zero: OptionalOperand, geometry: ConvolutionAttributes
) -> Tensor:
    """The convolution of integers minus their zero points, in float64, which is exact."""
    kernel = wide_of(w)
    if w_zero is not None:
        point = wide_of(w_zero)
        kernel = kernel - ops.reshape(point, (-1, *[1] * (kernel.ndim - 1)) if point.size > 1 else ())
    return conv(shifted(x, x_zero, 0), kernel, **geometry)


@operator("QLinearMatMul", untrained=(1, 4, 6), quantized=True)
def quantized_matmul(
    a: Operand, a_scale: Input, a_zero: Operand, b: Operand, b_scale: Input, b_zero: Operand, y_scale: Input,
    y_zero: Operand,
) -> Quantized:  # fmt: skip
    product = matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1))
    return requantized(product, unit_of(a_scale) * unit_of(b_scale), y_scale, y_zero)


def unit_of(scale: Input) -> Tensor:
    """A scale in float64, as a number where it has one element."""
    unit = ops.cast(scale, "float64")
    return ops.reshape(unit, ()) if unit.size == 1 else unit


def requantized(
    product: Tensor, unit: Tensor | float, scale: Input, zero: OptionalOperand, dtype: DType | None = None
) -> Quantized:
    """Numbers in float64, times a unit, as integers of a scale; their gradient passes straight through the rounding."""
    kind = dtype or plain_tensor(zero).dtype
    return _rounded(product * (unit / unit_of(scale)), 0.0 if zero is None else unit_of(plain_tensor(zero)), kind)


def plain_tensor(x: OptionalOperand) -> Tensor:
    """The integers of an operand."""
    return tensor_of(plain(x))


@operator("QLinearConv", untrained=(1, 4, 6), quantized=True)
def quantized_conv(
    x: Operand, x_scale: Input, x_zero: Operand, w: Operand, w_scale: Input, w_zero: Operand, y_scale: Input,
    y_zero: Operand, b: OptionalOperand = None, **geometry: Unpack[ConvolutionAttributes],
) -> Quantized:  # fmt: skip
    product = _convolved(x, w, x_zero, w_zero, geometry)
    column = (1, -1, *[1] * (product.ndim - 2))
    if b is not None:
        product = product + ops.reshape(wide_of(b), column)
    unit = unit_of(x_scale) * unit_of(w_scale)
    return requantized(product, ops.reshape(unit, column) if unit.size > 1 else unit, y_scale, y_zero)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Input) -> tuple[Quantized, Tensor, Tensor]:
    scale, zero = _range_of(x)
    return quantize_linear(x, scale, zero), scale, zero


def dynamically_rounded(x: Input) -> Tensor:
    """Floats at the nearest of 256 values in their range, as integers of a dynamic scale represent them."""
    integers, scale, zero = dynamic_quantize_linear(x)
    return dequantize_linear(integers, scale, zero)


def _range_of(x: Input) -> tuple[Tensor, Tensor]:
    """The scale and the zero point of the values, without a gradient; the scale of zeros is 1."""
    x = ops.stop_gradient(tensor_of(x))
    low, high = ops.minimum(apply("min", x), 0), ops.maximum(apply("max", x), 0)
    scale = ops.where(ops.equal(high, low), ops.ones_like(high), ops.div(high - low, 255.0))
    zero = ops.cast(ops.clip_by_value(ops.round(ops.neg(low) / scale), 0.0, 255.0), "uint8")
    return scale, zero
