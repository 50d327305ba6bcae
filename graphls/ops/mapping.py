"""Functions of one sample applied to many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphRuntimeError, GraphTypeError
from graphls.ops.control_flow import scan
from graphls.ops.movement import movedim
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Tensor, is_tensor
from graphls.trace.rewriting.functions import in_trace


@operation
def vmap(fn: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function that calls `fn` with every slice of its arguments along an axis, and stacks the results along one.

    `in_axes` is one axis for all arguments, or one for each, where None gives an argument to every call as it is;
    `out_axes` is the same for the outputs, where None takes that of the first call. In a graph this is one loop (see
    `scan`), which is differentiable; random numbers differ from call to call. Raises GraphTypeError for what is no
    function, and GraphRuntimeError for axes that are no integers or do not fit, and for slices that differ in number.
    """
    if not callable(fn):
        raise GraphTypeError(f"vmap takes a cell or a function, not {fn!r}.")
    _check_axes("in_axes", in_axes)
    _check_axes("out_axes", out_axes)

    def mapped(*args: Any) -> Any:
        axes = _for_each("in_axes", in_axes, len(args))
        slices = [_in_front(x, axis) for x, axis in zip(args, axes, strict=True) if axis is not None]
        _check_counts(slices)

        def one(carry: Any, own: list[Any]) -> tuple[Any, Any]:
            given = iter(own)
            arguments = (x if axis is None else next(given) for x, axis in zip(args, axes, strict=True))
            return carry, in_trace(fn)(*arguments)

        results = scan(one, (), slices)[1]
        if not isinstance(results, (tuple, list)):
            results = _moved(results, _for_each("out_axes", out_axes, 1)[0])
            return results
        each = _for_each("out_axes", out_axes, len(results))
        return type(results)(_moved(x, axis) for x, axis in zip(results, each, strict=True))

    return mapped


def _check_axes(name: str, axes: Any) -> None:
    items = axes if isinstance(axes, (tuple, list)) else (axes,)
    if any(isinstance(a, bool) or not isinstance(a, (int, type(None))) for a in items):
        raise GraphRuntimeError(f"The {name!r} of vmap are integers and None, not {axes!r}.")
    if all(a is None for a in items):
        raise GraphRuntimeError(f"One of the {name!r} of vmap is an axis, not {axes!r}.")


def _for_each(name: str, axes: Any, count: int) -> list[int | None]:
    if not isinstance(axes, (tuple, list)):
        return [axes] * count
    if len(axes) != count:
        raise GraphRuntimeError(f"The {name!r} of vmap are {count} here, not {axes!r}.")
    return list(axes)


def _in_front(x: Any, axis: int) -> Any:
    """An argument, or a nest of tensors, with an axis in front."""

    def moved(leaf: Any) -> Any:
        if not is_tensor(leaf):
            return leaf
        tensor = tensor_of(leaf)
        if not -tensor.ndim <= axis < tensor.ndim:
            raise GraphRuntimeError(f"There is no axis {axis} in {tensor.type} for vmap.")
        return movedim(tensor, axis, 0)

    return map_leaves(moved, x)


def _check_counts(slices: list[Any]) -> None:
    counts: set[int] = set()
    map_leaves(lambda leaf: counts.add(leaf.shape[0]) if isinstance(leaf, Tensor) else None, slices)
    if len(counts) != 1:
        listed = " and ".join(map(str, sorted(counts))) or "none"
        raise GraphRuntimeError(f"vmap takes as many slices of each argument, not {listed}.")


def _moved(results: Any, axis: int | None) -> Any:
    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if axis is not None and not -leaf.ndim <= axis < leaf.ndim:
            raise GraphRuntimeError(f"There is no axis {axis} for the results of vmap.")
        return leaf[0] if axis is None else movedim(leaf, 0, axis)

    return map_leaves(moved, results)
