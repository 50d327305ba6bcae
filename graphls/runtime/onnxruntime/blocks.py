"""Blocking of elementwise chains on large arrays, so that intermediate values stay in the cache.

A kernel of ONNX Runtime reads and writes complete arrays. The update of Adam is twelve kernels, which move about 140
bytes for each parameter to and from memory where 28 are necessary. In a Scan over blocks of each array only those are
moved, for the same bits: 1.9 ms instead of 2.7 for a million parameters, on two cores. As a Scan waits for all readers
of a state by data, it may also write the state in place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphls.ir.aliases import Aliases
from graphls.ir.build import Builder, Names
from graphls.ir.graph import Graph, Node, Value, Write, definers, needs, uses
from graphls.ir.reachability import Reachability, predecessors, stable_order
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN
from graphls.passes.rewriter import Rewritten

SHARE = 48 << 10
"""Elements of a block for each core: all values of a chain on it fit into the core's own cache."""

FEWEST_BLOCKS = 4
"""Arrays of fewer blocks are not cut, since each iteration of a Scan takes time itself."""

FEWEST_NODES = 3
"""Shorter chains are not blocked."""


def in_blocks(graph: Graph, size: int) -> Rewritten:
    """The same graph with its large updates in blocks of about `size` elements, by Scans.

    A write may take the result of a Scan in the shape of its blocks: the elements of the state in their order.
    """
    groups = [group for group in _groups(graph, size) if len(group) >= FEWEST_NODES]
    return _Blocks(graph, groups, size).blocked() if groups else Rewritten(graph)


