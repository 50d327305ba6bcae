"""Boolean operations on traced values: `not`, `and`, `or`, `bool` and chained comparisons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.base.location import user_location
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Symbol, Tensor
from graphls.frontend.trace.branch_merge import BranchResult, merge_branches
from graphls.frontend.trace.branches import explore, trace_branch
from graphls.frontend.trace.regions import once
from graphls.frontend.trace.tracer import Tracer, current_tracer
from graphls.ir.graph import Value

MOST_NODES = 32
"""Nodes up to which the second operand of `and` and `or` is always computed, which is faster than a branch."""


def condition_of(item: object) -> Value | None:
    """The value of a condition that the graph computes; None for a Python condition.

    Raises GraphValueError for a tensor of several elements.
    """
    if not isinstance(item, (Symbol, Parameter)) or current_tracer() is None:
        return None
    if item.size != 1:
        raise GraphValueError(f"Only a tensor of shape () or (1,) is true or false, not {item.type}.")
    symbol = item.value() if isinstance(item, Parameter) else item
    assert isinstance(symbol, Symbol)
    return symbol.graph_value


def decided(value: Value) -> bool | None:
    """The known answer of a condition on the path that is being traced, if any."""
    tracer = current_tracer()
    assert tracer is not None
    value, is_negated = tracer.aliases.canonical(value)
    answer = tracer.here.decided.get(value)
    return None if answer is None else answer is not is_negated


def opposite(item: object) -> Any:
    """`not item`."""
    if condition_of(item) is None:
        return not item
    return dispatch.apply("logical_not", boolean(item))


def boolean(item: Any) -> Any:
    """`bool(item)`, a tensor where the graph computes it."""
    if condition_of(item) is None:
        return bool(item)
    return item if item.dtype.kind == "bool" else item != 0


def both(first: object, *others: Callable[[], object]) -> Any:
    """`first and second and ...`."""
    for other in others:
        if condition_of(first) is not None:
            first = _combined("logical_and", first, other)
        elif first:
            first = other()
        else:
            break
    return first


def either(first: object, *others: Callable[[], object]) -> Any:
    """`first or second or ...`."""
    for other in others:
        if condition_of(first) is not None:
            first = _combined("logical_or", first, other)
        elif not first:
            first = other()
        else:
            break
    return first


def chain(left: object, *parts: Callable[..., object]) -> Any:
    """`left < a < b`; `parts` are comparisons and operands in turn."""
    result: Any = True
    for compare, operand in zip(parts[::2], parts[1::2], strict=True):
        right = operand()
        result = both(result, partial(compare, left, right))
        if condition_of(result) is None and not result:
            break
        left = right
    return result


def _combined(name: str, first: object, other: Callable[[], object]) -> Any:
    """`first and other()` or `first or other()`, where the graph computes the first."""
    value = condition_of(first)
    assert value is not None
    known = decided(value)
    if known is not None:
        return other() if known is (name == "logical_and") else first
    tracer = current_tracer()
    return once(tracer, name, lambda: _chosen(tracer, name, first, value, other))  # type: ignore[arg-type]


def _chosen(tracer: Tracer, name: str, first: Any, condition: Value, other: Callable[[], object]) -> Any:
    loc = user_location()
    value, is_negated = tracer.aliases.canonical(condition)
    answer = (name == "logical_and") is not is_negated
    second = trace_branch(tracer, value, answer, loc, lambda: explore(tracer, other))
    nodes, result = second.builder.nodes, second.results
    has_effect = bool(second.states or second.shown)
    if isinstance(result, bool) and not has_effect:
        return boolean(first) if result is (name == "logical_and") else result
    if not has_effect and len(nodes) <= MOST_NODES and _is_truth(first) and _is_truth(result):
        for node in nodes:
            tracer.builder.append(node)
        return dispatch.apply(name, first, result)
    skipped = BranchResult(type(second.builder)(tracer.builder.names), first, {}, [])
    pair = (second, skipped) if answer else (skipped, second)
    return merge_branches(tracer, value, loc, *pair)


def _is_truth(item: object) -> bool:
    return isinstance(item, Tensor) and item.dtype.kind == "bool" and item.size == 1
