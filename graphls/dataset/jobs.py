"""What is done to every row by user code, here or by a worker, and how a failure is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from graphls.dataset.errors import DatasetError, described, trace_of
from graphls.dataset.randomness import Key, RowDraws
from graphls.ir.location import Location

Task = tuple[int, Any]
"""The number of a row, which its random numbers depend on, and what the function takes."""


@dataclass(frozen=True)
class Job:
    """A function of a task, and who runs it; `what` and `location` name it in errors."""

    function: Callable[[Any], Any]
    workers: int
    processes: bool
    what: str
    location: Location | None

    def failure(self, row: int, reason: str, trace: str) -> DatasetError:
        """The error of a row that could not be made."""
        return DatasetError(f"{self.what} failed at row {row}: {reason}.", self.location, trace)


@dataclass(frozen=True)
class Failure:
    """Why a worker has no result for a row; `error` only where it can be handed over."""

    row: int
    reason: str
    trace: str
    error: BaseException | None = None


@dataclass(frozen=True)
class Answer:
    """The results of a chunk of tasks up to the first failure, and the seconds they took."""

    results: list[Any]
    failure: Failure | None
    seconds: float


def run_here(job: Job, key: Key, tasks: Iterable[Task]) -> Iterator[Any]:
    """The results of tasks, one by one, computed in this thread."""
    enter, function = RowDraws(key).enter, job.function
    for row, payload in tasks:
        enter(row)
        try:
            result = function(payload)
        except Exception as error:
            raise job.failure(row, described(error), trace_of(error)) from error
        yield result


def run_chunk(function: Callable[[Any], Any], key: Key, tasks: list[Task], alone: bool) -> Answer:
    """The results of tasks, computed by a worker; one that is `alone` in its process seeds the global generators."""
    draws, results, start = RowDraws(key), list[Any](), time.perf_counter()
    for row, payload in tasks:
        draws.enter(row)
        if alone:
            draws.seed_globals()
        try:
            results.append(function(payload))
        except BaseException as error:
            failure = Failure(row, described(error), trace_of(error), None if alone else error)
            return Answer(results, failure, time.perf_counter() - start)
    return Answer(results, None, time.perf_counter() - start)
