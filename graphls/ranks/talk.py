"""The thread on which ranks talk: one, so that every rank communicates in the order in which it was asked to."""

from __future__ import annotations

from collections.abc import Callable
from threading import current_thread
from typing import TypeVar

from graphls.ir.errors import GraphRuntimeError
from graphls.ranks.watch import WAITING
from graphls.ranks.world import Group
from graphls.sharing.threads import Task, TaskQueue

Result = TypeVar("Result")
NAME = "graphls-communication"
_QUEUE = TaskQueue(NAME)


def aside(function: Callable[[], Result]) -> Task[Result]:
    """Have a call made on the thread of communication, behind those before it."""
    return _QUEUE.do(function)


def talk(group: Group, name: str, act: Callable[[], object], size: int = 0) -> None:
    """Communicate `size` bytes, on that thread, seen by what watches for ranks that have left.

    Raises GraphRuntimeError where MPI cannot.
    """
    if current_thread().name == NAME:
        _talk(group, name, act)
    else:
        aside(lambda: _talk(group, name, act)).result()


def _talk(group: Group, name: str, act: Callable[[], object]) -> None:
    WAITING.begin(name, group.members)
    try:
        act()
    except RuntimeError as error:  # MPI.Exception is one
        raise GraphRuntimeError(f"MPI could not run {name}: {error}.") from error
    finally:
        WAITING.end()
