"""Operators of com.microsoft on quantized tensors, which the quantizer of ONNX Runtime writes.

They compute in float64, which is exact for sums of 8-bit products, and round at the end as ONNX Runtime does. Gradients
pass straight through the rounding; integer weights are not trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import float32
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.contrib import embed_layer_normalization
from graphls.onnx.operators.contrib_attention import attended, refuse
from graphls.onnx.operators.pooling import average_pool, max_pool
from graphls.onnx.operators.products import ConvolutionAttributes, gemm, matmul
from graphls.onnx.operators.quantization import (
    dequantize_linear,
    dynamically_rounded,
    plain_tensor,
    quantized_conv,
    requantized,
    shifted,
    summed,
    unit_of,
)
from graphls.onnx.table import MICROSOFT, operator
from graphls.onnx.values import Input, Ints, Operand, OptionalInput, OptionalOperand, Quantized
from graphls.ops.operands import axis_of, tensor_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _floats(x: Operand, scale: Input, zero: OptionalOperand) -> Tensor:
    """The numbers that integers stand for, in float64."""
    return shifted(x, zero, 0) * unit_of(scale)


def _rounded(y: Tensor, like: Operand, scale: Input, zero: OptionalOperand) -> Quantized:
    """Numbers as integers of the dtype of another operand."""
    return requantized(y, 1.0, scale, zero, plain_tensor(like).dtype)


@operator("QLinearAdd", domain=MICROSOFT, untrained=(1, 4, 6), quantized=True)
def quantized_add(
    a: Operand, a_scale: Input, a_zero: OptionalOperand, b: Operand, b_scale: Input, b_zero: OptionalOperand,
    y_scale: Input, y_zero: OptionalOperand = None,
) -> Quantized:  # fmt: skip
    return _rounded(_floats(a, a_scale, a_zero) + _floats(b, b_scale, b_zero), a, y_scale, y_zero)


@operator("QLinearMul", domain=MICROSOFT, untrained=(1, 4, 6), quantized=True)
def quantized_mul(
    a: Operand, a_scale: Input, a_zero: OptionalOperand, b: Operand, b_scale: Input, b_zero: OptionalOperand,
    y_scale: Input, y_zero: OptionalOperand = None,
) -> Quantized:  # fmt: skip
    return _rounded(_floats(a, a_scale, a_zero) * _floats(b, b_scale, b_zero), a, y_scale, y_zero)


@operator("QLinearSigmoid", domain=MICROSOFT, untrained=(1, 3), quantized=True)
def quantized_sigmoid(
    x: Operand, x_scale: Input, x_zero: OptionalOperand, y_scale: Input, y_zero: OptionalOperand = None
) -> Quantized:
    return _rounded(ops.sigmoid(_floats(x, x_scale, x_zero)), x, y_scale, y_zero)


@operator("QLinearLeakyRelu", domain=MICROSOFT, untrained=(1, 3), quantized=True)
def quantized_leaky_relu(
    x: Operand, x_scale: Input, x_zero: OptionalOperand, y_scale: Input, y_zero: OptionalOperand = None, *,
    alpha: float = 0.01,
) -> Quantized:  # fmt: skip
    y = _floats(x, x_scale, x_zero)
    return _rounded(ops.where(ops.less(y, 0), y * alpha, y), x, y_scale, y_zero)


@operator("QLinearSoftmax", domain=MICROSOFT, untrained=(1, 3), quantized=True)
def quantized_softmax(
    x: Operand, x_scale: Input, x_zero: OptionalOperand, y_scale: Input, y_zero: OptionalOperand = None, *, opset: int,
    axis: int | None = None,
) -> Quantized:  # fmt: skip
    y = _floats(x, x_scale, x_zero)
    if opset >= 13:
        return _rounded(ops.softmax(y, -1 if axis is None else axis), x, y_scale, y_zero)
    at = axis_of(1 if axis is None else axis, y.ndim)
    flat = ops.reshape(y, (int(np.prod(y.shape[:at])), -1))
    return _rounded(ops.reshape(ops.softmax(flat, -1), y.shape), x, y_scale, y_zero)


@operator("QLinearReduceMean", domain=MICROSOFT, untrained=(1, 3), quantized=True)
def quantized_mean(
    x: Operand, x_scale: Input, x_zero: OptionalOperand, y_scale: Input, y_zero: OptionalOperand = None, *, axes: Ints,
    keepdims: int,
) -> Quantized:  # fmt: skip
    return _rounded(ops.mean(_floats(x, x_scale, x_zero), tuple(axes), bool(keepdims)), x, y_scale, y_zero)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT, untrained=(1, 3), quantized=True)
def quantized_global_average_pool(
    x: Operand, x_scale: Input, x_zero: OptionalOperand, y_scale: Input, y_zero: OptionalOperand = None, *,
    channels_last: int = 0,
) -> Quantized:  # fmt: skip
    y = _floats(x, x_scale, x_zero)
    axes = tuple(range(1, y.ndim - 1)) if channels_last else tuple(range(2, y.ndim))
    return _rounded(ops.mean(y, axes, True), x, y_scale, y_zero)


@operator("QLinearAveragePool", domain=MICROSOFT, untrained=(1, 3), quantized=True)
def quantized_average_pool(
    x: Operand, x_scale: Input, x_zero: OptionalOperand, y_scale: Input, y_zero: OptionalOperand = None, *,
    kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, channels_last: int = 0,
    count_include_pad: int = 0, pads: Ints | None = None, strides: Ints | None = None,
) -> Quantized:  # fmt: skip
    y = _floats(x, x_scale, x_zero)
    y = ops.movedim(y, -1, 1) if channels_last else y
    y = average_pool(
        y, kernel_shape=kernel_shape, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        pads=pads, strides=strides,
    )  # fmt: skip
    return _rounded(ops.movedim(y, 1, -1) if channels_last else y, x, y_scale, y_zero)


@operator("QLinearConcat", domain=MICROSOFT, quantized=True)
def quantized_concat(y_scale: Input, y_zero: Operand, *operands: Operand, axis: int) -> Quantized:
    """Tensors with their scales and zero points, three operands each, along an axis."""
    parts = [_floats(*operands[i : i + 3]) for i in range(0, len(operands), 3)]  # type: ignore[arg-type]
    return _rounded(ops.concat(parts, axis), operands[0], y_scale, y_zero)


@operator("QLinearWhere", domain=MICROSOFT, untrained=(2, 5, 7), quantized=True)
def quantized_where(
    condition: Operand, x: Operand, x_scale: Input, x_zero: Operand, y: Operand, y_scale: Input, y_zero: Operand,
    z_scale: Input, z_zero: Operand,
) -> Quantized:  # fmt: skip
    chosen = ops.where(plain_tensor(condition), _floats(x, x_scale, x_zero), _floats(y, y_scale, y_zero))
    return _rounded(chosen, x, z_scale, z_zero)


@operator("QLinearConv", domain=MICROSOFT, untrained=(1, 4, 6), quantized=True)
def quantized_conv_of_images(
    x: Operand, x_scale: Input, x_zero: Operand, w: Operand, w_scale: Input, w_zero: Operand, y_scale: Input,
    y_zero: Operand, b: OptionalOperand = None, *, channels_last: int = 0, **geometry: Unpack[ConvolutionAttributes],
) -> Quantized:  # fmt: skip
    """ONNX's operator, with an attribute for images whose channels are their last axis."""
    images = _with_axis_moved(x, -1, 1) if channels_last else x
    y = quantized_conv(images, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b, **geometry)
    return _with_axis_moved(y, 1, -1) if channels_last else y


