"""A training that is killed again and again loses at most the step in flight, and never a file.

`python -m tests.train.test_killed_training FOLDER 200` kills it that many times.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from graphls.train.serialization import load_checkpoint
from tests.train import checkpointed_training
from tests.train.checkpointed_training import complete

ROOT = Path(__file__).parents[2]
LONGEST_WAIT = 0.02
"""Seconds, several times a step with its file."""


def killed_run(folder: Path, steps: int, wait: float) -> int:
    """Kill a training `wait` seconds after some steps; returns the last step that it told to be saved."""
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_train, args=(folder, writing))
    process.start()
    os.close(writing)
    with open(reading) as lines:
        told = [next(lines) for _ in range(steps)]
        time.sleep(wait)
        process.kill()
        process.join()
        told += lines
    return int(told[-1])


def _train(folder: Path, output: int) -> None:
    os.dup2(output, 1)
    sys.stdout = open(1, "w")  # noqa: SIM115
    checkpointed_training.main(folder, 10**9)


def kill_many_times(times: int, folder: Path, seed: int) -> list[int]:
    """How many steps each of the trainings did that began where the one before had been killed."""
    rng, done, counts = np.random.default_rng(seed), 0, []
    for _ in range(times):
        told = killed_run(folder, int(rng.integers(1, 4)), float(rng.uniform(0, LONGEST_WAIT)))
        saved = int(load_checkpoint(complete(folder)[-1])["step_num"])
        assert saved >= told > done, f"step {told} was saved and is lost"
        counts.append(saved - done)
        done = saved
    return counts


def main(folder: Path, times: int) -> None:
    counts = kill_many_times(times, folder, seed=times)
    unfinished = len(list(folder.glob(".*")))
    print(f"{times} kills, {sum(counts)} steps, {min(counts)} to {max(counts)} in a run, {unfinished} files unfinished")


def test_a_training_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.train.test_killed_training", str(tmp_path / "killed"), "20"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    assert len(list((tmp_path / "killed").glob(".*"))) <= 1
    newest = complete(tmp_path / "killed")[-1]
    steps = int(load_checkpoint(newest)["step_num"])
    checkpointed_training.main(tmp_path / "whole", steps)
    assert newest.read_bytes() == complete(tmp_path / "whole")[-1].read_bytes()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
