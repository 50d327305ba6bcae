"""That all ranks are about to do the same, with the same parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest

from graphls.ir.errors import GraphRuntimeError
from graphls.ranks.collectives import all_objects
from graphls.ranks.world import Group


def require_agreement(group: Group, what: Sequence[str], where: Sequence[str]) -> None:
    """Raise GraphRuntimeError, on all ranks, unless all ranks of a group are about to communicate the same.

    `what` describes each communication, and `where` says where it comes from, for the message.
    """
    found = _first_difference(group, what, where, "the compilation of a step")
    if found:
        raise GraphRuntimeError(_difference(*found))


def require_equal_parameters(group: Group, parameters: Sequence[str]) -> None:
    """Raise GraphRuntimeError, on all ranks, unless all have these parameters: names and types, in their order."""
    found = _first_difference(group, parameters, (), "a comparison of parameters")
    if found:
        first, (one, _), second, (other, _) = found
        mine, its = next(pair for pair in zip_longest(one, other, fillvalue="none at this place") if pair[0] != pair[1])
        text = f"All ranks train the same network, but rank {first} has {mine}, and rank {second} {its}"
        raise GraphRuntimeError(f"{text}; make it of the same cells on all of them.")


def _first_difference(group: Group, what: Sequence[str], where: Sequence[str], name: str) -> Difference | None:
    """The first rank and another one that has something else, each with what it has; None where all have the same.

    The texts themselves travel only where their hashes differ.
    """
    if group.size == 1:
        return None
    hashes = all_objects(group, hashlib.sha256("\n".join(what).encode()).hexdigest(), name)
    if len(set(hashes)) == 1:
        return None
    everyone = all_objects(group, (list(what), list(where)), name)
    other = next(rank for rank, found in enumerate(hashes) if found != hashes[0])
    return group.members[0], everyone[0], group.members[other], everyone[other]


Plan = tuple[list[str], list[str]]
Difference = tuple[int, Plan, int, Plan]


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