def _with_axis_moved(x: Operand, source: int, target: int) -> Quantized:
    """Integers with one axis at another place, with their floats where there are any."""
    if isinstance(x, Quantized):
        return Quantized(ops.movedim(x.integers, source, target), ops.movedim(x.wide, source, target))
    moved = ops.movedim(tensor_of(x), source, target)
    return Quantized(moved, ops.cast(moved, "float64"))


@operator("NhwcMaxPool", domain=MICROSOFT, quantized=True)
def max_pool_of_last_channels(
    x: Operand, *, kernel_shape: Ints, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints | None = None,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Quantized:  # fmt: skip
    images = _with_axis_moved(x, -1, 1)
    window = {"kernel_shape": kernel_shape, "auto_pad": auto_pad, "ceil_mode": ceil_mode, "dilations": dilations,
              "pads": pads, "strides": strides}  # fmt: skip
    numbers, floats = (max_pool(y, **window)[0] for y in (images.integers, images.wide))  # type: ignore[arg-type]
    return _with_axis_moved(Quantized(numbers, floats), 1, -1)


@operator("QGemm", domain=MICROSOFT, untrained=(1, 4, 7), quantized=True)
def quantized_gemm(
    a: Operand, a_scale: Input, a_zero: Operand, b: Operand, b_scale: Input, b_zero: Operand,
    c: OptionalOperand = None, y_scale: OptionalInput = None, y_zero: OptionalOperand = None, *, alpha: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Quantized | Tensor:  # fmt: skip
    """A product of matrices plus integers at the scale of the products; without a scale of its own, in floats."""
    left, right = shifted(a, a_zero, -2), shifted(b, b_zero, -2 if transB else -1)
    product = gemm(left, right, transA=transA, transB=transB)
    unit = unit_of(a_scale) * unit_of(b_scale) * alpha
    # C is in units of alpha times the scales.
    product = product if c is None else product + shifted(c, None, 0)
    if y_scale is None:
        return ops.cast(product * unit, float32)
    return requantized(product, unit, y_scale, y_zero, plain_tensor(a).dtype)


@operator("MatMulInteger16", domain=MICROSOFT, quantized=True)
def matmul_integer_16(a: Operand, b: Operand) -> Quantized:
    return summed(matmul(shifted(a, None, -2), shifted(b, None, -1)))


@operator("MatMulIntegerToFloat", domain=MICROSOFT, untrained=(2, 3), quantized=True)
def matmul_integer_to_float(
    a: Operand, b: Operand, a_scale: Input, b_scale: Input, a_zero: OptionalOperand = None,
    b_zero: OptionalOperand = None, bias: OptionalInput = None,
) -> Tensor:  # fmt: skip
    product = matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1))
    y = ops.cast(product * (_of_rows(a_scale) * unit_of(b_scale)), tensor_of(a_scale).dtype)
    return y if bias is None else ops.add(y, bias)


