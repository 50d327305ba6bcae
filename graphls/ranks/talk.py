"""The thread on which ranks talk: one, so that every rank communicates in the order in which it was asked to."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import current_thread
from typing import Any, TypeVar

from graphls.ir.errors import GraphRuntimeError
from graphls.ranks.watch import WAITING
from graphls.ranks.world import Group
from graphls.sharing.threads import Task, TaskQueue

Result = TypeVar("Result")
NAME = "graphls-communication"
SPIN = 1e-4
"""Seconds for which it is looked again and again whether a communication has ended, as a short one soon has."""
NAP = 2e-5
"""Seconds between two looks behind that."""
_QUEUE = TaskQueue(NAME)


def aside(function: Callable[[], Result]) -> Task[Result]:
    """Have a call made on the thread of communication, behind those before it."""
    return _QUEUE.do(function)


def talk(group: Group, name: str, act: Callable[[], Any]) -> None:
    """Communicate, on that thread, seen by what watches for ranks that have left.

    Where `act` gives a request, wait for its end, without a load: MPI itself waits in a loop, which would take the core
    of what computes meanwhile, here or on another rank. Raises GraphRuntimeError where MPI cannot.
    """
    if current_thread().name == NAME:
        _talk(group, name, act)
    else:
        aside(lambda: _talk(group, name, act)).result()


def _talk(group: Group, name: str, act: Callable[[], Any]) -> None:
    WAITING.begin(name, group.members)
    try:
        request, end = act(), time.monotonic() + SPIN
        while request is not None and not request.Test():
            if time.monotonic() > end:
                time.sleep(NAP)
    except RuntimeError as error:  # MPI.Exception is one
        raise GraphRuntimeError(f"MPI could not run {name}: {error}.") from error
    finally:
        WAITING.end()
