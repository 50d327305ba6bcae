"""Functions of Python values that `mindspore.ops.functional` has as operators.

A graph is traced in Python, where lengths, tuples and numbers are Python's own: so these are plain functions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.reporting import guarded
from graphls.frontend.names.lazy import offering
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Symbol, Tensor, is_tensor
from graphls.ir.types import DTypeLike
from graphls.ops.operands import Sizes, tensor_of


def make_range(start: int, stop: int | None = None, step: int = 1) -> tuple[int, ...]:
    """The numbers of a range as a tuple."""
    return tuple(range(start) if stop is None else range(start, stop, step))


def tuple_setitem(items: tuple[object, ...], index: int, value: object) -> tuple[Any, ...]:
    """The tuple with another item at an index."""
    changed = [*items]
    changed[index] = value
    return tuple(changed)


def list_setitem(items: list[object], index: int, value: object) -> list[Any]:
    """The list, with another item at an index."""
    items[index] = value
    return items


dict_setitem = list_setitem


def list_append(items: list[object], item: object) -> list[Any]:
    """A list with one more item."""
    return [*items, item]


def list_insert(items: list[object], index: int, item: object) -> list[Any]:
    """A list with one more item, before an index."""
    return [*items[:index], item, *items[index:]]


def make_dict(keys: Iterable[object], values: Iterable[object]) -> dict[Any, Any]:
    """A dict of keys and values."""
    return dict(zip(keys, values, strict=True))


def tuple_reversed(items: tuple[object, ...]) -> tuple[Any, ...]:
    """The items from the last to the first."""
    return items[::-1]


def tuple_div(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """The quotients of the items of two tuples, rounded down."""
    return tuple(a // b for a, b in zip(x, y, strict=True))


def reduced_shape(shape: tuple[int, ...], axis: Sizes) -> tuple[int, ...]:
    """A shape with the size 1 along some axes."""
    axes = {a % len(shape) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))}
    return tuple(1 if i in axes or (not axis and axis != 0) else size for i, size in enumerate(shape))


def tuple_to_array(items: Sequence[object]) -> Tensor:
    """A tensor of numbers."""
    return Tensor(np.array(items))


def array_to_scalar(x: object) -> Any:
    """A tensor of one element in the shape ()."""
    tensor = tensor_of(x)
    return ops.reshape(tensor, ())


def tensor_to_tuple(x: object) -> Any:
    """The elements of a tensor along its first axis, as a tuple of tensors."""
    return tuple(tensor_of(x))


def typeof(x: Any) -> Any:
    """The dtype of a tensor, the class of anything else."""
    return x.dtype if is_tensor(x) else type(x)


def hastype(x: Any, kind: Any) -> bool:
    """Tells whether an object is a tensor of this dtype, or an instance of this class."""
    return x.dtype == kind if is_tensor(x) else isinstance(x, kind)


def isconstant(x: object) -> bool:
    """Tells whether a value is known before the graph runs: a Python value, or a tensor that depends on no input."""
    return not isinstance(x, Symbol)


def mixed_precision_cast(dst_type: DTypeLike, x: object) -> Any:
    """A pytree with every float tensor cast to another float dtype."""

    def cast(leaf: object) -> Any:
        return ops.cast(leaf, dst_type) if is_tensor(leaf) and tensor_of(leaf).dtype.is_float else leaf

    return map_leaves(cast, x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("tuple_len", "list_len", "sequence_len", "dict_len"), len),
    **dict.fromkeys(("tuple_getitem", "list_getitem", "dict_getitem", "string_getitem"), operator.getitem),
    **dict.fromkeys(("tuple_equal", "list_equal", "scalar_eq", "string_eq", "bool_eq"), operator.eq),
    **dict.fromkeys(("scalar_gt", "tuple_greater_than", "list_greater_than", "string_gt"), operator.gt),
    **dict.fromkeys(("scalar_ge", "tuple_greater_equal", "list_greater_equal", "string_ge"), operator.ge),
    **dict.fromkeys(("scalar_lt", "tuple_lt", "list_lt", "string_lt"), operator.lt),
    **dict.fromkeys(("scalar_le", "tuple_le", "list_le", "string_le"), operator.le),
    **dict.fromkeys(("scalar_add", "string_concat", "sequence_add"), operator.add),
    **dict.fromkeys(("scalar_uadd",), operator.pos),
    **dict.fromkeys(("string_mul", "sequence_mul", "scalar_mul"), operator.mul),
    "array_to_scalar": array_to_scalar,
    "bit_and": operator.and_,
    "bit_left_shift": operator.lshift,
    "bit_or": operator.or_,
    "bit_right_shift": operator.rshift,
    "bit_xor": operator.xor,
    "bool_and": lambda x, y: x and y,
    "bool_not": operator.not_,
    "bool_or": lambda x, y: x or y,
    "dict_setitem": dict_setitem,
    "hastype": hastype,
    "in_dict": lambda key, items: key in items,
    "is_": operator.is_,
    "is_not": operator.is_not,
    "isconstant": isconstant,
    "list_append": list_append,
    "list_insert": list_insert,
    "list_setitem": list_setitem,
    "make_dict": make_dict,
    "make_list": lambda *items: [*items],
    "make_range": make_range,
    "make_slice": slice,
    "make_tuple": lambda *items: items,
    "mixed_precision_cast": mixed_precision_cast,
    "not_in_dict": lambda key, items: key not in items,
    "reduced_shape": reduced_shape,
    "scalar_bool": bool,
    "scalar_div": operator.truediv,
    "scalar_floordiv": operator.floordiv,
    "scalar_log": math.log,
    "scalar_max": max,
    "scalar_min": min,
    "scalar_mod": operator.mod,
    "scalar_ne": operator.ne,
    "scalar_pow": operator.pow,
    "scalar_sub": operator.sub,
    "scalar_to_array": lambda x: Tensor(x),
    "scalar_usub": operator.neg,
    "shape_mul": math.prod,
    "string_in": lambda part, text: part in text,
    "string_not": operator.not_,
    "tuple_div": tuple_div,
    "tuple_reversed": tuple_reversed,
    "tuple_setitem": tuple_setitem,
    "tuple_to_array": tuple_to_array,
    "typeof": typeof,
}
"""The functions by their names in `mindspore.ops.functional`."""


__getattr__, __dir__ = offering({name: guarded(function) for name, function in FUNCTIONS.items()})
