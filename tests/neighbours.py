"""Writes down which operators have met: `make neighbours` runs the tests and many random programs for that.

As a plugin of pytest (`-p tests.neighbours`), or `python -m tests.neighbours --count 1000` for programs. What a
process has run is added to the file when it ends, so one that dies adds nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

from graphls.runtime.onnxruntime import guard, model

met: set[str] = set()
_open = guard.open_guarded


def open_and_record(runtime: Any, model: Any, device: str, open_with: Any) -> Any:
    """Open a session without a trial, and keep the neighbours of its model."""
    session = _open(runtime, model, "untried", open_with)
    met.update(guard.neighbours(model))
    return session


def write() -> None:
    """Add what has met to the file."""
    lines = defaultdict(set)
    for pair in met | guard._tried():
        first, _, second = pair.partition(" ")
        lines[first].add(second)
    text = "".join(f"{first}: {' '.join(sorted(others))}\n" for first, others in sorted(lines.items()))
    guard.TRIED.write_text(text, encoding="utf-8")


model.open_guarded = open_and_record


def pytest_sessionfinish() -> None:
    """After all tests."""
    write()


def main() -> None:
    from tests.fuzz.judge import judge
    from tests.fuzz.programs import program

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        judge(program(seed))
    write()


if __name__ == "__main__":
    main()
