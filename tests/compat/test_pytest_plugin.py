"""Tests of others that import mindspore, run by `pytest -p graphls.compat.pytest` in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cores import one_core

ROOT = Path(__file__).parent.parent.parent
SUITE = Path(__file__).parent / "suite"


def run(folder: Path, *files: str, options: tuple[str, ...] = ("-p", "graphls.compat.pytest")) -> tuple[int, str]:
    """pytest on files of the suite, each under the name of a test, with the fixtures beside them."""
    shutil.copy(SUITE / "fixtures.py", folder / "conftest.py")
    for file in files:
        shutil.copy(SUITE / f"{file}.py", folder / f"test_{file}.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rf", *options, "."]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with one_core():
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


SUITES = ("entries", "loss_scale", "loss_scale_amp", "loss_scale_forms", "loss_scale_steps", "networks")


def test_the_suites_pass(tmp_path: Path) -> None:
    code, text = run(tmp_path, *SUITES)
    assert code == 0 and re.search(r"\d+ passed", text), text
    assert text.count("The device_target 'Ascend' is not there; graphls runs on the") == 1


def test_without_the_plugin_there_is_no_mindspore(tmp_path: Path) -> None:
    code, text = run(tmp_path, "networks", options=())
    assert code != 0 and "No module named 'mindspore'" in text