def _of_rows(scale: Input) -> Tensor:
    """A scale of each row of the first matrix of a product, or of all of it."""
    unit = unit_of(scale)
    return ops.reshape(unit, (-1, 1)) if unit.ndim == 1 else unit


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, untrained=(2,), quantized=True)
def dynamic_quantize_matmul(
    a: Operand, b: Operand, b_scale: Input, b_zero: OptionalOperand = None, bias: OptionalInput = None
) -> Tensor:
    """A product with integers; the first operand is rounded to 256 values of its range."""
    left = dynamically_rounded(plain_tensor(a))
    y = ops.cast(matmul(ops.cast(left, "float64"), shifted(b, b_zero, -1) * unit_of(b_scale)), left.dtype)
    return y if bias is None else ops.add(y, bias)


@operator("QAttention", domain=MICROSOFT, untrained=(3, 4), quantized=True)
def quantized_attention(
    node: Running, x: Operand, weights: Operand, bias: Input, x_scale: Input, w_scale: Input,
    mask: OptionalInput = None, x_zero: OptionalOperand = None, w_zero: OptionalOperand = None,
    past: OptionalInput = None, *, num_heads: int, unidirectional: int = 0, scale: float | None = None,
    mask_filter_value: float = -10000.0, do_rotary: int = 0, past_present_share_buffer: int = 0,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention with weights in integers, on integers; all behind the first product is in floats."""
    refuse(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    unit = _of_rows(x_scale) * unit_of(w_scale)
    product = ops.cast(matmul(shifted(x, x_zero, -2), shifted(weights, w_zero, -1)) * unit, tensor_of(bias).dtype)
    return attended(node, ops.add(product, bias), mask, past, None, num_heads, bool(unidirectional), None, scale,
                    mask_filter_value)  # fmt: skip


@operator("QEmbedLayerNormalization", domain=MICROSOFT, untrained=(8, 9, 10, 11, 12), quantized=True)
def quantized_embed_layer_normalization(
    ids: Operand, segments: OptionalOperand, words: Operand, places: Operand, parts: OptionalOperand, gamma: Operand,
    beta: Operand, mask: OptionalOperand, word_scale: Input, place_scale: Input, part_scale: OptionalInput,
    gamma_scale: Input, beta_scale: Input, word_zero: Operand, place_zero: Operand, part_zero: OptionalOperand,
    gamma_zero: Operand, beta_zero: Operand, *, epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Embeddings and their normalisation from tables of integers, which are not trained."""
    tables = ((words, word_scale, word_zero), (places, place_scale, place_zero), (gamma, gamma_scale, gamma_zero),
              (beta, beta_scale, beta_zero))  # fmt: skip
    word_table, place_table, scales, shifts = (dequantize_linear(*table) for table in tables)
    part_table = None if parts is None or part_scale is None else dequantize_linear(parts, part_scale, part_zero)
    y, lengths, _ = embed_layer_normalization(
        plain_tensor(ids), None if segments is None else plain_tensor(segments), word_table, place_table, part_table,
        scales, shifts, None if mask is None else plain_tensor(mask), epsilon=epsilon,
    )  # fmt: skip
    return y, lengths
