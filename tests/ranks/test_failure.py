"""A rank that raises, is killed or leaves ends all ranks, with the first cause."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.ranks.running import needs_ranks, run_ranks

ENDS = """
    x = gl.Tensor([1.0])
    for i in range(5):
        if i == 2 and RANK == SIZE - 1:
            {end}
        collectives.AllReduce()(x)
    collectives.AllReduce()(x)
    print("never")
"""
RAISED = "ZeroDivisionError: division by zero\nRank {} of {} has failed with this, which ends all ranks."
CAUSES = {
    "1 / 0": RAISED.format(1, 2),
    "sys.exit(0)": "GraphRuntimeError: Rank 1 has left while rank 0 waits for it in all_reduce; all ranks run the same",
    "os.kill(os.getpid(), signal.SIGKILL)": "",
}


@needs_ranks
@pytest.mark.parametrize("end", CAUSES)
def test_a_rank_that_ends_ends_all(end: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    ended = run_ranks(2, ENDS.format(end=end), tmp_path, 60)
    assert ended.code != 0 and "never" not in ended.out
    assert CAUSES[end] in ended.err
    assert time.monotonic() - begin < 50  # it is some seconds, also where the machine has much to do


@needs_ranks
@pytest.mark.slow
def test_a_rank_that_is_done_early_waits_for_none(tmp_path: Path) -> None:
    program = """
        collectives.AllReduce()(gl.Tensor([1.0]))
        if RANK == 0:
            time.sleep(2.5)
        print(RANK)
    """
    ended = run_ranks(2, program, tmp_path, 60)
    assert (ended.code, ended.lines) == (0, ["0", "1"]), ended.err
