"""MindSpore's call for attention of several heads: layouts, sparse modes, and masks that say what is hidden."""

from __future__ import annotations

import math

import numpy as np

from graphls.base.checks import positive_int, probability, python_number
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.shapes import reshape, transpose
from graphls.ops.math.elementwise import cast, logical_and, where
from graphls.ops.network.attention import scaled_dot_product_attention
from graphls.ops.operands import float_of, tensor_of
from graphls.ops.record import operation

ORDERS = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}
"""Where batch, heads, length and size are in each layout, H of which holds heads and size."""
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
    `attn_mask` broadcasts to (B, N, S1, S2) and is true, or 1, where a key is hidden. `sparse_mode` 0 hides, beside
    that, keys more than `pre_tokens` before a query or `next_tokens` behind it, 1 nothing; 2 hides those behind the
    query, counted from the first, 3 counted from the last, and 4 those outside of the band, counted from the last: in
    these three `attn_mask` is the packed triangle, and not read. Weights are kept with the probability `keep_prob`. A
    query that sees no key gives 0. On every device and in every float dtype. Raises GraphValueError for other layouts
    and modes, for shapes that do not fit, and for `drop_mask`, `padding_mask`, `prefix` and lengths of sequences.
    """
    others = {"drop_mask": drop_mask, "padding_mask": padding_mask, "prefix": prefix}
    lengths = {"actual_seq_qlen": actual_seq_qlen, "actual_seq_kvlen": actual_seq_kvlen}
    for name, given in {**others, **lengths}.items():
        if given is not None:
            raise GraphValueError(f"flash_attention_score takes no {name!r} here; leave it out.")
    if input_layout not in ORDERS or sparse_mode not in range(5):
        text = f"layouts {', '.join(ORDERS)} and sparse modes 0 to 4, not {input_layout!r} and {sparse_mode!r}"
        raise GraphValueError(f"flash_attention_score takes the {text}.")
    q, k, v = (float_of(x) for x in (query, key, value))
    size = _head_size(q, head_num, input_layout)
    q, k, v = (_heads(x, size, input_layout) for x in (q, k, v))
    band = (pre_tokens, next_tokens) if sparse_mode in (0, 4) else (ALL, ALL if sparse_mode == 1 else 0)
    seen = _band(q.shape[-2], k.shape[-2], band, sparse_mode > 2)
    mask = _mask(attn_mask if sparse_mode < 2 else None, real_shift, seen)
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
    """Which keys queries see by their distance; None where they see all."""
    before, behind = band
    if before >= rows + columns and behind >= rows + columns:
        return None
    shift = columns - rows if is_from_end else 0
    distance = np.arange(columns)[None] - np.arange(rows)[:, None] - shift
    return Tensor((distance >= -before) & (distance <= behind))


def _mask(hidden: TensorLike | None, shift: TensorLike | None, seen: Tensor | None) -> Tensor | None:
    """What scaled_dot_product_attention takes as its mask: bools, or what is added."""
    if hidden is not None:
        open_ones = ~cast(tensor_of(hidden), "bool")
        seen = open_ones if seen is None else logical_and(open_ones, seen)
    if shift is None:
        return seen
    return tensor_of(shift) if seen is None else where(seen, shift, -math.inf)
