"""Many programs in processes that last: one that dies takes no other program with it."""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from graphls.ir.plan import DEFAULT
from graphls.ir.text import dump
from tests.fuzz.judge import FAULTS, judge
from tests.fuzz.programs import program
from tests.fuzz.reduce import reduce_program

PATIENCE = 120.0
"""Seconds after which a program counts as hung."""

MOST = 400
"""Programs of one process, as a session's memory is not all given back."""


@dataclass(frozen=True)
class Found:
    """How the program of a seed ended."""

    seed: int
    outcome: str
    text: str = ""


def run_programs(seeds: range, engine: str = DEFAULT) -> Iterator[Found]:
    """How each program ends; a process that dies is followed by another one, which goes on behind its program."""
    while seeds:
        worker = _Worker(seeds[:MOST], engine)
        done = 0
        for found in worker.results():
            done += 1
            yield found
        seeds = seeds[done:]


class _Worker:
    def __init__(self, seeds: range, engine: str) -> None:
        self.seeds = seeds
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the results
        command = [sys.executable, "-m", "tests.fuzz.workers", str(seeds.start), str(len(seeds)), engine]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def results(self) -> Iterator[Found]:
        """What the process says of each of its programs; where it ends before, that is the last one's outcome."""
        with self.errors:
            for seed in self.seeds:
                found = self.result(seed)
                yield found
                if found.outcome in ("died", "hung"):
                    return
            self.process.wait()

    def result(self, seed: int) -> Found:
        try:
            line = self.lines.get(timeout=PATIENCE)
        except queue.Empty:
            self.process.kill()
            return Found(seed, "hung", f"for {PATIENCE:g} seconds")
        if line:
            return Found(**json.loads(line))
        code = self.process.wait()
        self.errors.seek(0)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Found(seed, "died", f"{name} {self.errors.read()[-800:]}")


def work(seeds: range, engine: str) -> None:
    """What a worker does: it says of each program how it ended, in a line of JSON."""
    # What libraries print goes to the errors, so that every line of the pipe is one of these.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for seed in seeds:
        verdict = judge(program(seed), engine)
        print(json.dumps({"seed": seed, "outcome": verdict.outcome, "text": verdict.text}), file=pipe, flush=True)


def reproducer(seed: int, engine: str) -> str:
    """How to run the program of a seed alone."""
    where = "" if engine == DEFAULT else f" --engine {engine}"
    return f"python -m tests.fuzz programs --seed {seed} --count 1 --reduce{where}"


def run(seed: int, count: int, jobs: int, reduces: bool, engine: str) -> int:
    """Run so many programs from a seed on; print every fault and, at the end, how many ended in which way."""
    started, counts = time.monotonic(), Counter[str]()
    share = -(-count // jobs)
    parts = [range(seed + i * share, min(seed + count, seed + (i + 1) * share)) for i in range(jobs)]

    def follow(seeds: range) -> None:
        for found in run_programs(seeds, engine):
            counts[found.outcome] += 1
            if found.outcome in FAULTS:
                print(f"FAULT {found.outcome}: {reproducer(found.seed, engine)}\n{found.text}\n", flush=True)
                if reduces:
                    print(reduced(found, engine), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(follow, parts))
    listed = ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common())
    print(f"{count} programs from seed {seed}: {listed}; {time.monotonic() - started:.0f} seconds")
    return 1 if any(counts[outcome] for outcome in FAULTS) else 0


def reduced(found: Found, engine: str) -> str:
    """The smallest graph that ends as the program did, as text with the passes that it still goes through."""
    graph, passes = reduce_program(found.seed, found.outcome, engine)
    return f"{dump(graph)}// passes: {passes}\n"


def main(arguments: list[str] | None = None) -> int:
    """The command line of `python -m tests.fuzz programs`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz programs", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes at a time")
    parser.add_argument("--reduce", action="store_true", help="cut the graph of each fault to what it needs")
    parser.add_argument("--engine", default=DEFAULT, help="what runs the programs, where it takes them")
    options: Any = parser.parse_args(arguments)
    return run(options.seed, options.count, options.jobs, options.reduce, options.engine)


if __name__ == "__main__":
    first, number = map(int, sys.argv[1:3])
    work(range(first, first + number), sys.argv[3])
