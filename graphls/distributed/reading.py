"""Background reads of sharded states: a thread of each rank sends its shard on request."""

from __future__ import annotations

import os
import threading
import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.sharing.storage import Version
from graphls.distributed.collectives import Array
from graphls.distributed.waiting import WAITING
from graphls.distributed.watch import BEHIND_ALL
from graphls.distributed.world import Group

ASKED, GIVEN = 18, 19
"""The tags of a question and of its answer."""
PATIENCE = 60.0
"""How many seconds a rank waits for an answer."""
UPDATE = 5.0
"""How many seconds a rank that is asked is given to end its update before it says that it cannot."""
SELDOM, OFTEN, SOON = 0.005, 0.0001, 0.1
"""Seconds between two looks for questions, those between looks behind one, and for how long it is looked so often."""


class Parts:
    """The shard of this rank of one sharded state, which has been replaced so many times.

    What it had last is kept where it is replaced or freed, as other ranks, which are slower, may still ask for it.
    """

    def __init__(self, current: Callable[[], Array]) -> None:
        self.current = current
        self.replaced = 0
        self.number = next(_state_numbers)
        _states[self.number] = self

    def leaves(self) -> None:
        """Keep what the state has had until now, as it gets another value; of a torn one, nothing."""
        try:
            _gone[self.number] = self.replaced, self.current()
        except Exception:  # also at the end of the process, where modules may have gone
            _gone.pop(self.number, None)
        self.replaced += 1

    def __del__(self) -> None:
        self.leaves()


class Question(NamedTuple):
    """The request of a rank: a state, as it is after so many steps and values that replaced it.

    Answers have the `number` of their question.
    """

    number: int
    state: int
    replaced: int
    steps: int


_states: WeakValueDictionary[int, Parts] = WeakValueDictionary()
_gone: dict[int, tuple[int, Array]] = {}
_state_numbers, _question_numbers = count(), count()
_counted: tuple[int, tuple[Version, ...]] = (0, ())
"""The steps of sessions that have gone, and the versions of the others, in one piece, as a thread reads them."""
_ended: deque[Version] = deque()
"""The versions of sessions that have gone since; what frees one, at any moment, does no more than to note that."""
_counting = allocate_lock()


def forget_gone() -> None:
    """Free what nobody asks for any more: all ranks have met behind all that they have read."""
    _gone.clear()


def count_steps(session: object, version: Version) -> None:
    """Know of what counts the steps of a session on divided states: ranks give each other those after equally many."""
    global _counted
    with _counting:
        ended = {id(gone): gone for gone in (_ended.popleft() for _ in range(len(_ended)))}
        steps, versions = _counted
        left = tuple(one for one in versions if id(one) not in ended)
        _counted = steps + sum(gone.ticks for gone in ended.values()), (*left, version)
    finalize(session, _ended.append, version).atexit = False


def _steps() -> int:
    steps, versions = _counted
    return steps + sum(version.ticks for version in versions)


def ask(group: Group, parts: Parts, own: Array) -> list[Array]:
    """The parts of all ranks; raises GraphRuntimeError where one does not answer, or cannot."""
    question = Question(next(_question_numbers), parts.number, parts.replaced, _steps())
    others = [rank for rank in range(group.size) if rank != group.rank]
    sent = [group.comm.isend(question, rank, ASKED) for rank in others]
    found = {group.rank: own}
    end = time.monotonic() + PATIENCE
    while len(found) < group.size:
        for rank in others:
            if rank not in found and group.comm.Iprobe(rank, GIVEN):
                number, part = group.comm.recv(source=rank, tag=GIVEN)
                if number == question.number:  # else the answer to one that a Ctrl-C has ended
                    found[rank] = part
        if time.monotonic() > end:
            _fail(f"rank {min(set(others) - found.keys())} does not answer")
        time.sleep(OFTEN)
    for request in sent:
        request.wait()
    for rank, part in found.items():
        if part is None:
            _fail(f"rank {rank} is in the middle of a step that this one has left")
    return [found[rank] for rank in range(group.size)]


def _fail(why: str) -> None:
    raise GraphRuntimeError(f"What is divided among the ranks cannot be read, as {why}.")


class Server:
    """The thread that answers."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.is_ending = False
        self.pending: list[tuple[int, Question, float]] = []
        self.sent: list[Any] = []
        self.last = 0.0
        self.process = os.getpid()
        self.thread = threading.Thread(target=self.look, name="graphls-parts", daemon=True)
        BEHIND_ALL.append(self.end)
        self.thread.start()

    def look(self) -> None:
        """Look for questions, and answer."""
        while not self.is_ending:
            self._receive()
            self.pending = [item for item in self.pending if not self.answer(*item)]
            self.sent = [request for request in self.sent if not request.Test()]
            is_soon = self.pending or time.monotonic() - self.last < SOON
            time.sleep(OFTEN if is_soon else SELDOM)

    def _receive(self) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        while self.group.comm.Iprobe(MPI.ANY_SOURCE, ASKED, status):
            question = self.group.comm.recv(source=status.source, tag=ASKED)
            self.last = time.monotonic()
            self.pending.append((status.source, question, self.last))

    def answer(self, rank: int, question: Question, since: float) -> bool:
        """Give a part, if it is that of the right step; whether that is done.

        A step that has begun does not change it, up to its update: that waits for gradients of the rank that asks.
        """
        array = _copy_of_part(question) if _steps() == question.steps and not _updates() else None
        if array is None or _steps() != question.steps or _updates():
            if _steps() <= question.steps and time.monotonic() - since < UPDATE:
                return False
            array = None
        self.sent.append(self.group.comm.isend((question.number, array), rank, GIVEN))
        return True

    def end(self) -> None:
        """Answer no more, as all ranks are through."""
        if os.getpid() == self.process:
            self.is_ending = True
            self.thread.join()


def _copy_of_part(question: Question) -> Array | None:
    """A copy of what this rank has of a state; None for one that is torn, or that it has no more."""
    replaced, array = _gone.get(question.state, (-1, None))
    if replaced == question.replaced:
        return array
    parts = _states.get(question.state)
    try:
        return np.array(parts.current()) if parts is not None and parts.replaced == question.replaced else None
    except GraphRuntimeError:
        return None


def _updates() -> bool:
    """Whether the part of a step is running that changes states, at whose end ranks gather parameters."""
    return WAITING.is_updating


def serve(group: Group) -> None:
    """Answer what ranks of a group ask on this communicator."""
    Server(group)
