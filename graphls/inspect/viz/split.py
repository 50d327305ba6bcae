"""Splits nodes by key into pieces without cycles between them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from graphls.ir.graph import Node


def split(
    nodes: Sequence[Node], keys: Mapping[Node, Hashable], before: Mapping[Node, Sequence[Node]]
) -> list[list[Node]]:
    """The nodes in pieces of one key each, so that the edges between pieces have no cycle.

    `before` are the predecessors of each node; those that have no key do not count. One key is one piece, where that
    makes no cycle. In a cycle of keys, every edge that leads back to a key seen earlier begins a new level, and a
    piece is a key at a level, or at several where nothing comes between. Pieces are in the order of their first nodes.

    An example: a1 -> b1 -> a2 with the keys a, b, a. In one piece, a would wait for b and b for a. The edge b1 -> a2
    leads back, so a2 is at level 1, and the pieces are [a1], [b1], [a2].
    """
    earlier = {node: [p for p in before[node] if p in keys] for node in nodes}
    component = _components(nodes, keys, earlier)
    levels = _Levels([node for node in nodes if keys[node] in component], keys, component, earlier).result()
    pieces: dict[Hashable, list[Node]] = {}
    for node in nodes:
        pieces.setdefault((keys[node], levels.get(node, 0)), []).append(node)
    return list(pieces.values())


def _components(
    nodes: Iterable[Node], keys: Mapping[Node, Hashable], earlier: Mapping[Node, Sequence[Node]]
) -> dict[Hashable, int]:
    """The keys that are in a cycle, each with the index of its strongly connected component."""
    import networkx  # only here, so that a plain `import graphls` leaves it alone

    edges = networkx.DiGraph()
    edges.add_edges_from((keys[p], keys[node]) for node in nodes for p in earlier[node] if keys[p] != keys[node])
    components = networkx.strongly_connected_components(edges)
    return {key: index for index, members in enumerate(components) if len(members) > 1 for key in members}


class _Levels:
    """The level of each node that is in a cycle: that of its predecessors, or one more where an edge leads back.

    `rank` is the index of a node's key in the order of their first nodes: an edge leads back where it leads to a lower
    rank. `free` are the nodes whose predecessors all have their key.
    """

    def __init__(
        self, nodes: Sequence[Node], keys: Mapping[Node, Hashable], component: Mapping[Hashable, int],
        earlier: Mapping[Node, Sequence[Node]],
    ) -> None:  # fmt: skip
        self.nodes = nodes
        self.levels: dict[Node, int] = {}
        self.rank: dict[Node, int] = {}
        self.later: dict[Node, list[Node]] = {node: [] for node in nodes}
        self.free: set[Node] = set()
        ranks: dict[Hashable, int] = {}
        for node in nodes:
            self.rank[node] = ranks.setdefault(keys[node], len(ranks))
            self._add(node, [p for p in earlier[node] if component.get(keys[p]) == component[keys[node]]])

    def _add(self, node: Node, before: Sequence[Node]) -> None:
        """Place a node behind its predecessors."""
        own = self.rank[node]
        # An edge to a lower rank leads back: this node stands in a later piece of its key than that of its predecessor.
        self.levels[node] = max((self.levels[p] + (self.rank[p] > own) for p in before), default=0)
        if all(p in self.free and self.rank[p] == own for p in before):
            self.free.add(node)
        for p in before:
            self.later[p].append(node)

    def result(self) -> dict[Node, int]:
        """The levels, with as few pieces as there can be."""
        self._sink()
        self._merge()
        return self.levels

    def _sink(self) -> None:
        """Move free nodes to the last piece of their key that is not behind their users."""
        there: dict[int, set[int]] = {}
        for node in self.nodes:
            if node not in self.free:
                there.setdefault(self.rank[node], set()).add(self.levels[node])
        for node in reversed(self.nodes):
            if node in self.free and self.later[node]:
                own = self.rank[node]
                latest = self._latest(own, self.later[node])
                self.levels[node] = max((level for level in there.get(own, ()) if level <= latest), default=0)

    def _merge(self) -> None:
        """Merge a piece with the next one of its key where none of its users comes before that."""
        pieces: dict[tuple[int, int], list[Node]] = {}
        for node in self.nodes:
            pieces.setdefault((self.levels[node], self.rank[node]), []).append(node)
        following: dict[int, int] = {}
        for (level, own), piece in sorted(pieces.items(), key=lambda item: item[0], reverse=True):
            users = [user for node in piece for user in self.later[node] if self.rank[user] != own]
            if following.get(own, len(self.nodes) + 1) <= self._latest(own, users):
                self.levels.update(dict.fromkeys(piece, following[own]))
            else:
                following[own] = level

    def _latest(self, own: int, users: Iterable[Node]) -> int:
        """The last level at which a piece of a rank stands before all of its users."""
        return min((self.levels[user] - (own > self.rank[user]) for user in users), default=len(self.nodes))
