"""Where states get their new values: at the end of a graph, and in each iteration of a loop that carries them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphls.ir.graph import Graph, Node, Value, Write, definers
from graphls.ir.location import Location
from graphls.passes.rewrite import carries


@dataclass(frozen=True)
class Written:
    """A block of nodes, and the states whose values it makes; `outputs` are those of the region that it is."""

    nodes: Sequence[Node]
    writes: tuple[Write, ...]
    outputs: tuple[Value, ...] | None = None
    loc: Location | None = None

    def line(self, write: Write) -> object:
        """What the text shows the line of a write by."""
        return write if self.outputs is None else self.outputs


def written(graph: Graph) -> Iterator[Written]:
    """The graph, and each region of a loop that carries a state to its new value."""
    yield from _with_loops(Written(graph.nodes, graph.writes))


def _with_loops(block: Written) -> Iterator[Written]:
    yield block
    for node, writes in _carried(block).items():
        region = node.regions[-1]
        yield from _with_loops(Written(region.nodes, tuple(writes), region.outputs, node.loc))


def _carried(block: Written) -> dict[Node, list[Write]]:
    """The loops of a block that states come out of, and what becomes of these in each iteration."""
    definer = definers(block.nodes)
    found: dict[Node, list[Write]] = {}
    for write in block.writes:
        node = definer.get(write.value)
        if node is not None and node.primitive.is_loop:
            at = node.outputs.index(write.value)
            if at < carries(node):
                found.setdefault(node, []).append(Write(write.state, node.regions[-1].outputs[at]))
    return found
