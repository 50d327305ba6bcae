"""That all ranks are about to do the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest

from graphls.ir.errors import GraphRuntimeError
from graphls.ranks.collectives import all_objects
from graphls.ranks.world import Group


def require_agreement(group: Group, what: Sequence[str], where: Sequence[str]) -> None:
    """Raise GraphRuntimeError, on all ranks, unless all ranks of a group are about to communicate the same.

    `what` describes each communication, and `where` says where it comes from, for the message. The descriptions
    themselves travel only where their hashes differ.
    """
    if group.size == 1:
        return
    hashes = all_objects(group, hashlib.sha256("\n".join(what).encode()).hexdigest())
    if len(set(hashes)) == 1:
        return
    everyone = all_objects(group, (list(what), list(where)))
    other = next(rank for rank, found in enumerate(hashes) if found != hashes[0])
    raise GraphRuntimeError(_difference(group.members[0], everyone[0], group.members[other], everyone[other]))


Plan = tuple[list[str], list[str]]


def _difference(first: int, one: Plan, second: int, other: Plan) -> str:
    """Where two ranks part ways."""
    pairs = enumerate(zip_longest(one[0], other[0]))
    place = next(i for i, (a, b) in pairs if a != b)
    told = [f"rank {rank} {_step(plan, place)}" for rank, plan in ((first, one), (second, other))]
    text = f"All ranks run the same collectives in the same order, but as number {place + 1} {told[0]}, and {told[1]}"
    return f"{text}; let all ranks compile the same step for batches of the same shapes."


def _step(plan: Plan, place: int) -> str:
    if place >= len(plan[0]):
        return "has none"
    where = plan[1][place]
    return f"has {plan[0][place]}{f' of {where}' if where else ''}"
