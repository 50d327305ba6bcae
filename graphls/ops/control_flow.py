"""Control flow as functions: branches, loops and maps that become one node of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.base.checks import at_least, integer, optional
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.pytree import leaves, map_leaves, rebuild
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.frontend.trace.loops import as_pair, traced_scan, traced_while
from graphls.frontend.trace.regions import once
from graphls.frontend.trace.rewriting.functions import in_trace
from graphls.frontend.trace.tracer import current_tracer
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.creation import arange
from graphls.ops.arrays.indexing import getitem
from graphls.ops.arrays.shapes import reshape, stack
from graphls.ops.math.elementwise import add, cast, less, logical_and
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation, operator_class


@operation
def cond(pred: TensorLike, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: object) -> Any:
    """`true_fn(*operands)` where `pred`, a bool of one element, is true, and `false_fn(*operands)` where it is not.

    In a graph only the chosen branch runs; both must return tensors of the same types, and may write parameters.
    Raises GraphTypeError for branches that are not callable, TraceError for results of different types.
    """
    _require_callable("cond", true_fn=true_fn, false_fn=false_fn)

    def branch() -> Any:
        return in_trace(true_fn if pred else false_fn)(*operands)

    tracer = current_tracer()
    return branch() if tracer is None else once(tracer, "cond", branch)


@operation(checks={"length": optional(integer)})
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: TensorLike, xs: Any = None, length: int | None = None,
    reverse: bool = False, unroll: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """The last carry and the stacked results of `carry, result = f(carry, x)` along the first axis of `xs`.

    `init`, `xs` and the results are tensors or pytrees of them; without `xs`, `f` runs `length` times on None. With
    `reverse` it begins at the end, and results keep the positions of their elements. In a graph this is one node:
    loop-invariant values are computed once, parameters that `f` writes are carried along, and random numbers differ
    between iterations; `unroll` repeats the nodes instead. It is differentiable: the forward saves the values that the
    backward, a scan in the other direction, needs. Raises GraphTypeError where `f` returns a carry of other types than
    it takes, GraphValueError for a length below 1 or arrays of different lengths.
    """
    _require_callable("scan", f=f)
    f = in_trace(f)
    init, xs = map_leaves(tensor_of, init), map_leaves(lambda x: tensor_of(x) if is_tensor(x) else x, xs)
    count = _length(xs, length)
    tracer = current_tracer()
    if tracer is None or unroll:
        return _one_by_one(f, init, xs, count, reverse)
    result: tuple[Any, Any] = once(tracer, "scan", lambda: traced_scan(tracer, f, init, xs, count, reverse))
    return result


def _length(xs: TensorLike, length: int | None) -> int:
    arrays = [leaf for leaf in leaves(xs) if is_tensor(leaf)]
    flat = next((a for a in arrays if not a.ndim), None)
    if flat is not None:
        raise GraphValueError(f"scan runs along the first axis of arrays, and a {flat.type} has none.")
    counts = sorted({a.shape[0] for a in arrays} | ({length} if length is not None else set()))
    if not counts:
        raise GraphValueError("scan takes arrays to run along, or a length.")
    if len(counts) > 1 or counts[0] < 1:
        listed = " and ".join(map(str, counts))
        raise GraphValueError(f"scan takes one length of 1 or more for all arrays, not {listed}.")
    return counts[0]


def _one_by_one(
    f: Callable[[Any, Any], Any], carry: TensorLike, xs: TensorLike, count: int, reverse: bool
) -> tuple[Any, Any]:
    results: list[Any] = []
    for i in reversed(range(count)) if reverse else range(count):
        carry, result = as_pair("scan", carry, f(carry, _element(xs, i)))
        results.append(result)
    results = results[::-1] if reverse else results
    return carry, _stacked(results)


def _stacked(items: Sequence[Any]) -> Any:
    """Pytrees of one structure as one, with tensors and numbers stacked."""
    columns = zip(*map(leaves, items), strict=True)
    return rebuild(items[0], [column[0] if column[0] is None else stack(column) for column in columns])


def _element(xs: TensorLike, i: int) -> Any:
    return map_leaves(lambda leaf: getitem(leaf, i) if is_tensor(leaf) else leaf, xs)


@operator_class("Scan")
def scan_elements(
    loop_func: Callable[[Any, Any], tuple[Any, Any]], init: TensorLike, xs: Any, length: int | None = None,
    unroll: bool = True,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The last carry and a list of the results of `carry, result = loop_func(carry, x)` for each x of a sequence.

    `xs` is a list or tuple of tensors of one type, or of pytrees of them, a tensor, or None to run `length` times. This
    is MindSpore's form of `scan`.
    """
    xs = _stacked(xs) if isinstance(xs, (tuple, list)) and xs else xs
    carry, results = scan(loop_func, init, xs, length, unroll=unroll)
    return carry, [_element(results, i) for i in range(_length(xs, length))]


