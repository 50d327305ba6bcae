"""Threads and task queues that a Ctrl-C cannot leave half done.

Python raises a Ctrl-C between two instructions of the main thread. The conditions, events and pools of its own library,
and its list of threads, are written in Python as well. A Ctrl-C in one of them leaves a lock that is never
released, becomes another error, or is printed and lost, as in the callback of a thread that is freed. So threads are
started with interrupts deferred and free themselves, and waiting for them is one call into C.
"""

from __future__ import annotations

import atexit
import signal
import time
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, Generic, Protocol, TypeVar

from graphls.base.sharing.forks import call_after_fork
from graphls.base.sharing.reentrant import Lock

Result = TypeVar("Result")


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer a Ctrl-C until the end of the block."""
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield
        return
    caught: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            before(*caught[0])


class Task(Generic[Result]):
    """A function call that one thread runs and others wait for."""

    __slots__ = ("_running", "_thread", "_work", "error", "value")
    value: Result

    def __init__(self, function: Callable[..., Result], *arguments: object) -> None:
        self._work: tuple[Callable[..., Result], tuple[object, ...]] | None = (function, arguments)
        self._thread: int | None = None
        self._running = allocate_lock()
        self._running.acquire()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Make the call, once."""
        assert self._work is not None
        (function, arguments), self._work = self._work, None
        self._thread = get_ident()
        try:
            self.value = function(*arguments)
        except BaseException as error:
            self.error = error
        self._running.release()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the call has returned, at most so many seconds; returns at once on the thread that runs it."""
        if self._thread == get_ident():
            return
        if seconds is None:
            _ = [*map(self._running.acquire, (True,))]  # no Ctrl-C comes between its acquisition and its release
            self._running.release()
            return
        end = time.monotonic() + seconds
        while self._running.locked() and time.monotonic() < end:
            time.sleep(0.001)

    def result(self) -> Result:
        """The result of the call; raises the exception of the call."""
        self.wait()
        if self.error is not None:
            raise self.error
        return self.value


class Runnable(Protocol):
    """A task of any result type."""

    def run(self) -> None:
        """Do it, once."""


def start(name: str, task: Runnable, daemon: bool = True) -> None:
    """Run a task in a new thread."""
    with interrupts_deferred():
        Thread(target=task.run, name=name, daemon=daemon).start()


class TaskQueue:
    """Tasks that one thread runs in order; it starts with the first task, and again in a forked process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._forget()
        call_after_fork(self._forget)
        atexit.register(self._close)

    def _forget(self) -> None:
        self._lock = Lock()
        self._tasks: SimpleQueue[Runnable | None] = SimpleQueue()
        self._thread: Task[None] | None = None

    def do(self, function: Callable[..., Result], *arguments: object) -> Task[Result]:
        """Enqueue a call."""
        if self._thread is None:
            self._start()
        task = Task(function, *arguments)
        self._tasks.put(task)
        return task

    def _start(self) -> None:
        with self._lock, interrupts_deferred():
            if self._thread is None:
                thread = Task(_serve, self._tasks)
                start(self._name, thread)
                self._thread = thread

    def _close(self) -> None:
        """Run the tasks that are left, then end the thread."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.wait()


def _serve(tasks: SimpleQueue[Runnable | None]) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # which frees its result before the next task comes
