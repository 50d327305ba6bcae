"""The communication thread: one for each rank, so that communication keeps the order of its requests."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from math import inf
from threading import current_thread
from typing import Any, TypeVar

import numpy as np

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.sharing.threads import Task, TaskQueue
from graphls.distributed.rank_status import WAITING, Call, call_of, divergence
from graphls.distributed.world import Group

Result = TypeVar("Result")
NAME = "graphls-communication"
SPIN = 1e-4
"""Seconds for which a communication is polled without sleeping, as a short one ends soon."""
NAP = 2e-5
"""Seconds between two polls after that."""
_QUEUE = TaskQueue(NAME)


def enqueue(function: Callable[[], Result]) -> Task[Result]:
    """Enqueue a call on the communication thread."""
    return _QUEUE.do(function)


def communicate(
    group: Group, what: str, act: Callable[[], Any] = lambda: None, awaits: Callable[[], Sequence[int]] | None = None,
    moves: bool = False, patience: float = inf,
) -> None:  # fmt: skip
    """Run one communication of all ranks of the group on the communication thread, observed by the watchdog.

    Before `act`, all ranks compare their communications, unless `awaits` gives the ranks that this one waits for: in
    that case not all take part, and it `moves` where their messages may be on the way. Where `act` returns a request,
    its end is polled with sleeps in between: MPI itself waits in a loop, which would take the core of a computation
    here or on another rank. Raises GraphRuntimeError, on all ranks, where their communications differ, and where MPI
    fails; TimeoutError where others do not come within the seconds of `patience`.
    """
    call = call_of(group, what)
    call.awaits, call.moves = awaits, moves
    if current_thread().name == NAME:
        _communicate(call, act, patience)
    else:
        enqueue(lambda: _communicate(call, act, patience)).result()


def _communicate(call: Call, act: Callable[[], Any], patience: float) -> None:
    if WAITING.diverged:
        raise GraphRuntimeError(WAITING.diverged)
    WAITING.begin(call)
    try:
        if call.awaits is None:
            _compare(call, patience)
        _wait(act())
    except GraphlsError:
        raise
    except RuntimeError as error:  # MPI.Exception is one
        raise GraphRuntimeError(f"MPI could not run {call}: {error}.") from error
    finally:
        WAITING.end()


def _wait(request: Any, patience: float = inf) -> None:
    begin = time.monotonic()
    while request is not None and not request.Test():
        waited = time.monotonic() - begin
        if waited > patience:
            raise TimeoutError
        if waited > SPIN:
            time.sleep(NAP)


def _compare(call: Call, patience: float) -> None:
    """Compare the next communication of all ranks of the group, in one message of 16 bytes; raise where they differ.

    Nothing of the communication itself is sent before, so that no rank receives a message that is meant for another
    communication; nor is anything after the error, also where a script catches it, as ranks then have diverged.
    """
    if call.group.size == 1:
        return
    from mpi4py import MPI

    own = int.from_bytes(hashlib.blake2b(call.compared.encode(), digest_size=7).digest(), "little")
    most = np.array((own, -own), np.int64)
    _wait(call.group.comm.Iallreduce(MPI.IN_PLACE, most, MPI.MAX), patience)
    if most[0] != own or most[1] != -own:
        everyone = call.group.comm.allgather((call.compared, str(call), call.origin))
        other = next(rank for rank, item in enumerate(everyone) if item[0] != everyone[0][0])
        members = call.group.members
        (_, runs, origin), (_, does, its) = everyone[other], everyone[0]
        if runs == does:
            runs, does = f"{runs} {origin}", f"{does} {its}"
        WAITING.diverged = divergence(members[other], runs, members[0], does)
        raise GraphRuntimeError(WAITING.diverged)
