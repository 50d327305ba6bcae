"""Numbers in few bits: conversions with a gradient that passes straight through, and products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.products import conv, matmul
from graphls.onnx.table import operator
from graphls.onnx.values import Quantized, plain, value_of
from graphls.ops.gradients import with_gradient
from graphls.ops.operands import apply, axis_of, tensor_of


def _spread(scale: Any, x: Any, axis: int, block: int) -> Any:
    """A scale, or a zero point, as it stands for each element of x: one for all, for each slice, or for each block."""
    if scale.ndim == 0 or scale.size == 1:
        return ops.reshape(scale, ())
    if scale.ndim == 1 and not block:
        return ops.reshape(scale, [-1 if i == axis_of(axis, x.ndim) else 1 for i in range(x.ndim)])
    wide = ops.repeat_interleave(scale, block or x.shape[axis] // scale.shape[axis], axis)
    return wide[tuple(slice(0, n) for n in x.shape)]


def _plain(x: Any) -> Any:
    """An array of a dtype that graphls has not, such as 4-bit integers, as float32."""
    return Tensor(x.astype(np.float32)) if isinstance(x, np.ndarray) else tensor_of(x)


@operator("QuantizeLinear", settled=(1,))
def quantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    """The gradient is that of x / scale + zero point within the range of the integers, and 0 outside."""
    x, scale = tensor_of(x), tensor_of(scale)
    dtype = _dtype(zero, output_dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    quotient = ops.div(ops.cast(x, scale.dtype), ops.stop_gradient(_spread(scale, x, axis, block_size)))
    shift = 0.0 if zero is None else ops.cast(_spread(_plain(zero), x, axis, block_size), scale.dtype)

    def rounded(exact: Any) -> Any:
        return ops.clip_by_value(ops.round(exact) + shift, float(low), float(high))

    def straight_through(exact: Any, result: Any, gradient: Any) -> Any:
        shifted = exact + shift
        inside = ops.logical_and(ops.greater_equal(shifted, low - 0.5), ops.less_equal(shifted, high + 0.5))
        return (ops.where(inside, gradient, ops.zeros_like(gradient)),)

    wide = with_gradient(rounded, straight_through, quotient)
    return Quantized(ops.cast(wide, value_of(np.zeros((), dtype)).dtype), wide)


def _dtype(zero: Any, output_dtype: int) -> Any:
    if zero is not None:
        return zero.dtype if isinstance(zero, np.ndarray) else tensor_of(zero).dtype.numpy
    return helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else np.dtype(np.uint8)


@operator("DequantizeLinear", settled=(1,), quantized=True)
def dequantize_linear(
    x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    scale, zero = tensor_of(scale), plain(zero)
    whole = x.wide if isinstance(x, Quantized) else _plain(x)
    y = ops.cast(whole, scale.dtype)
    if zero is not None:
        y = y - ops.cast(_spread(_plain(zero), whole, axis, block_size), scale.dtype)
    return y * _spread(scale, whole, axis, block_size)


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return ops.cast(matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1)), "int32")


def _shifted(x: Any, zero: Any, axis: int) -> Any:
    """Integers less their zero point, as int32."""
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
def conv_integer(x: Any, w: Any, x_zero: Any = None, w_zero: Any = None, **geometry: Any) -> Any:
    return ops.cast(_convolved(x, w, x_zero, w_zero, geometry), "int32")


def _convolved(x: Any, w: Any, x_zero: Any, w_zero: Any, geometry: dict[str, Any]) -> Tensor:
    """The convolution of integers less their zero points, in float64, which is exact."""
    w, zero = tensor_of(w), w_zero
    if zero is not None and tensor_of(zero).size > 1:
        zero = ops.reshape(zero, (-1, *[1] * (w.ndim - 1)))
    left, right = _shifted(x, x_zero, 0), ops.cast(w, "int32")
    right = right if zero is None else right - ops.cast(zero, "int32")
    y: Tensor = conv(ops.cast(left, "float64"), ops.cast(right, "float64"), **geometry)
    return y


@operator("QLinearMatMul")
def quantized_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    product = ops.cast(matmul(_shifted(a, a_zero, -2), _shifted(b, b_zero, -1)), "float64")
    a_scale, b_scale, y_scale = (ops.cast(s, "float64") for s in (a_scale, b_scale, y_scale))
    return _requantized(product, a_scale * b_scale / y_scale, y_zero)


def _requantized(product: Any, factor: Any, zero: Any) -> Any:
    dtype = tensor_of(zero).dtype
    factor = ops.reshape(factor, ()) if factor.size == 1 else factor
    y = ops.round(product * factor) + ops.cast(ops.reshape(zero, ()) if zero.size == 1 else zero, "float64")
    limits = np.iinfo(dtype.numpy)
    return ops.cast(ops.clip_by_value(y, float(limits.min), float(limits.max)), dtype)


@operator("QLinearConv")
def quantized_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any, b: Any = None,
    **geometry: Any,
) -> Any:  # fmt: skip
    product = _convolved(x, w, x_zero, w_zero, geometry)
    column = (1, -1, *[1] * (product.ndim - 2))
    if b is not None:
        product = product + ops.cast(ops.reshape(b, column), "float64")
    factor = ops.cast(x_scale, "float64") * ops.cast(w_scale, "float64") / ops.cast(y_scale, "float64")
    return _requantized(product, ops.reshape(factor, column) if factor.size > 1 else factor, y_zero)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Any) -> Any:
    x = tensor_of(x)
    low, high = ops.minimum(apply("min", x), 0), ops.maximum(apply("max", x), 0)
    scale = ops.div(high - low, 255.0)
    zero = ops.cast(ops.clip_by_value(ops.round(ops.neg(low) / scale), 0.0, 255.0), "uint8")
    return quantize_linear(x, scale, zero), scale, zero


