"""Operators of the domain com.microsoft, which ONNX Runtime's optimizers write: fusions and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DType
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.activations import hard_sigmoid, softmax_of_hidden
from graphls.onnx.operators.normalization import layer_normalization, rms_normalization
from graphls.onnx.operators.products import ConvolutionAttributes, conv, gemm
from graphls.onnx.operators.quantization import dequantize_linear, quantize_linear
from graphls.onnx.table import MICROSOFT, operator, unary
from graphls.onnx.values import Floats, Input, Ints, OptionalInput
from graphls.ops.operands import apply, tensor_of

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
    ids: Input, segments: OptionalInput, word_table: Input, position_table: Input, segment_table: Input, gamma: Input,
    beta: Input, mask: OptionalInput = None, position_ids: OptionalInput = None, *, epsilon: float = 1e-12,
    mask_index_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    count = tensor_of(ids).shape[1]
    positions = Tensor(np.arange(count)) if position_ids is None else position_ids
    total = ops.add(ops.gather(word_table, ids, 0), ops.gather(position_table, positions, 0))
    total = total if segments is None else ops.add(total, ops.gather(segment_table, segments, 0))
    zero = Tensor(np.zeros(tensor_of(ids).shape[0], np.int32))
    lengths = zero if mask is None else ops.cast(ops.sum(ops.cast(mask, "int32"), 1), "int32")
    return layer_normalization(total, gamma, beta, epsilon=epsilon)[0], lengths, total


def _heads(x: Input, count: int) -> Tensor:
    """Splits (batch, length, heads * size) into (batch, heads, length, size)."""
    x = tensor_of(x)
    if x.ndim == 4:
        return x
    return ops.transpose(ops.reshape(x, (*x.shape[:2], count, x.shape[2] // count)), (0, 2, 1, 3))


def _joined(x: Tensor) -> Tensor:
    """Merges (batch, heads, length, size) into (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _attended(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, bias: OptionalInput, causal: bool, lowest: float
) -> Tensor:
    """softmax(q @ k.T * scale + bias) @ v for each head; `causal` hides later positions."""
    scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if bias is None else ops.add(scores, bias)
    if causal:
        length, total = scores.shape[-2:]
        seen = np.arange(total) <= np.arange(length)[:, None] + (total - length)
        scores = ops.where(Tensor(seen), scores, ops.cast(lowest, scores.dtype))
    if bias is None and np.isfinite(lowest):
        return ops.matmul(ops.softmax(scores, -1), v)
    # By ONNX's definition of Attention, a query that may attend to nothing gives 0.
    is_blind = ops.equal(apply("max", scores, axis=(-1,), keepdims=True), -np.inf)
    shares = ops.where(is_blind, ops.zeros_like(scores), softmax_of_hidden(scores, -1))
    return ops.matmul(shares, v)


def _mask(mask: Input, shape: tuple[int, ...], lowest: float, dtype: DType) -> Tensor:
    """The term added to scores (batch, heads, length, total): 0 where a mask of any form shows, `lowest` elsewhere."""
    batch, _, _, total = shape
    x = tensor_of(mask)
    if x.ndim == 1:
        positions = Tensor(np.arange(total, dtype=np.int32))
        ends = ops.reshape(ops.cast(x[:batch], "int32"), (-1, 1))
        seen = ops.less(positions, ends)
        if x.shape[0] == 2 * batch:
            starts = ops.reshape(ops.cast(x[batch:], "int32"), (-1, 1))
            seen = ops.logical_and(seen, ops.greater_equal(positions, starts))
        x = seen
    x = ops.cast(x, dtype)
    x = ops.reshape(x, {2: (batch, 1, 1, total), 3: (batch, 1, *x.shape[1:])}.get(x.ndim, x.shape))
    return (1 - x[..., :total]) * lowest


@operator("Attention", domain=MICROSOFT)
def attention(
    node: Running, x: Input, weights: Input, bias: OptionalInput = None, mask: OptionalInput = None,
    past: OptionalInput = None, added: OptionalInput = None, *, num_heads: int, unidirectional: int = 0,
    qkv_hidden_sizes: Ints | None = None, scale: float | None = None, mask_filter_value: float = -10000.0,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention as in BERT and GPT-2, with one matrix as the weights of query, key and value."""
    product = ops.matmul(x, weights)
    product = product if bias is None else ops.add(product, bias)
    sizes = list(qkv_hidden_sizes or [product.shape[-1] // 3] * 3)
    q, k, v = (_heads(part, num_heads) for part in ops.split(product, sizes, -1))
    if past is not None:
        k, v = ops.concat((past[0], k), 2), ops.concat((past[1], v), 2)
    added = _with_mask(mask, added, (*q.shape[:3], k.shape[2]), mask_filter_value, q.dtype)
    y = _joined(_attended(q, k, v, scale, added, bool(unidirectional), mask_filter_value))
    return y, ops.stack((k, v)) if node.is_used(1) else None


def _with_mask(
    mask: OptionalInput, added: OptionalInput, shape: tuple[int, ...], lowest: float, dtype: DType
) -> OptionalInput:
    if mask is None:
        return added
    hidden = _mask(mask, shape, lowest, dtype)
    return hidden if added is None else ops.add(hidden, added)


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    q: Input, k: OptionalInput = None, v: OptionalInput = None, bias: OptionalInput = None, mask: OptionalInput = None,
    added: OptionalInput = None, past_key: OptionalInput = None, past_value: OptionalInput = None, *, num_heads: int,
    unidirectional: int = 0, scale: float | None = None, mask_filter_value: float = -10000.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    q = tensor_of(q)
    if k is None:  # (batch, length, heads, 3, size)
        q, k, v = (ops.transpose(q[:, :, :, i], (0, 2, 1, 3)) for i in range(3))
    elif v is None:  # keys and values in one, (batch, length, heads, 2, size)
        k, v = (ops.transpose(tensor_of(k)[:, :, :, i], (0, 2, 1, 3)) for i in range(2))
    q, k, v = (_heads(x, num_heads) for x in (q, k, v))
    if bias is not None:
        sizes = [num_heads * x.shape[-1] for x in (q, k, v)]
        parts = ops.split(bias, sizes, 0)
        columns = [ops.reshape(b, (1, num_heads, 1, -1)) for b in parts]
        q, k, v = (ops.add(x, b) for x, b in zip((q, k, v), columns, strict=True))
    if past_key is not None:
        k, v = ops.concat((past_key, k), 2), ops.concat((past_value, v), 2)
    added = _with_mask(mask, added, (*q.shape[:3], k.shape[2]), mask_filter_value, q.dtype)
    return _joined(_attended(q, k, v, scale, added, bool(unidirectional), mask_filter_value)), k, v


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    x: Input, positions: Input, cosines: Input, sines: Input, *, interleaved: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0, scale: float = 1.0, is_packed_batching: int = 0,
) -> Tensor:  # fmt: skip
    """Rotates pairs of elements by angles that depend on their position."""
    x, cosines, positions = tensor_of(x), tensor_of(cosines), tensor_of(positions)
    heads = num_heads if rotary_embedding_dim else x.shape[-1] // (2 * cosines.shape[-1])
    y = _heads(x, heads)
    if positions.size == 1:
        positions = ops.reshape(positions, (1, 1)) + Tensor(np.arange(y.shape[2]))
    turned = rotary_embedding_dim or y.shape[-1]
    cosine, sine = (ops.expand_dims(ops.gather(table, positions, 0), 1) for table in (cosines, sines))
    y = ops.concat((_turned(y[..., :turned], cosine, sine, bool(interleaved)), y[..., turned:]), -1)
    return y if x.ndim == 4 else _joined(y)


def _turned(x: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool) -> Tensor:
    half = x.shape[-1] // 2
    pairs = ops.reshape(x, (*x.shape[:-1], half, 2) if interleaved else (*x.shape[:-1], 2, half))
    first, second = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])
    turned = (first * cosines - second * sines, first * sines + second * cosines)
    return ops.reshape(ops.stack(turned, -1 if interleaved else -2), x.shape)
