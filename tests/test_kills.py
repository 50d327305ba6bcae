"""A training that is ended at random moments loses nothing; `python -m tests.kills` does it many times more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphls.runtime.onednn.engine import Onednn


@pytest.mark.skipif(sys.platform != "linux", reason="the trainings are forked")
@pytest.mark.parametrize(("steps", "count"), [("session", 5), ("plan", 3)])
def test_trainings_that_are_killed_interrupted_and_asked_to_end(steps: str, count: int) -> None:
    assert_nothing_is_lost(steps, count)


@pytest.mark.skipif(not Onednn().version(), reason="oneDNN is not installed")
@pytest.mark.parametrize(("steps", "count"), [("session", 2), ("images", 2), ("plan", 1), ("large", 1)])
def test_the_same_on_onednn(steps: str, count: int) -> None:
    assert_nothing_is_lost(steps, count, "--engine", "onednn")


def assert_nothing_is_lost(steps: str, count: int, *options: str) -> None:
    """Run campaigns of all signals in a process."""
    command = [sys.executable, "-m", "tests.kills", "--count", str(count), "--steps", steps, *options]
    result = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(f"{steps}, {count} times SIG") == 3
