"""Workers: threads and processes that answer one chunk of tasks at a time."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any

from graphls import threads
from graphls.dataset.errors import DatasetError, described, trace_of
from graphls.dataset.jobs import Answer, Failure, Job, Task, run_chunk
from graphls.dataset.randomness import Key
from graphls.threads import interrupts_deferred

Chunk = tuple[Key, list[Task]]

START_METHOD = "fork" if sys.platform == "linux" else "spawn"
LIFE_SIGN_SECONDS = 1.0
"""How often an idle process looks whether the one that started it still lives."""


class Closed(Exception):
    """Somebody closed the pool that was being waited for."""


class Worker(ABC):
    """Somebody who takes a chunk of tasks and then has an answer; never two chunks at a time."""

    @abstractmethod
    def send(self, chunk: Chunk) -> None:
        """Hand over a chunk; raises DatasetError where it cannot be."""

    @abstractmethod
    def receive(self) -> Answer:
        """Wait for the answer; raises DatasetError where the worker has died, Closed where it was closed."""

    @abstractmethod
    def close(self) -> None:
        """End the worker; whoever waits for its answer wakes up. Any thread may call it, any number of times."""


class ThreadWorker(Worker):
    """A thread, which shares the objects of the pipeline and waits while others hold the interpreter."""

    def __init__(self, job: Job) -> None:
        self._tasks: SimpleQueue[Chunk | None] = SimpleQueue()
        self._answers: SimpleQueue[Answer | None] = SimpleQueue()
        arguments = (job.function, self._tasks, self._answers)
        threads.start("graphls-dataset-worker", threads.Task(_serve_thread, *arguments))

    def send(self, chunk: Chunk) -> None:
        self._tasks.put(chunk)

    def receive(self) -> Answer:
        answer = self._answers.get()
        if answer is None:
            self._answers.put(None)
            raise Closed
        return answer

    def close(self) -> None:
        self._tasks.put(None)
        self._answers.put(None)


def _serve_thread(
    function: Callable[[Any], Any], tasks: SimpleQueue[Chunk | None], answers: SimpleQueue[Answer | None]
) -> None:
    while (chunk := tasks.get()) is not None:
        answers.put(run_chunk(function, *chunk, alone=False))


class ProcessWorker(Worker):
    """A process of its own, forked on Linux, so that any function will do; elsewhere it must pickle."""

    def __init__(self, job: Job) -> None:
        context: Any = multiprocessing.get_context(START_METHOD)
        self._job, self._closed = job, False
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve_process,
            args=(job.function, theirs, os.getpid()),
            name="graphls-dataset-worker",
            daemon=True,
        )
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of forks beside other threads, which the worker's code does not touch.
                warnings.simplefilter("ignore", DeprecationWarning)
                with interrupts_deferred():  # in the hooks that run around a fork, Python prints them and goes on
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
            raise self._death() from None

    def receive(self) -> Answer:
        wait([self._connection, self._process.sentinel])
        try:
            if self._connection.poll():
                answer: Answer = pickle.loads(self._connection.recv_bytes())
                return answer
        except (EOFError, OSError):
            pass
        raise self._death()

    def _death(self) -> Exception:
        if self._closed:
            return Closed()
        self._process.join(LIFE_SIGN_SECONDS)
        return DatasetError(
            f"{self._job.what} failed: its worker process {self._process.pid} died "
            f"({_cause_of_death(self._process.exitcode)}).",
            self._job.location,
        )

    def close(self) -> None:
        self._closed = True
        self._process.terminate()
        self._process.join(LIFE_SIGN_SECONDS)
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


def _serve_process(function: Callable[[Any], Any], connection: Connection, parent: int) -> None:
    """Answer chunks until the parent closes the connection or is gone; Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while _has_task(connection, parent):
        try:
            key, tasks = pickle.loads(connection.recv_bytes())
            connection.send_bytes(_pickled(run_chunk(function, key, tasks, alone=True), tasks[0][0]))
        except (EOFError, OSError):
            return


def _has_task(connection: Connection, parent: int) -> bool:
    while not connection.poll(LIFE_SIGN_SECONDS):
        if os.getppid() != parent:
            return False
    return True


def _pickled(answer: Answer, row: int) -> bytes:
    try:
        return pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        failure = Failure(row, f"its result cannot be sent by a worker process ({described(error)})", trace_of(error))
        return pickle.dumps(Answer([], failure, answer.seconds), pickle.HIGHEST_PROTOCOL)
