"""The current communication of this rank, and the status that other ranks get of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphls.base.location import user_location
from graphls.distributed.world import NAMES_OF_WORLD, Group
from graphls.ir.interpret import RUNNING
from graphls.ir.types import type_of

Key = tuple[str, tuple[int, ...]]
"""The name and the members of a group, by which all ranks count its communications."""
LONGEST = 120
"""Characters of a communication that messages show."""


def described(name: str, arrays: Iterable[Any], settings: str = "") -> str:
    """A communication with its arrays, as in: all_reduce of f32[3], f32[2,2] op max."""
    types = ", ".join(str(type_of(array)) for array in arrays)
    return f"{name} of {types}{settings}" if types else f"{name}{settings}"


@dataclass(eq=False)
class Call:
    """A communication: its description, the user's line, and the cell of the step that it belongs to, if any.

    `awaits` gives the members of the group that have not sent their part, where not all take part. It `moves` where it
    may go on though these are in other communications, as their messages may be on the way.
    """

    what: str
    where: str
    origin: str
    group: Group
    awaits: Callable[[], Sequence[int]] | None = None
    moves: bool = False
    number: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def key(self) -> Key:
        """The key by which the communications of the group are counted."""
        return self.group.name, self.group.members

    @property
    def compared(self) -> str:
        """The fields that must agree on all ranks: not the line, as ranks may run branches of their own."""
        return f"{self.what}\n{self.group.name}\n{self.origin}"

    def __str__(self) -> str:
        what = self.what if len(self.what) <= LONGEST else f"{self.what[:LONGEST]}..."
        name = self.group.name.partition("\0")[0]  # after it is what a group of `sharded_states.group_for` is for
        group = "" if name in NAMES_OF_WORLD else f" in the group {name!r}"
        return f"{what}{group}{f' at {self.where}' if self.where else ''}"


def call_of(group: Group, what: str) -> Call:
    """The communication that the running code requests: at once, or as a node of a step, which describes it."""
    node = RUNNING.node
    if node is None:
        return Call(what, str(user_location() or ""), "at once", group)
    types = ", ".join(str(value.type) for value in node.inputs)
    settings = "".join(f" {name} {node.attrs[name]}" for name in ("op", "root") if node.attrs.get(name, "sum") != "sum")
    text = f"{node.primitive.name} of {types}{settings}" if types else node.primitive.name
    return Call(text, str(node.loc or ""), f"in a step, {node.phase} {node.scope}", group)


class Status(NamedTuple):
    """The status that one rank sends to another: its counts of communications, and the one that it waits for now."""

    counts: dict[Key, int]
    call: str
    key: Key
    number: int
    awaits: tuple[int, ...] | None
    moves: bool

    def blocking_ranks(self, others: dict[int, Status]) -> list[int]:
        """The ranks for which this call waits: of those with a known status, the ones that have not begun it."""
        if not self.call:
            return []
        if self.awaits is not None:
            return list(self.awaits)
        members = (rank for rank in self.key[1] if rank in others)
        return [rank for rank in members if others[rank].counts.get(self.key, 0) < self.number]


class Waiting:
    """The current communication of this rank, how often each group has, and whether states are being changed.

    `diverged` is the error of ranks that have diverged, after which they communicate no more; "" before.
    """

    now: Call | None = None
    is_updating = False
    diverged = ""

    def __init__(self) -> None:
        self.counts: Counter[Key] = Counter()

    def begin(self, call: Call) -> None:
        """A communication begins."""
        if call.awaits is None:
            self.counts[call.key] += 1
        call.number, call.since, self.now = self.counts[call.key], time.monotonic(), call

    def end(self) -> None:
        """It is done."""
        self.now, self.is_updating = None, False

    def status(self) -> Status:
        """The status that other ranks receive."""
        call = self.now
        if call is None:
            return Status(dict(self.counts), "", ("", ()), 0, None, False)
        members = call.group.members
        awaits = None if call.awaits is None else tuple(members[rank] for rank in call.awaits())
        return Status(dict(self.counts), str(call), call.key, call.number, awaits, call.moves)


WAITING = Waiting()


def divergence(one: int, runs: str, other: int, does: str) -> str:
    """The error that two ranks run different programs."""
    text = f"Rank {one} runs {runs} while rank {other} runs {does}"
    return f"{text}; every rank of a group must run the same collectives in the same order."
