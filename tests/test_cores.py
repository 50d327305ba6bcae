"""Processes on one core, and the process that starts them on all of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from graphls.runtime.onnxruntime.session_options import threads
from tests.cores import one_core

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux puts processes on cores")
CORES = "import os; print(len(os.sched_getaffinity(0)))"


def test_processes_run_on_one_core_and_this_one_on_its_own() -> None:
    before, number = os.sched_getaffinity(0), threads()
    with pytest.raises(KeyError), one_core():
        started = subprocess.run([sys.executable, "-S", "-c", CORES], capture_output=True, text=True, check=True)
        raise KeyError
    assert started.stdout == "1\n"
    assert (os.sched_getaffinity(0), threads()) == (before, number)
