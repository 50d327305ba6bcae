"""A mesh of several processes: the numbers of one process, what they read, and how they end together."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls.train import load_checkpoint, load_param_into_net
from tests.ranks.running import launched, needs_ranks
from tests.xla.training import ROOT, STEPS, Row, cell_of, compiled, ended, started, trained

pytest.importorskip("jax")

START = """
import json, os, signal, sys
import numpy as np
import graphls
from graphls import communication
from graphls.ir.errors import GraphFileError
from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint, shards
from tests.xla.training import *

communication.init("xla", timeout=120)
NUMBER, COUNT = communication.get_rank(), communication.get_group_size()
OWN = slice(NUMBER * ROWS // COUNT, (NUMBER + 1) * ROWS // COUNT)

def noted(name, value):
    os.write(1, f"@{name} {json.dumps(value)}\\n".encode())
"""
NUMBERS = """
cell = cell_of(seed=NUMBER)  # all begin with the parameters of process 0
divided = compiled(cell, graphls.Mesh(data=8), zero=1)
rows = trained(divided, last=STEPS // 2, own=OWN)
save_checkpoint(cell, "checkpoint", format="shards")
noted("data", rows + trained(divided, STEPS // 2, own=OWN))
cell = cell_of(seed=0, is_divided=True)
step = compiled(cell, graphls.Mesh(model=2, data=4))
noted("model", trained(step))
load_param_into_net(cell, load_checkpoint("checkpoint"))
noted("resumed", trained(step, STEPS // 2))
staged = cell_of(seed=0, is_divided=True, parts=2)
noted("stages", trained(compiled(staged, graphls.Mesh(data=2, stage=2, model=2))))
noted("weight", float(np.square(next(iter(cell.get_parameters())).asnumpy()).sum()))
"""
WRONG = """
def full(*_):
    raise GraphFileError("the disk is full.")
if NUMBER == 1:
    shards.Save.write_own = full
x, y = batch(0)
small = graphls.compile(graphls.nn.Dense(20, 2), x, engine="xla", mesh=graphls.Mesh(data=8))
for wrong in (lambda: save_checkpoint(cell, "checkpoint", format="shards"), lambda: divided(x[:5], y),
              lambda: compiled(cell, graphls.Mesh(data=3)),
              lambda: compiled(cell_of(parts=2), graphls.Mesh(stage=2, data=4)),
              lambda: small(x + NUMBER),
              lambda: graphls.ops.AllReduce()(graphls.Tensor(x)), lambda: communication.create_group("some", [0])):
    try:
        wrong()
    except Exception as error:
        noted("error", str(error))
alone = graphls.compile(graphls.nn.Dense(20, 2, "ones", has_bias=False), x, engine="xla")
noted("alone", float(alone(np.ones_like(x) * (NUMBER + 1)).asnumpy()[0, 0]))
"""
KILLED = """
step = compiled(cell_of(), graphls.Mesh(data=8))
trained(step, last=2)
if NUMBER == int(sys.argv[1]):
    def kill(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
noted("begun", True)
while True:
    trained(step)
"""


def noted(out: str, name: str) -> list[Any]:
    """What a process wrote under a name."""
    return [json.loads(text) for text in re.findall(rf"@{name} (.*)", out)]


def one_device(parts: int = 0) -> list[Row]:
    """Losses, flags and scales of one process with one device."""
    return trained(compiled(cell_of(seed=0, parts=parts), None))


def test_two_processes_train_as_one_device_does(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(START + NUMBERS + WRONG)
    processes = started(2, program)
    alone, in_parts = one_device(), one_device(parts=2)
    both = ended(processes)
    assert [code for code, *_ in both] == [0, 0], both[0][2] + both[1][2]
    assert [flag for _, flag, _ in alone].count(True) == 1
    for number, (_, out, _) in enumerate(both):
        for name in ("data", "model"):
            (rows,) = noted(out, name)
            np.testing.assert_allclose(rows, alone, rtol=1e-5, equal_nan=True, err_msg=f"{name} of process {number}")
        np.testing.assert_allclose(noted(out, "stages")[0], in_parts, rtol=1e-5, equal_nan=True)
        np.testing.assert_allclose(noted(out, "resumed")[0], alone[STEPS // 2 :], rtol=1e-5, equal_nan=True)
        disk, shape, count, stages, other, reduced, group = noted(out, "error")
        assert "the disk is full" in disk and ("Process 1 could not save its shards" in disk) == (number == 0)
        assert "not f32[5,20]; give all processes that, or each its own part, of the shape (16, 20)" in str(shape)
        assert "A mesh of 3 devices cannot be divided among 2 processes; each has the same number" in str(count)
        assert "Each process has devices of all stages of a pipeline, and in this mesh" in stages
        assert "f32[32/data,20] is complete, and process 1 gives another one than process 0" in other
        assert "all_reduce is for ranks of MPI" in str(reduced) and "create_group is for ranks of MPI" in str(group)
        assert noted(out, "alone") == [20.0 * (number + 1)]
    cell = cell_of(seed=9)
    load_param_into_net(cell, load_checkpoint(tmp_path / "checkpoint"))
    resumed = trained(compiled(cell, None), STEPS // 2)
    np.testing.assert_allclose(resumed, noted(both[0][1], "data")[0][STEPS // 2 :], rtol=2e-6, equal_nan=True)
    assert noted(both[0][1], "weight") == noted(both[1][1], "weight")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_killed_ends_all(victim: int, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(START + KILLED)
    both = ended(started(2, program, str(victim)))
    code, out, err = both[1 - victim]
    assert code not in (0, None) and noted(out, "begun") == [True]
    by_jax = "This most likely indicates that another task died"  # which may come first
    sentence = f"GraphRuntimeError: Process {victim} of 2 has died, which ends all"
    assert sentence in err or (victim == 0 and by_jax in err)


HANGING = """
from threading import Event
from graphls.distributed.peers import Peers
step = compiled(cell_of(), graphls.Mesh(data=4))
trained(step, last=2)
noted("begun", True)
Peers.current.limit = 3.0
if NUMBER == 1:
    Event().wait()
trained(step)
"""


def test_a_process_that_hangs_ends_all_after_the_time_limit(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(START + HANGING)
    both = ended(started(2, program))
    assert [code for code, *_ in both] == [1, 1] and all(noted(out, "begun") for _, out, _ in both)
    sentence = "Process 0 of 2 has waited 3 s for others in a step of the mesh; see which of them hangs, or give init"
    assert sentence in both[0][2] and f"Process 0 of 2 has failed, which ends all: with {sentence}" in both[1][2]


OWN_MESHES = """
import sys, warnings
import numpy as np
import graphls
from graphls import communication, nn
if sys.argv[1] == "init":
    communication.init()
net, x = nn.Dense(3, 2), np.ones((4, 3), np.float32)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for size in (1, 2, 4):
        graphls.compile(net, x, engine="xla", mesh=None if size == 1 else graphls.Mesh(data=size))(x)
print(*(f"@warning {warning.message}" for warning in caught), sep="\\n")
"""


STARTED = ({"SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "n"}, {"SLURM_NTASKS": "2"})


@pytest.mark.parametrize("variables", STARTED)
def test_a_process_with_a_mesh_of_its_own_is_warned(variables: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(OWN_MESHES)
    command, variables = [sys.executable, str(program), "alone"], {"PYTHONPATH": str(ROOT), **variables}
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    warned = re.findall("@warning (.*)", done.stdout)
    assert len(warned) == ("SLURM_STEP_NODELIST" in variables)  # sbatch alone starts one process
    text = "2 processes have been started, and each runs its steps on a mesh of its own; call communication.init('xla')"
    assert all(each.startswith(f"{text} first for one mesh") for each in warned)


@needs_ranks
def test_ranks_of_mpi_with_meshes_of_their_own_are_warned(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(OWN_MESHES)
    process = launched(2, program, "init", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.count("2 processes are ranks of MPI, and each runs its steps on a mesh of its own; call ") == 2
    assert out.count("communication.init('xla') in place of init()") == 2


@needs_ranks
def test_processes_of_mpiexec_find_each_other(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(START + 'noted("data", trained(compiled(cell_of(0), graphls.Mesh(data=4)), own=OWN))\n')
    process = launched(2, program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    rows = noted(out, "data")
    assert len(rows) == 2 and rows[0] == rows[1]
    np.testing.assert_allclose(rows[0], one_device(), rtol=1e-5, equal_nan=True)


def test_processes_meet_before_jax_is_used(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    first, second = "import jax\njax.devices()\n", "from graphls.runtime.xla.library import devices_of\n"
    program.write_text(first + second + START + "devices_of('cpu', 2)\n")
    for code, _, err in ended(started(2, program)):
        assert code == 1 and "call communication.init('xla') before JAX is used" in err
