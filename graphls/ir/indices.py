"""States and indices out of range, at which a runtime fails in the middle of a step."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.graph import Graph, Node, inside
from graphls.ir.reach import Reachability

SMALL = 4096
"""Bytes of a state that is cheaply kept twice."""


def early_states(graph: Graph, looks_later: bool = False) -> set[str]:
    """The small states that may be written before the runtime has looked at every index.

    They get two buffers, so that they stay as they were where an index is out of range. With `looks_later`, there are
    indices also in what runs behind this graph.
    """
    marked = _taking_indices(graph)
    reach = Reachability(graph.nodes, marked)
    every = (1 << len(marked)) - 1
    makers = ((w.state, reach.definer.get(w.value)) for w in graph.writes if w.state.type.nbytes <= SMALL)
    return {s.name for s, maker in makers if looks_later or (reach.until(maker) if maker else 0) != every}


def takes_indices(graph: Graph) -> bool:
    """Whether an index out of range may end a run of a graph."""
    return bool(_taking_indices(graph))


def _taking_indices(graph: Graph) -> Sequence[Node]:
    return [n for n in graph.nodes if any(inner.primitive.takes_indices for inner in (n, *inside(n)))]
