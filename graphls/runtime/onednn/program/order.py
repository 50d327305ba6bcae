"""The order of the calls of a program, in which states are overwritten in their own memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from heapq import heappop, heappush
from typing import Protocol, TypeVar

from graphls.runtime.onednn.program.arena import Buffer


class Ordered(Protocol):
    """A call, by what orders it."""

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffers that it reads."""

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffers that it writes."""

    @property
    def runs_python(self) -> bool:
        """Whether it runs Python, where a Ctrl-C may end the step."""

    @property
    def is_early(self) -> bool:
        """Whether it runs as soon as it can: what frees memory, or reads what has just been written."""


AnyCall = TypeVar("AnyCall", bound=Ordered)


def in_order(
    calls: Sequence[AnyCall], states: Set[Buffer], late: Set[Buffer] = frozenset()
) -> list[AnyCall]:  # fmt: skip
    """The calls, each behind those that come before it and write what it reads, or read or write what it writes.

    One that writes in the memory of a state runs behind all that read its old value and behind all of Python, one that
    writes a `late` buffer behind all of Python; where that is a cycle, the calls of it are missing. Of the calls that
    could be next, early ones are, then the first.
    """
    waits = [frozenset(numbers) for numbers in _waits(calls, states, late)]
    followers: dict[int, list[int]] = defaultdict(list)
    for number, others in enumerate(waits):
        for other in others:
            followers[other].append(number)
    counts = list(map(len, waits))
    ready: list[tuple[bool, int]] = []
    for number, count in enumerate(counts):
        if not count:
            heappush(ready, (not calls[number].is_early, number))
    order: list[AnyCall] = []
    while ready:
        _, number = heappop(ready)
        order.append(calls[number])
        for follower in followers[number]:
            counts[follower] -= 1
            if not counts[follower]:
                heappush(ready, (not calls[follower].is_early, follower))
    return order


def _waits(calls: Sequence[AnyCall], states: Set[Buffer], late: Set[Buffer]) -> list[set[int]]:
    """For each call the numbers of those that run before it."""
    writer: dict[Buffer, int] = {}
    readers: dict[Buffer, list[int]] = defaultdict(list)
    waits: list[set[int]] = []
    for number, call in enumerate(calls):
        before = {writer[buffer] for buffer in (*call.reads, *call.writes) if buffer in writer}
        for buffer in call.reads:
            readers[buffer].append(number)
        for buffer in call.writes:
            if buffer not in states:
                before.update(readers.pop(buffer, ()))
                writer[buffer] = number
        waits.append(before - {number})
    python = {number for number, call in enumerate(calls) if call.runs_python}
    for number, call in enumerate(calls):
        for state in (buffer.memory for buffer in call.writes if buffer.memory in states):
            waits[number].update(python.union(readers[state]) - {number})
        if not late.isdisjoint(call.writes):
            waits[number].update(python - {number})
    return waits
