"""Cells with a custom gradient (`bprop`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from graphls.base.errors import TraceError
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Symbol, is_tensor
from graphls.frontend.trace.branches import explore
from graphls.frontend.trace.host_calls import warn_of_lost
from graphls.frontend.trace.rewriting.functions import rewritten
from graphls.frontend.trace.states import copies
from graphls.frontend.trace.tracer import Tracer, current_tracer
from graphls.ir.graph import Graph, Value


def with_custom_gradient(cell: Any, args: tuple[object, ...], options: dict[str, object]) -> Any:
    """The results of `construct`, whose gradient is `cell.bprop(*inputs, out, dout)`.

    `bprop` returns a gradient for each tensor input, in order. Raises TraceError where their number or a type
    differs.
    """
    tracer = current_tracer()
    assert tracer is not None
    outputs = rewritten(cell.construct)(*copies(args), **copies(options))
    results = [tracer.value(leaf) for leaf in leaves(outputs) if is_tensor(leaf)]
    inputs = [tracer.value(leaf) for leaf in leaves(args) if is_tensor(leaf)]
    with tracer.region(phase="backward", in_branch=False, shown=[]) as call:
        region = _backward_region(tracer, cell, args, outputs, results, inputs)
    warn_of_lost(call.shown)
    results_of_node = tracer.emit("custom_gradient", (*results, *inputs), {"outputs": len(results)}, regions=(region,))
    symbols = iter(map(Symbol, results_of_node))
    return map_leaves(lambda leaf: next(symbols) if is_tensor(leaf) else leaf, outputs)


def _backward_region(
    tracer: Tracer, cell: Any, args: object, outputs: object, results: list[Value], inputs: list[Value]
) -> Graph:
    """`bprop` as a region: results, inputs and gradients of the results in, gradients of the inputs out."""
    fresh = tracer.builder.names.fresh
    parameters = [Value(fresh(v.name), v.type) for v in (*results, *inputs, *results)]
    out = iter(parameters[: len(results)])
    input_values = iter(parameters[len(results) : len(results) + len(inputs)])
    gradients = iter(parameters[len(results) + len(inputs) :])

    def symbols(tree: object, values: Iterator[Value]) -> Any:
        return map_leaves(lambda leaf: Symbol(next(values)) if is_tensor(leaf) else leaf, tree)

    arguments = (*symbols(args, input_values), symbols(outputs, out), symbols(outputs, gradients))
    _check_arguments(cell, arguments)
    answer = explore(tracer, lambda: rewritten(cell.bprop)(*copies(arguments)))
    yields = [tracer.value(leaf) for leaf in leaves(answer) if is_tensor(leaf)]
    _check(cell, yields, inputs)
    return Graph("region", tuple(parameters), (), tuple(tracer.builder.nodes), (), tuple(yields))


def _check_arguments(cell: Any, arguments: tuple[object, ...]) -> None:
    takes = inspect.signature(cell.bprop)
    try:
        takes.bind(*arguments)
    except TypeError:
        raise TraceError(
            f"The bprop of {type(cell).__name__} takes {takes} and must take the inputs of construct, its result and "
            f"the gradient of that: {len(arguments)} arguments.",
        ) from None


def _check(cell: object, yields: list[Value], inputs: list[Value]) -> None:
    types, expected = [v.type for v in yields], [v.type for v in inputs]
    if types != expected:
        raise TraceError(
            f"The bprop of {type(cell).__name__} gives gradients of types {types} and must give {expected}, "
            "one for each tensor input.",
        )
