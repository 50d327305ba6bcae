"""Operator classes of `_inner_ops`, `_sequence_ops` and `_scalar_ops` in `mindspore.ops.operations`."""

from __future__ import annotations

import operator as py_operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from graphls import ops
from graphls.compat.dtypes import issubclass_
from graphls.compat.operators.functional import (
    FUNCTIONS,
    array_to_scalar,
    isconstant,
    list_append,
    list_insert,
    mixed_precision_cast,
    tensor_to_tuple,
    tuple_to_array,
    typeof,
)
from graphls.frontend.names.lazy import offering
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ops.operands import Axis, Operand
from graphls.ops.primitive import Operator, Primitive, operator


def _nearest(input_x: Tensor, size: Sequence[int], align_corners: bool = False) -> Any:
    """Images (N, C, H, W) resized to two sizes, each element from the nearest one."""
    return ops.ResizeNearestNeighbor(tuple(size), align_corners)(input_x)


def _centralized(input_x: TensorLike, axis: Axis = ()) -> Any:
    """A tensor without its mean along some axes, or all."""
    return input_x - ops.mean(input_x, axis, keep_dims=True)


def _clipped(x: Operand, clip_norm: Operand, axis: Axis = None) -> Any:
    """A tensor scaled so that its norm along some axes, or all, is at most `clip_norm`."""
    norm = ops.sqrt(ops.sum(x * x, axis, keepdims=True))
    return x * clip_norm / ops.maximum(norm, clip_norm)


INNER: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Centralization": (_centralized, {}),
    "ClipByNorm": (_clipped, {"axis": None}),
    "ConvertToDynamic": (ops.identity, {"is_dynamic_rank": False}),
    "DynamicBroadcastTo": (ops.broadcast_to, {}),
    "DynamicResizeNearestNeighbor": (_nearest, {"align_corners": False}),
    "ErrorOnDynamicShapeInput": (ops.identity, {}),
    "Format": (lambda text, *values: text.format(*values), {}),
    "GpuConvertToDynamicShape": (ops.identity, {}),
    "IsInstance": (isinstance, {}),
    "IsParameter": (lambda x: isinstance(x, Parameter), {}),
    "IsSubClass": (issubclass_, {}),
    "SequenceMask": (ops.sequence_mask, {}),
    "TopTypeof": (typeof, {}),
}

CLASSES: dict[str, Callable[..., Any]] = {
    "InSequence": lambda x, items: x in items,
    "IsConstant": isconstant,
    "ListAppend": list_append,
    "ListInsert": list_insert,
    "ListToTensor": lambda items, dtype=None: Tensor(np.array(items), dtype),
    "MixedPrecisionCast": mixed_precision_cast,
    "ScalarToArray": lambda x: Tensor(x),
    "SequenceAdd": py_operator.add,
    "SequenceAddN": lambda items: ops.addn(items),
    "SequenceCount": lambda items, x: items.count(x),
    "SequenceIndex": lambda items, x, start=0, end=None: items.index(x, start, len(items) if end is None else end),
    "SequenceMax": max,
    "SequenceMin": min,
    "SequenceMul": py_operator.mul,
    "SequenceSlice": lambda items, start, stop, step: items[start:stop:step],
    "SequenceZerosLike": lambda items: map_leaves(lambda x: ops.zeros_like(x) if is_tensor(x) else 0, items),
    "TensorToList": lambda x: [*tensor_to_tuple(x)],
    "TensorToScalar": array_to_scalar,
    "TensorToTuple": tensor_to_tuple,
    "TupleToArray": tuple_to_array,
    "TupleToTensor": lambda items, dtype=None: Tensor(np.array(items), dtype),
}
"""Functions of Python values by the names of their classes, written `Name()(arguments)`."""

_SAME_NAMES = """
bool_not bit_and bit_or list_equal make_range sequence_len shape_mul tuple_equal tuple_greater_equal tuple_greater_than
tuple_le tuple_lt list_greater_equal list_greater_than list_le list_lt
"""


class _OfPython(Operator):
    """An operator class without settings whose objects call a function of Python values."""

    function: ClassVar[Callable[..., Any]]

    def __init__(self, *args: object, **options: object) -> None:
        self.settings = {}

    def __call__(self, *args: object) -> Any:
        return type(self).function(*args)


def _class(name: str, function: Callable[..., Any]) -> type[Primitive]:
    fields = {"function": staticmethod(function), "__doc__": getattr(function, "__doc__", None), "__module__": __name__}
    return type(name, (_OfPython,), fields)


_operators: dict[str, type[Primitive]] = {
    **{name: operator(name, *definition, __name__) for name, definition in INNER.items()},
    **{name: _class(name, function) for name, function in CLASSES.items()},
    **{name: _class(name, FUNCTIONS[name]) for name in _SAME_NAMES.split()},
}

__getattr__, __dir__ = offering(_operators)
