"""What is left of worker processes and threads after Ctrl-C, an exit in the middle, and a parent that is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import graphls.dataset as ds
from tests.dataset.sources import wait_until
from tests.interrupting import signalled_at

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
ROOT = Path(__file__).parent.parent.parent.parent
SECONDS = 300
"""How long a process that hangs is waited for."""

SCRIPT = """
import multiprocessing, time
import numpy as np
import graphls.dataset as ds

def work(x):
    time.sleep({work})
    return x

dataset = ds.GeneratorDataset(list(range(10000)), "x", shuffle=False, num_parallel_workers=2)
dataset = dataset.map(work, num_parallel_workers={workers}, python_multiprocessing={processes}).batch({batch})
iterator = dataset.create_dict_iterator()
next(iterator)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
{end}
"""


def script(end: str, workers: int = 2, processes: bool = True, work: float = 0.001, batch: int = 1) -> str:
    return SCRIPT.format(end=end, workers=workers, processes=processes, work=work, batch=batch)


def _listen_to_control_c() -> None:
    """What runs in the background may have been told to ignore it, and hands that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(code: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A process of its own group that runs a script, and the processes that it has started."""
    run = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_listen_to_control_c,
    )  # fmt: skip
    try:
        assert run.stdout is not None
        yield run, [int(word) for word in run.stdout.readline().split()]
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate(timeout=SECONDS)


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def all_gone(processes: list[int]) -> bool:
    return all(map(is_gone, processes))


@pytest.mark.parametrize("target", ["group", "parent"])
def test_control_c_ends_all_processes(target: str) -> None:
    with started(script("for row in iterator: pass")) as (run, children):
        assert len(children) == 4
        (os.killpg if target == "group" else os.kill)(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=SECONDS)
        assert run.returncode != 0
        assert errors.count("KeyboardInterrupt") == 1
        assert wait_until(lambda: all_gone(children))


def test_control_c_while_a_row_takes_long() -> None:
    end = "iterator = dataset.map(lambda x: time.sleep(1000)).create_dict_iterator()\nprint(flush=True)\nnext(iterator)"
    with started(script(end, workers=1)) as (run, children):
        assert run.stdout is not None
        run.stdout.readline()
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=SECONDS)
        assert "KeyboardInterrupt" in errors
        assert wait_until(lambda: all_gone(children))


@pytest.mark.parametrize(
    ("end", "processes"),
    [
        ("", True),
        ("kept = [iterator, next]", False),
        ("raise SystemExit(3)", True),
        ("raise ValueError('mine')", False),
    ],
)
def test_an_exit_in_the_middle(end: str, processes: bool) -> None:
    with started(script(end, processes=processes)) as (run, children):
        _, errors = run.communicate(timeout=SECONDS)
        assert run.returncode == (3 if "3" in end else 1 if "raise" in end else 0)
        assert errors.count("Traceback") == (1 if "ValueError" in end else 0)
        assert wait_until(lambda: all_gone(children))


@pytest.mark.parametrize("processes", [True, False])
def test_an_exit_while_rows_take_long(processes: bool) -> None:
    end = "iterator = dataset.map(work, num_parallel_workers=2).create_dict_iterator()\nnext(iterator)"
    slow = end.replace("work,", "lambda x: time.sleep(1000 * (x > 0).any()) or x,")
    with started(script(slow, processes=processes)) as (run, children):
        _, errors = run.communicate(timeout=SECONDS)
        assert (run.returncode, errors) == (0, "")
        assert wait_until(lambda: all_gone(children))


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_a_parent_that_is_killed(sign: signal.Signals) -> None:
    with started(script("for row in iterator: time.sleep(0.1)")) as (run, children):
        assert len(children) == 4
        run.send_signal(sign)
        run.wait(SECONDS)
        assert wait_until(lambda: all_gone(children))


def test_a_forked_copy_of_the_program_leaves_the_workers_alone() -> None:
    end = (
        "import gc, os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    del iterator\n"
        "    gc.collect()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(sum(1 for row in iterator), flush=True)\n"
    )
    code = script(end, work=0, batch=100).replace("10000", "1000")
    with started(code) as (run, children):
        output, errors = run.communicate(timeout=SECONDS)
        assert (run.returncode, output.split()) == (0, ["9"]), errors
        assert wait_until(lambda: all_gone(children))


@pytest.fixture
def ended() -> Iterator[None]:
    """Lets Python know, behind a test, that processes have ended: a Ctrl-C may come between their end and its note."""
    yield
    for process in multiprocessing.active_children():
        if is_gone(process.pid or 0):
            process._popen.returncode = -signal.SIGINT  # type: ignore[attr-defined]


@pytest.mark.usefixtures("ended")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_control_c_anywhere_leaves_no_worker_process() -> None:
    rows = ds.GeneratorDataset([1, 2, 3], "x", shuffle=False)
    dataset = rows.map(abs, num_parallel_workers=2, python_multiprocessing=True)

    def run() -> None:
        for _ in dataset.create_tuple_iterator(num_epochs=1):
            pass

    place = 0
    while True:
        with suppress(AssertionError):  # Python loses a Ctrl-C while it frees processes that have ended
            if not signalled_at(place, run):
                break
        left = [process.pid for process in multiprocessing.active_children() if process.pid is not None]
        if not wait_until(lambda left=left: all_gone(left), 20):  # type: ignore[misc]
            pytest.fail(f"a process is left at place {place}")
        place += 29
    assert place > 300
