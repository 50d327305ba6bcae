"""Quantization: conversions with a straight-through gradient, and products of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import helper

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.products import ConvolutionAttributes, conv, matmul
from graphls.onnx.table import operator
from graphls.onnx.values import Input, OptionalInput, Quantized, plain
from graphls.ops.gradients import with_gradient
from graphls.ops.operands import apply, axis_of, tensor_of

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
    """Its gradient is that of x / scale + zero point within the range of the integers, and 0 outside."""
    x, scale = tensor_of(x), tensor_of(scale)
    dtype = _dtype(zero, output_dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    quotient = ops.div(ops.cast(x, scale.dtype), ops.stop_gradient(_spread(scale, x, axis, block_size)))
    shift = 0.0 if zero is None else ops.cast(_spread(_supported(zero), x, axis, block_size), scale.dtype)

    def rounded(exact: Tensor) -> Tensor:
        y: Tensor = ops.clip_by_value(ops.round(exact) + shift, float(low), float(high))
        return y

    def straight_through(exact: Tensor, result: Tensor, gradient: Tensor) -> tuple[Tensor]:
        shifted = exact + shift
        inside = ops.logical_and(ops.greater_equal(shifted, low - 0.5), ops.less_equal(shifted, high + 0.5))
        return (ops.where(inside, gradient, ops.zeros_like(gradient)),)

    wide = with_gradient(rounded, straight_through, quotient)
    return Quantized(ops.cast(wide, Tensor.from_numpy(np.zeros((), dtype)).dtype), wide)


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
    y = ops.cast(numbers, scale.dtype)
    if zero_point is not None:
        y = y - ops.cast(_spread(_supported(zero_point), numbers, axis, block_size), scale.dtype)
    return y * _spread(scale, numbers, axis, block_size)


@operator("MatMulInteger")
def matmul_integer(a: Input, b: Input, a_zero: OptionalInput = None, b_zero: OptionalInput = None) -> Tensor:
    return ops.cast(matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1)), "int32")


def _shifted(x: Input, zero: OptionalInput, axis: int) -> Tensor:
    """Integers minus their zero point, in int32."""
    x = ops.cast(x, "int32")
    if zero is None:
        return x
    zero = ops.cast(zero, "int32")
    if zero.ndim == 1 and zero.size > 1:
        zero = ops.reshape(zero, (-1, 1) if axis == -2 else (1, -1))
    elif zero.ndim <= 1:
        zero = ops.reshape(zero, ())
    return x - zero


@operator("ConvInteger")
def conv_integer(
    x: Input, w: Input, x_zero: OptionalInput = None, w_zero: OptionalInput = None,
    **geometry: Unpack[ConvolutionAttributes],
) -> Tensor:  # fmt: skip
    return ops.cast(_convolved(x, w, x_zero, w_zero, geometry), "int32")


def _convolved(
    x: Input, w: Input, x_zero: OptionalInput, w_zero: OptionalInput, geometry: ConvolutionAttributes
) -> Tensor:
    """The convolution of integers minus their zero points, in float64, which is exact."""
    w, zero = tensor_of(w), w_zero
    if zero is not None and tensor_of(zero).size > 1:
        zero = ops.reshape(zero, (-1, *[1] * (w.ndim - 1)))
    left, right = _shifted(x, x_zero, 0), ops.cast(w, "int32")
    right = right if zero is None else right - ops.cast(zero, "int32")
    return conv(ops.cast(left, "float64"), ops.cast(right, "float64"), **geometry)


@operator("QLinearMatMul", untrained=(1, 4, 6))
def quantized_matmul(
    a: Input, a_scale: Input, a_zero: Input, b: Input, b_scale: Input, b_zero: Input, y_scale: Input, y_zero: Input
) -> Tensor:
    product = ops.cast(matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1)), "float64")
    a_unit, b_unit, y_unit = (ops.cast(s, "float64") for s in (a_scale, b_scale, y_scale))
    return _requantized(product, a_unit * b_unit / y_unit, y_zero)


def _requantized(product: Tensor, factor: Tensor, zero: Input) -> Tensor:
    dtype = tensor_of(zero).dtype
    factor = ops.reshape(factor, ()) if factor.size == 1 else factor
    y = ops.round(product * factor) + ops.cast(ops.reshape(zero, ()) if zero.size == 1 else zero, "float64")
    limits = np.iinfo(dtype.numpy)
    return ops.cast(ops.clip_by_value(y, float(limits.min), float(limits.max)), dtype)


@operator("QLinearConv", untrained=(1, 4, 6))
def quantized_conv(
    x: Input, x_scale: Input, x_zero: Input, w: Input, w_scale: Input, w_zero: Input, y_scale: Input, y_zero: Input,
    b: OptionalInput = None, **geometry: Unpack[ConvolutionAttributes],
) -> Tensor:  # fmt: skip
    product = _convolved(x, w, x_zero, w_zero, geometry)
    column = (1, -1, *[1] * (product.ndim - 2))
    if b is not None:
        product = product + ops.cast(ops.reshape(b, column), "float64")
    factor = ops.cast(x_scale, "float64") * ops.cast(w_scale, "float64") / ops.cast(y_scale, "float64")
    return _requantized(product, ops.reshape(factor, column) if factor.size > 1 else factor, y_zero)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Input) -> tuple[Quantized, Tensor, Tensor]:
    x = tensor_of(x)
    low, high = ops.minimum(apply("min", x), 0), ops.maximum(apply("max", x), 0)
    scale = ops.div(high - low, 255.0)
    zero = ops.cast(ops.clip_by_value(ops.round(ops.neg(low) / scale), 0.0, 255.0), "uint8")
    return quantize_linear(x, scale, zero), scale, zero
