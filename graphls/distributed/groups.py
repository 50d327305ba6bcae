"""Rank groups: creation, destruction, and the check that all ranks train the same network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.distributed.collectives import all_objects
from graphls.distributed.communication_thread import communicate
from graphls.distributed.world import NAMES_OF_WORLD, WORLD, Group, Ranks, devices_driven, find_ranks


def create(name: str, members: Sequence[int]) -> Group:
    """Create a group, on all ranks; raises GraphValueError for a name in use and for invalid ranks."""
    if name in Ranks.groups or name in NAMES_OF_WORLD:
        raise GraphValueError(f"There is a group {name!r} already; destroy it first, or use another name.")
    everyone = find_ranks()
    numbers = tuple(members)
    if not numbers or len(set(numbers)) < len(numbers) or not set(numbers) <= set(everyone.members):
        are_devices, count = devices_driven() > 1, max([*numbers, 1]) + 1
        which = "as many devices as this process drives" if are_devices else "as many processes as were started"
        more = f"`exec --devices {count}` drives" if are_devices else f"`mpiexec -n {count} python script.py` starts"
        text = f"The ranks of a group are different numbers below {everyone.size}, {which}"
        raise GraphValueError(f"{text}, not {list(members)}; {more} more.")
    rank = numbers.index(everyone.rank) if everyone.rank in numbers else -1
    hosts = tuple(everyone.hosts[member] for member in numbers)
    if everyone.comm is None:
        group = Group(name, numbers, rank, hosts)
    else:
        communicators: list[Any] = []
        # All ranks of the world split it, so that it does not matter which of them are in the group.
        split = lambda: communicators.append(everyone.comm.Split(0 if rank >= 0 else 1, rank))  # noqa: E731
        communicate(everyone, f"create_group of {name!r} with {list(numbers)}", split)
        group = Group(name, numbers, rank, hosts, *communicators)
    Ranks.groups = {**Ranks.groups, name: group}
    return group


def group_among(members: Sequence[int]) -> Group:
    """The group of these ranks: an existing one, or a new one, on all ranks; raises as `create`."""
    matches = (group for group in Ranks.groups.values() if group.members == tuple(members))
    return next(matches, None) or create(f"ranks {', '.join(map(str, members))}", members)


def destroy(name: str) -> None:
    """Destroy a group; raises GraphValueError where there is none of that name."""
    if name in NAMES_OF_WORLD or name not in Ranks.groups:
        raise GraphValueError(f"There is no group {name!r} to destroy.")
    left = dict(Ranks.groups)
    group = left.pop(name)
    Ranks.groups = left
    if group.comm is not None:
        group.comm.Free()


def destroy_all() -> None:
    """Destroy all groups but that of all ranks."""
    for name in [*Ranks.groups]:
        if name != WORLD:
            destroy(name)


def require_equal_parameters(group: Group, parameters: Sequence[str]) -> None:
    """Raise GraphRuntimeError, on all ranks, unless all have these parameters: names and types, in their order."""
    everyone = all_objects(group, list(parameters), "a comparison of parameters")
    for rank, listed in zip(group.members, everyone, strict=True):
        pairs = zip_longest(everyone[0], listed, fillvalue="none at this place")
        mine, its = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        if mine != its:
            text = f"All ranks train the same network, but rank {group.members[0]} has {mine}, and rank {rank} {its}"
            raise GraphRuntimeError(f"{text}; make it of the same cells on all of them.")
