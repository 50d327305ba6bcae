"""Pools: several workers on one stream of tasks, whose results come in the order of the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from graphls.dataset.errors import DatasetError, described
from graphls.dataset.jobs import Answer, Job, Task
from graphls.dataset.randomness import Key
from graphls.dataset.workers import ProcessWorker, ThreadWorker, Worker

LONGEST_CHUNK = 32
QUICK_SECONDS, SLOW_SECONDS = 0.002, 0.02


class Pool:
    """Workers that take turns.

    Each has at most one chunk, so that neither side can wait for the other to read. Chunks grow while they are quick,
    because handing one over costs about the same for one row or many.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._workers: list[Worker] = []
        self._busy: deque[Worker] = deque()
        try:
            for _ in range(job.workers):
                self._workers.append(ProcessWorker(job) if job.processes else ThreadWorker(job))
        except BaseException as error:
            self.close()
            if not isinstance(error, (OSError, RuntimeError)) or isinstance(error, DatasetError):
                raise
            kind = "processes" if job.processes else "threads"
            raise DatasetError(
                f"Of {job.workers} worker {kind} of {job.what}, the system started {len(self._workers)} "
                f"({described(error)}); give a smaller num_parallel_workers.",
                job.location,
            ) from error

    def run(self, key: Key, tasks: Iterator[Task]) -> Iterator[Any]:
        """The results of tasks; a task that fails, or cannot be had, ends them after those of all tasks before it.

        Who leaves it before the end may run the pool again: it first takes the answers that nobody has read.
        """
        source, idle, busy = _Chunks(key, tasks), deque(self._workers), self._busy
        while busy:
            busy.popleft().receive()
        while True:
            while idle and (chunk := source.next()):
                busy.append(idle.popleft())
                busy[-1].send((key, chunk))
            if not busy:
                break
            answer = busy[0].receive()
            idle.append(busy.popleft())
            source.adapt(answer.seconds)
            if answer.failure is None and (chunk := source.next()):
                busy.append(idle.popleft())
                busy[-1].send((key, chunk))
            yield from self._results(answer)
        if source.error is not None:
            raise source.error

    def _results(self, answer: Answer) -> Iterator[Any]:
        yield from answer.results
        if (failure := answer.failure) is not None:
            raise self.job.failure(failure.row, failure.reason, failure.trace) from failure.error

    def close(self) -> None:
        """End all workers; any thread may call it."""
        for worker in self._workers:
            worker.close()


class _Chunks:
    """Takes tasks in chunks of a length that fits their pace, and keeps the error that ended them."""

    def __init__(self, key: Key, tasks: Iterator[Task]) -> None:
        self.key, self.tasks = key, tasks
        self.length = 1
        self.error: Exception | None = None

    def next(self) -> list[Task]:
        """The next tasks; none where there are no more."""
        chunk: list[Task] = []
        if self.error is None:
            try:
                chunk.extend(islice(self.tasks, self.length))
            except Exception as error:
                self.error = error
        return chunk

    def adapt(self, seconds: float) -> None:
        """Make chunks longer or shorter, by what the last one took."""
        if seconds < QUICK_SECONDS:
            self.length = min(2 * self.length, LONGEST_CHUNK)
        elif seconds > SLOW_SECONDS:
            self.length = max(self.length // 2, 1)
