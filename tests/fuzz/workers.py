"""Many programs in processes that last: one that dies takes no other program with it.

Pairs of operations are tried many at a time, as one program; where that ends in a fault, each is tried alone.
"""

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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from onnx import printer

from graphls.ir.plan import DEFAULT
from graphls.ir.text import dump
from tests.fuzz.control_judge import reduced_text
from tests.fuzz.judge import FAULTS
from tests.fuzz.onnx_models import random_model
from tests.fuzz.reduce import reduce_program
from tests.fuzz.seeds import CONTROL_FLOW, KINDS, ONNX, judge_seeds, program_of, usual_engine

PATIENCE = 120.0
"""Seconds after which a program counts as hung."""

MOST, MOST_TOGETHER = 400, 20
"""Programs of one process, as a session's memory is not all given back, and those of many seeds each."""


@dataclass(frozen=True)
class Found:
    """How the program of a seed ended."""

    seed: int
    outcome: str
    text: str = ""


def run_programs(
    seeds: range, engine: str = DEFAULT, kind: str = "programs", together: int | None = None
) -> Iterator[Found]:
    """How each program ends; a process that dies is followed by another one, which goes on behind its program.

    So many seeds are one program, or as many as there are for this kind; where that dies, each is one.
    """
    together = together or KINDS[kind]
    while seeds:
        worker = _Worker(seeds[: max(MOST, MOST_TOGETHER * together)], engine, kind, together)
        done = 0
        for found in worker.results():
            if together > 1 and found.outcome in ("died", "hung"):
                yield from run_programs(seeds[done : done + together], engine, kind, 1)
                done += together
                break
            done += 1
            yield found
        seeds = seeds[done:]


class _Worker:
    def __init__(self, seeds: range, engine: str, kind: str, together: int) -> None:
        self.seeds = seeds
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the results
        given = [str(seeds.start), str(len(seeds)), str(together), engine, kind]
        command = [sys.executable, "-m", "tests.fuzz.workers", *given]
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


def work(seeds: range, together: int, engine: str, kind: str) -> None:
    """What a worker does: it says of each seed how its program ended, in a line of JSON."""
    # What libraries print goes to the errors, so that every line of the pipe is one of these.
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for place in range(0, len(seeds), together):
        for found in judged(seeds[place : place + together], engine, kind):
            print(json.dumps(asdict(found)), file=pipe, flush=True)


def judged(seeds: Sequence[int], engine: str, kind: str) -> Iterator[Found]:
    """How the program of these seeds ended, for each; where it did not end well, the program of each alone."""
    verdict = judge_seeds(kind, seeds, engine)
    for seed in seeds:
        own = verdict if verdict.outcome == "same" or len(seeds) == 1 else judge_seeds(kind, [seed], engine)
        yield Found(seed, own.outcome, own.text)


def reproducer(seed: int, engine: str, kind: str = "programs") -> str:
    """How to run the program of a seed alone."""
    where = "" if engine == usual_engine(kind) else f" --engine {engine}"
    return f"python -m tests.fuzz {kind} --seed {seed} --count 1 --reduce{where}"


def run(seed: int, count: int, jobs: int, reduces: bool, engine: str, kind: str) -> int:
    """Run so many programs from a seed on; print every fault and, at the end, how many ended in which way."""
    started, counts = time.monotonic(), Counter[str]()
    share = -(-count // jobs)
    parts = [range(seed + i * share, min(seed + count, seed + (i + 1) * share)) for i in range(jobs)]

    def follow(seeds: range) -> None:
        for found in run_programs(seeds, engine, kind):
            counts[found.outcome] += 1
            if found.outcome in FAULTS:
                print(f"FAULT {found.outcome}: {reproducer(found.seed, engine, kind)}\n{found.text}\n", flush=True)
                if reduces:
                    print(reduced(found, engine, kind), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(follow, parts))
    listed = ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common())
    print(f"{count} {kind} from seed {seed}: {listed}; {time.monotonic() - started:.0f} seconds")
    return 1 if any(counts[outcome] for outcome in FAULTS) else 0


def reduced(found: Found, engine: str, kind: str) -> str:
    """The smallest graph that ends as the program did and the passes behind, or the statements that are needed.

    An ONNX model is shown as it is.
    """
    if kind == CONTROL_FLOW:
        return reduced_text(found.seed, found.outcome, engine)
    if kind == ONNX:
        return str(printer.to_text(random_model(found.seed).proto))
    graph, passes = reduce_program(program_of(kind, [found.seed]), found.outcome, engine)
    return f"{dump(graph)}// passes: {passes}\n"


def main(arguments: list[str] | None = None) -> int:
    """The command line of `python -m tests.fuzz programs`, `pairs`, `control-flow` or `onnx`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kind", choices=KINDS, help="random programs, pairs, branches and loops, or ONNX models")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes at a time")
    parser.add_argument("--reduce", action="store_true", help="cut the graph of each fault to what it needs")
    parser.add_argument("--engine", help="what runs the programs, where it takes them")
    options: Any = parser.parse_args(arguments)
    engine = options.engine or usual_engine(options.kind)
    return run(options.seed, options.count, options.jobs, options.reduce, engine, options.kind)


if __name__ == "__main__":
    first, number, at_once = map(int, sys.argv[1:4])
    work(range(first, first + number), at_once, *sys.argv[4:])
