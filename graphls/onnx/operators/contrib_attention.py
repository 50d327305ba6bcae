"""Attention of com.microsoft, which ONNX Runtime's optimizers and model builders write, with caches and rotations."""

from __future__ import annotations

import math

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import DType
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.activations import softmax_of_hidden
from graphls.onnx.operators.normalization import rms_normalization
from graphls.onnx.table import MICROSOFT, operator
from graphls.onnx.values import Input, Ints, OptionalInput, integers
from graphls.ops.operands import apply, tensor_of


def heads_of(x: Input, count: int) -> Tensor:
    """Splits (batch, length, heads * size) into (batch, heads, length, size)."""
    x = tensor_of(x)
    if x.ndim == 4:
        return x
    return ops.transpose(ops.reshape(x, (*x.shape[:2], count, x.shape[2] // count)), (0, 2, 1, 3))


def joined(x: Tensor) -> Tensor:
    """Merges (batch, heads, length, size) into (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, heads * size))


def _attended(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, bias: OptionalInput, causal: bool, lowest: float
) -> Tensor:
    """softmax(q @ k.T * scale + bias) @ v for each head; `causal` hides later positions."""
    scores = _scores(q, k, scale)
    scores = scores if bias is None else ops.add(scores, bias)
    if causal:
        length, total = scores.shape[-2:]
        hidden = np.arange(total) > np.arange(length)[:, None] + (total - length)
        # As in ONNX Runtime, lower than what a mask hides, also in rows of nothing else.
        scores = ops.where(Tensor(hidden), np.finfo(scores.dtype.numpy).min, scores)
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
    past: OptionalInput = None, added: OptionalInput = None, past_length: OptionalInput = None, *, num_heads: int,
    unidirectional: int = 0, qkv_hidden_sizes: Ints | None = None, scale: float | None = None,
    mask_filter_value: float = -10000.0, do_rotary: int = 0, rotary_embedding_dim: int = 0,
    past_present_share_buffer: int = 0,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention as in BERT and GPT-2, with one matrix as the weights of query, key and value."""
    refuse(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    product = ops.matmul(x, weights)
    product = product if bias is None else ops.add(product, bias)
    return attended(node, product, mask, past, added, num_heads, bool(unidirectional), qkv_hidden_sizes, scale,
                    mask_filter_value)  # fmt: skip


def refuse(**attributes: int) -> None:
    """Raise GraphValueError for an attribute that is set, whose meaning no rule computes."""
    for name, value in attributes.items():
        if value:
            raise GraphValueError(f"its attribute {name}={value} is not computed, only 0.")


def attended(
    node: Running, product: Tensor, mask: OptionalInput, past: OptionalInput, added: OptionalInput, num_heads: int,
    causal: bool, sizes: Ints | None, scale: float | None, lowest: float,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of query, key and value in one tensor, and keys and values for the next call where they are used."""
    parts = ops.split(product, list(sizes or [product.shape[-1] // 3] * 3), -1)
    q, k, v = (heads_of(part, num_heads) for part in parts)
    if past is not None:
        k, v = ops.concat((past[0], k), 2), ops.concat((past[1], v), 2)
    added = _with_mask(mask, added, (*q.shape[:3], k.shape[2]), lowest, q.dtype)
    y = joined(_attended(q, k, v, scale, added, causal, lowest))
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
    node: Running, q: Input, k: OptionalInput = None, v: OptionalInput = None, bias: OptionalInput = None,
    mask: OptionalInput = None, added: OptionalInput = None, past_key: OptionalInput = None,
    past_value: OptionalInput = None, *, num_heads: int, unidirectional: int = 0, scale: float | None = None,
    mask_filter_value: float = -10000.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    q, k, v = _with_biases(*_separate(tensor_of(q), k, v, num_heads), bias, num_heads)
    if past_key is not None:
        k, v = ops.concat((past_key, k), 2), ops.concat((past_value, v), 2)
    added = _with_mask(mask, added, (*q.shape[:3], k.shape[2]), mask_filter_value, q.dtype)
    y = joined(_attended(q, k, v, scale, added, bool(unidirectional), mask_filter_value))
    return y, k, v, _scores(q, k, scale) if node.is_used(3) else None


def _scores(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """q @ k.T * scale for each head."""
    scores: Tensor = ops.matmul(q, ops.swapaxes(k, -1, -2)) * (scale or 1 / math.sqrt(q.shape[-1]))
    return scores


def _separate(q: Tensor, k: OptionalInput, v: OptionalInput, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value as (batch, heads, length, size), which may be packed in one tensor or two."""
    if k is None:  # (batch, length, heads, 3, size)
        q, k, v = (ops.transpose(q[:, :, :, i], (0, 2, 1, 3)) for i in range(3))
    elif v is None:  # keys and values in one, (batch, length, heads, 2, size)
        k, v = (ops.transpose(tensor_of(k)[:, :, :, i], (0, 2, 1, 3)) for i in range(2))
    first, second, third = (heads_of(x, num_heads) for x in (q, k, v))
    return first, second, third


def _with_biases(
    q: Tensor, k: Tensor, v: Tensor, bias: OptionalInput, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value plus their parts of a bias."""
    if bias is None:
        return q, k, v
    parts = ops.split(bias, [num_heads * x.shape[-1] for x in (q, k, v)], 0)
    columns = (ops.reshape(part, (1, num_heads, 1, -1)) for part in parts)
    first, second, third = (ops.add(x, b) for x, b in zip((q, k, v), columns, strict=True))
    return first, second, third


@operator("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def decoder_masked_multi_head_attention(
    node: Running, q: Input, k: OptionalInput = None, v: OptionalInput = None, mask: OptionalInput = None,
    added: OptionalInput = None, past_key: OptionalInput = None, past_value: OptionalInput = None,
    past_length: OptionalInput = None, beam_width: OptionalInput = None, indirection: OptionalInput = None,
    bias: OptionalInput = None, *, num_heads: int, output_qk: int = 0, past_present_share_buffer: int = 0,
    scale: float | None = None, mask_filter_value: float = -10000.0,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Attention of one new token to itself and to those before it, or to keys that do not grow.

    With a shared buffer, the caches are longer than the past, and the new keys overwrite the elements at `past_length`.
    """
    if indirection is not None:
        raise GraphValueError("its cache indirection, of beam search, is not computed.")
    q, k, v = _with_biases(*_separate(tensor_of(q), k, v, num_heads), bias, num_heads)
    present: tuple[Tensor | None, Tensor | None] = None, None
    if past_key is not None and past_value is not None:
        if past_present_share_buffer and past_length is not None:
            at = ops.cast(ops.reshape(past_length, ()), "int64")
            places = Tensor(np.arange(tensor_of(past_key).shape[2]))
            is_new = ops.reshape(ops.equal(places, at), (1, 1, -1, 1))
            k, v = ops.where(is_new, k, past_key), ops.where(is_new, v, past_value)
            mask = None if mask is None else ops.pad(mask, (0, k.shape[2] - tensor_of(mask).shape[1]))
            hidden = ops.reshape(ops.cast(ops.greater(places, at), q.dtype), (1, 1, 1, -1)) * mask_filter_value
            added = hidden if added is None else ops.add(added, hidden)
        else:
            k, v = ops.concat((past_key, k), 2), ops.concat((past_value, v), 2)
        present = k, v
    added = _with_mask(mask, added, (*q.shape[:3], k.shape[2]), mask_filter_value, q.dtype)
    y = joined(_attended(q, k, v, scale, added, False, mask_filter_value))
    return y, *present, _scores(q, k, scale) if output_qk and node.is_used(3) else None


@operator("GroupQueryAttention", domain=MICROSOFT, known=(6,))
def group_query_attention(
    node: Running, q: Input, k: OptionalInput, v: OptionalInput, past_key: OptionalInput, past_value: OptionalInput,
    last: Input, total: Array, cosines: OptionalInput = None, sines: OptionalInput = None,
    positions: OptionalInput = None, added: OptionalInput = None, sinks: OptionalInput = None,
    k_scale: OptionalInput = None, v_scale: OptionalInput = None, q_norm: OptionalInput = None,
    k_norm: OptionalInput = None, *, num_heads: int, kv_num_heads: int, causal: int = 1, do_rotary: int = 0,
    rotary_interleaved: int = 0, local_window_size: int = -1, scale: float | None = None, softcap: float = 0.0,
    smooth_softmax: int = 0, qk_norm_epsilon: float = 1e-6, qk_output: int = 0, kv_cache_bit_width: int = 0,
    k_quant_type: str = "NONE", v_quant_type: str = "NONE", sliding_window_cache: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Causal attention of new tokens to themselves and to a cache, where several query heads share a key head.

    `last` is the length of each sequence with the new tokens, minus one, and `total` the largest length.
    """
    refuse(qk_output=qk_output, kv_cache_bit_width=kv_cache_bit_width, sliding_window_cache=sliding_window_cache)
    if k_scale is not None or v_scale is not None:
        raise GraphValueError("its cache in integers is not computed.")
    query, key, value = _grouped(tensor_of(q), k, v, num_heads, kv_num_heads)
    query, key = (
        x if weight is None else rms_normalization(x, weight, epsilon=qk_norm_epsilon)
        for x, weight in ((query, q_norm), (key, k_norm))
    )
    batch, _, count, _ = query.shape
    ends = ops.reshape(ops.cast(last, "int64"), (batch, 1)) + 1
    longest = integers(total)[0]
    starts = ops.zeros_like(ends) if count == longest else ends - count
    places = starts + Tensor(np.arange(count))
    if do_rotary and cosines is not None and sines is not None:
        at = places
        if positions is not None:  # of a prompt, ONNX Runtime reads the first number only
            stated = ops.cast(positions, "int64")
            at = ops.reshape(stated, (batch, count)) if count < longest else places + ops.reshape(stated, (-1,))[0]
        query, key = (_rotated(x, at, cosines, sines, bool(rotary_interleaved)) for x in (query, key))
    if past_key is not None and past_value is not None:
        length = max(longest, tensor_of(past_key).shape[2])
        key, value = (_appended(p, n, starts, length) for p, n in ((past_key, key), (past_value, value)))
    hidden = _unseen(places, ends, key.shape[2], bool(causal), local_window_size)
    repeats = num_heads // kv_num_heads
    keys, values = (ops.repeat_interleave(x, repeats, 1) if repeats > 1 else x for x in (key, value))
    scores = _scores(query, keys, scale)
    scores = ops.tanh(scores / softcap) * softcap if softcap else scores
    scores = scores if added is None else ops.add(scores, tensor_of(added)[..., : scores.shape[-1]])
    scores = ops.where(hidden, ops.full_like(scores, -np.inf), scores)
    return joined(ops.matmul(_shares(scores, sinks, bool(smooth_softmax)), values)), key, value


def _shares(scores: Tensor, sinks: OptionalInput, is_smooth: bool) -> Tensor:
    """The softmax of scores, with a further score of each head, or 0, that takes a share of its own."""
    if sinks is None and not is_smooth:
        return softmax_of_hidden(scores, -1)
    sink = ops.zeros((1, 1, 1, 1), scores.dtype) if sinks is None else ops.reshape(sinks, (1, -1, 1, 1))
    wide = ops.concat((scores, ops.broadcast_to(sink, (*scores.shape[:3], 1))), -1)
    return softmax_of_hidden(wide, -1)[..., :-1]


def _grouped(
    q: Tensor, k: OptionalInput, v: OptionalInput, num_heads: int, kv_num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value as (batch, heads, length, size), which may be packed in one tensor."""
    if k is None or v is None:
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        q, k, v = ops.split(q, [num_heads * size, kv_num_heads * size, kv_num_heads * size], -1)
    return heads_of(q, num_heads), heads_of(k, kv_num_heads), heads_of(v, kv_num_heads)


def _appended(past: Input, new: Tensor, starts: Tensor, length: int) -> Tensor:
    """A cache of some length: the past up to the start of each sequence, then the new elements, as far as they go."""
    past = tensor_of(past)
    held, count = past.shape[2], new.shape[2]
    places = ops.broadcast_to(Tensor(np.arange(length)), (new.shape[0], length))
    new_places = ops.clip_by_value(places - starts, 0, count - 1) + held
    at = ops.where(ops.less(places, starts), ops.minimum(places, max(held - 1, 0)), new_places)
    index = ops.broadcast_to(ops.reshape(at, (new.shape[0], 1, length, 1)), (*new.shape[:2], length, new.shape[3]))
    return ops.gather_elements(ops.concat((past, new), 2), 2, index)


def _unseen(places: Tensor, ends: Tensor, length: int, is_causal: bool, window: int) -> Tensor:
    """(batch, 1, count, length): where a token may not look: behind itself, behind the end, or before its window."""
    batch, count = places.shape
    keys = Tensor(np.arange(length))
    at = ops.reshape(places, (batch, 1, count, 1))
    limit = at if is_causal else ops.reshape(ends - 1, (batch, 1, 1, 1))
    hidden = ops.greater(keys, ops.broadcast_to(limit, (batch, 1, count, 1)))
    return hidden if window < 0 else ops.logical_or(hidden, ops.less_equal(keys, at - window))


def _rotated(x: Tensor, positions: Tensor, cosines: Input, sines: Input, interleaved: bool) -> Tensor:
    """(batch, heads, length, size) with its first elements rotated by their positions."""
    cosine, sine = (ops.expand_dims(ops.gather(table, positions, 0), 1) for table in (cosines, sines))
    turned = 2 * cosine.shape[-1]
    y = _turned(x[..., :turned], cosine, sine, interleaved)
    return y if turned == x.shape[-1] else ops.concat((y, x[..., turned:]), -1)


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    x: Input, positions: Input, cosines: Input, sines: Input, *, interleaved: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0, scale: float = 1.0, is_packed_batching: int = 0,
) -> Tensor:  # fmt: skip
    """Rotates pairs of elements by angles that depend on their position."""
    x, cosines, positions = tensor_of(x), tensor_of(cosines), tensor_of(positions)
    heads = num_heads if rotary_embedding_dim else x.shape[-1] // (2 * cosines.shape[-1])
    y = heads_of(x, heads)
    if positions.size == 1:
        positions = ops.reshape(positions, (1, 1)) + Tensor(np.arange(y.shape[2]))
    y = _rotated(y, positions, cosines, sines, bool(interleaved))
    return y if x.ndim == 4 else joined(y)


def _turned(x: Tensor, cosines: Tensor, sines: Tensor, interleaved: bool) -> Tensor:
    half = x.shape[-1] // 2
    pairs = ops.reshape(x, (*x.shape[:-1], half, 2) if interleaved else (*x.shape[:-1], 2, half))
    first, second = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])
    turned = (first * cosines - second * sines, first * sines + second * cosines)
    return ops.reshape(ops.stack(turned, -1 if interleaved else -2), x.shape)
