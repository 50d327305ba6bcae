"""Scripts in the style of MindSpore's tutorials on parallel training, unchanged, on 8 virtual devices and on one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ranks.running import ROOT

pytest.importorskip("jax")
SCRIPTS = Path(__file__).parent / "scripts"
NAMES = (
    "operator_parallel", "optimizer_parallel", "recompute", "gradient_accumulation", "pipeline_parallel",
    "pipeline_config", "pipeline_formers",
)  # fmt: skip
PROGRAM = f"""
import contextlib, io, json, sys, warnings

from graphls.compat import run_script
from graphls.runtime.context.parallel import drive_or_warn, preserved_parallel_context

warnings.simplefilter("ignore")
for devices in 8, 1:
    for name in {NAMES!r}:
        output = io.StringIO()
        with preserved_parallel_context(), contextlib.redirect_stdout(output):
            drive_or_warn(devices)
            code = run_script({str(SCRIPTS)!r} + "/" + name + ".py")
        print(json.dumps([devices, name, code, output.getvalue().splitlines()]))
"""


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("GRAPHLS_ENGINE", None)
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_tutorials_have_the_losses_of_one_device() -> None:
    done = started("-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert [code for _, _, code, _ in map(json.loads, done.stdout.splitlines())] == [0] * 2 * len(NAMES), done.stderr
    printed = {(devices, name): lines for devices, name, _, lines in map(json.loads, done.stdout.splitlines())}
    for name in NAMES:
        several, one = printed[8, name], printed[1, name]
        assert (several[-1], one[-1]) == ("ranks: 8", "ranks: 1"), name
        losses, expected = ([line.split()[1:] for line in lines if "loss:" in line] for lines in (several, one))
        assert len(losses) >= 4
        assert [float(loss[0]) for loss in losses] == pytest.approx([float(loss[0]) for loss in expected], rel=1e-5)
        assert [loss[1:] for loss in losses] == [loss[1:] for loss in expected]
        assert [line for line in several if "steps:" in line] == [line for line in one if "steps:" in line]


DIVIDED = """
import mindspore as ms
import numpy as np
from mindspore import nn, ops

import graphls


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(np.ones((16, 8), np.float32), name="weight")
        self.product = ops.MatMul().shard(((4, 2), (2, 1)))

    def construct(self, x):
        return self.product(x, self.weight)


ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
net = Net()
print(graphls.compile(net, np.ones((8, 16), np.float32)).graph)
faults = {
    "strategy": lambda: ms.set_auto_parallel_context(dataset_strategy=((3, 1),)),
    "cuts": lambda: net.product.shard(((4, 4), (4, 1))),
    "alike": lambda: net.product.shard(((4, 2), (4, 1))),
    "equal": lambda: net.product.shard(((3, 1), (1, 1))),
    "numbers": lambda: net.product.shard(((4,), (1, 1))),
    "tuple": lambda: net.product.shard((4, 1)),
    "hybrid": lambda: ms.set_auto_parallel_context(parallel_mode="hybrid_parallel"),
    "shards": lambda: ms.set_auto_parallel_context(parallel_optimizer_config={"optimizer_weight_shard_size": 2}),
    "pipelines": lambda: ms.set_auto_parallel_context(pipeline_stages=3),
}
for name, fault in faults.items():
    try:
        fault()
        graphls.compile(net, np.ones((8, 16), np.float32))
    except Exception as error:
        print(f"{name}: {error}")
    ms.set_auto_parallel_context(dataset_strategy="full_batch")
"""


def test_strategies_divide_operands_and_parameters_or_say_why_not(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(DIVIDED)
    done = started("-m", "graphls", "exec", "--devices", "8", str(tmp_path / "script.py"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "graph @Net mesh(d0=2, d1=2, d2=2) (%x: f32[8/d0+d1+d2,16]) {"
    assert lines[1] == "  state @weight: f32[16/d2,8]"
    assert "f32[8/d0+d1,16/d2]" in done.stdout
    faults = [line.split(" (/")[0] for line in lines if line.split(":")[0].isidentifier()]
    assert [fault.split(":")[0] for fault in faults] == [
        "strategy", "cuts", "alike", "equal", "numbers", "tuple", "hybrid", "shards", "pipelines"
    ]  # fmt: skip
    product = "The in_strategy ((4, 4), (4, 1)) of MatMul cuts dimensions into 4 x 4 x 1 slices, which the 8 devices"
    assert product in faults[1] and "script.py" in lines[-8]
    assert "cuts one dimension of the operator into 2 and into 4 slices" in faults[2]
    assert "cuts 8 elements into 3 slices, which are not equal parts" in faults[3]
    assert "has 1 numbers for tensor 0, whose shape is (8, 16)" in faults[4]
    assert "is a tuple with slices for each tensor" in faults[5]
    assert "'hybrid_parallel' runs operators on the part of one device, and this process drives 8; use" in faults[6]
    assert "are divided among all 8 devices, not among 2" in faults[7]
    assert "3 stages of a pipeline cannot have equal parts of 8 devices; set pipeline_stages to" in faults[8]
    assert "The dataset_strategy (3, 1) cuts dimensions into 3 x 1 slices" in faults[0]


RANKS = """
import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_local_rank_size, get_rank, init
from mindspore.parallel import Layout

