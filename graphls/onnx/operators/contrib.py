"""Operators of the domain com.microsoft, which ONNX Runtime's optimizers write: fusions and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.activations import hard_sigmoid
from graphls.onnx.operators.normalization import layer_normalization, rms_normalization
from graphls.onnx.operators.products import ConvolutionAttributes, conv, gemm
from graphls.onnx.operators.quantization import dequantize_linear, quantize_linear
from graphls.onnx.table import MICROSOFT, operator, unary
from graphls.onnx.values import Floats, Input, OptionalInput
from graphls.ops.operands import tensor_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

unary({"Gelu": ops.gelu}, MICROSOFT)
operator("QuantizeLinear", domain=MICROSOFT, untrained=(1,))(quantize_linear)
operator("DequantizeLinear", domain=MICROSOFT, untrained=(1,), quantized=True)(dequantize_linear)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Input, bias: Input) -> Tensor:
    return ops.gelu(ops.add(x, bias))


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Input, bias: OptionalInput = None) -> Tensor:
    return ops.gelu(x if bias is None else ops.add(x, bias), "tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Input, *, alpha: float = 1.702) -> Tensor:
    return ops.mul(x, ops.sigmoid(ops.mul(x, alpha)))


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Input, b: Input, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    a, b = _exchanged(tensor_of(a), transA, transBatchA), _exchanged(tensor_of(b), transB, transBatchB)
    product = ops.matmul(a, b)
    return product if alpha == 1 else product * alpha


def _exchanged(x: Tensor, last: int, batch: int) -> Tensor:
    """x with its first axis moved before the last one, for `batch`, and its last two axes swapped, for `last`."""
    x = ops.movedim(x, 0, -2) if batch and x.ndim > 2 else x
    return ops.swapaxes(x, -1, -2) if last and x.ndim > 1 else x


def _activated(y: Tensor, name: str, parameters: Floats) -> Tensor:
    functions: dict[str, Callable[[], Tensor]] = {
        "": lambda: y,
        "Relu": lambda: ops.relu(y),
        "Tanh": lambda: ops.tanh(y),
        "Sigmoid": lambda: ops.sigmoid(y),
        "LeakyRelu": lambda: ops.where(ops.less(y, 0), y * (parameters or [0.01])[0], y),
        "Clip": lambda: ops.clip_by_value(y, *parameters),
        "HardSigmoid": lambda: hard_sigmoid(y, alpha=parameters[0], beta=parameters[1]),
    }
    if name not in functions:
        raise GraphValueError(f"the activation {name!r} is not known.")
    return functions[name]()


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Input, b: Input, c: OptionalInput = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, activation: str = "", activation_alpha: float | None = None, activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Tensor:  # fmt: skip
    parameters = [n for n in (activation_alpha, activation_beta, activation_gamma) if n is not None]
    return _activated(gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB), activation, parameters)


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Input, w: Input, b: OptionalInput = None, z: OptionalInput = None, *, activation: str = "",
    activation_params: Floats | None = None, **geometry: Unpack[ConvolutionAttributes],
) -> Tensor:  # fmt: skip
    y = conv(x, w, b, **geometry)
    return _activated(y if z is None else ops.add(y, z), activation, activation_params or ())


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    x: Input, scale: Input, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Tensor, None]:
    return rms_normalization(x, scale, axis=axis, epsilon=epsilon), None


def _skipped(x: Input, skip: Input, bias: OptionalInput) -> Tensor:
    """The sum that is normalised; the skip connection may have no batch axis, or one of size 1."""
    total = ops.add(x, skip)
    return total if bias is None else ops.add(total, bias)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    x: Input, skip: Input, gamma: Input, beta: OptionalInput = None, bias: OptionalInput = None, *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:  # fmt: skip
    total = _skipped(x, skip, bias)
    return (*layer_normalization(total, gamma, beta, epsilon=epsilon), total)


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    x: Input, skip: Input, gamma: Input, bias: OptionalInput = None, *, epsilon: float = 1e-12
) -> tuple[Tensor, None, None, Tensor]:
    total = _skipped(x, skip, bias)
    return rms_normalization(total, gamma, epsilon=epsilon), None, None, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    ids: Input, segments: OptionalInput, word_table: Input, position_table: Input, segment_table: OptionalInput,
    gamma: Input, beta: Input, mask: OptionalInput = None, position_ids: OptionalInput = None, *,
    epsilon: float = 1e-12, mask_index_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    count = tensor_of(ids).shape[1]
    positions = Tensor(np.arange(count)) if position_ids is None else position_ids
    total = ops.add(ops.gather(word_table, ids, 0), ops.gather(position_table, positions, 0))
    if segments is not None and segment_table is not None:
        total = ops.add(total, ops.gather(segment_table, segments, 0))
    zero = Tensor(np.zeros(tensor_of(ids).shape[0], np.int32))
    lengths = zero if mask is None else ops.cast(ops.sum(ops.cast(mask, "int32"), 1), "int32")
    return layer_normalization(total, gamma, beta, epsilon=epsilon)[0], lengths, total
