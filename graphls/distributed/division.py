"""Sharded states: each rank stores one shard, and the shards are gathered for reading."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from graphls.base.errors import GraphRuntimeError
from graphls.distributed.collectives import Array
from graphls.distributed.reading import Parts, ask, forget_gone, serve
from graphls.distributed.shards import gather_shards, shard_of, shard_size, whole_of
from graphls.distributed.talk import talk
from graphls.distributed.world import Group

PATIENCE = 60.0
"""How many seconds a rank that takes a divided state whole waits for the others to do the same."""


class Division:
    """How a state is divided among the ranks of a group.

    `whole` is its shape, `part` that of a shard. `current` gives what this rank has of it now, for ranks that ask.
    """

    def __init__(self, group: Group, whole: tuple[int, ...], current: Callable[[], Array]) -> None:
        self.group, self.whole, self.current = group, whole, current
        self.part: tuple[int, ...] = (shard_size(prod(whole), group.size),)
        self.parts = Parts(lambda: self.shard(current()))

    def shard(self, array: Array) -> Array:
        """This rank's part of the value, whichever of both is given."""
        return array if array.shape == self.part else self.of(array)

    def leaves(self, current: Callable[[], Array]) -> None:
        """Keep what there has been until now, for ranks that read it later than this one; of a copy, nothing."""
        if current == self.current:
            self.parts.leaves()

    def of(self, whole: Array) -> Array:
        """This rank's shard."""
        return shard_of(whole, self.group.rank, self.group.size)

    def gathered(self, part: Array) -> Array:
        """The whole array, whatever the other ranks do meanwhile.

        Raises GraphRuntimeError where one does not answer, or is in the middle of a step that this one has left.
        """
        if self.group.comm is None:
            return whole_of([part], self.whole)
        return whole_of(ask(apart(self.group, "read"), self.parts, part), self.whole)

    def gathered_by_all(self, part: Array) -> Array:
        """The whole array, on all ranks, which go on with it; raises GraphRuntimeError where others do not ask."""
        group = apart(self.group, "gather")
        _meet(group)
        return gather_shards(group, [part], [self.whole])[0]


_communicators: dict[tuple[str, tuple[int, ...]], Any] = {}
"""Communicators for one purpose each, so that nothing that a step communicates is taken for it."""


def prepare(group: Group) -> None:
    """Make the communicators for gathering and for reading what is divided; all ranks of the group do this together."""
    is_first = group.comm is not None and ("gather", group.members) not in _communicators

    def divide() -> None:
        for purpose in ("gather", "read"):
            _communicators[purpose, group.members] = group.comm.Dup()

    talk(group, "the compilation of a step with divided states", divide if is_first else lambda: None)
    forget_gone()
    if is_first:
        serve(apart(group, "read"))


def apart(group: Group, purpose: str) -> Group:
    """The group, talking on a communicator of its own for a purpose: "gather" or "read", also by its name."""
    comm = _communicators.get((purpose, group.members))
    return Group(f"{group.name}\0{purpose}", group.members, group.rank, group.hosts, comm)


def _meet(group: Group) -> None:
    """Wait until all ranks are here, for some time."""
    try:
        talk(group, "a step that takes whole what is divided", patience=PATIENCE)
    except TimeoutError:
        text = "This rank alone runs a step that takes whole what is divided among the ranks"
        raise GraphRuntimeError(f"{text}; let all ranks run it.") from None