import graphls

init()
assert (get_rank(), get_group_size(), get_local_rank_size()) == (0, 8, 8)
assert ms.get_auto_parallel_context("device_num") == 8

rows = ds.NumpySlicesDataset(np.arange(30), "x", shuffle=False, num_shards=8, shard_id=0)
sizes = [(len(x), x[0], x[-1]) for (x,) in rows.batch(2).create_tuple_iterator(output_numpy=True)]
assert sizes == [(16, 0, 15), (16, 16, 1)], sizes  # shards have equal lengths: the last go on with the first rows
shuffled = ds.NumpySlicesDataset(np.arange(32), "x", num_shards=8, shard_id=0, num_samples=2)
assert len({int(x) for (x,) in shuffled}) == 16
assert len(list(ds.NumpySlicesDataset(np.arange(32), "x", num_shards=4, shard_id=0).batch(2))) == 4
assert len(list(ds.NumpySlicesDataset(np.arange(32), "x").batch(2))) == 16

columns = np.zeros((30, 1), np.float32), np.eye(30, 1, dtype=np.float32)
rows = ds.NumpySlicesDataset(columns, ["x", "y"], shuffle=False, num_shards=8, shard_id=0).batch(1)
model = ms.train.Model(nn.Identity(), loss_fn=nn.MSELoss(), metrics={"mae"})
assert abs(model.eval(rows)["mae"] - 1 / 30) < 1e-6  # each row counts once

x = ms.Tensor(np.ones((8, 3), np.float32))
assert ops.AllReduce()(x).asnumpy().tolist() == [[8.0] * 3] * 8
assert ops.AllReduce(ops.ReduceOp.MAX)(x).asnumpy().tolist() == [[1.0] * 3] * 8
assert ops.AllGather()(x).shape == (64, 3)


def first_change(**settings):
    ms.set_auto_parallel_context(parallel_mode="data_parallel", **settings)
    net = nn.WithLossCell(nn.Dense(3, 1, weight_init="ones", bias_init="zeros"), nn.MSELoss())
    optimizer = nn.SGD(net.trainable_params(), 0.125)
    cell = nn.TrainOneStepCell(net, optimizer)
    step = graphls.compile(cell, x, x[:, :1])
    step(x, x[:, :1])
    return 1 - net.trainable_params()[0].asnumpy()[0, 0], str(step.graph)


mean, graph = first_change(gradients_mean=True)
total, _ = first_change(gradients_mean=False)
assert (mean, total) == (0.5, 4.0), (mean, total)
assert "f32[8/d0+d1+d2,3]" in graph

layout = Layout((2, 4), ("dp", "mp"))
dense = nn.Dense(8, 16)
divided = dense.shard((layout("dp", "mp"),), (layout(("dp", "mp"), "None"),), {"weight": layout("mp", "None")})
ms.set_auto_parallel_context(parallel_mode="auto_parallel", dataset_strategy=((2, 1),))
graph = str(graphls.compile(lambda x: divided(x), np.ones((8, 8), np.float32)).graph)
for text in "%x0: f32[8/d0,8]", "f32[8/d0,8/d1+d2]", "f32[8/d0+d1+d2,16]", "weight: f32[16/d1+d2,8]":
    assert text in graph, (text, graph)
alike = ms.shard(lambda a, b: a + b, in_strategy=((8, 1), (1, 8)))
graph = str(graphls.compile(alike, np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)).graph)
assert "f32[8/d0+d1+d2,8]" in graph and "f32[8,8/d0+d1+d2]" in graph
print("held")
"""


def test_one_process_counts_as_the_ranks_of_its_devices(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(RANKS)
    done = started("-m", "graphls", "exec", "--devices", "8", str(tmp_path / "script.py"))
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr


GROUPS = """
import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import (
    comm_func, create_group, destroy_group, get_group_rank_from_world_rank, get_group_size, get_local_rank_size,
    get_process_group_ranks, get_rank, get_world_rank_from_group_rank, init,
)

