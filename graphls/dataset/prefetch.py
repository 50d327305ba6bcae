"""A thread that makes rows ahead of whoever takes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from graphls.threads import Task, start

END = object()
"""What comes after the last row."""


class Prefetcher:
    """Rows of one pass, made by a thread that runs ahead by `size` rows at most.

    The thread knows nothing of this object's owner, so that one who forgets the pass frees it.
    """

    def __init__(self, rows: Callable[[], Iterator[Any]], size: int) -> None:
        self._channel = _Channel(size)
        self._thread = Task(_fill, rows, self._channel)
        start("graphls-dataset", self._thread)

    def take(self) -> Any:
        """The next row, or END; raises what the thread raised."""
        row = self._channel.rows.get()
        if type(row) is _Raised:
            raise row.error
        self._channel.permits.put(True)
        return row

    def stop(self) -> None:
        """Ask the thread to end; it does after the row that it works on."""
        self._channel.stopped = True
        self._channel.permits.put(True)

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, since its code and what runs next may share objects."""
        if self._channel.process == os.getpid():
            self._thread.wait(seconds)


class _Channel:
    """Rows in one direction, permits to make one in the other."""

    def __init__(self, size: int) -> None:
        self.rows: SimpleQueue[Any] = SimpleQueue()
        self.permits: SimpleQueue[bool] = SimpleQueue()
        self.stopped = False
        self.process = os.getpid()
        for _ in range(size):
            self.permits.put(True)


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _fill(rows: Callable[[], Iterator[Any]], channel: _Channel) -> None:
    try:
        iterator = rows()
        while channel.permits.get() and not channel.stopped:
            row = next(iterator, END)
            channel.rows.put(row)
            if row is END:
                return
    except BaseException as error:
        channel.rows.put(_Raised(error))
