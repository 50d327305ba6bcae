"""Runs the workers in turns, one at a time, so that other load of the machine affects all of them alike."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Any

from benchmarks.peers.contenders import Contender
from benchmarks.peers.results import Result
from benchmarks.peers.rows import Row

ROOT = Path(__file__).parent.parent.parent
MEMORY_SHARE = 0.7
"""So much of the memory that is free may be taken by workers that are alive at the same time."""

PAUSE = 0.3
"""Seconds before a turn: the threads of PyTorch and JAX look for work for 0.2 s behind a step, and take its cores."""


class WorkerError(Exception):
    """A worker ended or did not answer in time."""


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement: the Python of the peers, turns and their seconds, and seconds to await an answer."""

    peer_python: str = sys.executable
    rounds: int = 10
    seconds: float = 0.5
    patience: float = 900.0
    quick: bool = False


class Worker:
    """The process of one contender, with caches of compiled code of its own, which begin empty."""

    def __init__(self, row: Row, contender: Contender, settings: Settings) -> None:
        self.settings = settings
        self.folder = tempfile.mkdtemp(prefix="bench-peers-")
        python = sys.executable if contender.framework == "graphls" else settings.peer_python
        size = "quick" if settings.quick else "full"
        with open(Path(self.folder, "errors"), "w") as errors:
            self.process = subprocess.Popen(
                [python, "-m", "benchmarks.peers.worker", row.name, contender.name, size],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, start_new_session=True,
                env=self._environment(),
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        excluded = "GRAPHLS_CACHE", "OMP_NUM_THREADS"
        inherited = {name: value for name, value in os.environ.items() if name not in excluded}
        return {**inherited, "TORCHINDUCTOR_CACHE_DIR": self.folder}

    def say(self, seconds: float) -> None:
        """Ask for a turn; raises WorkerError where the worker has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{json.dumps(seconds)}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._last_words()) from None

    def hear(self) -> dict[str, Any]:
        """The answer of the worker; raises WorkerError if there is none."""
        assert self.process.stdout is not None
        if not select([self.process.stdout], [], [], self.settings.patience)[0]:
            raise WorkerError(f"no answer within {self.settings.patience:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        code = self.process.wait()
        written = Path(self.folder, "errors").read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(written) if line.strip()), f"it ended with {code}")

    def end(self) -> None:
        """End the process and those that it started, and remove its folder."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


class RowRun:
    """The measuring of one row.

    As many workers live at the same time as memory allows. Where that is not all of them, the reference, which is the
    first contender that works, stays and takes its turns beside each group of others, and times relative to it are what
    is compared.
    """

    def __init__(self, row: Row, contenders: Sequence[Contender], settings: Settings) -> None:
        self.row, self.settings = row, settings
        self.contenders = [contender for contender in contenders if contender.takes(row)]
        self.results = {c.name: Result(c.name, c.framework, c.precision) for c in self.contenders}
        self.workers: dict[str, Worker] = {}

    def run(self) -> list[Result]:
        """Measure every contender."""
        try:
            for contender in self.contenders:
                if self.workers and self._is_full():
                    self._take_turns()
                    self._end_all_but_the_reference()
                self._start(contender)
            self._take_turns()
        finally:
            self._end(list(self.workers))
        return list(self.results.values())

    @property
    def reference(self) -> str:
        """The first contender that works."""
        return next(iter(self.workers))

    def _is_full(self) -> bool:
        """Returns whether one more worker as large as the largest would take more than its share of the free memory."""
        largest = max(self.results[name].peak_mb for name in self.workers)
        return len(self.workers) > 1 and largest > MEMORY_SHARE * available_mb()

    def _start(self, contender: Contender) -> None:
        name, result = contender.name, self.results[contender.name]
        self._tell(f"{name} begins")
        self.workers[name] = Worker(self.row, contender, self.settings)
        with noted(result):
            result.begin(self.workers[name].hear())
            result.compare(self.results[self.reference].losses)
            if not result.error:
                self.workers[name].say(0.0)
                result.peak_mb = self.workers[name].hear()["peak_mb"]
        if result.error:
            self._tell(f"{name}: {result.error}")
            self._end([name])

    def _take_turns(self) -> None:
        for turn in range(self.settings.rounds):
            self._tell(f"turn {turn + 1} of {self.settings.rounds}: {', '.join(self.workers)}")
            measured = [name for name in list(self.workers) if self._take_turn(name)]
            for name in measured:
                base = self.results[measured[0]].rounds[-1]
                self.results[name].relatives.append(self.results[name].rounds[-1] / base)

    def _take_turn(self, name: str) -> bool:
        with noted(self.results[name]):
            time.sleep(PAUSE)
            self.workers[name].say(self.settings.seconds)
            self.results[name].add(self.workers[name].hear())
        if self.results[name].error:
            self._end([name])
        return name in self.workers

    def _end_all_but_the_reference(self) -> None:
        self._end(list(self.workers)[1:])

    def _end(self, names: list[str]) -> None:
        for name in names:
            self.workers.pop(name).end()

    def _tell(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {self.row.name}: {text}", file=sys.stderr, flush=True)


@contextmanager
def noted(result: Result) -> Iterator[None]:
    """A WorkerError becomes the error of the result."""
    try:
        yield
    except WorkerError as error:
        result.error = str(error)


def available_mb() -> float:
    """Megabytes that can be taken without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) / 1024


def measure(
    rows: Sequence[Row], contenders: Sequence[Contender], settings: Settings
) -> Iterator[tuple[Row, list[Result]]]:
    """The results row by row, as they come."""
    for row in rows:
        yield row, RowRun(row, contenders, settings).run()
