"""Creation and destruction of rank groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.distributed.talk import talk
from graphls.distributed.world import NAMES_OF_WORLD, WORLD, Group, Ranks, world


def create(name: str, members: Sequence[int]) -> Group:
    """Make a group, on all ranks; raises GraphValueError for a name that there is and for numbers of no ranks."""
    if name in Ranks.groups or name in NAMES_OF_WORLD:
        raise GraphValueError(f"There is a group {name!r} already; destroy it first, or use another name.")
    everyone = world()
    given = tuple(members)
    if not given or len(set(given)) < len(given) or not set(given) <= set(everyone.members):
        text = f"The ranks of a group are different numbers below {everyone.size}"
        raise GraphValueError(f"{text}, not {list(members)}.")
    if everyone.comm is None:
        made = Group(name, given, 0)
    else:
        rank = given.index(everyone.rank) if everyone.rank in given else -1
        hosts = tuple(everyone.hosts[member] for member in given)
        found: list[Any] = []
        # All ranks of the world split it, so that it does not matter which of them are in the group.
        split = lambda: found.append(everyone.comm.Split(0 if rank >= 0 else 1, rank))  # noqa: E731
        talk(everyone, f"create_group of {name!r} with {list(given)}", split)
        made = Group(name, given, rank, hosts, *found)
    Ranks.groups = {**Ranks.groups, name: made}
    return made


def group_among(members: Sequence[int]) -> Group:
    """The group of these ranks: one that there is, or a new one, on all ranks; raises as `create`."""
    found = (group for group in Ranks.groups.values() if group.members == tuple(members))
    return next(found, None) or create(f"ranks {', '.join(map(str, members))}", members)


def destroy(name: str) -> None:
    """Forget a group; raises GraphValueError where there is none of that name."""
    if name in NAMES_OF_WORLD or name not in Ranks.groups:
        raise GraphValueError(f"There is no group {name!r} to destroy.")
    left = dict(Ranks.groups)
    group = left.pop(name)
    Ranks.groups = left
    if group.comm is not None:
        group.comm.Free()


def destroy_all() -> None:
    """Forget all groups but that of all ranks."""
    for name in [*Ranks.groups]:
        if name != WORLD:
            destroy(name)
