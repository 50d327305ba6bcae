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
    """The nodes that call Python for what the step computes, which no model can hold."""
    return tuple(n for n in walk(graph) if n.primitive.calls_python and len(n.outputs) > n.primitive.has_effect)


def last_effects(graph: Graph) -> tuple[Node, ...]:
    """The effects that give nothing, behind the last one that does: whatever a step computes is there before them."""
    found: list[Node] = []
    for node in reversed(graph.nodes):
        if node.primitive.has_effect:
            if len(node.outputs) > 1:
                break
            found.append(node)
    return tuple(reversed(found))


def without(graph: Graph, effects: Iterable[Node]) -> Graph:
    """The graph without some of its effects that give nothing, which may stand in regions."""
    left_out = set(effects)
    gone = {value for node in left_out for value in node.outputs}
    kept = filtered(graph.nodes, lambda node: node not in left_out)
    return graph.replace(nodes=tuple(with_edges(n, lambda v: v not in gone) for n in kept)) if left_out else graph


def without_calls(graph: Graph) -> Graph:
    """The rest of a graph that calls Python: what calls give are its last inputs, what they read its last outputs."""
    graph = without_effects(graph)
    calls = dict.fromkeys(calls_for_results(graph))
    gone = {value: None for node in calls for value in node.outputs}
    given = tuple(value for value in gone if value.type != TOKEN)
    made = {value for node in graph.nodes for value in node.outputs if value not in gone}
    read = dict.fromkeys(value for node in calls for value in node.inputs if value in made)
    nodes = tuple(with_edges(node, lambda v: v not in gone) for node in graph.nodes if node not in calls)
    return graph.replace(inputs=(*graph.inputs, *given), nodes=nodes, outputs=(*graph.outputs, *read))


def without_effects(graph: Graph) -> Graph:
    """The graph without its effects that give nothing, such as what it prints."""
    return without(graph, (n for n in walk(graph) if n.primitive.has_effect and len(n.outputs) == 1))