def block_size() -> int:
    """The number of elements of a block on this machine, whose cores share each block."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return SHARE * cores


def count_of_blocks(elements: int, size: int) -> int | None:
    """The number of equal blocks, of `size` to half as many elements, that an array can be cut into; None if none."""
    least = -(-elements // size)
    return next((n for n in range(least, 2 * least + 1) if elements % n == 0), None)


def _groups(graph: Graph, size: int) -> list[list[Node]]:
    """The nodes that can share a Scan: connected, of one shape, and with no path between two of them through others.

    The depth of a node is the number of times that a path to it leaves a group.
    """
    depth: dict[Value, int] = {}
    maker: dict[Value, Node] = {}
    group: dict[Node, list[Node]] = {}
    members = _members(graph, size)
    for node in graph.nodes:
        is_member = node in members
        earlier = [(depth.get(v, 0), maker.get(v)) for v in needs(node)]
        joined = [before for _, before in earlier if before and is_member and _is_like(before, node)]
        own = max((d + (before is not None and before not in joined) for d, before in earlier), default=0)
        depth.update(dict.fromkeys(node.outputs, own))
        if is_member:
            maker[node.output] = node
            group[node] = [node]
            for before in joined:
                if depth[before.output] == own and group[before] is not group[node]:
                    _join(group, group[before], group[node])
    position = {node: i for i, node in enumerate(graph.nodes)}
    return [sorted(g, key=position.__getitem__) for g in {id(g): g for g in group.values()}.values()]


def _join(group: dict[Node, list[Node]], one: list[Node], other: list[Node]) -> None:
    """Merge two groups, by moving the members of the smaller one."""
    large, small = (one, other) if len(one) >= len(other) else (other, one)
    large.extend(small)
    group.update(dict.fromkeys(small, large))


def _is_like(one: Node, other: Node) -> bool:
    return one.output.type.shape == other.output.type.shape


def _members(graph: Graph, size: int) -> set[Node]:
    """The nodes of updates that fit into blocks, and nodes before them that only prepare one gradient, as a mean."""
    members: set[Node] = set()
    outside = {*graph.outputs, *(write.value for write in graph.writes)}
    for node in reversed(graph.nodes):
        if _fits(node, size) and (node.phase == "update" or (_has_one_array(node) and node.output not in outside)):
            members.add(node)
        else:
            outside.update(needs(node))
    return members


def _has_one_array(node: Node) -> bool:
    """Whether a node reads one array, which it need not retain longer than its result, and scalars."""
    return sum(v.type.size > 1 for v in node.inputs) == 1


def _fits(node: Node, size: int) -> bool:
    """Whether a node computes a large array from others of its shape and from scalars."""
    if not _is_by_element(node):
        return False
    shape, elements = node.output.type.shape, node.output.type.size
    is_large = elements >= FEWEST_BLOCKS * size and count_of_blocks(elements, size) is not None
    return is_large and all(v.type.shape == shape or (v.type.size == 1 and v.type.rank < 2) for v in node.inputs)


def _is_by_element(node: Node) -> bool:
    primitive = node.primitive
    return primitive.elementwise or (primitive.is_transparent and not primitive.moves)


class _Blocks:
    """The blocked graph: Scans in the place of groups, and views of their operands and results."""

    def __init__(self, graph: Graph, groups: Sequence[Sequence[Node]], size: int) -> None:
        self.graph = graph
        self.groups = groups
        self.size = size
        self.names = Names.of(graph)
        self.inside = {node: group for group in groups for node in group}
        self.scans: list[Node] = []
        self.stacks: dict[Value, Value] = {}
        self.origins: dict[Node, Node] = {}
        self.readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in needs(node):
                self.readers.setdefault(value, []).append(node)
        self.results = {v for node in graph.nodes for v in node.outputs if v.type != TOKEN}
        self.written = {write.value for write in graph.writes}

    def blocked(self) -> Rewritten:
        """The blocked graph, with its nodes in topological order."""
        nodes = [node for node in self.graph.nodes if node not in self.inside]
        for group in self.groups:
            nodes += self.scan(group)
        nodes = [nodes[i] for i in stable_order(predecessors(nodes, needs))]
        writes = tuple(Write(w.state, self.stacks.get(w.value, w.value), w.in_place) for w in self.graph.writes)
        graph = self.graph.replace(nodes=tuple(nodes), writes=writes)
        return Rewritten(in_place_after_readers(graph, self.scans), self.origins)

    def scan(self, group: Sequence[Node]) -> list[Node]:
        """The nodes in place of a group: views of its operands in blocks, a Scan, and views of results for others."""
        elements = group[-1].output.type.size
        count = count_of_blocks(elements, self.size) or 1
        block = (elements // count,)
        mapping = {v: Value(self.names.fresh(v.name), v.type.with_shape(block)) for v in _operands(group)}
        results = [node.output for node in group if self.leaves(node.output, group)]
        e = Builder(self.names)
        with e.at(group[-1]):
            arrays = [e.reshape(v, shape=(count, *block)) for v in mapping]
            fences = [_first_element(e, v) for v in self.waited_for(group)]
            carried = [Value(self.names.fresh(v.name), v.type) for v in fences]
            parameters = (*carried, *mapping.values())
            nodes = tuple(self.in_block(node, mapping, block) for node in group)
            region = Graph("block", parameters, (), nodes, (), (*carried, *(mapping[v] for v in results)))
            attrs = {"carries": len(fences), "length": count}
            stacks = e.emit("scan", [*fences, *arrays], attrs, regions=(region,))[len(fences) :]
            self.scans.append(e.nodes[-1])
            self.stacks.update(zip(results, stacks, strict=True))
            for value in results:
                if self.is_read_outside(value, group):
                    self.restore_shape(e, value)
        self.origins.update((node, group[-1]) for node in e.nodes)
        return e.nodes

    def waited_for(self, group: Sequence[Node]) -> list[Value]:
        """The values that a group waits for by control edges, which come from the readers of states that it writes."""
        values = dict.fromkeys(v for node in group for v in node.after)
        own = {node.output for node in group}
        return [v for v in values if v in self.results and v not in own and v.type.size and not v.type.stacked]

    def in_block(self, node: Node, mapping: dict[Value, Value], block: tuple[int, ...]) -> Node:
        """A copy of a node on one block of each array; adds its result to `mapping`."""
        inputs = tuple(mapping.get(v, v) for v in node.inputs)
        result = mapping[node.output] = Value(self.names.fresh(node.output.name), node.output.type.with_shape(block))
        copy = replace(node, inputs=inputs, outputs=(result,), after=())
        self.origins[copy] = node
        return copy

    def leaves(self, value: Value, group: Sequence[Node]) -> bool:
        """Whether a value is used outside of its group."""
        return value in self.written or self.is_read_outside(value, group)

    def is_read_outside(self, value: Value, group: Sequence[Node]) -> bool:
        """Whether a value is an output of the step, or read by a node outside of its group."""
        return value in self.graph.outputs or any(self.inside.get(n) is not group for n in self.readers.get(value, ()))

    def restore_shape(self, e: Builder, value: Value) -> None:
        """Add the view of a value in its own shape, for readers outside of the group."""
        attrs = {"shape": value.type.shape}
        e.append(Node(lookup("reshape"), (self.stacks[value],), (value,), attrs, (), (), e.phase, e.scope, e.loc))


def _first_element(e: Builder, value: Value) -> Value:
    """One element of an array, by which a Scan waits for it as data, since ONNX has no control edges."""
    flat: Value = e.reshape(value, shape=(value.type.size,))
    first: Value = e.slice(flat, starts=(0,), stops=(1,), steps=(1,))
    return first


def _operands(group: Sequence[Node]) -> list[Value]:
    """The arrays that a group reads, each once."""
    results, shape = {node.output for node in group}, group[0].output.type.shape
    return [v for v in dict.fromkeys(v for n in group for v in n.inputs) if v.type.shape == shape and v not in results]


def in_place_after_readers(graph: Graph, scans: Iterable[Node]) -> Graph:
    """Marks more writes as in place: those whose value one of these Scans computes after all readers of the old one.

    The Scans read a block of their operands before they write the same block of their results. A node whose result is
    as large as an operand may return the operand itself, so readers of that result count as readers, too.
    """
    makers = {v: node for node in scans for v in node.outputs}
    waiting = {w.state: makers[w.value] for w in graph.writes if not w.in_place and w.value in makers}
    results = {w.state: w.value for w in graph.writes}
    aliases = Aliases(graph.nodes)
    leaving = {state for v in (*graph.outputs, *results.values()) for state in aliases.of(v)}
    last = _written_last(graph.nodes, waiting, aliases) - leaving
    safe = {state for state in last if _is_last_in_block(waiting[state], state, results[state], aliases)}
    return graph.replace(writes=tuple(replace(w, in_place=w.in_place or w.state in safe) for w in graph.writes))


def _written_last(nodes: Sequence[Node], makers: Mapping[Value, Node], aliases: Aliases) -> set[Value]:
    """Those keys of `makers` whose other readers all precede their maker by data."""
    readers: dict[Value, list[Node]] = {root: [] for root in makers}
    for node in nodes:
        roots = {root for v in uses(node) for root in aliases.of(v)}
        for root in (root for root in roots & makers.keys() if makers[root] is not node):
            readers[root].append(node)
    reach = Reachability(nodes, (node for each in readers.values() for node in each))
    return {root for root, maker in makers.items() if all(reach.bit[n] & reach.before[maker] for n in readers[root])}


def _is_last_in_block(scan: Node, state: Value, result: Value, aliases: Aliases) -> bool:
    """Whether each iteration computes the block of the new value after all readers of the old one."""
    (region,) = scan.regions
    maker = definers(region.nodes).get(region.outputs[scan.outputs.index(result)])
    operands = [p for v, p in zip(scan.inputs, region.inputs, strict=True) if state in aliases.of(v)]
    if maker is None:
        return False
    makers = dict.fromkeys(operands, maker)
    # The result of the maker is the new value, even where it is computed as an operand plus zero.
    inner = Aliases((node for node in region.nodes if node is not maker), aliases)
    yielded = {root for v in region.outputs for root in inner.of(v)}
    return _written_last(region.nodes, makers, inner) == set(operands) and yielded.isdisjoint(operands)
