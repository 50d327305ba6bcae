"""Deadlock detection: a waiting rank asks the others what they wait for."""

from __future__ import annotations

import time
from collections.abc import Sequence

from graphls.distributed.rank_status import Call, Status, divergence

ANSWERS = 1.0
"""Seconds after which a rank counts as silent."""


class Inquiry:
    """Repeated questions to all ranks during one communication of this rank, and their answers.

    `asked_at` is the time of the last question, which its answers carry, `next` the seconds of waiting after which a
    message says for whom.
    """

    def __init__(self, call: Call, rank: int, first: float) -> None:
        self.call, self.rank, self.next = call, rank, first
        self.asked_at = 0.0
        self.answers: dict[int, Status] = {}
        self.previous_answers: dict[int, Status] = {}

    def is_open(self, others: Sequence[int]) -> bool:
        """Whether answers to the last question may still come."""
        return len(self.answers) < len(others) * bool(self.asked_at) and time.monotonic() - self.asked_at < ANSWERS

    def is_due(self, waited: float) -> bool:
        """Whether to ask again: twice at the beginning, then at growing intervals."""
        return not self.previous_answers or time.monotonic() - self.asked_at > waited / 4

    def ask(self) -> None:
        """Begin the next question."""
        self.previous_answers, self.answers = self.answers, {}
        self.asked_at = time.monotonic()

    def deadlock(self, own: Status) -> str:
        """The sentence about two ranks in a deadlock, perhaps through others; "" where there is none.

        Only waits count that two answers of a rank agree on, so that they have lasted from one to the other.
        """
        previous = self.previous_answers
        same = {r: status for r, status in self.answers.items() if _is_same(status, previous.get(r))} | {self.rank: own}
        waits = {r: status for r, status in same.items() if not status.moves}
        edges = {r: [other for other in status.blocking_ranks(waits) if other in waits] for r, status in waits.items()}
        chain = list(edges.get(self.rank, ()))
        for other in chain:
            chain += [further for further in edges[other] if further not in chain]
        if self.rank not in chain:
            return ""
        other = edges[self.rank][0]
        return divergence(other, waits[other].call, self.rank, own.call)

    def waiting_text(self, own: Status, waited: float) -> str:
        """The message for whom this rank waits, in which communication, and for how long."""
        everyone = self.answers | {self.rank: own}
        silent = self.silent(own)
        awaited = [other for other in own.blocking_ranks(everyone) if other not in silent]
        names = " and ".join(
            [f"rank {other}, {_state(everyone[other])}" for other in awaited]
            + [f"rank {other}, which does not answer" for other in silent]
        )
        return f"Rank {self.rank} has waited {waited:.3g} s for {names or 'messages on their way'}, in {self.call}"

    def silent(self, own: Status) -> list[int]:
        """The participating ranks that have not answered."""
        members = own.key[1] if own.awaits is None else own.awaits
        return [other for other in members if other not in self.answers and other != self.rank]

    def is_first(self, own: Status) -> bool:
        """Whether no lower rank waits in the same communication, and so prints the same message."""
        here = (own.key, own.number)
        same = [rank for rank, status in self.answers.items() if status.call and (status.key, status.number) == here]
        return self.rank < min(same, default=self.rank + 1)


def _is_same(status: Status, before: Status | None) -> bool:
    return bool(before and status.call and before.counts == status.counts and before[1:6] == status[1:6])


def _state(status: Status) -> str:
    return f"which runs {status.call}" if status.call else "which runs none"
