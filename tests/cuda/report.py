"""The report of `python -m tests.cuda`: the machine, and for each stage what was measured, what failed and why."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from graphls.cli.main import main as command_line
from tests.cuda.card import fault_of_card as fault_of_card
from tests.cuda.forced import LEFT_OUT
from tests.left_out import left_out

LINES = 6
"""How many lines of an error are shown."""


@dataclass(frozen=True)
class Result:
    """What a test gave: "passed", "failed", "skipped" or "unread", with its notes and the error or reason."""

    id: str
    outcome: str
    seconds: float
    notes: tuple[str, ...]
    text: str


def read(path: Path) -> list[Result]:
    """The results in a file, of which the last line may be half; each test once."""
    found: dict[str, Result] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            result = Result(**{**json.loads(line), "notes": tuple(json.loads(line)["notes"])})
            if result.id not in found or result.outcome == "failed":
                found[result.id] = result
    return [found[id] for id in sorted(found)]


def machine() -> str:
    """The machine and what is installed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        command_line(["doctor", "--device", "cuda"])
    return f"{platform.platform()}, {os.cpu_count()} cores\n{said.getvalue()}"


def _start(text: str) -> str:
    return "\n".join(f"    {line[:300]}" for line in text.strip().splitlines()[:LINES])


def section(name: str, ended: str, seconds: float, results: list[Result]) -> str:
    """What a stage gave."""
    counts = Counter(result.outcome for result in results)
    lines = [f"== {name}: {ended}, {seconds:.0f} s: {', '.join(f'{n} {kind}' for kind, n in counts.items())}"]
    lines += [note for result in results for note in result.notes]
    reasons = Counter(result.text for result in results if result.outcome == "skipped")
    lines += [f"skipped {count}: {reason}" for reason, count in reasons.most_common()]
    alike: dict[str, list[Result]] = {}
    for result in results:
        if result.outcome in ("failed", "unread"):
            alike.setdefault(_start(result.text), []).append(result)
    for text, failed in sorted(alike.items(), key=lambda item: -len(item[1])):
        lines += [f"{result.outcome.upper()} {result.id} ({result.seconds:.1f} s)" for result in failed]
        lines.append(text)
    slowest = sorted(results, key=lambda result: -result.seconds)[:5]
    lines.append("slowest: " + ", ".join(f"{result.id} {result.seconds:.1f} s" for result in slowest))
    if name == "suite":
        lines += [f"left out: {pattern}: {reason}" for pattern, reason in left_out(LEFT_OUT)]
    return "\n".join([*lines, ""])
