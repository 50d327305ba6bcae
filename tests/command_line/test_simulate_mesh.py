"""`python -m graphls simulate --mesh`: memory and communication of a step, by compiling it for virtual devices."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, nn
from graphls.cli.main import main
from graphls.compat.hook.script import run_script
from graphls.runtime.simulation import TrainingStep, simulated
from graphls.runtime.xla.analysis import Analysis
from graphls.runtime.xla.collectives import SLICED, collectives
from graphls.runtime.xla.instructions import Instructions
from graphls.runtime.xla.liveness import live_at_peak
from graphls.runtime.xla.stage_analysis import analysed

pytest.importorskip("jax")

ROWS, INPUTS, HIDDEN, OUTPUTS = 64, 64, 128, 32
WEIGHTS = 4 * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
"""Bytes of the weights of the script, and of their gradients."""
SCALARS = 12
"""Bytes of the learning rate, the momentum and the count of steps."""

SCRIPT = f"""
import sys
import numpy as np
import graphls
from graphls import nn

if "GPU" in sys.argv:
    graphls.set_context(device_target="GPU")

first, second = nn.Dense({INPUTS}, {HIDDEN}, has_bias=False), nn.Dense({HIDDEN}, {OUTPUTS}, has_bias=False)
if "columns" in sys.argv:
    first.weight.sharding, second.weight.sharding = ("model", None), (None, "model")
net = nn.SequentialCell(first, nn.ReLU(), second)
if "half" in sys.argv:
    net.to_float(graphls.float16)
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
x, y = np.zeros(({ROWS}, {INPUTS}), np.float32), np.zeros(({ROWS}, {OUTPUTS}), np.float32)
step = graphls.compile(train, x, y)
print("the step is there")
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def analysis_of(script: str, mesh: Mesh, zero: int = 0, arguments: tuple[str, ...] = ()) -> Analysis:
    with pytest.raises(TrainingStep) as step, simulated(mesh, zero):
        run_script(script, arguments)
    return analysed(step.value.graph)


def moved(analysis: Analysis) -> dict[tuple[str, tuple[str, ...]], tuple[int, int]]:
    """The bytes of arrays, and those that a device sends, by kind and axes."""
    sums: dict[tuple[str, tuple[str, ...]], tuple[int, int]] = {}
    for each in analysis.collectives:
        size, sent = sums.get((each.kind, each.axes), (0, 0))
        sums[each.kind, each.axes] = size + each.size * each.times, sent + each.sent
    return sums


def test_data_parallel_steps_reduce_all_gradients_and_the_loss(script: str) -> None:
    analysis = analysis_of(script, Mesh(data=8))
    assert moved(analysis) == {("all-reduce", ("data",)): (WEIGHTS + 4, round((WEIGHTS + 4) * 2 * 7 / 8))}
    rows = ROWS * (INPUTS + OUTPUTS) * 4 // 8
    assert analysis.arguments == 2 * WEIGHTS + SCALARS + rows
    products = 2 * ROWS // 8 * (2 * INPUTS * HIDDEN + 3 * HIDDEN * OUTPUTS)  # the input has no gradient
    assert products <= analysis.flops < 1.1 * products + 4 * WEIGHTS


