"""Additional in-place writes of states in blocked updates, whose Scans wait for all readers by data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphls.ir.aliases import Aliases
from graphls.ir.graph import Graph, Node, Value, definers, uses
from graphls.ir.reachability import Reachability


def in_place_behind_readers(graph: Graph, scans: Iterable[Node]) -> Graph:
    """The graph with those writes in place, too, whose value one of these Scans makes behind all readers of the old.

    They go over blocks, and read a block of their operands before they write the same block of their results. What
    makes a result as large as an operand may give the operand itself, so who reads that counts as a reader.
    """
    makers = {v: node for node in scans for v in node.outputs}
    waiting = {w.state: makers[w.value] for w in graph.writes if not w.in_place and w.value in makers}
    results = {w.state: w.value for w in graph.writes}
    aliases = Aliases(graph.nodes)
    leaving = {state for v in (*graph.outputs, *results.values()) for state in aliases.of(v)}
    last = _made_last(graph.nodes, waiting, aliases) - leaving
    safe = {state for state in last if _is_last_in_block(waiting[state], state, results[state], aliases)}
    return graph.replace(writes=tuple(replace(w, in_place=w.in_place or w.state in safe) for w in graph.writes))


def _made_last(nodes: Sequence[Node], makers: Mapping[Value, Node], aliases: Aliases) -> set[Value]:
    """Those keys of `makers` whose other readers all come before their maker by data."""
    readers: dict[Value, list[Node]] = {root: [] for root in makers}
    for node in nodes:
        found = {root for v in uses(node) for root in aliases.of(v)}
        for root in (root for root in found & makers.keys() if makers[root] is not node):
            readers[root].append(node)
    reach = Reachability(nodes, (node for each in readers.values() for node in each))
    return {root for root, maker in makers.items() if all(reach.bit[n] & reach.before[maker] for n in readers[root])}


def _is_last_in_block(scan: Node, state: Value, result: Value, aliases: Aliases) -> bool:
    """Whether in each round the block of the new value is made when all that reads the old one has been."""
    (region,) = scan.regions
    maker = definers(region.nodes).get(region.outputs[scan.outputs.index(result)])
    operands = [p for v, p in zip(scan.inputs, region.inputs, strict=True) if state in aliases.of(v)]
    if maker is None:
        return False
    makers = dict.fromkeys(operands, maker)
    # What the maker gives is the new value, even where it is computed as an operand plus zero.
    inner = Aliases((node for node in region.nodes if node is not maker), aliases)
    given = {root for v in region.outputs for root in inner.of(v)}
    return _made_last(region.nodes, makers, inner) == set(operands) and given.isdisjoint(operands)
