"""Operators on sequences, which are lists while the graph is traced, and on optional values, absent ones being None."""

from __future__ import annotations

import numpy as np
from onnx import TypeProto

from graphls import ops
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.operators.shapes import check_parts, parts_of, without_axes
from graphls.onnx.table import operator
from graphls.onnx.values import Input, ModelValue, array_of, integers, is_known
from graphls.ops.operands import tensor_of

Sequences = tuple[list[ModelValue]]
"""The results of an operator with one sequence as its result."""


def _items(sequence: ModelValue) -> list[ModelValue]:
    if isinstance(sequence, (list, tuple)):
        return list(sequence)
    raise GraphTypeError(f"a sequence is needed here, not {type(sequence).__name__}.")


def _index(position: Input, count: int) -> int:
    """A non-negative index; raises GraphValueError for one out of range."""
    at = integers(position)[0]
    if not -count <= at < count:
        raise GraphValueError(f"the position {at} is none in a sequence of {count}.")
    return at % count


@operator("SequenceConstruct")
def sequence_construct(*items: ModelValue) -> Sequences:
    return (list(items),)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Sequences:
    return ([],)


@operator("SequenceLength")
def sequence_length(sequence: ModelValue) -> Tensor:
    return Tensor(np.int64(len(_items(sequence))))


@operator("SequenceAt", preferred=(1,))
def sequence_at(sequence: ModelValue, position: Input) -> ModelValue:
    """A tensor of a sequence; where the position is computed, all of them must have one type."""
    items = _items(sequence)
    if is_known(position):
        return items[_index(position, len(items))]
    tensors = list(map(tensor_of, items))
    if len({x.type for x in tensors}) != 1:
        raise GraphValueError("its position is computed, and the tensors of the sequence are of different types.")
    at = ops.reshape(position, ())
    return ops.gather(ops.stack(tensors), ops.where(ops.less(at, 0), at + len(tensors), at), 0)


@operator("SequenceInsert", known=(2,))
def sequence_insert(sequence: ModelValue, item: ModelValue, position: Array | None = None) -> Sequences:
    items = _items(sequence)
    at = len(items) if position is None else integers(position)[0]
    if not -len(items) <= at <= len(items):
        raise GraphValueError(f"the position {at} is none in a sequence of {len(items)}.")
    return ([*items[:at], item, *items[at:]],)


@operator("SequenceErase", known=(1,))
def sequence_erase(sequence: ModelValue, position: Array | None = None) -> Sequences:
    items = _items(sequence)
    at = _index(np.array(-1) if position is None else position, len(items))
    return ([*items[:at], *items[at + 1 :]],)


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: ModelValue, *, axis: int, new_axis: int = 0) -> Tensor:
    tensors = tuple(map(tensor_of, _items(sequence)))
    if not tensors:
        raise GraphValueError("the sequence has no tensors.")
    return ops.stack(tensors, axis) if new_axis else ops.concat(tensors, axis)


@operator("SplitToSequence", known=(1,))
def split_to_sequence(x: Input, split: Array | None = None, *, axis: int = 0, keepdims: int = 1) -> Sequences:
    x = tensor_of(x)
    count = x.shape[axis]
    if split is None:
        check_parts(count)
        parts = parts_of(x, axis, [1] * count)
        return ([part if keepdims else without_axes(part, (axis,)) for part in parts],)
    sizes = list(integers(split))
    if not np.ndim(array_of(split)):
        if sizes[0] < 1:
            raise GraphValueError(f"its parts have {sizes[0]} elements.")
        check_parts(-(-count // sizes[0]))
        full_parts, rest = divmod(count, sizes[0])
        sizes = [sizes[0]] * full_parts + [rest] * bool(rest)
    return (list(parts_of(x, axis, sizes)),)


@operator("Optional")
def optional(x: ModelValue = None, *, type: TypeProto | None = None) -> tuple[ModelValue]:
    return (x,)


@operator("OptionalHasElement")
def optional_has_element(x: ModelValue = None) -> Tensor:
    return Tensor(np.bool_(x is not None))


@operator("OptionalGetElement")
def optional_get_element(x: ModelValue) -> tuple[ModelValue]:
    if x is None:
        raise GraphValueError("its optional value is absent.")
    return (x,)