@operation(classes="WhileLoop", checks={"max_iterations": optional(at_least(1))})
def while_loop(
    cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: TensorLike, max_iterations: int | None = None
) -> Any:
    """Applies `carry = body_fn(carry)`, starting with `init`, as long as `cond_fn(carry)` is true; the last carry.

    `init` is a tensor or a pytree of them, whose types stay the same; parameters that `body_fn` writes are carried too.
    It is differentiable: the forward saves the values of every iteration that the backward needs. With
    `max_iterations` it is a scan of that length, and ends after that many iterations at the latest. Raises
    GraphTypeError where `body_fn` returns other types than it takes, TraceError where it draws random numbers without
    `max_iterations`.
    """
    _require_callable("while_loop", cond_fn=cond_fn, body_fn=body_fn)
    cond_fn, body_fn = in_trace(cond_fn), in_trace(body_fn)
    init = map_leaves(tensor_of, init)
    tracer = current_tracer()
    if max_iterations is not None:
        return _at_most(cond_fn, body_fn, init, max_iterations)
    if tracer is not None:
        return once(tracer, "while_loop", lambda: traced_while(tracer, lambda c: _truth(cond_fn(c)), body_fn, init))
    while _truth(cond_fn(init)):
        init = as_pair("while_loop", init, (body_fn(init), None))[0]
    return init


def _at_most(cond_fn: Callable[[Any], Any], body_fn: Callable[[Any], Any], init: TensorLike, count: int) -> Any:
    """A scan that stops changing the carry once the condition is false."""

    def body(carry: TensorLike) -> Any:
        return as_pair("while_loop", carry, (body_fn(carry), None))[0]

    def step(state: tuple[Any, Any], _: TensorLike) -> tuple[Any, None]:
        carry, running = state
        carry = cond(running, body, lambda c: c, carry)
        return (carry, logical_and(running, _truth(cond_fn(carry)))), None

    return scan(step, (init, _truth(cond_fn(init))), length=count)[0][0]


@operation(classes="ForiLoop")
def fori_loop(
    lower: TensorLike, upper: TensorLike, body_fn: Callable[[Any, Any], Any], init_val: TensorLike, unroll: bool = False
) -> Any:
    """Applies `value = body_fn(i, value)`, starting with `init_val`, for i in range(lower, upper); the last value.

    With Python integers as bounds this is a scan, or repeated nodes with `unroll`; with tensors it is a while_loop.
    Both are differentiable. Raises as these do, and GraphTypeError for bounds that are not integers.
    """
    _require_callable("fori_loop", body_fn=body_fn)
    body_fn = in_trace(body_fn)
    if isinstance(lower, int) and isinstance(upper, int):
        if upper <= lower:
            return map_leaves(tensor_of, init_val)
        steps = arange(lower, upper)
        return scan(lambda value, i: (body_fn(i, value), None), init_val, steps, unroll=unroll)[0]
    for bound in (lower, upper):
        if not isinstance(bound, (int, Tensor)) or tensor_of(bound).dtype.kind not in ("int", "uint"):
            raise GraphTypeError(f"The bounds of fori_loop are integers, not {bound!r}.")
    start = tensor_of(lower)
    state = while_loop(
        lambda state: less(state[0], upper), lambda state: (add(state[0], 1), body_fn(*state)), (start, init_val)
    )
    return state[1]


def _truth(answer: TensorLike) -> Any:
    """A condition as a bool of shape ()."""
    tensor = tensor_of(answer)
    if tensor.size != 1:
        raise GraphValueError(f"A condition is a bool of one element, not {tensor.type}.")
    return reshape(cast(tensor, np.bool_), ())


def _require_callable(name: str, **functions: object) -> None:
    for argument, function in functions.items():
        if not callable(function):
            raise GraphTypeError(f"The {argument} of {name} is a function, not {function!r}.")


@operation
def vmap(
    fn: Callable[..., Any], in_axes: int | Sequence[int | None] = 0, out_axes: int | Sequence[int | None] = 0
) -> Callable[..., Any]:
    """Vectorizes `fn`: calls it with every slice of its arguments along an axis, and stacks the results along one.

    `in_axes` is one axis for all arguments, or one for each, where None passes the full argument to every call;
    `out_axes` is the same for the outputs, where None returns that of the first call. In a graph this is one loop (see
    `scan`), which is differentiable; random numbers differ between calls. Raises GraphTypeError where `fn` is not
    callable, GraphRuntimeError for axes that are not integers or do not fit, and for different numbers of slices.
    """
    if not callable(fn):
        raise GraphTypeError(f"vmap takes a cell or a function, not {fn!r}.")
    _check_axes("in_axes", in_axes)
    _check_axes("out_axes", out_axes)

    def mapped(*args: Any) -> Any:
        axes = _for_each("in_axes", in_axes, len(args))
        slices = [_in_front(x, axis) for x, axis in zip(args, axes, strict=True) if axis is not None]
        _check_counts(slices)

        def one(carry: TensorLike, own: list[Any]) -> tuple[Any, Any]:
            remaining = iter(own)
            arguments = (x if axis is None else next(remaining) for x, axis in zip(args, axes, strict=True))
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


def _in_front(x: TensorLike, axis: int) -> Any:
    """An argument, or a pytree of tensors, with an axis moved to the front."""

    def moved(leaf: TensorLike) -> Any:
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


def _moved(results: TensorLike, axis: int | None) -> Any:
    def moved(leaf: TensorLike) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if axis is not None and not -leaf.ndim <= axis < leaf.ndim:
            raise GraphRuntimeError(f"There is no axis {axis} for the results of vmap.")
        return leaf[0] if axis is None else movedim(leaf, 0, axis)

    return map_leaves(moved, results)
