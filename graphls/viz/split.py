"""Nodes by key, in pieces that do not wait for each other in a circle."""

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
    """
    earlier = {node: [p for p in before[node] if p in keys] for node in nodes}
    component = _components(nodes, keys, earlier)
    levels = _levels([node for node in nodes if keys[node] in component], keys, component, earlier)
    pieces: dict[Hashable, list[Node]] = {}
    for node in nodes:
        pieces.setdefault((keys[node], levels.get(node, 0)), []).append(node)
    return list(pieces.values())


def _components(
    nodes: Iterable[Node], keys: Mapping[Node, Hashable], earlier: Mapping[Node, Sequence[Node]]
) -> dict[Hashable, int]:
    """The keys that are in a cycle, each with the number of its strongly connected component."""
    import networkx

    edges = networkx.DiGraph()
    edges.add_edges_from((keys[p], keys[node]) for node in nodes for p in earlier[node] if keys[p] != keys[node])
    found = networkx.strongly_connected_components(edges)
    return {key: number for number, members in enumerate(found) if len(members) > 1 for key in members}


def _levels(
    nodes: Sequence[Node],
    keys: Mapping[Node, Hashable],
    component: Mapping[Hashable, int],
    earlier: Mapping[Node, Sequence[Node]],
) -> dict[Node, int]:
    """The level of each node that is in a cycle: that of its predecessors, or one more where an edge leads back."""
    rank: dict[Hashable, int] = {}
    levels: dict[Node, int] = {}
    later: dict[Node, list[Node]] = {node: [] for node in nodes}
    free: set[Node] = set()
    for node in nodes:
        own = rank.setdefault(keys[node], len(rank))
        inside = [p for p in earlier[node] if component.get(keys[p]) == component[keys[node]]]
        levels[node] = max((levels[p] + (rank[keys[p]] > own) for p in inside), default=0)
        if all(p in free and keys[p] == keys[node] for p in inside):
            free.add(node)
        for p in inside:
            later[p].append(node)
    _sink(nodes, keys, rank, levels, later, free)
    _merge(nodes, keys, rank, levels, later)
    return levels


def _sink(
    nodes: Sequence[Node],
    keys: Mapping[Node, Hashable],
    rank: Mapping[Hashable, int],
    levels: dict[Node, int],
    later: Mapping[Node, Sequence[Node]],
    free: set[Node],
) -> None:
    """What waits for nothing outside of its key goes to the last piece of it that is not behind its users."""
    there: dict[Hashable, set[int]] = {}
    for node in nodes:
        if node not in free:
            there.setdefault(keys[node], set()).add(levels[node])
    for node in reversed(nodes):
        if node in free and later[node]:
            own = rank[keys[node]]
            latest = min(levels[user] - (own > rank[keys[user]]) for user in later[node])
            levels[node] = max((level for level in there.get(keys[node], ()) if level <= latest), default=0)


def _merge(
    nodes: Sequence[Node],
    keys: Mapping[Node, Hashable],
    rank: Mapping[Hashable, int],
    levels: dict[Node, int],
    later: Mapping[Node, Sequence[Node]],
) -> None:
    """A piece joins the next one of its key where nothing that waits for it comes before that."""
    pieces: dict[tuple[int, int], list[Node]] = {}
    for node in nodes:
        pieces.setdefault((levels[node], rank[keys[node]]), []).append(node)
    following: dict[int, int] = {}
    for (level, own), piece in sorted(pieces.items(), key=lambda item: item[0], reverse=True):
        users = (user for node in piece for user in later[node] if rank[keys[user]] != own)
        latest = min((levels[user] - (own > rank[keys[user]]) for user in users), default=len(nodes))
        if following.get(own, len(nodes) + 1) <= latest:
            levels.update(dict.fromkeys(piece, following[own]))
        else:
            following[own] = level
