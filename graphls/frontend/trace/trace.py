"""The trace function: from a cell and example inputs to a graph."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphValueError, TraceError
from graphls.base.location import Location, location_of, user_location
from graphls.base.reporting import recursion_error
from graphls.base.sharing.locks import COMPILING
from graphls.frontend.tensors import executor
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Symbol, Tensor, is_tensor
from graphls.frontend.trace.branch_merge import MergeError
from graphls.frontend.trace.branches import explore
from graphls.frontend.trace.calls import CellCall
from graphls.frontend.trace.rewriting.functions import rewritten
from graphls.frontend.trace.states import StateSymbol, copies
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Graph, Value, Write, in_order, walk
from graphls.ir.sharding import Mesh
from graphls.ir.types import int64, type_of


@dataclass
class Traced:
    """A graph and its ties to Python: parameters by state name, the structure of its outputs, the cells that ran."""

    graph: Graph
    parameters: dict[str, Parameter]
    outputs: Any
    cells: tuple[Any, ...] = ()
    calls: tuple[CellCall, ...] = ()
    recipes: dict[str, Any] = field(default_factory=dict)
    """The cells whose products have operands of few bits, by their scopes."""


def trace(
    function: Callable[..., object], args: tuple[object, ...], names: Sequence[str] = (), name: str = "main",
    mesh: Mesh | None = None,
) -> Traced:  # fmt: skip
    """Trace `function(*args)`; every tensor in `args` becomes an input, everything else is a constant.

    `names` are the preferred names of the positional arguments, `mesh` is that of the graph. Raises TraceError, with
    the user's line, for code that cannot become part of a static graph.
    """
    with COMPILING.lock:
        return _best_trace(partial(Tracer, name, mesh=mesh), function, args, names)


def _best_trace(
    tracer: Callable[..., Tracer], function: Callable[..., object], args: tuple[object, ...], names: Sequence[str]
) -> Traced:
    """The trace of a function in its rewritten form, or unchanged where that form fails."""
    try:
        return _traced(tracer(), function, args, names)
    except Escaped:
        # An object of the user has carried a value out of a branch that was merged at once. Unchanged, the code runs to
        # its end once for each branch, and makes an object anew for each.
        return _traced(tracer(rewrites=False), function, args, names)
    except MergeError as error:
        # The branches give different texts or cells, from which later code may compute tensors.
        with suppress(TraceError):
            return _traced(tracer(rewrites=False), function, args, names)
        raise error


def _traced(tracer: Tracer, function: Callable[..., object], args: tuple[object, ...], names: Sequence[str]) -> Traced:
    inputs: list[Value] = []

    def symbol(path: str, leaf: object) -> Any:
        if not is_tensor(leaf) or isinstance(leaf, Parameter):
            return leaf
        kind = leaf.type if isinstance(leaf, Tensor) else type_of(leaf)
        if min(kind.shape, default=0) < 0:
            message = f"A graph has static shapes, and {kind.shape} only declares one; give an example of the input."
            raise GraphValueError(message)
        inputs.append(Value(tracer.builder.names.fresh(path), kind))
        return Symbol(inputs[-1])

    wished = [*names, *(f"x{i}" for i in range(len(names), len(args)))]
    symbols = tuple(map_leaves(partial(symbol, wish), arg) for wish, arg in zip(wished, args, strict=False))
    before = executor.EXECUTOR.get()
    try:
        executor.execute_by(tracer)
        called = rewritten(function)
        results = explore(tracer, lambda: called(*copies(symbols)))
        has_effect = bool(tracer.written) or any(node.primitive.has_effect for node in tracer.builder.nodes)
        check_results(function, results, has_effect)
        return _finished(tracer, tuple(inputs), results)
    except GraphlsError:
        raise
    except NameError as error:
        raise _without_value(tracer, error) from error
    except RecursionError as error:
        raise recursion_error(error) from None
    finally:
        executor.EXECUTOR.set(before)
        for callback in reversed(tracer.end_callbacks):
            callback()


def _without_value(tracer: Tracer, error: NameError) -> Exception:
    """The error for an unbound variable, with the branch or loop on a tensor that is the reason, if one is."""
    name = next(iter(re.findall(r"'(\w+)'", str(error))), "")
    return error if isinstance(error, GraphlsError) else tracer.unbound.get(name, error)


def _finished(tracer: Tracer, inputs: tuple[Value, ...], results: object) -> Traced:
    tensors = [leaf for leaf in leaves(results) if is_tensor(leaf)]
    # control edges of a parameter order nothing any more
    outputs = tuple(tracer.value(leaf.parameter if isinstance(leaf, StateSymbol) else leaf) for leaf in tensors)
    if tracer.random_state is not None:
        state = tracer.state(tracer.random_state)
        one = tracer.constant(np.array([0, 1], int64.numpy))
        with tracer.phase("update"):
            tracer.written[tracer.random_state] = tracer.emit("add", (state, one), {}, name="random_step")[0]
    writes = tuple(
        Write(s, v) for p, v in tracer.written.items() if (s := tracer.states.get(p)) is not None and v is not s
    )
    nodes = in_order(tracer.builder.nodes)
    graph = Graph(tracer.name, inputs, tuple(tracer.states.values()), nodes, writes, outputs, tracer.mesh)
    _refuse_undefined(graph)
    parameters = {v.name: p for p, v in tracer.states.items()}
    tree = map_leaves(lambda leaf: PLACE if is_tensor(leaf) else leaf, results)
    return Traced(graph, parameters, tree, tuple(tracer.cells.values()), tuple(tracer.cell_calls), tracer.recipes)


def _refuse_undefined(graph: Graph) -> None:
    """Raise Escaped for a tensor of another trace, or of a region of this one, that an object has carried out."""
    fault = _first_undefined(graph, {*graph.inputs, *graph.states})
    if fault is not None:
        value, loc = fault
        defined = (v for n in walk(graph) for v in (*n.outputs, *(i for region in n.regions for i in region.inputs)))
        raise Escaped(ESCAPED_TENSOR if value in defined else FOREIGN_TENSOR, loc or user_location())


def _first_undefined(graph: Graph, visible: set[Value]) -> tuple[Value, Location | None] | None:
    """The first value that is used without a definition, and its line; `visible` is defined around the graph."""
    own = [*graph.inputs]
    visible.update(own)
    for node in graph.nodes:
        for value in (*node.inputs, *node.after):
            if value not in visible:
                return value, node.loc
        for region in node.regions:
            fault = _first_undefined(region, visible)
            if fault is not None:
                return fault
        visible.update(node.outputs)
        own += node.outputs
    unmade = (v for v in (*graph.outputs, *(w.value for w in graph.writes)) if v not in visible)
    first_value = next(unmade, None)
    visible.difference_update(own)
    return None if first_value is None else (first_value, None)


class Escaped(TraceError):
    """Raised for a tensor that is used where it is not defined."""


ESCAPED_TENSOR = (
    "This uses a tensor that was computed in one branch of a condition on a tensor, or in the body of a loop, and that "
    "an object has carried out of it; assign it to a variable in both branches."
)


FOREIGN_TENSOR = (
    "This uses a tensor of the trace of another cell, or of an earlier trace of this one; store values that outlive a "
    "trace in a Parameter."
)


class _OutputPosition:
    """A singleton that marks a tensor in the outputs of a traced function, and keeps its identity when copied."""

    def __reduce__(self) -> str:
        return "PLACE"

    def __repr__(self) -> str:
        return "<tensor>"


PLACE = _OutputPosition()
"""The placeholder for a tensor in the structure of a result."""


def fill_outputs(tree: object, tensors: Sequence[object]) -> Any:
    """The outputs in the structure of the function's result, with tensors as leaves."""
    if tree is PLACE:
        return tensors[0]
    if type(tree) is tuple and len(tree) == len(tensors) and all(leaf is PLACE for leaf in tree):
        return tuple(tensors)
    iterator = iter(tensors)
    return map_leaves(lambda leaf: next(iterator) if leaf is PLACE else leaf, tree)


