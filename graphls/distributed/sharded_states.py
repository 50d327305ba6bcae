"""Sharded states: each rank stores one shard, and the shards are gathered for reading."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from graphls.base.errors import GraphRuntimeError
from graphls.distributed.collectives import Array
from graphls.distributed.communication_thread import communicate
from graphls.distributed.shard_reads import Parts, ask, free_retained, serve
from graphls.distributed.shards import gather_shards, join_shards, shard_of, shard_size
from graphls.distributed.world import Group

PATIENCE = 60.0
"""Seconds for which a rank that gathers a divided state waits for the others to do the same."""


class Division:
    """The sharding of one state over the ranks of a group.

    `shape` is that of the state, `part` that of a shard. `current` gives this rank's content, for ranks that ask.
    """

    def __init__(self, group: Group, shape: tuple[int, ...], current: Callable[[], Array]) -> None:
        self.group, self.shape, self.current = group, shape, current
        self.part: tuple[int, ...] = (shard_size(prod(shape), group.size),)
        self.parts = Parts(lambda: self.shard(current()))

    def shard(self, array: Array) -> Array:
        """This rank's shard of an array, which is the value or already the shard."""
        return array if array.shape == self.part else self.of(array)

    def retain(self, current: Callable[[], Array]) -> None:
        """Retain the current shard, for ranks that read it later than this one; a copy retains nothing."""
        if current == self.current:
            self.parts.retain()

    def of(self, array: Array) -> Array:
        """This rank's shard."""
        return shard_of(array, self.group.rank, self.group.size)

    def gathered(self, part: Array) -> Array:
        """The complete array, whatever the other ranks do meanwhile.

        Raises GraphRuntimeError where one does not answer, or is in the middle of a step that this one has left.
        """
        if self.group.comm is None:
            return join_shards([part], self.shape)
        return join_shards(ask(group_for(self.group, "read"), self.parts, part), self.shape)

    def gathered_by_all(self, part: Array) -> Array:
        """The complete array, gathered by all ranks; raises GraphRuntimeError where others do not take part."""
        group = group_for(self.group, "gather")
        _barrier(group)
        return gather_shards(group, [part], [self.shape])[0]


_communicators: dict[tuple[str, tuple[int, ...]], Any] = {}
"""Communicators by purpose and members, so that their messages never mix with those of a step."""


def prepare(group: Group) -> None:
    """Create the communicators for gathering and reading sharded states; a collective call of the group."""
    is_first = group.comm is not None and ("gather", group.members) not in _communicators

    def divide() -> None:
        for purpose in ("gather", "read"):
            _communicators[purpose, group.members] = group.comm.Dup()

    communicate(group, "the compilation of a step with divided states", divide if is_first else lambda: None)
    free_retained()
    if is_first:
        serve(group_for(group, "read"))


def group_for(group: Group, purpose: str) -> Group:
    """The group with its communicator, and a name, for one purpose: "gather" or "read"."""
    comm = _communicators.get((purpose, group.members))
    return Group(f"{group.name}\0{purpose}", group.members, group.rank, group.hosts, comm)


def _barrier(group: Group) -> None:
    """Wait until all ranks are here, for some time."""
    try:
        communicate(group, "a step that gathers divided states", patience=PATIENCE)
    except TimeoutError:
        text = "Only this rank runs a step that gathers states that are divided among the ranks"
        raise GraphRuntimeError(f"{text}; let all ranks run it.") from None
