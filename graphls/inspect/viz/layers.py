"""Layered layout: the children of a group in rows, top to bottom in the direction of the edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from graphls.inspect.viz.links import Links
from graphls.inspect.viz.rows import ordered
from graphls.inspect.viz.tree import Child, Group
from graphls.ir.graph import Value
from graphls.ir.reachability import stable_order

LONGEST = 8
"""The most rows of an edge; a longer one is broken, and both of its ends show a stub."""
WIDEST = 12
"""The most boxes of a row; wider ones become several."""


@dataclass(frozen=True, eq=False)
class Waypoint:
    """A slot in a row that long edges from one source pass."""

    source: Child


Slot: TypeAlias = "Child | Waypoint"


@dataclass(frozen=True, eq=False)
class Edge:
    """An edge from one child to another: data, or with `control` an order only.

    A long edge passes `via` one waypoint in each row between, which edges of the same source and kind share, so that
    they are drawn as one line that forks. A `broken` one is too long to be drawn and has none.
    """

    source: Child
    target: Child
    values: tuple[Value, ...]
    control: bool = False
    broken: bool = False
    via: tuple[Waypoint, ...] = ()

    @property
    def steps(self) -> tuple[tuple[Slot, Slot], ...]:
        """The pairs of slots that it joins in neighbouring rows, from source to target; none where it is broken."""
        return () if self.broken else tuple(pairwise((self.source, *self.via, self.target)))


@dataclass(frozen=True, eq=False)
class Layers:
    """The rows of a group, the edges between its children, and the values that cross its border, by child."""

    rows: tuple[tuple[Slot, ...], ...]
    edges: tuple[Edge, ...]
    incoming: dict[Child, tuple[Value, ...]]
    outgoing: dict[Child, tuple[Value, ...]]


def layered(group: Group, links: Links) -> Layers:
    """The layers of one group; `Links(root)` is computed once for all groups of a tree.

    Every edge leads to a lower row. The row of a child is the length of the longest path to it, but a child without
    operands stands right above its first user. Parts that no edge joins stand side by side, and below each other where
    that would be too wide. States cause no edges. Nearly linear in children and edges.
    """
    edges = [Edge(s, t, tuple(v), c) for (s, t, c), v in links.between.get(group, {}).items()]
    parts = [_part(children, inner) for children, inner in _parts(group.children, edges)]
    return Layers(
        tuple(_packed([rows for rows, _ in parts])),
        tuple(edge for _, inner in parts for edge in inner),
        {c: tuple(links.incoming[c]) for c in group.children if c in links.incoming},
        {c: tuple(links.outgoing[c]) for c in group.children if c in links.outgoing},
    )


def _parts(children: Sequence[Child], edges: Sequence[Edge]) -> Iterator[tuple[list[Child], list[Edge]]]:
    """The children and edges of each part that is connected, in the order of the first children."""
    leader: dict[Child, Child] = {child: child for child in children}

    def find(child: Child) -> Child:
        while leader[child] is not child:
            leader[child] = leader[leader[child]]
            child = leader[child]
        return child

    for edge in edges:
        leader[find(edge.target)] = find(edge.source)
    parts: dict[Child, tuple[list[Child], list[Edge]]] = {}
    for child in children:
        parts.setdefault(find(child), ([], []))[0].append(child)
    for edge in edges:
        parts[find(edge.source)][1].append(edge)
    yield from parts.values()


def _part(children: Sequence[Child], edges: Sequence[Edge]) -> tuple[list[list[Slot]], list[Edge]]:
    """Rows and routed edges of one connected part."""
    rows = list(_wrapped(_depths(children, edges)))
    routed, segments = _routed(rows, edges)
    return ordered(rows, segments), routed


def _depths(children: Sequence[Child], edges: Sequence[Edge]) -> dict[Child, int]:
    """The row of each child, counted along the longest path; children without operands go down to their first user."""
    before: dict[Child, dict[Child, None]] = {child: {} for child in children}
    after: dict[Child, dict[Child, None]] = {child: {} for child in children}
    for edge in edges:
        before[edge.target][edge.source] = None
        after[edge.source][edge.target] = None
    depth: dict[Child, int] = {}
    light: set[Child] = set()
    for child in _in_order(children, before):
        depth[child] = max((depth[source] + 1 for source in before[child]), default=0)
        # A chain to a single user, such as a constant and its cast, moves down to it without making any edge longer.
        if all(source in light and len(after[source]) == 1 for source in before[child]):
            light.add(child)
    for child in reversed(depth):
        if child in light and after[child]:
            depth[child] = min(depth[user] for user in after[child]) - 1
    return depth


def _in_order(children: Sequence[Child], before: Mapping[Child, Iterable[Child]]) -> list[Child]:
    """The children, sources of edges before targets."""
    index = {child: i for i, child in enumerate(children)}
    return [children[i] for i in stable_order([[index[source] for source in before[child]] for child in children])]


def _wrapped(depth: Mapping[Child, int]) -> Iterator[list[Slot]]:
    """The rows by depth, each as one or more of at most WIDEST children, all of about the same length."""
    rows: dict[int, list[Slot]] = {}
    for child, row in depth.items():
        rows.setdefault(row, []).append(child)
    for _, slots in sorted(rows.items()):
        # 13 boxes become 7 and 6, not 12 and a row of one.
        count = -(-len(slots) // WIDEST)
        width = -(-len(slots) // count)
        yield from (slots[i : i + width] for i in range(0, len(slots), width))


def _routed(rows: list[list[Slot]], edges: Sequence[Edge]) -> tuple[list[Edge], list[tuple[Slot, Slot]]]:
    """The edges with their waypoints, which are added to the rows, and the lines from each row to the next."""
    row_of = {slot: i for i, row in enumerate(rows) for slot in row}
    ways: dict[tuple[Child, bool, int], Waypoint] = {}
    routed: list[Edge] = []
    for edge in edges:
        first, last = row_of[edge.source], row_of[edge.target]
        if last - first > LONGEST:
            routed.append(replace(edge, broken=True))
            continue
        via = []
        for row in range(first + 1, last):
            # Edges of one source share waypoints, so that a value with many users is one line that forks late.
            key = edge.source, edge.control, row
            if key not in ways:
                ways[key] = Waypoint(edge.source)
                rows[row].append(ways[key])
            via.append(ways[key])
        routed.append(replace(edge, via=tuple(via)))
    return routed, segments_of(routed)


def segments_of(edges: Iterable[Edge]) -> list[tuple[Slot, Slot]]:
    """The pairs of slots that edges join in neighbouring rows, each once."""
    return list(dict.fromkeys(step for edge in edges for step in edge.steps))


def _packed(parts: Sequence[Sequence[Sequence[Slot]]]) -> Iterator[tuple[Slot, ...]]:
    """The rows of all parts: parts side by side as long as they fit, the next ones below."""
    band: list[list[Slot]] = []
    used = 0
    for rows in parts:
        width = max((_width(row) for row in rows), default=0)
        if band and used + width > WIDEST:
            yield from map(tuple, band)
            band, used = [], 0
        band += [[] for _ in range(len(rows) - len(band))]
        for row, more in zip(band, rows, strict=False):
            row += more
        used += width
    yield from map(tuple, band)


def _width(row: Sequence[Slot]) -> int:
    return sum(not isinstance(slot, Waypoint) for slot in row)
