"""Tuples and lists indexed by traced integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import TraceError
from graphls.frontend.registry import function
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, rebuild, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, array_of, is_number, is_tensor
from graphls.frontend.trace.rewriting.branching import branch
from graphls.frontend.trace.tracer import current_tracer


def element(items: Any, index: Any) -> Any:
    """`items[index]`; where the graph computes the index of a tuple or a list, a choice among all of its elements.

    Tensors and numbers are stacked, cells and functions make a function that calls one of them. Raises TraceError where
    the elements cannot be exchanged for one another.
    """
    if not isinstance(index, (Symbol, Parameter)) or current_tracer() is None:
        return items[index]
    is_index = index.size == 1 and index.dtype.kind in ("int", "uint")
    if isinstance(items, Tensor) or not _is_sequence(items) or not is_index:
        return items[index]
    elements = list(items)
    if not elements:
        raise TraceError("A tuple or a list without elements has none at the index of a tensor.")
    index = index.reshape(())
    if all(callable(item) and not is_tensor(item) for item in elements):
        return Choice(elements, index)
    return _chosen(elements, index)


def _is_sequence(items: object) -> bool:
    if isinstance(items, (tuple, list)):
        return True
    return hasattr(type(items), "configuration") and hasattr(items, "__getitem__") and hasattr(items, "__len__")


def _chosen(elements: Sequence[object], index: object) -> Any:
    """The choice of one of several pytrees of the same structure by an index."""
    if len({structure(item) for item in elements}) > 1:
        raise TraceError(_DIFFERENT.format("results of different structure"))
    columns = [_picked(column, index) for column in zip(*map(leaves, elements), strict=True)]
    return rebuild(elements[0], columns)


def _picked(column: Sequence[object], index: object) -> Any:
    first = column[0]
    if all(item is first for item in column):
        return first
    strange = [item for item in column if not is_number(item) and not is_tensor(item)]
    if strange:
        raise TraceError(_DIFFERENT.format(repr(strange[0])))
    if not any(isinstance(item, Tensor) for item in column):
        return Tensor(array_of(np.array(column)))[index]
    tensors = [item if isinstance(item, Tensor) else Tensor(item) for item in column]
    types = list(dict.fromkeys(tensor.type for tensor in tensors))
    if len(types) > 1:
        raise TraceError(_DIFFERENT.format(" and ".join(map(str, types))))
    return function("stack")(tensors)[index]


_DIFFERENT = "An index that the graph computes chooses among tensors of one type, not {}."


class Choice:
    """One of several functions or cells, by a number that the graph computes; a call of it is a `cond` of calls."""

    def __init__(self, functions: Sequence[Callable[..., Any]], index: Any) -> None:
        self.functions = functions
        self.index = index

    def __call__(self, *args: Any, **options: Any) -> Any:
        count = len(self.functions)
        index = self.index + count * dispatch.cast(self.index < 0, self.index.dtype)
        calls = list(map(function("rewritten"), self.functions))
        return _called(calls, index, 0, args, options)


def _called(calls: Sequence[Any], index: Any, first: int, args: tuple[Any, ...], options: dict[str, object]) -> Any:
    """The call at an index among these, the first of which has the index `first`, by binary search."""
    if len(calls) == 1:
        return calls[0](*args, **options)
    middle = len(calls) // 2
    return branch(
        index < first + middle,
        lambda: _called(calls[:middle], index, first, args, options),
        lambda: _called(calls[middle:], index, first + middle, args, options),
    )
