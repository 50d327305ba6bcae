"""Graph traversals: ancestors, descendants, topological order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from graphls.ir.graph import Node, Value, definers, uses
from graphls.ir.types import TOKEN

Item = TypeVar("Item", bound=Hashable)
Reads = Callable[[Node], Iterable[Value]]
"""Which values count as read by a node: `uses`, `waits_for` or `needs`."""


def waits_for(node: Node) -> tuple[Value, ...]:
    """The values that a node and its regions read, and its control edges."""
    return (*uses(node), *node.after)


def computes_nothing(node: Node) -> bool:
    """Whether all operands, or all results, of a node are empty, so that the results are constants."""
    if node.regions or any(v.type == TOKEN for v in (*node.inputs, *node.outputs)):
        return False
    operands, results = ([v.type.size for v in values] for values in (node.inputs, node.outputs))
    return not any(results) or (bool(operands) and not any(operands))


def reached(start: Iterable[Item], following: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """The items that can be reached from the first ones, these included, each once, in breadth-first order.

    Takes time in proportion to the items that are reached, and less where the caller stops early.
    """
    seen = set[Item]()
    waiting = deque(start)
    while waiting:
        item = waiting.popleft()
        if item not in seen:
            seen.add(item)
            yield item
            waiting.extend(following(item))


def dependencies(nodes: Sequence[Node], values: Iterable[Value], reads: Reads = waits_for) -> list[Node]:
    """The nodes of a block that these values depend on, in order."""
    required, nodes_before = set(values), []
    for node in reversed(nodes):
        if not required.isdisjoint(node.outputs):
            required.update(reads(node))
            nodes_before.append(node)
    return nodes_before[::-1]


def dependents(nodes: Iterable[Node], values: Iterable[Value], reads: Reads = uses) -> set[Value]:
    """These values, and all that depend on them; the nodes are in schedule order."""
    values_behind = set(values)
    for node in nodes:
        if not values_behind.isdisjoint(reads(node)):
            values_behind.update(node.outputs)
    return values_behind


def ancestors(nodes: Sequence[Node], of: Iterable[Node]) -> frozenset[Node]:
    """The nodes of a block that run before one of these, by data and control edges.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import ancestors
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %a = exp(%x) : f32[2]
        ...   %b = log(%x) : f32[2]
        ...   %c = abs(%a) : f32[2]
        ...   return %b, %c
        ... }
        ... ''')
        >>> sorted(node.primitive.name for node in ancestors(graph.nodes, graph.nodes[2:]))
        ['exp']
    """
    return frozenset(dependencies(nodes, (value for node in of for value in waits_for(node))))


def descendants(nodes: Sequence[Node], of: Iterable[Node], control: bool = True) -> frozenset[Node]:
    """The nodes of a block that run after one of these, by data and (where `control`) control edges.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import descendants
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %a = exp(%x) : f32[2]
        ...   %b = log(%x) : f32[2]
        ...   %c = abs(%a) : f32[2]
        ...   return %b, %c
        ... }
        ... ''')
        >>> sorted(node.primitive.name for node in descendants(graph.nodes, graph.nodes[:1]))
        ['abs']
    """
    reads = waits_for if control else uses
    values_behind = dependents(nodes, (value for node in of for value in node.outputs), reads)
    return frozenset(node for node in nodes if not values_behind.isdisjoint(reads(node)))


class Reachability:
    """The marked nodes that come before each node of a block, as one integer of bits per node.

    So a question takes as long as an `and` of two integers, and all of them together one sweep.
    """

    def __init__(self, nodes: Iterable[Node], marked: Iterable[Node], reads: Reads = uses) -> None:
        self.bit = {node: 1 << i for i, node in enumerate(dict.fromkeys(marked))}
        self.reads = reads
        self.definer: dict[Value, Node] = {}
        self.before: dict[Node, int] = {}
        for node in nodes:
            bits = 0
            for earlier in self.predecessors(node):
                bits |= self.until(earlier)
            self.before[node] = bits
            self.definer.update((value, node) for value in node.outputs)

    def predecessors(self, node: Node) -> list[Node]:
        """The nodes of the block whose results a node reads; none where a model has a constant in its place."""
        if computes_nothing(node):
            return []
        return list(dict.fromkeys(self.definer[v] for v in self.reads(node) if v in self.definer))

    def until(self, node: Node) -> int:
        """The marked nodes before `node`, itself included."""
        return self.before[node] | self.bit.get(node, 0)


def marked_dependents(nodes: Sequence[Node], bit: Mapping[Node, int], reads: Reads = uses) -> dict[Node, int]:
    """For each node of a block the marked nodes that depend on it, itself included, as bits of an integer."""
    needed_by: dict[Value, int] = {}
    marks: dict[Node, int] = {}
    for node in reversed(nodes):
        bits = bit.get(node, 0)
        for value in node.outputs:
            bits |= needed_by.get(value, 0)
        marks[node] = bits
        for value in reads(node):
            needed_by[value] = needed_by.get(value, 0) | bits
    return marks


def predecessors(nodes: Sequence[Node], reads: Reads) -> list[set[int]]:
    """For each node of a block the indices of the nodes whose results it reads."""
    definer, number = definers(nodes), {node: i for i, node in enumerate(nodes)}
    return [{number[definer[v]] for v in reads(node) if v in definer} for node in nodes]


def stable_order(earlier: Sequence[Iterable[int]]) -> list[int]:
    """The stable topological order: the indices of items, each after its `earlier` ones.

    The next item is always the first one whose earlier ones have all come. Items of a cycle and those after them are
    left out.
    """
    followers: list[list[int]] = [[] for _ in earlier]
    waiting = []
    for number, dependencies in enumerate(map(set, earlier)):
        waiting.append(len(dependencies))
        for first in dependencies:
            followers[first].append(number)
    ready = [number for number, count in enumerate(waiting) if not count]  # sorted, so it is a heap
    order = []
    while ready:
        order.append(heappop(ready))
        for number in followers[order[-1]]:
            waiting[number] -= 1
            if not waiting[number]:
                heappush(ready, number)
    return order
