"""Scripts of MindSpore that call `init()`, which mpiexec starts on several ranks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.ranks.running import Ended, needs_ranks, run_file

SCRIPTS = Path(__file__).parent / "scripts"


def run(name: str, folder: Path) -> Ended:
    """`mpiexec -n 2 python -m graphls exec script`, of a copy in a folder."""
    path = Path(shutil.copy(SCRIPTS / name, folder))
    ended = run_file(2, path, by=("-m", "graphls", "exec"))
    assert ended.code == 0, ended.err
    return ended


@needs_ranks
def test_a_loop_that_reduces_gradients_by_hand(tmp_path: Path) -> None:
    losses = re.findall(r"rank (\d) epoch (\d) loss ([\d.]+)", run("ranks_loop.py", tmp_path).out)
    by_epoch = [{loss for _, epoch, loss in losses if epoch == number} for number in "012"]
    assert [len(found) for found in by_epoch] == [1, 1, 1], "the mean over ranks is one number on all of them"
    assert {rank for rank, *_ in losses} == {"0", "1"}
    assert (tmp_path / "loop.ckpt").exists()


@needs_ranks
def test_a_model_with_contexts_of_mindspore_1(tmp_path: Path) -> None:
    out = run("ranks_model.py", tmp_path).out
    assert len(re.findall(r"epoch: \d step: 4, loss is", out)) == 10, "every rank tells its losses"
    found = re.findall(r"rank (\d) \{'Accuracy': .*?([01]\.\d+)\)?\}", out)
    assert sorted(rank for rank, _ in found) == ["0", "1"]
    assert len({accuracy for _, accuracy in found}) == 1 and float(found[0][1]) > 0.9
    files = [sorted(path.name for path in (tmp_path / f"ckpt/ckpt_{rank}").iterdir()) for rank in range(2)]
    assert files[0] == files[1] == ["lenet-4_4.ckpt", "lenet-5_4.ckpt", "lenet-graph.meta"]
    first, second = ((tmp_path / f"ckpt/ckpt_{rank}/lenet-5_4.ckpt").read_bytes() for rank in range(2))
    assert first == second
