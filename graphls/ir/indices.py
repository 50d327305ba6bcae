"""States and indices out of range, at which a runtime fails in the middle of a step."""

from __future__ import annotations

from graphls.ir.graph import Graph, inside
from graphls.ir.reach import Reachability

SMALL = 4096
"""Bytes of a state that is cheaply kept twice."""


def early_states(graph: Graph) -> set[str]:
    """The small states that may be written before the runtime has looked at every index.

    They get two buffers, so that they stay as they were where an index is out of range.
    """
    marked = [n for n in graph.nodes if any(inner.primitive.takes_indices for inner in (n, *inside(n)))]
    reach = Reachability(graph.nodes, marked)
    every = (1 << len(marked)) - 1
    makers = ((w.state, reach.definer.get(w.value)) for w in graph.writes if w.state.type.nbytes <= SMALL)
    return {state.name for state, maker in makers if (reach.until(maker) if maker else 0) != every}
