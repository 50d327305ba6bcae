"""Execution of user code on every row, here or in pools of threads and processes, in the order of the rows."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.location import Location, is_own
from graphls.base.sharing import threads
from graphls.base.sharing.threads import interrupts_deferred
from graphls.dataset.randomness import Key, RowDraws

LONGEST_CHUNK = 32
QUICK_SECONDS, SLOW_SECONDS = 0.002, 0.02
"""Chunks faster than the first are followed by longer ones, chunks slower than the second by shorter ones."""

QUICK = 1000
"""Rows a second of all workers above which they may wait for Python's lock longer than they work."""

TRIAL, TERM = 8, 2048
"""Answers that measure the speed of a number of workers, and answers until the next trial."""


class Pace:
    """The `length` of chunks, and the `crew` of workers that have one at the same time.

    Threads that hand Python's lock to each other several times a row are slower than one of them alone, so for quick
    rows both are tried, and the faster is used; one alone is the calling thread. Processes have locks of their own.

    Not a generator: one that is dropped while it waits is closed by the collector, and loses a Ctrl-C at that moment.
    """

    def __init__(self, workers: int, processes: bool) -> None:
        self.length = 1
        self.crew = self._workers = workers
        self._tries = not processes and workers > 1
        self._together: float | None = None  # rows a second of all workers, where one alone is tried
        self._answers_until_trial = 0  # answers until another number of workers is tried
        self._begin(workers)

    @property
    def alone(self) -> bool:
        """True if no worker is used, since the calling thread is as fast."""
        return self._tries and self.crew == 1

    def adapt(self, rows: int, seconds: float) -> None:
        """Learn from the duration of a chunk."""
        if seconds < QUICK_SECONDS:
            self.length = min(2 * self.length, LONGEST_CHUNK)
        elif seconds > SLOW_SECONDS:
            self.length = max(self.length // 2, 1)
        if self._tries:
            self._measure(rows, seconds)

    def _begin(self, crew: int) -> None:
        """Try a number of workers."""
        self.crew = crew
        self._heard, self._rows, self._seconds = 0, 0, 0.0

    def _measure(self, rows: int, seconds: float) -> None:
        if self._answers_until_trial:
            self._answers_until_trial -= 1
            if not self._answers_until_trial:
                self._begin(self._workers)
            return
        self._heard += 1
        if self._heard > self._workers:  # earlier answers are to chunks for another number of workers
            self._rows, self._seconds = self._rows + rows, self._seconds + seconds
        if self._heard == self._workers + TRIAL:
            self._judge(self.crew * self._rows / max(self._seconds, 1e-9))

    def _judge(self, speed: float) -> None:
        """Try one worker alone, or continue with the faster number, by the rows a second of this one."""
        if self._together is None and speed > QUICK:
            self._together = speed
            self._begin(1)
            return
        alone_is_as_fast = self._together is not None and self._together < 1.1 * speed
        self.crew = 1 if alone_is_as_fast else self._workers
        self._together, self._answers_until_trial = None, TERM


class DatasetError(GraphRuntimeError):
    """A fault in a dataset's data or in code that a dataset calls.

    The first line is one sentence with the line that created the node of the pipeline; `trace` is the traceback of the
    code that failed, wherever it ran.
    """

    has_text = True

    def __init__(self, message: str, location: Location | None = None, trace: str = "") -> None:
        super().__init__(message, location)
        self.args = (f"{self.args[0]}\n\n{trace.rstrip()}" if trace else self.args[0],)


def described(error: BaseException) -> str:
    """The name of an error and its text, in one line; errors of graphls are sentences and need no name."""
    try:
        text = " ".join(str(error).split()).rstrip(".")
    except BaseException as fault:  # the text is computed by user code
        return f"{type(error).__name__}, whose text cannot be formatted because of a {type(fault).__name__}"
    if isinstance(error, GraphlsError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def trace_of(error: BaseException) -> str:
    """The traceback from the first frame outside of graphls on; empty where there is none."""
    start: TracebackType | None = error.__traceback__
    while start is not None and is_own(start.tb_frame.f_code.co_filename):
        start = start.tb_next
    return "" if start is None else "".join(traceback.format_exception(type(error), error, start))


Work = Callable[[Any], Any]
Task = tuple[int, Any]
"""The index of a row, which determines its random numbers, and the argument of the function."""


@dataclass(frozen=True)
class Job:
    """A function of a task, and the workers that run it; `what` and `location` name it in errors."""

    function: Work
    workers: int
    processes: bool
    what: str
    location: Location | None

    def failure(self, row: int, reason: str, trace: str) -> DatasetError:
        """The error of a row that failed."""
        return DatasetError(f"{self.what} failed at row {row}: {reason}.", self.location, trace)


@dataclass(frozen=True)
class Failure:
    """The reason why a worker has no result for a row; `error` only where it can be passed on."""

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


def run_chunk(function: Work, key: Key, tasks: list[Task], alone: bool) -> Answer:
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


Chunk = tuple[Key, list[Task]]

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
POLL_SECONDS = 1.0
"""The seconds between checks of an idle process whether its parent is alive."""


class Closed(Exception):
    """The pool that a thread waited for has been closed."""


class Worker(ABC):
    """A worker, which takes a chunk of tasks and then has an answer; never two chunks at a time."""

    @abstractmethod
    def send(self, chunk: Chunk) -> None:
        """Send a chunk; raises DatasetError where that is impossible."""

    @abstractmethod
    def receive(self) -> Answer:
        """Wait for the answer; raises DatasetError where the worker has died, Closed where it was closed."""

    @abstractmethod
    def close(self) -> None:
        """End the worker, and wake up threads that wait for it. Any thread may call it, any number of times."""


class ThreadWorker(Worker):
    """A thread, which shares the objects of the pipeline and waits while others hold the interpreter.

    It ends when it is closed or freed, as by a Ctrl-C on the way to `close`: then its weak reference, which the thread
    has, puts itself into the tasks.
    """

    def __init__(self, job: Job) -> None:
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[Answer | None] = SimpleQueue()
        arguments = (job.function, self._tasks, self._answers, weakref.ref(self, self._tasks.put))
        threads.start("graphls-dataset-worker", threads.Task(_serve_thread, *arguments))

    def send(self, chunk: Chunk) -> None:
        self._tasks.put(chunk)

    def receive(self) -> Answer:
        answer = self._answers.get()
        if answer is None:
            self._answers.put(None)  # for the next call on a closed worker
            raise Closed
        return answer

    def close(self) -> None:
        self._tasks.put(None)
        self._answers.put(None)


def _serve_thread(function: Work, tasks: SimpleQueue[Any], answers: SimpleQueue[Answer | None], owner: object) -> None:
    while type(chunk := tasks.get()) is tuple:
        key, rows = chunk
        answers.put(run_chunk(function, key, rows, alone=False))


# Not a WeakSet, for the same reason as `_feeds` of iterators.
_connections: set[weakref.ref[Connection]] = set()
"""The ends of the pipes to worker processes that this process has."""


class ProcessWorker(Worker):
    """A process of its own, forked on Linux, so that any function will do; elsewhere it must pickle.

    It ends when it is closed or freed, as by a Ctrl-C on the way to `close`: then no process has the other end of its
    pipe, since each process closes those that it has inherited.
    """

    def __init__(self, job: Job) -> None:
        context: Any = multiprocessing.get_context(START_METHOD)
        self._job, self._closed, self._parent = job, False, os.getpid()
        self._connection, theirs = context.Pipe()
        _connections.add(weakref.ref(self._connection, _connections.discard))
        self._process = context.Process(
            target=_serve_process, args=(job.function, theirs, self._parent), name="graphls-dataset-worker",
            daemon=True,
        )  # fmt: skip
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of forks beside other threads, which the worker's code does not touch.
                warnings.simplefilter("ignore", DeprecationWarning)
                with interrupts_deferred():  # in the hooks around a fork, Python prints them and continues
                    self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DatasetError(
                f"{job.what} cannot be sent to a worker process ({described(error)}); define it at the top of a "
                "module, or use python_multiprocessing=False.",
                job.location,
            ) from error
        finally:
            theirs.close()

    def send(self, chunk: Chunk) -> None:
        try:
            data = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            reason = f"its row cannot be sent to a worker process ({described(error)})"
            raise self._job.failure(chunk[1][0][0], reason, "") from error
        try:
            self._connection.send_bytes(data)
        except OSError:
            raise self._death_error() from None

    def receive(self) -> Answer:
        wait([self._connection, self._process.sentinel])
        # A process that has ended may have answered before, so the connection is checked first.
        try:
            if self._connection.poll():
                answer: Answer = pickle.loads(self._connection.recv_bytes())
                return answer
        except (EOFError, OSError):
            pass
        raise self._death_error()

    def _death_error(self) -> Exception:
        if self._closed:
            return Closed()
        self._process.join(POLL_SECONDS)
        return DatasetError(
            f"{self._job.what} failed: its worker process {self._process.pid} died "
            f"({_cause_of_death(self._process.exitcode)}).",
            self._job.location,
        )

    def close(self) -> None:
        self._closed = True
        if os.getpid() != self._parent:  # a fork, such as another worker, in which a half-created worker is freed
            return
        self._process.terminate()
        self._process.join(POLL_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _cause_of_death(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _serve_process(function: Work, connection: Connection, parent: int) -> None:
    """Answer chunks until the parent closes the connection or has ended; the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for reference in list(_connections):
        if (inherited := reference()) is not None:
            inherited.close()
    while _has_task(connection, parent):
        try:
            key, tasks = pickle.loads(connection.recv_bytes())
            connection.send_bytes(_pickled(run_chunk(function, key, tasks, alone=True), tasks[0][0]))
        except (EOFError, OSError):
            return


def _has_task(connection: Connection, parent: int) -> bool:
    while not connection.poll(POLL_SECONDS):
        if os.getppid() != parent:
            return False
    return True


def _pickled(answer: Answer, row: int) -> bytes:
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        failure = Failure(row, f"its result cannot be sent by a worker process ({described(error)})", trace_of(error))
        return pickle.dumps(Answer([], failure, answer.seconds), pickle.HIGHEST_PROTOCOL)


class Pool:
    """Workers that get chunks in rotation.

    Each has at most one chunk, so that neither side can wait for the other to read. Chunks grow while they are quick,
    because sending one costs about the same for one row or many (`Pace`).
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._pace = Pace(job.workers, job.processes)
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
        """The results of tasks; a task that fails, or cannot be computed, ends them after those of all tasks before it.

        After an early end the pool can run again: it first receives the answers that were not read.
        """
        # Workers still have chunks of a run that ended early; their answers must not be mistaken for this run's.
        while self._busy:
            self._busy.popleft().receive()
        source = _Chunks(tasks)
        for answer in self._answers(key, source):
            yield from answer.results
            if (failure := answer.failure) is not None:
                raise self.job.failure(failure.row, failure.reason, failure.trace) from failure.error
        if source.error is not None:
            raise source.error

    def _answers(self, key: Key, source: _Chunks) -> Iterator[Answer]:
        idle, busy, pace = deque(self._workers), self._busy, self._pace

        def send_chunks() -> None:
            while len(busy) < pace.crew and (chunk := source.next(pace.length)):
                busy.append(idle.popleft())
                busy[-1].send((key, chunk))

        while True:
            if pace.alone and not busy:  # one thread needs no other to wait for
                if not (chunk := source.next(pace.length)):
                    return
                answer = run_chunk(self.job.function, key, chunk, alone=False)
            else:
                send_chunks()
                if not busy:
                    return
                # Wait for the worker with the oldest chunk, even if another one is done: so rows keep their order.
                answer = busy[0].receive()
                idle.append(busy.popleft())
            pace.adapt(len(answer.results), answer.seconds)
            # The worker gets its next chunk before these results are passed on, and works while the consumer does.
            if answer.failure is None and not pace.alone:
                send_chunks()
            yield answer

    def close(self) -> None:
        """End all workers; any thread may call it."""
        for worker in self._workers:
            worker.close()


class _Chunks:
    """Cuts tasks into chunks, and stores the error that ended them."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        self.tasks = tasks
        self.error: Exception | None = None

    def next(self, length: int) -> list[Task]:
        """The next tasks; empty where there are no more."""
        chunk: list[Task] = []
        if self.error is None:
            try:
                chunk.extend(islice(self.tasks, length))
            except Exception as error:
                self.error = error
        return chunk
