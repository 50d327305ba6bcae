"""Fork handlers: locks are free in the child process, and threads and sessions are created anew.

A process that forks waits until no other thread is in the middle of a step or of compiling. In the child, pending
work of the threads of the parent is dropped, and whatever they served starts anew.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  (its hooks have to stand before those below)
import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from operator import methodcaller
from typing import Any, Protocol, TypeVar
from weakref import ref

from graphls.base.sharing.reentrant import Lock

Item = TypeVar("Item")
_numbers = count()


class Guard:
    """A lock that is held while the process forks; several are acquired in the order of their creation."""

    __slots__ = ("__weakref__", "lock", "number")

    def __init__(self) -> None:
        self.lock = Lock()
        self.number = next(_numbers)
        _guards.add(ref(self, _guards.discard))


class Renewable(Protocol):
    """An object that a forked process has to renew."""

    def renew(self) -> None:
        """Drop state that does not exist in this process, such as threads."""


# Sets of weak references, whose every use here is one call into C: no thread sees them while they change.
_guards: set[ref[Guard]] = set()
_renewed: set[ref[Renewable]] = set()
_functions: list[Callable[[], None]] = []


class _Forks(threading.local):
    """The forks that a thread is about to do: the locks, and which of them it has acquired.

    Each thread has its own: a second thread may be waiting for the locks in its hook while the first one forks.
    """

    def __init__(self) -> None:
        self.begun: list[tuple[list[Any], list[bool]]] = []


_forks = _Forks()


def renew_after_fork(item: Renewable) -> None:
    """Call `item.renew()` in every forked process, as long as the object lives."""
    _renewed.add(ref(item, _renewed.discard))


def call_after_fork(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function in every forked process."""
    _functions.append(function)
    return function


def never_free(*objects: object) -> None:
    """Keep objects alive for ever, also at the end of the process."""
    for item in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _alive(references: set[ref[Item]]) -> list[Item]:
    return [item for reference in list(references) if (item := reference()) is not None]


def _before() -> None:
    locks = [guard.lock for guard in sorted(_alive(_guards), key=lambda guard: guard.number)]
    acquired_locks: list[bool] = []
    _forks.begun.append((locks, acquired_locks))
    # One call into C: a Ctrl-C, which the interpreter swallows in here, leaves no acquired lock uncounted.
    deque(map(acquired_locks.append, map(methodcaller("acquire"), locks)), 0)


def _in_parent() -> None:
    locks, acquired_locks = _forks.begun.pop() if _forks.begun else ([], [])
    deque(map(methodcaller("release"), locks[: len(acquired_locks)]), 0)


def _in_child() -> None:
    _forks.begun.clear()
    for guard in _alive(_guards):
        guard.lock = Lock()
    for function in _functions:
        function()
    for item in _alive(_renewed):
        item.renew()


# Hooks before a fork run in reverse order, so these run before those of the library's thread pools and of logging,
# whose locks a step may want while it holds the one of its states.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
