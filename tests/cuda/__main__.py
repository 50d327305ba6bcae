"""Everything that a card can be asked, and one report: `python -m tests.cuda [--report FILE] [--minutes N]`.

First the tests of tests/cuda, then times, then the whole suite with every step on the GPU. What is stopped by
the time that is given is reported as far as it came. The last line says whether anything failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.cuda import recorded, report

FOLDERS = (
    *("backends", "steps", "amp", "nn", "calling", "train", "diagnosis", "profile", "ops", "primitives", "networks"),
    *("passes", "trace", "context", "compat", "sharing", "summary", "test_threads.py", "test_written_steps.py"),
    *("test_copies.py", "test_step_graphs.py", "test_surrogates.py", "test_examples.py", "test_limits.py"),
    *("test_wrong_uses.py", "test_fifty_wrong_uses.py", "test_states_of_modules.py"),
)
"""What of the suite runs steps; the rest is about text, files and pictures, and the same without a card."""
CHECKS = ("card", "float8", "kernels", "numbers", "placement", "scripts")


@dataclass(frozen=True)
class Stage:
    """A run of pytest: its name, its arguments, its share of the time that is left, and whether it may be spread."""

    name: str
    arguments: tuple[str, ...]
    share: float
    spreads: bool = True


def stages(only: str) -> list[Stage]:
    """What runs, in order."""
    checks = (f"tests/cuda/test_{name}.py" for name in CHECKS)
    suite = ("-p", "tests.cuda.forced", *(f"tests/{folder}" for folder in FOLDERS))
    found = [
        Stage("checks", tuple(checks), 0.45),
        Stage("times", ("tests/cuda/test_speed.py",), 0.45, spreads=False),
        Stage("suite", suite, 1.0),
    ]
    return [stage for stage in found if only in ("", stage.name)]


def run(stage: Stage, seconds: float, workers: int, results: Path, extra: Sequence[str]) -> str:
    """Run a stage for so many seconds at most; how it ended."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.cuda.recorded",
        "-p",
        "no:cacheprovider",
        "--tb=short",
    ]
    command += ["--continue-on-collection-errors", *stage.arguments, *extra]
    if stage.spreads and workers > 1 and find_spec("xdist"):
        command += ["--numprocesses", str(workers), "--dist", "worksteal"]
    environment = {**os.environ, recorded.FILE: str(results)}
    process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=sys.stderr)
    try:
        return f"ended with exit code {process.wait(seconds)}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"was stopped after {seconds:.0f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the stages and write the report; 0 where nothing failed, 2 where there is no card."""
    parser = argparse.ArgumentParser(prog="python -m tests.cuda", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("cuda_report.txt"), help="the file to write")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long all of it may take")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="how many processes")
    parser.add_argument("--only", default="", choices=["", "checks", "times", "suite"], help="one of the stages")
    parser.add_argument("extra", nargs="*", help="arguments for pytest, behind --")
    options = parser.parse_args(arguments)
    if fault := report.fault_of_card():
        print(f"There is no GPU to test: {fault}")
        return 2
    end = time.monotonic() + 60 * options.minutes - 10  # for what is behind the stages
    parts = [report.machine()]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="graphls-") as folder:
        for stage in stages(options.only):
            results, start = Path(folder) / stage.name, time.monotonic()
            ended = run(stage, max(1.0, (end - start) * stage.share), options.workers, results, options.extra)
            found = report.read(results)
            failed += sum(result.outcome in ("failed", "unread") for result in found)
            parts.append(report.section(stage.name, ended, time.monotonic() - start, found))
            options.report.write_text("\n".join(parts), encoding="utf-8")
    last = f"{failed} tests failed" if failed else "nothing failed"
    options.report.write_text("\n".join([*parts, last, ""]), encoding="utf-8")
    print(f"{last}; send in {options.report}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
