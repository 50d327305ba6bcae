"""Saving on a thread: one file after the other, errors at the next save or at the end of the process."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from threading import Lock

from graphls.base.sharing import threads
from graphls.base.sharing.forks import call_after_fork
from graphls.base.sharing.threads import Task, interrupts_deferred

_lock = Lock()
_pending: Task[None] | None = None


@call_after_fork
def _forget_thread() -> None:
    """In a forked process, wait for nothing: the thread and the file that it writes belong to the first one."""
    global _lock, _pending
    _lock, _pending = Lock(), None


def start(save: Callable[[], None]) -> None:
    """Save on a thread, for which a process waits before it ends, after the save before; raises what that raised."""
    global _pending
    with _lock:
        _settle()
        with interrupts_deferred():
            task = Task(save)
            threads.start("graphls-checkpoint", task, daemon=False)
            _pending = task


def settle() -> None:
    """Wait until what was started is done; raises what it raised, once."""
    with _lock:
        _settle()


def _settle() -> None:
    global _pending
    task = _pending
    if task is not None:
        task.wait()  # from which a Ctrl-C leads to another wait, at the end of the process at the latest
        _pending = None
        task.result()


def wait() -> None:
    """Wait until what was started is done; its error is left to the next save."""
    task = _pending
    if task is not None:
        task.wait()


atexit.register(settle)