def check_results(function: Callable[..., object], results: object, has_effect: bool) -> None:
    """Raise TraceError, with the line of the function, for results that a step cannot return.

    These are objects that run only later, such as generators, and None where the function has no effect: it writes no
    parameter and calls no Python.
    """
    for leaf in leaves(results):
        if isinstance(leaf, (Iterator, Coroutine, AsyncGenerator)):
            if isinstance(leaf, Coroutine):
                leaf.close()
            text = f"{_named(function)} gives {_with_article(leaf)}, and a step runs to its end; {_advice(leaf)}."
            raise TraceError(text, _line(function))
    if results is None and not has_effect:
        text = f"{_named(function)} gives None and writes no parameter, so there is nothing to compute"
        raise TraceError(f"{text}; end it with `return` and a tensor.", _line(function))


def _with_article(item: object) -> str:
    kind = type(item).__name__.replace("_", " ")
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _advice(leaf: object) -> str:
    if isinstance(leaf, (Coroutine, AsyncGenerator)):
        return "write it with `def`, without `async`"
    return "return the tensors in a tuple or a list"


def _code_of(function: Callable[..., object]) -> Any:
    construct = getattr(type(function), "construct", None)
    return getattr(inspect.unwrap(construct or function), "__code__", None)


def _named(function: Callable[..., object]) -> str:
    if hasattr(type(function), "construct"):
        return f"The construct of {type(function).__name__}"
    return f"The function {getattr(function, '__name__', type(function).__name__)}"


def _line(function: Callable[..., object]) -> Location | None:
    code = _code_of(function)
    return None if code is None else location_of(code)
