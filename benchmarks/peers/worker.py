"""The process of one contender in one row: a line of JSON in for every turn, a line of JSON out."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.contenders import CONTENDERS, Contender, Training, framework_of
from benchmarks.peers.rows import QUICK_ROWS, ROWS, Row

LOSSES = 4
"""So many steps are compared with those of other contenders."""


def memory(kind: str) -> float:
    """Megabytes of this process: "VmRSS", those of now, or "VmHWM", the most so far."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(kind))
    return int(line.split()[1]) / 1024


def start(row: Row, contender: Contender) -> tuple[Training, dict[str, Any]]:
    """Build the network and take the first steps.

    The time to the first step leaves out the import, and the setting of values that makes contenders comparable.
    """
    framework = framework_of(contender)
    imported, began = memory("VmRSS"), time.perf_counter()
    training = framework.Training(row, contender)
    built = time.perf_counter()
    training.set_values()
    ready = time.perf_counter()
    losses = [float(training.step())]
    first_step = time.perf_counter() - ready + built - began
    losses += [float(training.step()) for _ in range(LOSSES - 1)]
    return training, {"first_step_s": first_step, "imported_mb": imported, "losses": losses}


def turn(training: Training, seconds: float) -> dict[str, Any]:
    """Times of steps, in milliseconds, after one that is not counted, and the peak memory so far."""
    training.step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        began = time.perf_counter()
        training.step()
        times.append((time.perf_counter() - began) * 1000)
    return {"ms": times, "peak_mb": memory("VmHWM")}


def serve(row: Row, contender: Contender, answers: Any) -> None:
    """Answer with the first steps, and each line of input, a number of seconds, with the steps of a turn."""
    training, answer = start(row, contender)
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(training, json.loads(line))), file=answers, flush=True)


def main() -> None:
    """Run the contender that the arguments name; what frameworks print goes to the standard error."""
    row, contender, size = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    matching = next(c for c in CONTENDERS if c.name == contender)
    serve((QUICK_ROWS if size == "quick" else ROWS)[row], matching, answers)


if __name__ == "__main__":
    main()
