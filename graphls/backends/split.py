"""Splitting a wide `cond` into several, because the time ONNX Runtime takes to load an If grows with the square of
its outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from graphls.ir.build import substitute
from graphls.ir.graph import Graph, Node, Value, uses
from graphls.ir.registry import lookup

WIDE, PART, SMALL = 128, 64, 16


def split_cond(node: Node) -> list[Node]:
    """The same results from several `cond` nodes of about PART outputs; the node itself where that is not possible.

    Outputs that share a node of more than SMALL elements stay together. Small nodes that several parts need are
    made once, in a first `cond`, which also hands on the condition: so it runs before all others, also where a
    part updates in place a state that those nodes read.
    """
    if len(node.outputs) <= WIDE:
        return [node]
    groups = _Groups(len(node.outputs))
    owners = [groups.owners(region) for region in node.regions]
    parts = groups.parts()
    if len(parts) == 1:
        return [node]
    first, mappings = _first(node, owners)
    condition = (first.outputs[0],) if first is not None else node.inputs
    rest = [_part(node, condition, owners, mappings, groups, part) for part in parts]
    return [first, *rest] if first is not None else rest


SHARED = -1


@dataclass
class _Groups:
    """Outputs that must stay together, as a forest of parents."""

    count: int
    parent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parent = list(range(self.count))

    def root(self, item: int) -> int:
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def owners(self, region: Graph) -> dict[Node, int]:
        """For each node of a region the output that it serves, or SHARED."""
        serves: dict[Value, set[int]] = {}
        for index, value in enumerate(region.outputs):
            serves.setdefault(value, set()).add(index)
        owners: dict[Node, int] = {}
        for node in reversed(region.nodes):
            served = {s if s == SHARED else self.root(s) for v in node.outputs for s in serves.pop(v, ())}
            if served:
                owners[node] = self.owner(node, served)
                for value in uses(node):
                    serves.setdefault(value, set()).add(owners[node])
        return owners

    def owner(self, node: Node, served: set[int]) -> int:
        outputs = served - {SHARED}
        if not outputs or (len(served) > 1 and all(v.type.size <= SMALL for v in node.outputs)):
            return SHARED
        self.together(outputs)
        return self.root(min(outputs))

    def together(self, items: Iterable[int]) -> None:
        first, *others = [self.root(i) for i in items] or [0]
        for other in others:
            self.parent[other] = first

    def parts(self) -> list[list[int]]:
        """The outputs in parts of about PART."""
        members: dict[int, list[int]] = {}
        for index in range(self.count):
            members.setdefault(self.root(index), []).append(index)
        parts: list[list[int]] = [[]]
        for group in members.values():
            if len(parts[-1]) >= PART:
                parts.append([])
            parts[-1].extend(group)
        return parts


def _first(node: Node, owners: list[dict[Node, int]]) -> tuple[Node | None, list[dict[Value, Value]]]:
    """The `cond` that makes what several parts need, and for each region which of its results stands for what."""
    shared = [_shared_values(region, of) for region, of in zip(node.regions, owners, strict=True)]
    if not any(shared):
        return None, [{} for _ in node.regions]
    (condition,) = node.inputs
    mappings = [{v: Value(v.name, v.type) for v in values} for values in shared]
    regions = tuple(
        _first_region(region, condition, shared, number) for number, region in enumerate(node.regions)
    )
    outputs = (Value(condition.name, condition.type), *(v for mapping in mappings for v in mapping.values()))
    return replace(node, outputs=outputs, regions=regions), mappings


def _shared_values(region: Graph, owners: dict[Node, int]) -> list[Value]:
    made = {v: None for n in region.nodes if owners.get(n) == SHARED for v in n.outputs}
    used = {v for n in region.nodes if owners.get(n, SHARED) != SHARED for v in uses(n)}
    return [v for v in made if v in used or v in region.outputs]


def _first_region(region: Graph, condition: Value, shared: list[list[Value]], number: int) -> Graph:
    """A region that makes its own shared values, and zeros for those of the other region."""
    wanted = set(shared[number])
    nodes = []
    for node in reversed(region.nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(uses(node))
            nodes.append(node)
    nodes.reverse()
    zeros = [_zeros(v) for other, values in enumerate(shared) if other != number for v in values]
    own, other = shared[number], [z.output for z in zeros]
    yields = (condition, *own, *other) if number == 0 else (condition, *other, *own)
    return region.replace(nodes=(*nodes, *zeros), outputs=yields)


def _zeros(value: Value) -> Node:
    array = np.zeros(value.type.shape, value.type.dtype.numpy)
    return Node(lookup("constant"), (), (Value(value.name, value.type),), {"value": array})


def _part(
    node: Node,
    condition: tuple[Value, ...],
    owners: list[dict[Node, int]],
    mappings: list[dict[Value, Value]],
    groups: _Groups,
    part: list[int],
) -> Node:
    roots = {groups.root(index) for index in part}
    regions = []
    for region, of, mapping in zip(node.regions, owners, mappings, strict=True):
        own = [n for n in region.nodes if of.get(n, SHARED) != SHARED and groups.root(of[n]) in roots]
        outputs = tuple(mapping.get(region.outputs[i], region.outputs[i]) for i in part)
        regions.append(region.replace(nodes=tuple(substitute(n, mapping) for n in own), outputs=outputs))
    return replace(node, inputs=condition, outputs=tuple(node.outputs[i] for i in part), regions=tuple(regions))
