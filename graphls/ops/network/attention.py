"""Scaled dot-product attention, and MindSpore's flash_attention_score."""

from __future__ import annotations

import math

import numpy as np

from graphls.base.checks import optional, positive_int, probability, python_number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.shapes import broadcast_to, expand_dims, reshape, transpose
from graphls.ops.math.elementwise import cast, logical_and, logical_or, where
from graphls.ops.math.reductions import all, amax
from graphls.ops.network.network import dropout, matmul, softmax
from graphls.ops.operands import Shape, apply, float_of, single_session, tensor_of
from graphls.ops.record import operation


@operation(checks={"dropout_p": probability, "scale": optional(python_number)})
@single_session
def scaled_dot_product_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, attn_mask: TensorLike | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value, for query (..., L, E), key (..., S, E) and value (..., S, V).

    The result is (..., L, V); the axes before the last two broadcast. `scale` is by default 1 / sqrt(E). `attn_mask`
    broadcasts to (..., L, S): bools, true where a query attends to a key, or floats that are added. With `is_causal`
    the query i attends to the keys up to i. A query that attends to no key gives 0. With `enable_gqa` the axis before
    the last two has the heads, and each head of key and value serves several consecutive ones of query. Weights are
    dropped with the probability `dropout_p`, in training or not: give 0.0 in evaluation. The arguments and numbers are
    those of torch.nn.functional. Raises GraphTypeError for a mask of integers, GraphValueError for shapes that do not
    fit and for both a mask and `is_causal`.
    """
    q, k, v = dispatch.promoted(float_of(query), float_of(key), float_of(value))
    _check_shapes(q, k, v)
    if enable_gqa:
        k, v = (_repeated_heads(x, q) for x in (k, v))
    scores = apply("matmul", q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale), k, transpose_b=True)
    if is_causal and attn_mask is not None:
        raise GraphValueError("scaled_dot_product_attention takes an attn_mask or is_causal, not both.")
    mask = Tensor(np.tri(*scores.shape[-2:], dtype=np.bool_)) if is_causal else attn_mask
    weights = softmax(scores) if mask is None else _masked_softmax(scores, tensor_of(mask), is_causal)
    return matmul(dropout(weights, dropout_p), v)


def _check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    types = f"{q.type}, {k.type} and {v.type}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise GraphValueError(f"Attention takes queries, keys and values of rank 2 or more, not {types}.")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise GraphValueError(f"Attention takes keys of the size of queries, and a value for each key, not {types}.")


def _repeated_heads(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values (..., heads, S, E) with their heads repeated to the number of heads of the queries."""
    heads, count = (t.shape[-3] if t.ndim > 2 else 0 for t in (x, q))
    if not heads or count % heads:
        raise GraphValueError(f"With enable_gqa, the heads of {q.type} must be a multiple of those of {x.type}.")
    *batch, _, length, size = x.shape
    spread = broadcast_to(expand_dims(x, -3), (*batch, heads, count // heads, length, size))
    return reshape(spread, (*batch, count, length, size))


def _masked_softmax(scores: Tensor, mask: Tensor, has_keys: bool) -> Tensor:
    """The softmax of masked scores, with zeros and finite gradients for a query without keys."""
    _check_mask(mask, scores.shape)
    if mask.dtype.kind != "bool":
        has_key = amax(mask, -1, keepdims=True) > -math.inf
        # A row of the mask that is minus infinity everywhere would give nan; the row is zeros here and again below.
        masked = scores + where(has_key, cast(mask, scores.dtype), 0.0)
        return where(has_key, softmax(masked), 0.0)
    if has_keys:
        return softmax(where(mask, scores, -math.inf))
    has_no_key = all(~mask, -1, keepdims=True)
    return where(has_no_key, 0.0, softmax(where(logical_or(mask, has_no_key), scores, -math.inf)))


def _check_mask(mask: Tensor, scores: Shape) -> None:
    if mask.dtype.kind != "bool" and not mask.dtype.is_float:
        raise GraphTypeError(f"The attn_mask holds bools, or floats that are added, not {mask.type}.")
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise GraphValueError(f"The attn_mask of shape {mask.shape} does not broadcast to the scores, {scores}.")


ORDERS = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}
"""The axes of batch, heads, length and size in each layout; H combines heads and size."""
ALL = 2**31 - 1


@operation(checks={"head_num": positive_int, "keep_prob": probability, "scalar_value": python_number})
def flash_attention_score(
    query: TensorLike, key: TensorLike, value: TensorLike, head_num: int, real_shift: TensorLike | None = None,
    drop_mask: TensorLike | None = None, padding_mask: TensorLike | None = None, attn_mask: TensorLike | None = None,
    prefix: TensorLike | None = None, actual_seq_qlen: TensorLike | None = None,
    actual_seq_kvlen: TensorLike | None = None, keep_prob: float = 1.0, scalar_value: float = 1.0,
    pre_tokens: int = ALL, next_tokens: int = ALL, inner_precise: int = 0, input_layout: str = "BSH",
    sparse_mode: int = 0,
) -> Tensor:  # fmt: skip
    """softmax(scalar_value * query @ key.T + real_shift) @ value for each of `head_num` heads, in the layout of query.

    `input_layout` is "BSH", "SBH", "BNSD" or "BSND"; key and value may have fewer heads, each of which serves several.
    `attn_mask` broadcasts to (B, N, S1, S2) and is true, or 1, where a key is hidden. `sparse_mode` 0 also hides keys
    more than `pre_tokens` before or `next_tokens` after a query, 1 nothing more; 2 hides keys after the query, aligned
    at the first, 3 aligned at the last, and 4 those outside of the band, aligned at the last: in these three
    `attn_mask` is the packed triangle, and ignored. Weights are retained with the probability `keep_prob`. A query
    without keys gives 0. Works on every device and in every float dtype. Raises GraphValueError for other layouts and
    modes, for shapes that do not fit, and for `drop_mask`, `padding_mask`, `prefix` and lengths of sequences.
    """
    unsupported = {"drop_mask": drop_mask, "padding_mask": padding_mask, "prefix": prefix}
    unsupported |= {"actual_seq_qlen": actual_seq_qlen, "actual_seq_kvlen": actual_seq_kvlen}
    for name, argument in unsupported.items():
        if argument is not None:
            raise GraphValueError(refusal("attention masks", repr(name)))
    if input_layout not in ORDERS or sparse_mode not in range(5):
        text = f"layouts {', '.join(ORDERS)} and sparse modes 0 to 4, not {input_layout!r} and {sparse_mode!r}"
        raise GraphValueError(f"flash_attention_score takes the {text}.")
    q, k, v = (float_of(x) for x in (query, key, value))
    size = _head_size(q, head_num, input_layout)
    q, k, v = (_heads(x, size, input_layout) for x in (q, k, v))
    band = (pre_tokens, next_tokens) if sparse_mode in (0, 4) else (ALL, ALL if sparse_mode == 1 else 0)
    visible = _band(q.shape[-2], k.shape[-2], band, sparse_mode > 2)
    mask = _mask(attn_mask if sparse_mode < 2 else None, real_shift, visible)
    output = scaled_dot_product_attention(q, k, v, mask, 1.0 - keep_prob, scale=scalar_value, enable_gqa=True)
    order = np.argsort(ORDERS[input_layout])
    return reshape(transpose(output, tuple(map(int, order))), tensor_of(query).shape)


def _head_size(q: Tensor, heads: int, layout: str) -> int:
    if q.ndim != len(layout):
        raise GraphValueError(f"A query in the layout {layout} has {len(layout)} axes, and not {q.type}.")
    if q.shape[-1] % heads if "H" in layout else q.shape[layout.index("N")] != heads:
        raise GraphValueError(f"The head_num of {q.type} in the layout {layout} cannot be {heads}.")
    return q.shape[-1] // heads if "H" in layout else q.shape[-1]


def _heads(x: Tensor, size: int, layout: str) -> Tensor:
    """(batch, heads, length, size) of an operand."""
    if "H" in layout:
        if x.ndim != 3 or x.shape[2] % size:
            raise GraphValueError(f"The heads of the query have {size} numbers each, which {x.type} does not hold.")
        x = reshape(x, (*x.shape[:2], x.shape[2] // size, size))
    return transpose(x, ORDERS[layout])


def _band(rows: int, columns: int, band: tuple[int, int], is_from_end: bool) -> Tensor | None:
    """The keys that queries attend to by their distance; None if all."""
    before, after = band
    if before >= rows + columns and after >= rows + columns:
        return None
    shift = columns - rows if is_from_end else 0
    distance = np.arange(columns)[None] - np.arange(rows)[:, None] - shift
    return Tensor((distance >= -before) & (distance <= after))


def _mask(hidden: TensorLike | None, shift: TensorLike | None, visible: Tensor | None) -> Tensor | None:
    """The mask for scaled_dot_product_attention: bools, or floats to add."""
    if hidden is not None:
        shown = ~cast(tensor_of(hidden), "bool")
        visible = shown if visible is None else logical_and(shown, visible)
    if shift is None:
        return visible
    return tensor_of(shift) if visible is None else where(visible, shift, -math.inf)
