"""How workers are asked: for how many rows at a time, and how many of them at once."""

from __future__ import annotations

LONGEST_CHUNK = 32
QUICK_SECONDS, SLOW_SECONDS = 0.002, 0.02
"""A chunk that takes less is followed by longer ones, one that takes more by shorter ones."""

QUICK = 1000
"""Rows a second of all workers where they may wait longer for Python's lock than they work."""

TRIAL, TERM = 8, 2048
"""Answers that show how fast a number of workers is, and those until it is tried anew."""


class Pace:
    """The `length` of chunks, and the `crew` of workers that have one at the same time.

    Threads that hand Python's lock to each other several times a row are slower than one of them alone, so where rows
    are quick both are tried, and the faster goes on; one alone is who asks. Processes have locks of their own.

    No generator: one that is dropped while it waits is closed by the collector, and loses a Ctrl-C that comes then.
    """

    def __init__(self, workers: int, processes: bool) -> None:
        self.length = 1
        self.crew = self._workers = workers
        self._tries = not processes and workers > 1
        self._together: float | None = None  # rows a second of all workers, where one alone is tried
        self._left = 0  # answers until another number of workers is tried
        self._begin(workers)

    @property
    def alone(self) -> bool:
        """Whether no worker is asked, since the thread that asks them is as fast."""
        return self._tries and self.crew == 1

    def adapt(self, rows: int, seconds: float) -> None:
        """Learn from what a chunk took."""
        if seconds < QUICK_SECONDS:
            self.length = min(2 * self.length, LONGEST_CHUNK)
        elif seconds > SLOW_SECONDS:
            self.length = max(self.length // 2, 1)
        if self._tries:
            self._hear(rows, seconds)

    def _begin(self, crew: int) -> None:
        """Try so many workers."""
        self.crew = crew
        self._heard, self._rows, self._seconds = 0, 0, 0.0

    def _hear(self, rows: int, seconds: float) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                self._begin(self._workers)
            return
        self._heard += 1
        if self._heard > self._workers:  # before come answers to what was asked of another number of workers
            self._rows, self._seconds = self._rows + rows, self._seconds + seconds
        if self._heard == self._workers + TRIAL:
            self._judge(self.crew * self._rows / max(self._seconds, 1e-9))

    def _judge(self, speed: float) -> None:
        """Try one worker alone, or go on with the number that is the faster, by the rows a second of this one."""
        if self._together is None and speed > QUICK:
            self._together = speed
            self._begin(1)
            return
        alone_is_as_fast = self._together is not None and self._together < 1.1 * speed
        self.crew = 1 if alone_is_as_fast else self._workers
        self._together, self._left = None, TERM
