"""Sequences of tensors, which are lists while the graph is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.onnx.table import operator
from graphls.onnx.values import array_of, integers, value_of
from graphls.ops.operands import tensor_of

Items = list[Any]


@operator("SequenceConstruct")
def sequence_construct(*items: Any) -> Any:
    return list(items)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Any:
    return []


def _checked(position: Any, items: Items, most: int) -> int:
    """A position; raises GraphValueError for one outside of the sequence."""
    at = int(array_of(position).reshape(()))
    if not -len(items) <= at <= most:
        raise GraphValueError(f"the position {at} is none in a sequence of {len(items)}.")
    return at


@operator("SequenceAt", known=(1,))
def sequence_at(items: Items, position: Any) -> Any:
    return items[_checked(position, items, len(items) - 1)]


@operator("SequenceLength")
def sequence_length(items: Items) -> Any:
    return value_of(np.array(len(items), np.int64))


@operator("SequenceInsert", hoped=(2,))
def sequence_insert(items: Items, item: Any, position: Any = None) -> Any:
    """A sequence with one tensor more: before that at a position, or behind the last."""
    at = len(items) if position is None else _checked(position, items, len(items))
    return [*items[:at], item, *items[at:]]


@operator("SequenceErase", hoped=(1,))
def sequence_erase(items: Items, position: Any = None) -> Any:
    """A sequence without the tensor at a position, or without the last."""
    left = list(items)
    left.pop(-1 if position is None else _checked(position, items, len(items) - 1))
    return left


@operator("ConcatFromSequence")
def concat_from_sequence(items: Items, *, axis: int, new_axis: int = 0) -> Any:
    tensors = [tensor_of(item) for item in items]
    return ops.stack(tensors, axis) if new_axis else ops.concat(tensors, axis)


@operator("SplitToSequence", known=(1,))
def split_to_sequence(x: Any, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """Parts of the given sizes, of one size but for the last, or of single elements, without the axis if not kept."""
    x = tensor_of(x)
    length = x.shape[axis]
    if sizes is None:
        parts = ops.split(x, 1, axis)
        return list(parts) if keepdims else [ops.squeeze(part, axis) for part in parts]
    if sizes.ndim:
        return list(ops.split(x, list(integers(sizes)), axis))
    (size,) = integers(sizes)
    if size < 1:
        raise GraphValueError(f"parts of {size} elements cannot be made.")
    return list(ops.split(x, [min(size, length - start) for start in range(0, length, size)], axis))