def test_zero_divides_moments_and_gathers_parameters(script: str) -> None:
    whole, divided = analysis_of(script, Mesh(data=8)), analysis_of(script, Mesh(data=8), 1)
    assert whole.arguments - divided.arguments == WEIGHTS * 7 // 8
    bytes_moved = moved(divided)
    assert bytes_moved[SLICED, ("data",)] == (WEIGHTS, WEIGHTS * 7 // 8)
    assert bytes_moved["all-gather", ("data",)] == (WEIGHTS, WEIGHTS * 7 // 8)
    everything = analysis_of(script, Mesh(data=8), 3)
    assert whole.arguments - everything.arguments == 2 * WEIGHTS * 7 // 8


def test_columns_and_rows_reduce_the_results_of_rows(script: str) -> None:
    analysis = analysis_of(script, Mesh(data=4, model=2), 0, ("columns",))
    bytes_moved = moved(analysis)
    results = ROWS // 4 * OUTPUTS * 4
    assert bytes_moved["all-reduce", ("model",)] == (results, results)  # 2 * (2 - 1) / 2 of them
    assert bytes_moved["all-reduce", ("data",)][0] == WEIGHTS // 2 + 4
    sizes = sorted(map(analysis.local_size, analysis.parameters))
    assert sizes == [4 * HIDDEN * OUTPUTS // 2, 4 * INPUTS * HIDDEN // 2]


def network() -> tuple[Any, Any, Any]:
    net = nn.SequentialCell(nn.Dense(INPUTS, HIDDEN, has_bias=False), nn.Dense(HIDDEN, OUTPUTS, has_bias=False))
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    return train, np.zeros((ROWS, INPUTS), np.float32), np.zeros((ROWS, OUTPUTS), np.float32)


def test_memory_is_that_of_the_step_where_it_runs() -> None:
    train, x, y = network()
    step = graphls.compile(train, x, y, engine="xla", mesh=Mesh(data=8), zero=1)
    step(x, y)
    (part,) = step._session.parts
    with pytest.raises(TrainingStep) as ended, simulated(Mesh(data=8), 1):
        graphls.compile(network()[0], x, y)
    analysis = analysed(ended.value.graph)
    real = part.program.compiled.memory_analysis()
    assert analysis.temporaries == real.temp_size_in_bytes
    assert analysis.arguments == real.argument_size_in_bytes
    first = [part.parameters[name].storage.current.array.addressable_shards[0].data for name in part.types]
    assert sum(analysis.local_size(state) for state in analysis.states) == sum(shard.nbytes for shard in first)


def test_parameters_larger_than_the_memory_have_no_values() -> None:
    with pytest.raises(TrainingStep) as step, simulated(Mesh(data=2, model=4), 0):
        net = nn.Dense(400_000, 400_000, has_bias=False)
        net.weight.sharding = ("model", None)
        train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params()))
        x = np.zeros((2, 400_000), np.float32)
        graphls.compile(train, x, x)
    analysis = analysed(step.value.graph)
    assert analysis.arguments >= 3 * 4 * 400_000**2 // 4
    assert nn.Dense(2000, 2, weight_init="ones").weight.asnumpy().sum() == 4000  # later ones have values again


LOOP = """
import numpy as np
import graphls
from graphls import nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = graphls.Parameter(np.ones((64, 64), np.float32), name="weight")

    def construct(self, x):
        y = ops.fori_loop(0, 10, lambda i, x: ops.matmul(x, self.weight), x)
        self.weight = self.weight + y.mean()
        return y

graphls.compile(Net(), np.zeros((32, 64), np.float32))
"""


def test_loops_count_as_often_as_they_run(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    analysis = analysis_of(str(tmp_path / "loop.py"), Mesh(data=4, model=2))
    product = 2 * 8 * 64 * 64
    assert 10 * product <= analysis.flops < 11 * product


def test_the_command_prints_memory_communication_and_time(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    machine = ["--flops", "1e9", "--bandwidth", "data=1GB/s,model=2GB/s", "--latency", "1us"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that there is no GPU
        assert main(["simulate", "--mesh", "data=4,model=2", "--zero", "1", *machine, script, "columns", "GPU"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("mesh(data=4, model=2): 8 devices, ") and "the step is there" not in out
    lines = {line.split("  ")[0]: line.split()[-2:] for line in out.splitlines() if "  " in line}
    assert lines["parameters, divided by model"] == ["24.0", "KiB"]
    assert lines["other states, divided by data and model"] == ["6.0", "KiB"]
    assert re.search(r"\nLive at the peak, .* of the (forward|backward)", out)
    assert "A step takes " in out and " lacks " not in out


def test_figures_of_a_cpu_that_differ_from_those_of_accelerators_say_so(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gradients of weights in float16 are reduced in 32 bits; those of float32 are what they are."""
    for arguments, inferred, halves in (([], False, False), (["half"], False, True), (["half", "2"], True, True)):
        zero = arguments[1:] or ["0"]
        assert main(["simulate", "--mesh", "data=8", "--zero", *zero, script, *arguments]) == 0
        out = capsys.readouterr().out
        assert ("reduce-scatter is inferred" in out, "16-bit floats in 32 bits" in out) == (inferred, halves)
        if halves:
            assert f"are {WEIGHTS // 1024:.1f} KiB of the arrays of collectives and " in out


def test_a_layout_that_does_not_fit(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--mesh", "data=8", "--memory", "1kB", script]) == 0
    out = capsys.readouterr().out
    assert "A device of 1000 B lacks " in out and "zero=1 would divide" not in out  # less than 1 MiB
    assert "weight: f32[128,64], 32.0 KiB; data could divide it" in out
    assert "Say --flops 312e12" in out


def test_text_of_a_graph_is_compiled_for_its_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, x, y = network()
    graph = graphls.compile(train, x, y, engine="xla", mesh=Mesh(data=8), zero=1).graph
    (tmp_path / "step.ir").write_text(str(graph))
    assert main(["simulate", "--mesh", "data=8", str(tmp_path / "step.ir")]) == 0
    assert "other states, divided by data" in capsys.readouterr().out


EMBEDDING = """
import numpy as np
import graphls
from graphls import nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100_000, 8)
        self.drop = nn.Dropout(p=0.1)

    def construct(self, ids, labels):
        rows = (ids.astype(graphls.float32) * 2).astype(graphls.int32)
        return ops.cross_entropy(self.drop(self.table(rows)), labels)

net = Net().set_train()
train = nn.TrainOneStepCell(net, nn.Adam(net.trainable_params(), 1e-3))
graphls.compile(train, np.zeros(64, np.int32), np.zeros(64, np.int32))
"""


def test_advice_says_why_new_states_lie_beside_old_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "embed.py").write_text(EMBEDDING)
    assert main(["simulate", "--mesh", "data=8", "--memory", "1MB", str(tmp_path / "embed.py")]) == 0
    out = capsys.readouterr().out
    table = 4 * 100_000 * 8 / 2**20
    assert f"zero=1 would divide the states of optimizers, by 'data' and save up to {2 * table * 7 / 8:.1f} MiB." in out
    assert f"{3 * table:.1f} MiB are new states beside the old ones: the program tests indices that it " in out
    assert re.search(r"MiB by gather_gradient at .*embed.py:14 \(backward\): ", out)
    assert "global_step: i32[1], 4 B\n" in out and "table: f32[100000,8], 3.1 MiB; data could divide it\n" in out
    assert "values of the forward that the backward reads" not in out


DEEP = """
import sys
import numpy as np
import graphls
from graphls import nn, ops

class Layer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(64, 256), nn.Dense(256, 64)

    def construct(self, x):
        return x + self.second(ops.gelu(self.first(x)))

net = nn.SequentialCell(*(Layer() for _ in range(8)))
if "recompute" in sys.argv:
    for layer in net:
        layer.recompute()
train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 1e-3))
x = np.zeros((2048, 64), np.float32)
graphls.compile(train, x, x)
"""


def test_what_the_advice_says_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "deep.py"
    script.write_text(DEEP)
    assert main(["simulate", "--mesh", "data=8", "--memory", "5MB", str(script)]) == 0
    advice = capsys.readouterr().out.partition(" lacks ")[2]
    whole = analysis_of(str(script), Mesh(data=8))
    saved = (whole.arguments - analysis_of(str(script), Mesh(data=8), 1).arguments) / 2**20
    assert f"zero=1 would divide the states of optimizers, by 'data' and save up to {saved:.1f} MiB." in advice
    assert re.search(r"MiB by matmul at .*deep.py:\d+ \(forward\): 8 values", advice)
    assert "are values of the forward that the backward reads: `recompute()` of the cells that repeat" in advice
    assert analysis_of(str(script), Mesh(data=8), arguments=("recompute",)).temporaries < whole.temporaries / 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mesh", "data"], "--mesh takes axes with numbers of devices, such as data=64,model=8, not 'data'."),
        (["--mesh", "data=0"], "The mesh axis 'data' has 0 devices"),
        (["--mesh", "data=8", "--bandwidth", "model=1GB/s"], "--bandwidth has 'data' not, of mesh(data=8)."),
        (["--mesh", "data=8", "--flops", "0"], "--flops takes operations in a second, a positive number"),
        (["--mesh", "data=8", "--memory", "10GB/s"], "--memory takes a positive number and one of B,"),
        ([], "The step has no mesh; say --mesh data=64,model=8, or compile it for one."),
        (["--mesh", "model=8", "--zero", "1"], "zero=1 divides states along the mesh axis 'data'"),
    ],
)
def test_errors_are_a_sentence(
    script: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments, script]) == 1
    assert message in capsys.readouterr().err


def test_a_script_without_a_training_step_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "wrong.py").write_text("raise SystemExit(3)\n")
    assert main(["simulate", "--mesh", "data=8", str(tmp_path / "none.py")]) == 1
    assert "compiles no step that writes states" in capsys.readouterr().err


TEXT = """
ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %a = f32[8]{0} all-reduce(%p), replica_groups=GROUPS, to_apply=%add
  ROOT %b = f32[8]{0} negate(%a)
}
"""


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", ("model",)),
        ("{{0,2,4,6},{1,3,5,7}}", ("data",)),
        ("[4,2]<=[8]", ("model",)),
        ("[2,4]<=[4,2]T(1,0)", ("data",)),
        ("[1,8]<=[8]", ("data", "model")),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_0'}", ("data",)),
        ("mesh['axis_0'=4,'axis_1'=2] {'axis_0','axis_1'}", ("data", "model")),
    ],
)
def test_groups_of_devices_belong_to_axes_in_every_form(groups: str, axes: tuple[str, ...]) -> None:
    graph = graphls.trace_graph(lambda x: x + 1, np.zeros(8, np.float32)).graph
    (each,) = collectives(Instructions(TEXT.replace("GROUPS", groups), graph), Mesh(data=4, model=2))
    assert (each.axes, each.devices, each.size) == (axes, {"model": 2, "data": 4}.get("".join(axes), 8), 32)


LOOP_TEXT = """
%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8]{0} get-tuple-element(%p), index=1
  %r = f32[8]{0} all-reduce(%x), replica_groups={{0,1}}, to_apply=%add
  ROOT %t = (s32[], f32[8]{0}) tuple(%i, %r)
}

ENTRY %main (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]{0}) parameter(0)
  %a = (s32[], f32[8]{0}) while(%p), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"3"}}
  ROOT %b = (s32[], f32[8]{0}) while(%a), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"4"}}
}
"""


def test_collectives_of_loops_count_as_often_as_they_run() -> None:
    graph = graphls.trace_graph(lambda x: x + 1, np.zeros(8, np.float32)).graph
    (each,) = collectives(Instructions(LOOP_TEXT, graph), Mesh(data=2))
    assert (each.times, each.size, each.sent) == (7, 32, 7 * 32)


SCHEDULE = """
ENTRY %main (p: f32[8]) -> f32[4] {
  %p = f32[8]{0} parameter(0)
  %a = f32[16]{0} broadcast(%p)
  %v = f32[16]{0} bitcast(%a)
  %b = f32[32]{0} concatenate(%v, %v)
  %c = f32[4]{0} slice(%b)
  %d = f32[8]{0} slice(%a)
  ROOT %r = f32[4]{0} add(%c, %d)
}
"""


def test_values_are_live_from_their_definition_to_their_last_use() -> None:
    graph = graphls.trace_graph(lambda x: x + 1, np.zeros(8, np.float32)).graph
    assert [each.name for each in live_at_peak(Instructions(SCHEDULE, graph))] == ["b", "a", "c"]
