"""Attention: what queries take of values by how well they fit the keys."""

from __future__ import annotations

import math

import numpy as np

from graphls.base.checks import optional, probability, python_number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.shapes import broadcast_to, expand_dims, reshape
from graphls.ops.grouped import together
from graphls.ops.math.elementwise import cast, logical_or, where
from graphls.ops.math.reductions import all, amax
from graphls.ops.network.network import dropout, matmul, softmax
from graphls.ops.operands import Shape, apply, float_of, tensor_of
from graphls.ops.record import operation


@operation(checks={"dropout_p": probability, "scale": optional(python_number)})
@together
def scaled_dot_product_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, attn_mask: TensorLike | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value, for query (..., L, E), key (..., S, E) and value (..., S, V).

    Gives (..., L, V); the axes before the last two broadcast. `scale` is by default 1 / sqrt(E). `attn_mask`
    broadcasts to (..., L, S): bools, true where there is attention, or floats that are added. With `is_causal` the
    query i sees the keys up to i. A query that sees no key gives 0. With `enable_gqa` the axis before the last two
    holds heads, and each head of key and value serves several, one behind the other, of query. Weights are dropped
    with the probability `dropout_p`, whether in training or not: give 0.0 in evaluation. The arguments and numbers are
    those of torch.nn.functional. Raises GraphTypeError for a mask of integers, GraphValueError for shapes that do not
    fit and for both a mask and `is_causal`.
    """
    q, k, v = dispatch.promoted(float_of(query), float_of(key), float_of(value))
    _check_shapes(q, k, v)
    if enable_gqa:
        k, v = (_shared(x, q) for x in (k, v))
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


def _shared(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values (..., heads, S, E), each of whose heads is there as often as the queries need it."""
    heads, wanted = (t.shape[-3] if t.ndim > 2 else 0 for t in (x, q))
    if not heads or wanted % heads:
        raise GraphValueError(f"With enable_gqa, the heads of {q.type} must be a multiple of those of {x.type}.")
    *batch, _, length, size = x.shape
    spread = broadcast_to(expand_dims(x, -3), (*batch, heads, wanted // heads, length, size))
    return reshape(spread, (*batch, wanted, length, size))


def _masked_softmax(scores: Tensor, mask: Tensor, sees_always: bool) -> Tensor:
    """The softmax of scores where a mask lets them, and zeros, with finite gradients, for a query that sees no key."""
    _check_mask(mask, scores.shape)
    if mask.dtype.kind != "bool":
        seen = amax(mask, -1, keepdims=True) > -math.inf
        # A mask that is minus infinity everywhere in a row would make nan; that row is zeros here and again below.
        masked = scores + where(seen, cast(mask, scores.dtype), 0.0)
        return where(seen, softmax(masked), 0.0)
    if sees_always:
        return softmax(where(mask, scores, -math.inf))
    unseen = all(~mask, -1, keepdims=True)
    return where(unseen, 0.0, softmax(where(logical_or(mask, unseen), scores, -math.inf)))


def _check_mask(mask: Tensor, scores: Shape) -> None:
    if mask.dtype.kind != "bool" and not mask.dtype.is_float:
        raise GraphTypeError(f"The attn_mask holds bools, or floats that are added, not {mask.type}.")
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise GraphValueError(f"The attn_mask of shape {mask.shape} does not broadcast to the scores, {scores}.")
