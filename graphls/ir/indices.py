"""Indices: where they come from, and the small states that one out of range could leave half updated in a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphls.ir.graph import Graph, Node, Value, inside
from graphls.ir.reachability import Reachability

SMALL = 4096
"""Bytes of the largest state that gets a second buffer."""


def is_small(state: Value) -> bool:
    """Whether a state is small enough for a second buffer, which protects it where an index is out of range."""
    return state.type.nbytes <= SMALL


def early_states(graph: Graph) -> set[str]:
    """The small states that may be written before the runtime has checked every index; they get two buffers."""
    marked = _taking_indices(graph)
    reach = Reachability(graph.nodes, marked)
    every = (1 << len(marked)) - 1
    makers = ((w.state, reach.definer.get(w.value)) for w in graph.writes if is_small(w.state))
    return {state.name for state, maker in makers if (reach.until(maker) if maker else 0) != every}


def takes_indices(graph: Graph) -> bool:
    """Whether an index out of range may end a run of the graph."""
    return bool(_taking_indices(graph))


def _taking_indices(graph: Graph) -> Sequence[Node]:
    return [n for n in graph.nodes if any(inner.primitive.takes_indices for inner in (n, *inside(n)))]


def index_sources(graph: Graph, values: Iterable[Value]) -> Mapping[Node, Value]:
    """The nodes whose indices are one of the values, unchanged but for its shape and order, each with that value."""
    sources = {value: value for value in values}
    nodes: dict[Node, Value] = {}
    for node in graph.nodes:
        if node.primitive.is_transparent and node.inputs[0] in sources:
            sources[node.output] = sources[node.inputs[0]]
        elif node.primitive.takes_indices and node.inputs[1] in sources:
            nodes[node] = sources[node.inputs[1]]
    return nodes
