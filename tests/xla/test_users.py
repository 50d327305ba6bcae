"""XLA as users ask for it: the context, `jit`, Model with datasets and sinks, checkpoints, copies and threads."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Model, Parameter, Tensor, nn, ops
from graphls.context import reset_context, set_context
from graphls.dataset import NumpySlicesDataset
from graphls.ir.engines import candidates
from graphls.ir.errors import GraphlsError
from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint
from tests.xla.training import ROOT

jax = pytest.importorskip("jax")

X = np.random.default_rng(0).normal(size=(32, 20)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 10, 32).astype(np.int32)
LOSS = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    reset_context()


class Sum(nn.Cell):
    """A state with the sum of all inputs so far."""

    def __init__(self) -> None:
        super().__init__()
        self.total = Parameter(np.zeros(3, np.float32), name="total")

    def construct(self, x: Any) -> Any:
        self.total = self.total + x
        return self.total * 2


def network() -> nn.Cell:
    graphls.set_seed(5)
    return nn.SequentialCell(nn.Dense(20, 16), nn.ReLU(), nn.Dense(16, 10))


def test_a_model_trains_evaluates_and_predicts_as_on_other_engines() -> None:
    results = []
    for engine in ("xla", "onnxruntime"):
        set_context(engine=engine)
        net = network()
        model = Model(net, LOSS, nn.Adam(net.trainable_params(), 0.05), metrics={"acc", "loss"})
        data = NumpySlicesDataset((X, LABELS), ["x", "y"], shuffle=False).batch(8)
        model.train(3, data, dataset_sink_mode=engine == "xla")
        results.append((model.eval(data), model.predict(Tensor(X)).asnumpy(), net[0].weight.asnumpy()))
    (here, predicted, weight), (there, expected, known) = results
    assert here["acc"] == there["acc"]
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weight, known, rtol=1e-4, atol=1e-5)


def test_the_context_decides_for_jit_and_cells() -> None:
    set_context(engine="xla")
    step = graphls.compile(lambda x: ops.relu(x) + 1, X)
    assert [segment.engine for segment in step.plan.segments] == ["xla"]
    compiled = graphls.jit(lambda x: ops.relu(x) * 2 + 1)
    np.testing.assert_allclose(compiled(Tensor(X)).asnumpy(), np.maximum(X, 0) * 2 + 1, rtol=1e-6)


def test_checkpoints_take_a_training_back(tmp_path: Path) -> None:
    cell = Sum()
    x = np.ones(3, np.float32)
    step = graphls.compile(cell, x, engine="xla")
    step(x)
    save_checkpoint(cell, tmp_path / "sum.ckpt")
    assert step(x).asnumpy()[0] == 4
    load_param_into_net(cell, load_checkpoint(tmp_path / "sum.ckpt"))
    assert step(x).asnumpy()[0] == 4


def test_a_bundle_of_a_mesh_runs_on_other_meshes_and_engines(tmp_path: Path) -> None:
    net = nn.Dense(20, 8)
    net.weight.sharding = ("model", None)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1))
    inputs = X, X[:, :8]
    step = graphls.compile(cell, *inputs, engine="xla", mesh=graphls.Mesh(data=2, model=2), zero=3)
    step(*inputs)
    step.export(tmp_path / "step")
    losses = [float(step(*inputs)) for _ in range(3)]
    one = graphls.Mesh(data=1, model=1)
    for options, mesh in (
        ({"engine": "xla"}, step.graph.mesh), ({}, one), ({"engine": "xla", "mesh": one}, one),
        ({"engine": "xla", "mesh": graphls.Mesh(data=1, model=4)}, graphls.Mesh(data=1, model=4)),
    ):  # fmt: skip
        again = graphls.load_step(tmp_path / "step", **options)
        assert again.graph.mesh == mesh
        np.testing.assert_allclose([float(again(*inputs)) for _ in range(3)], losses, rtol=1e-5)
    for wrong, text in (({"data": 3, "model": 1}, "3 devices do not divide evenly"), ({"data": 4}, "has other axes")):
        with pytest.raises(GraphlsError, match=text):
            graphls.load_step(tmp_path / "step", engine="xla", mesh=graphls.Mesh(**wrong))


SCRIPT = """
import sys
import numpy as np
import mindspore as ms
from mindspore import nn
from graphls.step.calling.cache import cache_of

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_seed(1)
x = ms.Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3))
net = nn.SequentialCell(nn.Dense(3, 16), nn.ReLU(), nn.Dense(16, 3))
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.01))
losses = [step(x, x).asnumpy().item() for _ in range(5)]
(segment,) = cache_of(step).find(x, x).plan.segments
print(sys.argv[1:], segment.engine, *losses)
"""


def test_scripts_of_mindspore_run_on_an_engine_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    losses = []
    for engine in ("xla", "onnxruntime"):
        command = [sys.executable, "-m", "graphls", "exec", "--engine", engine, "train.py", "--engine", "mine"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes: Any = {"capture_output": True, "text": True, "cwd": tmp_path, "env": environment}
        done = subprocess.run(command, timeout=300, check=True, **pipes)
        head, tail = done.stdout.strip().split(f" {engine} ")
        assert head == "['--engine', 'mine']"
        losses.append([float(loss) for loss in tail.split()])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    done = subprocess.run([*command[:5], "xlb", "train.py"], timeout=300, check=False, **pipes)
    assert done.returncode == 1 and done.stderr.startswith("graphls: There is no engine 'xlb'; did you mean 'xla'")


def mixed_step(**options: Any) -> Any:
    """A step in float16 with loss scaling and dropout."""
    graphls.set_seed(3)
    net = nn.SequentialCell(nn.Dense(20, 16), nn.ReLU(), nn.Dropout(p=0.3), nn.Dense(16, 10)).to_float(graphls.float16)
    manager = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 3)
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    cell = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, LOSS), optimizer, manager)
    return graphls.compile(cell, X, LABELS, **options)


def rows(step: Any, count: int) -> list[list[float]]:
    return [[value.asnumpy().item() for value in step(X, LABELS)] for _ in range(count)]


FOUR_BY_TWO: dict[str, Any] = {"engine": "xla", "mesh": graphls.Mesh(data=4, model=2), "zero": 1}
PLACES = pytest.mark.parametrize("options", [{"engine": "xla"}, FOUR_BY_TWO], ids=["one device", "mesh"])


@PLACES
def test_a_step_is_saved_exported_and_goes_on_elsewhere(options: dict[str, Any], tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    step, other = mixed_step(**options), mixed_step()
    np.testing.assert_allclose(rows(step, 4), rows(other, 4), rtol=2e-3)
    for name, each in (("here", step), ("there", other)):
        each.save(tmp_path / f"{name}.onnx")
    models = [onnxruntime.InferenceSession(tmp_path / f"{name}.onnx") for name in ("here", "there")]
    inputs, expected = ([[value.name, value.shape, value.type] for value in model.get_inputs()] for model in models)
    assert inputs == expected, "the model is that of every engine"
    step.export(tmp_path / "bundle", loops=["python"])
    again = [graphls.load_step(tmp_path / "bundle", engine=engine) for engine in ("xla", "onnxruntime")]
    following = rows(step, 3)
    for each in again:
        np.testing.assert_allclose(rows(each, 3), following, rtol=2e-3)


@PLACES
def test_an_overflow_is_explained_as_on_other_engines(options: dict[str, Any]) -> None:
    reports = []
    for each in (mixed_step(**options), mixed_step(backend="numpy")):
        assert bool(each(1e6 * X, LABELS)[1])
        reports.append(str(each.explain_overflow(1e6 * X, LABELS)))
        assert "phase      forward\n  primitive  cast" in reports[-1]
        ranges = each.gradient_ranges(X, LABELS)
        reports.append("\n".join(line for line in str(ranges).splitlines() if "largest power" in line))
    assert reports[:2] == reports[2:]


def test_copies_have_states_of_their_own() -> None:
    x = np.ones(3, np.float32)
    step = graphls.compile(Sum(), x, engine="xla")
    step(x)
    for other in (copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
        assert other(x).asnumpy()[0] == 4
    assert step(x).asnumpy()[0] == 4


def test_repeated_steps_and_steps_of_threads_count_each_input() -> None:
    x = np.ones(3, np.float32)
    cell = Sum()
    here, there = (graphls.compile(cell, x, engine=engine) for engine in ("xla", "onnxruntime"))
    many = here.repeated(3)(np.stack([x, 2 * x, 3 * x]))
    np.testing.assert_array_equal(many.asnumpy()[:, 0], [2, 6, 12])
    threads = [Thread(target=lambda step=step: [step(x) for _ in range(25)]) for step in (here, there, here)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cell.total.asnumpy() == 6 + 75).all()


def test_wrong_inputs_are_errors_that_change_nothing() -> None:
    x = np.ones(3, np.float32)
    cell = Sum()
    step = graphls.compile(cell, x, engine="xla")
    step(x)
    for wrong in ((), (x, x), (np.ones(4, np.float32),), (np.ones(3),), ("ones",), (None,), (jax.numpy.ones(4),)):
        with pytest.raises(GraphlsError):
            step(*wrong)
    assert (cell.total.asnumpy() == 1).all()
    assert step(x).asnumpy()[0] == 4


def test_large_results_stay_on_the_device_until_they_are_read() -> None:
    x = np.ones(5000, np.float32)
    step = graphls.compile(lambda x: (x, x + 1), x, engine="xla")
    same, more = step(x)
    again = step(more)[1]
    x[:] = 7
    assert (same.asnumpy() == 1).all() and (more.asnumpy() == 2).all() and (again.asnumpy() == 3).all()
    array = more.asnumpy()
    array[:] = 5  # as one of another engine
    assert (step(jax.numpy.asarray(array))[1].asnumpy() == 6).all()


class Exporter:
    """An array of another library, which only exports its memory."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("engine", ["onnxruntime", "onednn", "xla", "numpy"])
def test_large_results_are_inputs_of_steps_on_other_engines(engine: str) -> None:
    if engine == "onednn" and engine not in candidates():
        pytest.skip("oneDNN is not installed")
    x = np.arange(2048, dtype=np.float32).reshape(32, 64)
    first = graphls.compile(lambda v: v * 3, x, engine="xla")
    options = {"backend": "numpy"} if engine == "numpy" else {"engine": engine}
    second = graphls.compile(lambda v: v + 1, x, **options)
    np.testing.assert_array_equal(second(first(x)).asnumpy(), x * 3 + 1)


def test_inputs_of_dlpack_are_read_where_they_lie() -> None:
    x = np.ones(5000, np.float32)
    step = graphls.compile(lambda x: x + 1, x, engine="xla")
    exporter = Exporter(x)
    assert np.shares_memory(step._inputs((exporter,))[0], x)
    array = jax.numpy.asarray(x) + 1
    (taken,) = step._inputs((array,))
    assert taken.ctypes.data == array.unsafe_buffer_pointer()
    assert (step(exporter).asnumpy() == 2).all() and (step(array).asnumpy() == 3).all()
