"""Programs that mpiexec runs on several ranks, for tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
START = """
import os
import signal
import sys
import time

import numpy as np

import graphls as gl
from graphls import communication, nn, ops
from graphls.communication import get_group_size, get_rank, init
from graphls.compat.operators import collectives
from graphls.runtime.context.parallel import set_auto_parallel_context

init()
RANK, SIZE = get_rank(), get_group_size()
NOW = ""

if hasattr(os, "sched_setaffinity"):  # so that steps compute on one thread: those that wait take what others need
    CORES = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {CORES[RANK % len(CORES)]})


def print(*items):
    # In one piece, as ranks write at the same time.
    os.write(1, (" ".join([*NOW.split(), *map(str, items)]) + chr(10)).encode())

"""
EACH = """
from pathlib import Path

for NOW, *sys.argv[1:] in {programs!r}:
    gl.reset_auto_parallel_context()
    exec(compile(Path(NOW + ".py").read_text(), NOW + ".py", "exec"), dict(globals()))
"""


def mpiexec() -> str | None:
    """The launcher beside this Python, or the one on the path; None where ranks cannot run."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    return found if importlib.util.find_spec("mpi4py") else None


needs_ranks = pytest.mark.skipif(mpiexec() is None, reason="mpi4py and an mpiexec are not installed: the extra `mpi`")


@dataclass(frozen=True)
class Ended:
    """How a program ended on all ranks."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What the ranks wrote, in the order of the lines' texts, as ranks write at the same time."""
        return sorted(self.out.splitlines())


def run_ranks(count: int, program: str, folder: Path, timeout: float = 600, *arguments: str) -> Ended:
    """Run a program, which begins with START, on so many ranks; what hangs is ended, and fails the test."""
    path = folder / "program.py"
    path.write_text(START + textwrap.dedent(program), encoding="utf-8")
    return run_file(count, path, *arguments, timeout=timeout)


def run_file(count: int, path: Path, *arguments: str, timeout: float = 600, by: tuple[str, ...] = ()) -> Ended:
    """Run a file on so many ranks, `by` other arguments of Python before it; what hangs fails the test."""
    process = launched(count, path, *arguments, by=by, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"{count} ranks did not end within {timeout} s:\n{out}\n{err}")
    return Ended(process.returncode, out, err)


def launched(
    count: int, path: Path, *arguments: str, by: tuple[str, ...] = (), **settings: Any
) -> subprocess.Popen[Any]:
    """The mpiexec that has started a file on so many ranks, in the folder of the file, in a session of its own."""
    # The mpiexec of Open MPI refuses roots, and more ranks than cores, unless it is told; that of MPICH reads none.
    told = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    told |= {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_mpi_yield_when_idle": "1"}
    environment = {**os.environ, **told, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **settings.pop("env", {})}
    command = [str(mpiexec()), "-n", str(count), sys.executable, *by, str(path), *arguments]
    return subprocess.Popen(command, cwd=path.parent, env=environment, start_new_session=True, **settings)


def ended_well(count: int, program: str, folder: Path, *arguments: str, timeout: float = 600) -> list[str]:
    """The sorted lines that the ranks of a program write that ends without an error."""
    ended = run_ranks(count, program, folder, timeout, *arguments)
    assert ended.code == 0, ended.err
    return ended.lines


@dataclass(frozen=True)
class Ran:
    """Programs that ranks ran in a folder, by their names the sorted lines of each."""

    folder: Path
    found: dict[str, list[str]]


Program = str | tuple[str, ...]
"""The text of a program, and its arguments."""


def each_ended_well(count: int, folder: Path, **programs: Program) -> dict[str, list[str]]:
    """The sorted lines of several programs by their names, which the same ranks run one after the other.

    So the ranks start once; what a program sets in parallel training is forgotten before the next.
    """
    given = {name: (program,) if isinstance(program, str) else program for name, program in programs.items()}
    for name, (text, *_) in given.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    calls = [(name, *arguments) for name, (_, *arguments) in given.items()]
    lines = ended_well(count, EACH.format(programs=calls), folder)
    return {name: [line.removeprefix(f"{name} ") for line in lines if line.split()[0] == name] for name in given}
