"""The reference interpreter: a graph, run node by node on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import local
from typing import Any

import numpy as np

from graphls.base.errors import GraphIndexError, GraphValueError
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import TOKEN, type_of

Array = np.ndarray[Any, Any]
Watch = Callable[[Node, tuple[Array, ...]], None]


class Running(local):
    """The collective node that this thread is running; None at other times."""

    node: Node | None = None


RUNNING = Running()
NOT_RUNNING = nullcontext()
"""The context of all other nodes, which takes no time."""


@contextmanager
def running(node: Node) -> Iterator[None]:
    """Set the current collective of this thread to a node of a step."""
    before, RUNNING.node = RUNNING.node, node
    try:
        yield
    finally:
        RUNNING.node = before


def interpret(
    graph: Graph, inputs: Sequence[object], states: Mapping[str, object] | None = None, watch: Watch | None = None,
) -> tuple[list[Array], dict[str, Array]]:  # fmt: skip
    """Run `graph` once; returns its outputs and all states after the step.

    `inputs` are arrays in the order of `graph.inputs`, `states` arrays by name. `watch` sees every
    node with its results. The arrays that are passed in are not changed. Raises GraphValueError where
    an array is missing or does not fit its type.

    Examples:
        >>> import numpy as np
        >>> from graphls.ir import interpret, parse
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %y = square(%x) : f32[2]
        ...   return %y
        ... }
        ... ''')
        >>> interpret(graph, [np.array([3.0, 4.0], np.float32)])
        ([array([ 9., 16.], dtype=float32)], {})
    """
    env = _bound(graph, inputs, states or {})
    with np.errstate(all="ignore"):
        _run(graph.nodes, env, watch)
    after = {value.name: env[value] for value in graph.states}
    after.update((write.state.name, env[write.value]) for write in graph.writes)
    return [env[value] for value in graph.outputs], after


def _bound(graph: Graph, inputs: Sequence[object], states: Mapping[str, object]) -> dict[Value, Array]:
    if len(inputs) != len(graph.inputs):
        raise GraphValueError(f"@{graph.name} takes {len(graph.inputs)} inputs, not {len(inputs)}.")
    missing = ", ".join(value.name for value in graph.states if value.name not in states)
    if missing:
        raise GraphValueError(f"The graph has states that are not given: {missing}.")
    env = {value: _checked(value, array) for value, array in zip(graph.inputs, inputs, strict=True)}
    env.update((value, _checked(value, states[value.name])) for value in graph.states)
    return env


def _checked(value: Value, data: Any) -> Array:
    array: Array = np.asarray(data)
    if type_of(array) != value.type:
        raise GraphValueError(f"{value.name!r} takes {value.type}, not {type_of(array)}.")
    return array


def _run(nodes: Sequence[Node], env: dict[Value, Array], watch: Watch | None) -> None:
    for node in nodes:
        results = run_node(node, env, watch)
        env.update(zip(node.outputs, results, strict=True))
        if watch is not None:
            watch(node, results)


def run_node(node: Node, env: dict[Value, Array], watch: Watch | None = None) -> tuple[Array, ...]:
    """The results of one node, whose inputs are in `env`; the values of its regions are added to `env`.

    Raises GraphIndexError, with the node's line, for an index that is out of range.
    """
    arrays = tuple(env[value] for value in node.inputs)
    types = tuple(value.type for value in node.outputs)
    if node.regions:
        results = node.primitive.run_regions(arrays, node.attrs, types, partial(_run_region, node, env, watch))
    else:
        try:
            with running(node) if node.primitive.is_collective else NOT_RUNNING:
                results = node.primitive.evaluate(arrays, node.attrs, types)
        except IndexError as error:
            if node.primitive.calls_python:  # the error is the user's own
                raise
            raise GraphIndexError(f"{node.primitive.name} could not run: {error}.", node.loc) from None
    return tuple(_as_typed(r, v) for r, v in zip(results, node.outputs, strict=True))


def _run_region(
    node: Node, env: dict[Value, Array], watch: Watch | None, index: int, arrays: tuple[Array, ...]
) -> tuple[Array, ...]:
    region = node.regions[index]
    env.update(zip(region.inputs, arrays, strict=True))
    _run(region.nodes, env, watch)
    return tuple(env[value] for value in region.outputs)


def _as_typed(result: object, value: Value) -> Array:
    if value.type == TOKEN:
        return np.zeros((), np.int32)
    return np.asarray(result, dtype=value.type.dtype.numpy)
