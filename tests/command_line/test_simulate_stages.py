"""`python -m graphls simulate --mesh stage=...`: what the stages of a pipeline need, by their tasks and schedule."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import graphls
from graphls import Mesh, nn
from graphls.cli.main import main
from graphls.runtime.simulation import TrainingStep, simulated
from graphls.runtime.xla.analysis import Analysis
from graphls.runtime.xla.stage_analysis import analysed

pytest.importorskip("jax")

ROWS, WIDTH = 64, 32
WEIGHT = 4 * WIDTH * WIDTH
"""Bytes of the weight of one layer."""

SCRIPT = f"""
import sys
import numpy as np
import graphls
from graphls import nn

layers = [nn.Dense({WIDTH}, {WIDTH}, has_bias=False) for _ in range(4)]
for number, layer in enumerate(layers):
    layer.pipeline_stage = number // 2
net = nn.SequentialCell(*layers)
loss = nn.GradAccumulationCell(nn.WithLossCell(net, nn.MSELoss()), int(sys.argv[1]))
train = nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
x = np.zeros(({ROWS}, {WIDTH}), np.float32)
graphls.compile(train, x, x)
"""


def training(micro: int) -> tuple[nn.Cell, np.ndarray, np.ndarray]:
    layers = [nn.Dense(WIDTH, WIDTH, has_bias=False) for _ in range(4)]
    for number, layer in enumerate(layers):
        layer.pipeline_stage = number // 2
    net = nn.SequentialCell(*layers)
    loss = nn.GradAccumulationCell(nn.WithLossCell(net, nn.MSELoss()), micro)
    x = np.zeros((ROWS, WIDTH), np.float32)
    return nn.TrainOneStepCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9)), x, x


def analysis_of(mesh: Mesh, micro: int) -> Analysis:
    with pytest.raises(TrainingStep) as ended, simulated(mesh, 0):
        graphls.compile(*training(micro))
    return analysed(ended.value.graph)


def test_a_stage_has_its_own_states_alone() -> None:
    analysis = analysis_of(Mesh(stage=2), 4)
    assert analysis.stage in (0, 1)
    weights = [state for state in analysis.states if state.type.rank == 2]
    assert sum(map(analysis.local_size, weights)) == 2 * 2 * WEIGHT  # two layers with their moments


def test_memory_is_that_of_the_step_where_it_runs() -> None:
    cell, x, y = training(4)
    step = graphls.compile(cell, x, y, engine="xla", mesh=Mesh(stage=2))
    step(x, y)
    analysis = analysis_of(Mesh(stage=2), 4)
    parts = [part for part in step._session.parts if part.segment.stage == analysis.stage]
    memories = [part.program.compiled.memory_analysis() for part in parts]
    assert analysis.temporaries >= max(each.temp_size_in_bytes for each in memories)
    names = {name for part in parts for name in part.types}
    arrays = [step.parameters[name].storage.current.array for name in names]
    assert {state.name for state in analysis.states} == names
    assert sum(map(analysis.local_size, analysis.states)) == sum(array.nbytes for array in arrays)


def test_stages_send_activations_forward_and_gradients_backward() -> None:
    analysis = analysis_of(Mesh(stage=2), 4)
    sent = [(task.stage, each.size) for task in analysis.tasks for each in task.collectives if each.kind == "send"]
    part = 4 * ROWS // 4 * WIDTH
    assert sent.count((1, part)) == 4  # what each forward of the second stage receives
    assert sent.count((0, part)) == 4


def test_devices_of_a_stage_reduce_their_gradients() -> None:
    kinds = {(each.kind, each.axes) for each in analysis_of(Mesh(stage=2, data=2), 4).collectives}
    assert ("all-reduce", ("data",)) in kinds
    assert ("send", ("stage",)) in kinds


def test_more_parts_wait_less_for_other_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    shares = []
    for micro in ("1", "8"):
        machine = ["--flops", "1e6", "--bandwidth", "1GB/s", "--latency", "1us", "--memory", "1kB"]
        assert main(["simulate", "--mesh", "stage=2", *machine, str(tmp_path / "train.py"), micro]) == 0
        out = capsys.readouterr().out
        assert re.search(r"\nOf 2 stages, stage [01] needs most memory on a device; ", out)
        assert "could divide it" not in out
        found = re.search(r"stages wait (\d+)% of it for others", out)
        assert found
        shares.append(int(found[1]))
    assert shares[0] >= 45  # one stage after the other
    assert shares[1] < 20
