"""Host calls in a graph: checks their position, and finds and removes effects without results."""

from __future__ import annotations

from collections.abc import Iterable

from graphls.base.errors import TraceError
from graphls.ir.graph import Graph, Node, filtered, inside, walk, with_edges
from graphls.ir.types import TOKEN


def verify_host_calls(graph: Graph) -> Graph:
    """Return `graph` if no branch and no loop in it calls Python; raises TraceError with the line of the first call."""
    for node in graph.nodes:
        call = next((inner for inner in inside(node) if inner.primitive.calls_python), None)
        if call is not None and (node.primitive.is_branch or node.primitive.is_loop):
            name = call.attrs.get("function", call.primitive.name)
            text = f"{name} is Python and would be called in a {node.primitive.name}, which runs without Python"
            text = f"{text}; take the gradient that calls it outside of conditions and loops."
            raise TraceError(text, call.loc)
    return graph


def calls_for_results(graph: Graph) -> tuple[Node, ...]:
    """The host calls whose results the step reads, which no model can contain."""
    return tuple(n for n in walk(graph) if n.primitive.calls_python and len(n.outputs) > n.primitive.has_effect)


def last_effects(graph: Graph) -> tuple[Node, ...]:
    """The trailing effects without results, before which everything else of the step has been computed."""
    effects: list[Node] = []
    for node in reversed(graph.nodes):
        if node.primitive.has_effect:
            if len(node.outputs) > 1:
                break
            effects.append(node)
    return tuple(reversed(effects))


def without(graph: Graph, effects: Iterable[Node]) -> Graph:
    """The graph without some of its effects without results, also in regions."""
    left_out = set(effects)
    gone = {value for node in left_out for value in node.outputs}
    remaining = filtered(graph.nodes, lambda node: node not in left_out)
    return graph.replace(nodes=tuple(with_edges(n, lambda v: v not in gone) for n in remaining)) if left_out else graph


def without_calls(graph: Graph) -> Graph:
    """The graph without host calls: their results become its last inputs, their operands its last outputs."""
    graph = without_effects(graph)
    calls = dict.fromkeys(calls_for_results(graph))
    gone = {value: None for node in calls for value in node.outputs}
    results = tuple(value for value in gone if value.type != TOKEN)
    defined = {value for node in graph.nodes for value in node.outputs if value not in gone}
    read = dict.fromkeys(value for node in calls for value in node.inputs if value in defined)
    nodes = tuple(with_edges(node, lambda v: v not in gone) for node in graph.nodes if node not in calls)
    return graph.replace(inputs=(*graph.inputs, *results), nodes=nodes, outputs=(*graph.outputs, *read))


def without_effects(graph: Graph) -> Graph:
    """The graph without effects that have no results, such as prints."""
    return without(graph, (n for n in walk(graph) if n.primitive.has_effect and len(n.outputs) == 1))
