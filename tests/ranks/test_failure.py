"""A rank that raises, is killed or leaves ends all ranks, with the first cause."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.ranks.kills import campaign
from tests.ranks.running import launched, needs_ranks, run_ranks

EARLY = """
import os

from graphls import communication

if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    1 / 0
communication.init()
"""

ENDS = """
    from graphls.distributed import watchdog

    watchdog.PATIENCE = 0.3
    x = gl.Tensor([1.0])
    for i in range(5):
        if i == 2 and RANK == SIZE - 1:
            {end}
        collectives.AllReduce()(x)
    collectives.AllReduce()(x)
    print("never")
"""
RAISED = "ZeroDivisionError: division by zero\nRank {} of {} has failed with this, which ends all ranks."
LEFT = "GraphRuntimeError: Rank 1 has left while rank 0 waits for it in all_reduce of f32[1] at program.py:36"
CAUSES = {
    "1 / 0": RAISED.format(1, 2),
    "sys.exit(0)": LEFT, "os._exit(0)": LEFT,
    "os.kill(os.getpid(), signal.SIGKILL)": "",
}


@needs_ranks
@pytest.mark.parametrize("end", CAUSES)
def test_a_rank_that_ends_ends_all(end: str, tmp_path: Path) -> None:
    ended = run_ranks(2, ENDS.format(end=end), tmp_path)
    assert ended.code != 0 and "never" not in ended.out
    assert CAUSES[end] in ended.err


@needs_ranks
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what runs is looked up in /proc")
def test_trainings_that_are_ended_at_random_moments_lose_nothing() -> None:
    """In two ways; `python -m tests.ranks.kills` tries all of them, and often."""
    assert "2 trainings ended" in campaign(("kill", "interrupt"), 2, (2,), 1, longest_end=600)


@needs_ranks
def test_a_rank_that_fails_before_it_meets_the_others(tmp_path: Path) -> None:
    path = tmp_path / "early.py"
    path.write_text(EARLY)
    with open(tmp_path / "err", "w") as err:
        assert launched(2, path, stderr=err).wait(600) != 0
    assert "ZeroDivisionError" in (tmp_path / "err").read_text()


@needs_ranks
@pytest.mark.slow
def test_a_rank_that_is_done_early_waits_for_none(tmp_path: Path) -> None:
    program = """
        from graphls.distributed import watchdog

        watchdog.PATIENCE = 0.2
        collectives.AllReduce()(gl.Tensor([1.0]))
        if RANK == 0:
            time.sleep(0.6)
        print(RANK)
    """
    ended = run_ranks(2, program, tmp_path)
    assert (ended.code, ended.lines) == (0, ["0", "1"]), ended.err


OTHER_GROUPS = """
    communication.create_group("both", [0, 1])
    from graphls.distributed import watchdog

    watchdog.PATIENCE = 0.2
    x = gl.Tensor([1.0])
    collectives.AllReduce(group="both")(x)
    if RANK == 0:
        collectives.barrier()
    collectives.AllReduce(group="both")(x)
    print("never")
"""


@needs_ranks
def test_ranks_that_wait_for_each_other_in_two_groups(tmp_path: Path) -> None:
    ended = run_ranks(2, OTHER_GROUPS, tmp_path)
    assert ended.code != 0 and "never" not in ended.out
    for side in ("rank 0 runs barrier at program.py:", "rank 1 runs all_reduce of f32[1] in the group 'both' at pro"):
        assert side in ended.err.lower(), ended.err
    assert "every rank of a group must run the same collectives in the same order" in ended.err


STOPPED = """
    from graphls.distributed.watchdog import Watching

    os.environ["HCCL_EXEC_TIMEOUT"] = "7"
    communication.init()
    assert Watching.watch.limit == 7
    communication.init(timeout=0.5)
    collectives.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    collectives.AllReduce()(gl.Tensor([1.0]))
    print("never")
"""


@needs_ranks
def test_after_the_time_limit_a_rank_that_is_stopped_is_named_and_all_end(tmp_path: Path) -> None:
    """The third rank waits as well, and is not blamed."""
    ended = run_ranks(3, STOPPED, tmp_path)
    assert ended.code != 0 and "never" not in ended.out
    told = r"GraphRuntimeError: Rank (0|2) has waited [\d.]+ s for rank 1, which does not answer, in all_reduce of f32"
    assert re.search(told + r"\[1\] at program.py:\d+, which may take 0.5 s; see to that rank", ended.err), ended.err


LAST = """
    from pathlib import Path
    from graphls.distributed import deadlock, watchdog

    watchdog.REPORT_AFTER, deadlock.ANSWERS = 0.1, 60
    telling = sys.stderr.write

    def tell(text):
        telling(text)
        Path(text.strip().rpartition(", in ")[2][:8]).touch()

    def until(file):
        while not Path(file).exists():
            time.sleep(0.01)

    sys.stderr.write = tell
    large = gl.Tensor(np.zeros(1 << 20, np.float32))
    if RANK == 0:
        collectives.send(large, 1)
    else:
        until("neighbor")
        collectives.recv(large, 0)
        until("its exit")
"""


@needs_ranks
def test_a_rank_says_for_whom_it_waits_to_send_and_to_end(tmp_path: Path) -> None:
    ended = run_ranks(2, LAST, tmp_path)
    assert ended.code == 0, ended.err
    for told in ("neighbor_exchange of f32[1048576] at program.py:", "its exit."):
        text = rf"Rank 0 has waited [\d.]+ s for rank 1, which runs none, in {re.escape(told)}"
        assert re.search(text, ended.err), ended.err
