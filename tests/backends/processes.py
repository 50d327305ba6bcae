"""Processes that share a folder of kept models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def assert_processes_share(folder: Path, script: str) -> None:
    """Two at once and one behind them print the same digest, and the last lowers nothing.

    The script prints whether a model was lowered, and a digest of the numbers of a step.
    """
    together = [_start(folder, script, seed) for seed in (1, 2)]
    found = [process.communicate(timeout=600)[0].split() for process in together]
    found.append(_start(folder, script, 3).communicate(timeout=600)[0].split())
    assert len({digest for _, digest in found}) == 1
    assert found[-1][0] == "False"


def _start(folder: Path, script: str, seed: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "GRAPHLS_CACHE": str(folder), "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
