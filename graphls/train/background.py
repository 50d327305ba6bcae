"""Background saving of checkpoints on a thread, one file after the other, with errors at the next save or at exit."""

from __future__ import annotations

import atexit
from collections.abc import Callable

from graphls.base.sharing import threads
from graphls.base.sharing.forks import call_after_fork
from graphls.base.sharing.reentrant import Lock
from graphls.base.sharing.threads import Task, interrupts_deferred

_lock = Lock()
_pending: Task[None] | None = None


@call_after_fork
def _forget_thread() -> None:
    """Forget the task in a forked process: the thread and its file belong to the parent process."""
    global _lock, _pending
    _lock, _pending = Lock(), None


def start(save: Callable[[], None]) -> None:
    """Save on a thread after the previous save, and raise its error; the process does not end before the thread."""
    global _pending
    with _lock:
        _settle()
        with interrupts_deferred():
            task = Task(save)
            threads.start("graphls-checkpoint", task, daemon=False)
            _pending = task


def settle() -> None:
    """Wait until the started save is done; raises its error, once."""
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
    """Wait until the started save is done, and leave its error to the next save."""
    task = _pending
    if task is not None:
        task.wait()


atexit.register(settle)
