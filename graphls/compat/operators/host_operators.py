"""Operators of MindSpore that call Python in a step, and those that call functions on gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.rewriting.functions import in_trace
from graphls.ir.types import Type, as_dtype
from graphls.nn.hook_kinds import returns_none
from graphls.nn.hooks import of_gradients
from graphls.ops.gradients import with_hooks
from graphls.ops.host_calls import pure_callback, py_func
from graphls.ops.operands import tensor_of
from graphls.ops.primitive import Operator
from graphls.runtime.context import is_eager

__all__ = ["HookBackward", "InsertGradientOf", "PyFunc"]


class PyFunc(Operator):
    """`PyFunc(fn, in_types, in_shapes, out_types, out_shapes)(tensors)`: what a Python function gives for arrays.

    It gives a tuple. Where it is not `stateful`, it is a `pure_callback`, else a `py_func`. Raises GraphTypeError for
    tensors of other types than those that are said.
    """

    def __init__(
        self, fn: Callable[..., Any], in_types: Sequence[Any], in_shapes: Sequence[Sequence[int]],
        out_types: Sequence[Any], out_shapes: Sequence[Sequence[int]], stateful: bool = True,
    ) -> None:  # fmt: skip
        self.settings = {"stateful": stateful}
        self.fn, self.stateful = fn, stateful
        self.inputs = [Type(as_dtype(dtype), tuple(shape)) for dtype, shape in zip(in_types, in_shapes, strict=True)]
        self.outputs = tuple(zip(map(tuple, out_shapes), out_types, strict=True))

    def __call__(self, input_x: Sequence[Tensor]) -> tuple[Tensor, ...]:
        tensors = [tensor_of(x) for x in input_x]
        if [t.type for t in tensors] != self.inputs:
            given = ", ".join(str(t.type) for t in tensors)
            raise GraphTypeError(f"This PyFunc takes {', '.join(map(str, self.inputs))}, not {given}.")
        called = py_func if self.stateful else pure_callback
        found: tuple[Tensor, ...] = called(self._as_tuple, self.outputs, *tensors)
        return found

    def _as_tuple(self, *arrays: Any) -> Any:
        given = self.fn(*arrays)
        return (given,) if len(self.outputs) == 1 and not isinstance(given, (tuple, list)) else given


class InsertGradientOf(Operator):
    """`InsertGradientOf(f)(x)`: x itself, whose gradient is what `f` makes of it."""

    def __init__(self, f: Callable[[Tensor], Tensor]) -> None:
        self.settings = {}
        self.f = f

    def __call__(self, input_x: Tensor) -> Tensor:
        found: Tensor = with_hooks(input_x, [lambda gradients: in_trace(self.f)(*gradients)])
        return found


class HookBackward(Operator):
    """`HookBackward(hook_fn)(tensors)`: the tensors, whose gradients are what `hook_fn` gives for them as a tuple.

    Where it gives None, they stay as they are. In eager mode, and where it gives nothing at all, it is called with
    numbers whenever gradients are computed; else once, while a graph is traced, on symbols.
    """

    def __init__(self, hook_fn: Callable[..., Any], cell_id: str = "") -> None:
        if not callable(hook_fn):
            raise GraphTypeError(f"HookBackward takes a function, not {hook_fn!r}.")
        self.settings = {"cell_id": cell_id}
        self.hook = hook_fn

    def __call__(self, *inputs: Tensor) -> Any:
        has_numbers = is_eager() or returns_none(self.hook)
        hook = of_gradients(self.hook, self.hook if has_numbers else in_trace(self.hook))
        return with_hooks(inputs[0] if len(inputs) == 1 else inputs, [hook])
