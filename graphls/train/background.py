"""Saving on a thread: one file after the other, errors at the next save or at the end of the process."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

from graphls.forks import call_after_fork

_lock = Lock()
_pool: ThreadPoolExecutor | None = None
_pending: Future[None] | None = None


@call_after_fork
def _forget_thread() -> None:
    """In a forked process, wait for nothing: the thread and the file that it writes belong to the first one."""
    global _lock, _pool, _pending
    _lock, _pool, _pending = Lock(), None, None


def start(task: Callable[[], None]) -> None:
    """Run a task on the thread, after waiting for the one before; raises what that raised."""
    global _pool, _pending
    settle()
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(1, thread_name_prefix="graphls-checkpoint")
            atexit.unregister(settle)
            atexit.register(settle)
        _pending = _pool.submit(task)


def settle() -> None:
    """Wait until what was started is done; raises what it raised, once."""
    global _pending
    with _lock:
        task, _pending = _pending, None
    if task is not None:
        task.result()


def wait() -> None:
    """Wait until what was started is done; its error is left to the next save."""
    task = _pending
    if task is not None:
        task.exception()
