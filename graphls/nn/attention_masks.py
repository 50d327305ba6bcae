"""Masks of attention: where there is none."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DType
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor

Shapes = dict[tuple[int, ...], tuple[int, ...]]
"""The shapes that a mask may have, and those that they become."""


def joined_masks(attention: Any, padding: Any, shape: tuple[int, int, int, int], dtype: DType) -> Tensor | None:
    """Both masks as numbers to add that broadcast to `shape`, (N, heads, L, S); None where there is none.

    Raises GraphTypeError for a mask of integers, GraphValueError for one that does not fit.
    """
    batch, heads, rows, columns = shape
    of_all: Shapes = {(rows, columns): (1, 1, rows, columns), (batch * heads, rows, columns): shape}
    of_keys: Shapes = {(batch, columns): (batch, 1, 1, columns)}
    if batch == 1:
        of_keys[columns,] = (1, 1, 1, columns)
    given = (("attn_mask", attention, of_all), ("key_padding_mask", padding, of_keys))
    found = [(name, tensor_of(mask), shapes) for name, mask, shapes in given if mask is not None]
    masks = [_as_added(_reshaped(mask, name, shapes), name, dtype) for name, mask, shapes in found]
    return ops.add(*masks) if len(masks) == 2 else next(iter(masks), None)


def _as_added(mask: Tensor, name: str, dtype: DType) -> Tensor:
    """A mask as numbers to add: minus infinity where a bool is true."""
    if mask.dtype.kind == "bool":
        return ops.where(mask, ops.full((), -math.inf, dtype=dtype), ops.zeros((), dtype))
    if not mask.dtype.is_float:
        raise GraphTypeError(f"The {name} holds bools, or floats that are added, not {mask.type}.")
    return ops.cast(mask, dtype)


def _reshaped(mask: Tensor, name: str, shapes: Shapes) -> Tensor:
    if mask.shape not in shapes:
        raise GraphValueError(f"The {name} has shape {' or '.join(map(str, shapes))} here, not {mask.shape}.")
    return ops.reshape(mask, shapes[mask.shape])
