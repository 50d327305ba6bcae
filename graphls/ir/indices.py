"""Indices: where they come from, and the small states that one out of range could leave half updated in a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphls.ir.graph import Graph, Node, Value, inside
from graphls.ir.reachability import Reachability
from graphls.ir.types import int32, int64

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


def moved_indices(graph: Graph, values: Iterable[Value]) -> tuple[tuple[Node, ...], Mapping[Node, Value]]:
    """The nodes whose indices are elements of these values, each with the value of its indices.

    The first result are the nodes that select and arrange these elements, in order: views and copies of integers.
    """
    available, moves, indices = set(values), list[Node](), dict[Node, Value]()
    for node in graph.nodes:
        if node.primitive.takes_indices and node.inputs[1] in available:
            indices[node] = node.inputs[1]
        elif available.issuperset(node.inputs) and _selects_integers(node):
            available.update(node.outputs)
            moves.append(node)
    read, selections = set(indices.values()), list[Node]()
    for node in reversed(moves):
        if not read.isdisjoint(node.outputs):
            read.update(node.inputs)
            selections.append(node)
    return tuple(selections[::-1]), indices


def _selects_integers(node: Node) -> bool:
    """Whether a node only selects and arranges integers of its operands, of which it has no more than these."""
    primitive, types = node.primitive, [v.type for v in (*node.inputs, *node.outputs)]
    moves = node.inputs and primitive.flops_per_element == 0 and not (primitive.takes_indices or node.regions)
    elsewhere = primitive.on_host or primitive.calls_python or primitive.is_collective
    is_small = sum(v.type.size for v in node.outputs) <= sum(v.type.size for v in node.inputs)
    return bool(moves) and not elsewhere and is_small and all(t in (int32, int64) for t in (t.dtype for t in types))
