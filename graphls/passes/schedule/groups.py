"""Groups the nodes of a block into segments with as few changes of engine as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from graphls.ir.graph import Node, definers, needs
from graphls.passes.distributed.communication_overlap import ScheduledAfter

Group = tuple[int, str]
"""The group of a node: the number of engine changes before it, and its engine."""

Piece = tuple[int, str, int]
"""A group and the number of a piece of it."""


def grouped(nodes: Sequence[Node], engine: Mapping[Node, str], after: ScheduledAfter) -> dict[Node, Group]:
    """Assigns each node of a block to a group: as few groups as the changes of engine along any path require.

    No node of a group waits for one of a later group, or comes after it. A group moves into a later one of its engine
    where all of its nodes could run there.
    """
    definer = definers(nodes)
    before = {node: [definer[v] for v in (*needs(node), *after.get(node, ())) if v in definer] for node in nodes}
    level: dict[Node, int] = {}
    for node in nodes:
        level[node] = max((level[e] + (engine[e] != engine[node]) for e in before[node]), default=0)
    _sink(nodes, engine, before, level)
    _delay(nodes, engine, before, level)
    return {node: (level[node], engine[node]) for node in nodes}


def in_pieces(nodes: Sequence[Node], where: Mapping[Node, Group], most: int) -> dict[Node, Piece]:
    """The group of each node, with groups cut into pieces of at most `most` nodes, in the order of the schedule."""
    counts: Counter[Group] = Counter()
    pieces: dict[Node, Piece] = {}
    for node in nodes:
        pieces[node] = (*where[node], counts[where[node]] // max(most, 1))
        counts[where[node]] += 1
    return pieces


def _sink(
    nodes: Sequence[Node], engine: Mapping[Node, str], before: Mapping[Node, Sequence[Node]], level: dict[Node, int]
) -> None:
    """Merge groups into the next group of their engine where all of their nodes can run there."""
    followers: dict[Node, list[Node]] = {}
    for node in nodes:
        for earlier in before[node]:
            followers.setdefault(earlier, []).append(node)
    groups: dict[Group, list[Node]] = {}
    for node in nodes:
        groups.setdefault((level[node], engine[node]), []).append(node)
    for key in sorted(groups, reverse=True):
        later = sorted(k for k in groups if k[1] == key[1] and k > key)
        if not later:
            continue
        target = later[0][0]
        own = set(groups[key])
        readers = [f for n in groups[key] for f in followers.get(n, ()) if f not in own]
        if all(level[f] + (engine[f] == key[1]) > target for f in readers):
            level.update(dict.fromkeys(own, target))
            groups[later[0]] += groups.pop(key)


def _delay(
    nodes: Sequence[Node], engine: Mapping[Node, str], before: Mapping[Node, Sequence[Node]], level: dict[Node, int]
) -> None:
    """Sink updates of states alone to their use, so that they do not cross a boundary."""
    of_states: set[Node] = set()
    for node in nodes:
        if node.phase == "update" and of_states.issuperset(before[node]):
            of_states.add(node)
    levels: dict[str, set[int]] = {}
    for node in nodes:
        levels.setdefault(engine[node], set()).add(level[node])
    latest: dict[Node, int] = {}
    for node in reversed(nodes):
        if node in of_states:
            bound = max(latest.get(node, max(levels[engine[node]])), level[node])
            level[node] = max(at for at in levels[engine[node]] if at <= bound)
        for earlier in before[node]:
            bound = level[node] - (engine[node] != engine[earlier])
            latest[earlier] = min(bound, latest.get(earlier, bound))
