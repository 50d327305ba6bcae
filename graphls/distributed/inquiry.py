"""Deadlock detection: a waiting rank asks the others what they wait for."""

from __future__ import annotations

import time
from collections.abc import Sequence

from graphls.distributed.waiting import Call, Status, parting

ANSWERS = 1.0
"""How many seconds a rank is given to answer before it counts as one that does not."""


class Inquiry:
    """Questions to all ranks, again and again while this one is in one communication, and what they answer.

    `asked` is the moment of the last question, by which its answers are known, `next` after how many seconds of
    waiting it is said for whom.
    """

    def __init__(self, call: Call, rank: int, first: float) -> None:
        self.call, self.rank, self.next = call, rank, first
        self.asked = 0.0
        self.answers: dict[int, Status] = {}
        self.previous_answers: dict[int, Status] = {}

    def is_open(self, others: Sequence[int]) -> bool:
        """Whether answers to the last question may still come."""
        return len(self.answers) < len(others) * bool(self.asked) and time.monotonic() - self.asked < ANSWERS

    def is_due(self, waited: float) -> bool:
        """Whether to ask again: twice at the beginning, and then ever more seldom."""
        return not self.previous_answers or time.monotonic() - self.asked > waited / 4

    def ask(self) -> None:
        """Begin the next question."""
        self.previous_answers, self.answers = self.answers, {}
        self.asked = time.monotonic()

    def deadlock(self, own: Status) -> str:
        """The communications of two ranks that are in a deadlock, perhaps by way of others; "" where none do.

        It counts only what a rank has answered twice: a wait that went on all the time from one answer to the other.
        """
        previous = self.previous_answers
        same = {r: told for r, told in self.answers.items() if _is_same(told, previous.get(r))} | {self.rank: own}
        waits = {r: told for r, told in same.items() if not told.moves}
        edges = {r: [other for other in told.behind(waits) if other in waits] for r, told in waits.items()}
        found = list(edges.get(self.rank, ()))
        for other in found:
            found += [further for further in edges[other] if further not in found]
        if self.rank not in found:
            return ""
        other = edges[self.rank][0]
        return parting(other, waits[other].call, self.rank, own.call)

    def waiting_text(self, own: Status, waited: float) -> str:
        """For whom this rank waits, in what, and how long it has."""
        everyone = self.answers | {self.rank: own}
        silent = self.silent(own)
        late = [other for other in own.behind(everyone) if other not in silent]
        names = " and ".join(
            [f"rank {other}, {_state(everyone[other])}" for other in late]
            + [f"rank {other}, which does not answer" for other in silent]
        )
        return f"Rank {self.rank} has waited {waited:.3g} s for {names or 'what is on its way'}, in {self.call}"

    def silent(self, own: Status) -> list[int]:
        """The ranks that have not answered, of those that take part."""
        members = own.key[1] if own.awaits is None else own.awaits
        return [other for other in members if other not in self.answers and other != self.rank]

    def is_first(self, own: Status) -> bool:
        """Whether no rank before this one waits in the same communication, and so says the same."""
        same = [r for r, told in self.answers.items() if told.call and (told.key, told.number) == (own.key, own.number)]
        return self.rank < min(same, default=self.rank + 1)


def _is_same(told: Status, before: Status | None) -> bool:
    return bool(before and told.call and before.counts == told.counts and before[1:6] == told[1:6])


def _state(status: Status) -> str:
    return f"which runs {status.call}" if status.call else "which runs none"
