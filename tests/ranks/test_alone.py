"""A process alone, with and without mpi4py, trains as without communication, and says once that it is alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ranks.running import ROOT, mpiexec

PROGRAM = """
import sys

if "mpi4py" in sys.argv:
    sys.modules["mpi4py"] = None
import numpy as np

import graphls as gl
from graphls import nn



def losses(batch_norm):
    gl.set_seed(1)
    net = nn.SequentialCell(nn.Dense(3, 4, weight_init="ones"), batch_norm, nn.Dense(4, 1, weight_init="ones"))
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1)).set_train()
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    return [float(step(gl.Tensor(x), gl.Tensor(x[:, :1])).asnumpy()) for _ in range(3)]


plain = losses(nn.BatchNorm1d(4))
if "init" in sys.argv:
    from graphls import communication
    from graphls.runtime.context.parallel import set_auto_parallel_context

    communication.init()
    communication.init()
    set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    assert (communication.get_rank(), communication.get_group_size()) == (0, 1)
assert losses(nn.SyncBatchNorm(4)) == plain
print("equal")
"""


def ended(folder: Path, *arguments: str, start: tuple[str, ...] = (), **variables: str) -> tuple[int, str, str]:
    path = folder / "program.py"
    path.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMPI_ALLOW_RUN_AS_ROOT": "1", **variables}
    environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    command = [*start, sys.executable, str(path), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_it_trains_as_without_communication(tmp_path: Path) -> None:
    one = [ended(tmp_path, "init", "mpi4py")]
    if mpiexec():
        one.append(ended(tmp_path, "init", start=(str(mpiexec()), "-n", "1")))
    for code, out, err in one:
        assert (code, out) == (0, "equal\n"), err
        assert err.count("\n") == 1 and "This process trains alone, as rank 0 of 1; `mpiexec -n 4 python" in err


def test_several_processes_need_mpi4py(tmp_path: Path) -> None:
    code, out, err = ended(tmp_path, "init", "mpi4py", PMI_SIZE="2")
    assert (code != 0, out) == (True, "")
    assert "mpiexec has started several processes, and mpi4py, through which they talk, is not installed" in err
