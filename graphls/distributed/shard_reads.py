"""Background reads of sharded states: a thread of each rank sends its shard on request."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.sharing.reentrant import Lock
from graphls.base.sharing.storage import Version
from graphls.distributed.collectives import Array
from graphls.distributed.rank_status import WAITING
from graphls.distributed.watchdog import EXIT_CALLBACKS
from graphls.distributed.world import Group

QUESTION_TAG, ANSWER_TAG = 18, 19
"""The MPI tags of a question and of its answer."""
PATIENCE = 60.0
"""Seconds that a rank waits for an answer."""
UPDATE = 5.0
"""Seconds after which a rank in the middle of an update answers that it has no shard."""
IDLE_POLL, BUSY_POLL, BUSY_FOR = 0.005, 0.0001, 0.1
"""Seconds between two polls for questions, between polls right after one, and for which these go on."""


class Parts:
    """This rank's shard of one sharded state; `replaced` counts the values that have replaced it.

    Its last content is retained where it is replaced or freed, as slower ranks may still ask for it.
    """

    def __init__(self, current: Callable[[], Array]) -> None:
        self.current = current
        self.replaced = 0
        self.number = next(_state_numbers)
        _states[self.number] = self

    def retain(self) -> None:
        """Retain the current content, which another one replaces; an incomplete one is dropped."""
        try:
            _retained[self.number] = self.replaced, self.current()
        except Exception:  # also at the end of the process, where modules may have gone
            _retained.pop(self.number, None)
        self.replaced += 1

    def __del__(self) -> None:
        self.retain()


class Question(NamedTuple):
    """The request of a rank for a state, as it is after so many steps and replacements.

    Answers have the `number` of their question.
    """

    number: int
    state: int
    replaced: int
    steps: int


_states: WeakValueDictionary[int, Parts] = WeakValueDictionary()
_retained: dict[int, tuple[int, Array]] = {}
_state_numbers, _question_numbers = count(), count()
_counted: tuple[int, tuple[Version, ...]] = (0, ())
"""The steps of closed sessions, and the versions of the open ones, in one tuple, which a thread reads at once."""
_ended: deque[Version] = deque()
"""The versions of sessions that were freed since; a finalizer, which may run at any moment, only appends to it."""
_counting = Lock()


def free_retained() -> None:
    """Free retained shards, for which no rank asks any more: all ranks have met after all of their reads."""
    _retained.clear()


def count_steps(session: object, version: Version) -> None:
    """Register the version of a session on sharded states; ranks exchange shards that are equally many steps old."""
    global _counted
    with _counting:
        ended = {id(closed): closed for closed in (_ended.popleft() for _ in range(len(_ended)))}
        steps, versions = _counted
        left = tuple(one for one in versions if id(one) not in ended)
        _counted = steps + sum(closed.ticks for closed in ended.values()), (*left, version)
    finalize(session, _ended.append, version).atexit = False


def _steps() -> int:
    steps, versions = _counted
    return steps + sum(version.ticks for version in versions)


def ask(group: Group, parts: Parts, own: Array) -> list[Array]:
    """The shards of all ranks; raises GraphRuntimeError where one does not answer, or cannot."""
    question = Question(next(_question_numbers), parts.number, parts.replaced, _steps())
    others = [rank for rank in range(group.size) if rank != group.rank]
    sent = [group.comm.isend(question, rank, QUESTION_TAG) for rank in others]
    shards = {group.rank: own}
    end = time.monotonic() + PATIENCE
    while len(shards) < group.size:
        for rank in others:
            if rank not in shards and group.comm.Iprobe(rank, ANSWER_TAG):
                number, part = group.comm.recv(source=rank, tag=ANSWER_TAG)
                if number == question.number:  # else the answer to one that a Ctrl-C has ended
                    shards[rank] = part
        if time.monotonic() > end:
            _fail(f"rank {min(set(others) - shards.keys())} does not answer")
        time.sleep(BUSY_POLL)
    for request in sent:
        request.wait()
    for rank, part in shards.items():
        if part is None:
            _fail(f"rank {rank} is in the middle of a step that this one has left")
    return [shards[rank] for rank in range(group.size)]


def _fail(why: str) -> None:
    raise GraphRuntimeError(f"A state that is divided among the ranks cannot be read, as {why}.")


class Server:
    """The thread that answers questions of other ranks."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.is_ending = False
        self.pending: list[tuple[int, Question, float]] = []
        self.sent: list[Any] = []
        self.last = 0.0
        self.process = os.getpid()
        self.thread = threading.Thread(target=self.poll, name="graphls-parts", daemon=True)
        EXIT_CALLBACKS.append(self.end)
        self.thread.start()

    def poll(self) -> None:
        """Poll for questions and answer them, until the end."""
        while not self.is_ending:
            self._receive()
            self.pending = [item for item in self.pending if not self.answer(*item)]
            self.sent = [request for request in self.sent if not request.Test()]
            is_busy = self.pending or time.monotonic() - self.last < BUSY_FOR
            time.sleep(BUSY_POLL if is_busy else IDLE_POLL)

    def _receive(self) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        while self.group.comm.Iprobe(MPI.ANY_SOURCE, QUESTION_TAG, status):
            question = self.group.comm.recv(source=status.source, tag=QUESTION_TAG)
            self.last = time.monotonic()
            self.pending.append((status.source, question, self.last))

    def answer(self, rank: int, question: Question, since: float) -> bool:
        """Send the shard of the requested step; returns whether the question is answered.

        A running step does not change the shard before its update, which waits for gradients of the rank that asks.
        """
        array = _copy_of_part(question) if _steps() == question.steps and not _updates() else None
        if array is None or _steps() != question.steps or _updates():
            if _steps() <= question.steps and time.monotonic() - since < UPDATE:
                return False
            array = None
        self.sent.append(self.group.comm.isend((question.number, array), rank, ANSWER_TAG))
        return True

    def end(self) -> None:
        """Stop, because all ranks are through."""
        if os.getpid() == self.process:
            self.is_ending = True
            self.thread.join()


def _copy_of_part(question: Question) -> Array | None:
    """A copy of this rank's shard of a state; None where it is incomplete or gone."""
    replaced, array = _retained.get(question.state, (-1, None))
    if replaced == question.replaced:
        return array
    parts = _states.get(question.state)
    try:
        return np.array(parts.current()) if parts is not None and parts.replaced == question.replaced else None
    except GraphRuntimeError:
        return None


def _updates() -> bool:
    """Whether the update of a step is running, which changes states and ends with a gather of parameters."""
    return WAITING.is_updating


def serve(group: Group) -> None:
    """Start the thread that answers ranks of a group on its communicator."""
    Server(group)