init()
x = ms.Tensor(np.arange(8, dtype=np.float32))
halves = {"low": [0, 1, 2, 3], "even": [6, 4, 2, 0], "high": [4, 5, 6, 7]}
for name, ranks in halves.items():
    create_group(name, ranks)
assert get_process_group_ranks() == [*range(8)] and get_process_group_ranks("even") == [6, 4, 2, 0]
assert [get_group_size(name) for name in ("low", "even")] == [4, 4] == [get_local_rank_size(n) for n in ("low", "even")]
assert (get_rank("low"), get_rank("even")) == (0, 3)
assert (get_world_rank_from_group_rank("even", 1), get_group_rank_from_world_rank(6, "even")) == (4, 0)

for group, count in {"low": 4, "even": 4, None: 8}.items():
    group = {} if group is None else {"group": group}
    for value in (ops.AllReduce(**group)(x), comm_func.all_reduce(x, **group)[0], comm_func.reduce(x, 0, **group)):
        assert (value == count * x).all(), (group, value)
    assert (ops.AllReduce("max", **group)(x) == x).all()
    assert (comm_func.all_reduce(x, "prod", **group)[0] == x**count).all()
    for value in (ops.AllGather(**group)(x), comm_func.all_gather_into_tensor(x, **group)[0]):
        assert value.shape == (8 * count,) and (value[8:16] == x).all()
    assert (comm_func.broadcast(x, 2, **group) == x).all()
    assert not comm_func.reduce(x, 2, **group).any()
    comm_func.barrier(**group)


class Mean(nn.Cell):
    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce(group="low")

    def construct(self, x):
        return self.reduce(x) / 4


ms.set_context(mode=ms.GRAPH_MODE)
assert (Mean()(x) == x).all()


def refused(call, *parts):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert all(part in str(error) for part in parts), error
    else:
        raise AssertionError(parts)


own = "gives each rank a result of its own, and this process has one for all of its"
for call in (
    lambda: ops.ReduceScatter()(x), lambda: comm_func.reduce_scatter_tensor(x, group="low"),
    lambda: comm_func.send(x, 1),
    lambda: ops.AlltoAll(8, 0, 0)(x), lambda: comm_func.scatter_tensor(x), lambda: comm_func.recv(x, 1),
):
    refused(call, own, "docs/parallel.md")
refused(lambda: ops.AllReduce(group="high")(x), "Rank 0 is none of the group 'high', which has (4, 5, 6, 7).")
refused(lambda: create_group("more", [0, 8]), "numbers below 8, as many devices as this process drives", "--devices 9")
refused(lambda: create_group("low", [0, 1]), "There is a group 'low' already")
refused(lambda: nn.DistributedGradReducer([], group="low"), "all 8 devices", "not of the group 'low' of 4 ranks")
refused(lambda: nn.SyncBatchNorm(3, process_groups=[[0, 1], [2, 3]]), "their joined batch", "[[0, 1], [2, 3]]")
assert nn.SyncBatchNorm(3, process_groups=[[*range(8)]]).group is None
destroy_group("low")
refused(lambda: get_group_size("low"), "There is no group 'low'")
print("held")
"""


def test_groups_of_some_devices_count_as_ranks_that_have_the_same_tensors(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(GROUPS)
    done = started("-m", "graphls", "exec", "--devices", "8", str(tmp_path / "script.py"))
    assert (done.returncode, done.stdout) == (0, "held\n"), done.stderr


def test_a_script_runs_on_one_device_without_jax(tmp_path: Path) -> None:
    script = "import sys; from graphls.cli.main import main; import graphls.runtime.context.parallel as parallel\n"
    script += "parallel.find_spec = lambda name: None\n"
    (tmp_path / "script.py").write_text(
        "import mindspore as ms\nfrom mindspore.communication import init, get_group_size\ninit()\n"
        "print(get_group_size())\n"
    )
    done = started("-c", script + f"sys.exit(main(['exec', '--devices', '8', {str(tmp_path / 'script.py')!r}]))")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert "The script runs on one device and not on 8, as JAX, which drives them, is missing" in done.stderr
