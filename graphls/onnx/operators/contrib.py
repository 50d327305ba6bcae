"""Operators that the optimizers of ONNX Runtime write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.activations import hard_sigmoid, softmax_of_hidden
from graphls.onnx.operators.normalization import layer_normalization, rms_normalization
from graphls.onnx.operators.products import conv, gemm
from graphls.onnx.operators.quantization import dequantize_linear, quantize_linear
from graphls.onnx.table import MICROSOFT, operator, unary
from graphls.ops.operands import apply, tensor_of

unary({"Gelu": ops.gelu}, MICROSOFT)
operator("QuantizeLinear", domain=MICROSOFT, settled=(1,))(quantize_linear)
operator("DequantizeLinear", domain=MICROSOFT, settled=(1,), quantized=True)(dequantize_linear)


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(x: Any, bias: Any) -> Any:
    return ops.gelu(ops.add(x, bias))


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Any, bias: Any = None) -> Any:
    return ops.gelu(x if bias is None else ops.add(x, bias), "tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Any, *, alpha: float = 1.702) -> Any:
    return ops.mul(x, ops.sigmoid(ops.mul(x, alpha)))


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0, transBatchB: int = 0
) -> Any:
    a, b = _exchanged(tensor_of(a), transA, transBatchA), _exchanged(tensor_of(b), transB, transBatchB)
    product = ops.matmul(a, b)
    return product if alpha == 1 else product * alpha


def _exchanged(x: Tensor, last: int, batch: int) -> Tensor:
    """x with its first axis brought before the last one, and with the last two exchanged."""
    x = ops.movedim(x, 0, -2) if batch and x.ndim > 2 else x
    return ops.swapaxes(x, -1, -2) if last and x.ndim > 1 else x


def _activated(y: Any, name: str, numbers: Any) -> Any:
    given = list(numbers or ())
    known: dict[str, Callable[[], Any]] = {
        "": lambda: y,
        "Relu": lambda: ops.relu(y),
        "Tanh": lambda: ops.tanh(y),
        "Sigmoid": lambda: ops.sigmoid(y),
        "LeakyRelu": lambda: ops.where(ops.less(y, 0), y * (given or [0.01])[0], y),
        "Clip": lambda: ops.clip_by_value(y, *given),
        "HardSigmoid": lambda: hard_sigmoid(y, alpha=given[0], beta=given[1]),
    }
    if name not in known:
        raise GraphValueError(f"the activation {name!r} is not known.")
    return known[name]()


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Any, b: Any, c: Any = None, *, activation: str = "", activation_alpha: float | None = None,
    activation_beta: float | None = None, activation_gamma: float | None = None, **settings: Any,
) -> Any:  # fmt: skip
    numbers = [n for n in (activation_alpha, activation_beta, activation_gamma) if n is not None]
    return _activated(gemm(a, b, c, **settings), activation, numbers)


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Any, w: Any, b: Any = None, z: Any = None, *, activation: str = "", activation_params: Any = None,
    **geometry: Any,
) -> Any:  # fmt: skip
    y = conv(x, w, b, **geometry)
    return _activated(y if z is None else ops.add(y, z), activation, activation_params)


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    return rms_normalization(x, scale, axis=axis, epsilon=epsilon), None


def _skipped(x: Any, skip: Any, bias: Any) -> Any:
    """The sum that is normalised; a skip may lack the batch, or have one of 1."""
    total = ops.add(x, skip)
    return total if bias is None else ops.add(total, bias)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _skipped(x, skip, bias)
    return (*layer_normalization(total, gamma, beta, epsilon=epsilon), total)


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _skipped(x, skip, bias)
    return rms_normalization(total, gamma, epsilon=epsilon), None, None, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    ids: Any, segments: Any, words: Any, places: Any, kinds: Any, gamma: Any, beta: Any, mask: Any = None,
    positions: Any = None, *, epsilon: float = 1e-12, mask_index_type: int = 1,
) -> Any:  # fmt: skip
    count = tensor_of(ids).shape[1]
    numbers = Tensor(np.arange(count)) if positions is None else positions
    total = ops.add(ops.gather(words, ids, 0), ops.gather(places, numbers, 0))
    total = total if segments is None else ops.add(total, ops.gather(kinds, segments, 0))
    zero = Tensor(np.zeros(tensor_of(ids).shape[0], np.int32))
    lengths = zero if mask is None else ops.cast(ops.sum(ops.cast(mask, "int32"), 1), "int32")
    return layer_normalization(total, gamma, beta, epsilon=epsilon)[0], lengths, total


def _heads(x: Any, count: int) -> Any:
    """(batch, heads, length, size) of (batch, length, heads * size)."""
    x = tensor_of(x)
    if x.ndim == 4:
        return x
    return ops.transpose(ops.reshape(x, (*x.shape[:2], count, x.shape[2] // count)), (0, 2, 1, 3))


def _joined(x: Any) -> Any:
    """(batch, length, heads * size) of (batch, heads, length, size)."""
    batch, heads, length, size = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _attended(q: Any, k: Any, v: Any, scale: float | None, bias: Any, causal: bool, lowest: float) -> Any:
    """softmax(q @ k.T * scale + bias) @ v for each head; `causal` hides what comes later."""
    scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if bias is None else ops.add(scores, bias)
    if causal:
        length, total = scores.shape[-2:]
        seen = np.arange(total) <= np.arange(length)[:, None] + (total - length)
        scores = ops.where(Tensor(seen), scores, ops.cast(lowest, scores.dtype))
    if bias is None and np.isfinite(lowest):
        return ops.matmul(ops.softmax(scores, -1), v)
    # As ONNX says of Attention: a row that may look at nothing gives 0.
    is_blind = ops.equal(apply("max", scores, axis=(-1,), keepdims=True), -np.inf)
    shares = ops.where(is_blind, ops.zeros_like(scores), softmax_of_hidden(scores, -1))
    return ops.matmul(shares, v)


def _mask(mask: Any, shape: tuple[int, ...], lowest: float, dtype: Any) -> Any:
    """What is added to scores (batch, heads, length, total): 0 for what is seen, by any form of a mask."""
    batch, _, _, total = shape
    x = tensor_of(mask)
    if x.ndim == 1:
        places = Tensor(np.arange(total, dtype=np.int32))
        ends = ops.reshape(ops.cast(x[:batch], "int32"), (-1, 1))
        seen = ops.less(places, ends)
        if x.shape[0] == 2 * batch:
            seen = ops.logical_and(seen, ops.greater_equal(places, ops.reshape(ops.cast(x[batch:], "int32"), (-1, 1))))
        x = seen
    x = ops.cast(x, dtype)
    x = ops.reshape(x, {2: (batch, 1, 1, total), 3: (batch, 1, *x.shape[1:])}.get(x.ndim, x.shape))
    return (1 - x[..., :total]) * lowest


@operator("Attention", domain=MICROSOFT)
def attention(
    node: Running, x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None, added: Any = None, *,
    num_heads: int, unidirectional: int = 0, qkv_hidden_sizes: Any = None, scale: float | None = None,
    mask_filter_value: float = -10000.0,
) -> Any:  # fmt: skip
    """Attention of BERT and GPT-2, whose weights of query, key and value are one matrix."""
    product = ops.matmul(x, weights)
    product = product if bias is None else ops.add(product, bias)
    sizes = list(qkv_hidden_sizes or [product.shape[-1] // 3] * 3)
    q, k, v = (_heads(part, num_heads) for part in ops.split(product, sizes, -1))
    if past is not None:
        k, v = ops.concat((past[0], k), 2), ops.concat((past[1], v), 2)
    added = _with_mask(mask, added, (*q.shape[:3], k.shape[2]), mask_filter_value, q.dtype)
    y = _joined(_attended(q, k, v, scale, added, bool(unidirectional), mask_filter_value))
    return y, ops.stack((k, v)) if node.is_used(1) else None


def _with_mask(mask: Any, added: Any, shape: tuple[int, ...], lowest: float, dtype: Any) -> Any:
    if mask is None:
        return added
    hidden = _mask(mask, shape, lowest, dtype)
    return hidden if added is None else ops.add(hidden, added)


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    q: Any, k: Any = None, v: Any = None, bias: Any = None, mask: Any = None, added: Any = None, past_key: Any = None,
    past_value: Any = None, *, num_heads: int, unidirectional: int = 0, scale: float | None = None,
    mask_filter_value: float = -10000.0,
) -> Any:  # fmt: skip
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
    x: Any, positions: Any, cosines: Any, sines: Any, *, interleaved: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0, scale: float = 1.0, is_packed_batching: int = 0,
) -> Any:  # fmt: skip
    """Pairs of elements turned by angles that depend on where they stand."""
    x, cosines, positions = tensor_of(x), tensor_of(cosines), tensor_of(positions)
    heads = num_heads if rotary_embedding_dim else x.shape[-1] // (2 * cosines.shape[-1])
    y = _heads(x, heads)
    if positions.size == 1:
        positions = ops.reshape(positions, (1, 1)) + Tensor(np.arange(y.shape[2]))
    turned = rotary_embedding_dim or y.shape[-1]
    cosines, sines = (ops.expand_dims(ops.gather(table, positions, 0), 1) for table in (cosines, sines))
    y = ops.concat((_turned(y[..., :turned], cosines, sines, bool(interleaved)), y[..., turned:]), -1)
    return y if x.ndim == 4 else _joined(y)


def _turned(x: Any, cosines: Any, sines: Any, interleaved: bool) -> Any:
    half = x.shape[-1] // 2
    pairs = ops.reshape(x, (*x.shape[:-1], half, 2) if interleaved else (*x.shape[:-1], 2, half))
    first, second = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])
    turned = (first * cosines - second * sines, first * sines + second * cosines)
    return ops.reshape(ops.stack(turned, -1 if interleaved else -2), x.shape)
