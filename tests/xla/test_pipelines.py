"""Pipelines: stages of a transformer on devices of their own train as one device, alone and with other layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, amp, nn, ops
from graphls.base.errors import GraphIndexError, GraphRuntimeError, GraphValueError
from graphls.ir import Graph
from graphls.passes import as_pipeline
from graphls.runtime.xla.part import PROGRAMS
from tests.xla.test_mesh import COLUMNS_AND_ROWS, LENGTH, STEPS, WIDTH, WORDS, Block

pytest.importorskip("jax")

ROWS = 8


class Deep(nn.Cell):
    """Two blocks between words and scores; with `tied` the words are the weights of the scores as well."""

    def __init__(self, stages: int, tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.CellList([Block(None), Block(None)])
        self.norm, self.tied = nn.LayerNorm((WIDTH,)), tied
        self.head = None if tied else nn.Dense(WIDTH, WORDS, has_bias=False)
        for number, cell in enumerate((self.embedding, *self.blocks, self.norm)):
            cell.pipeline_stage = number * stages // 4

    def construct(self, words: Any) -> Any:
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x).reshape(-1, WIDTH)
        return ops.matmul(x, self.embedding.embedding_table.T) if self.head is None else self.head(x)


@dataclass(frozen=True)
class Layout:
    mesh: Mesh | None = None
    stages: int = 2
    micro: int = 2
    zero: int = 0
    shardings: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    tied: bool = False


LAYOUTS = {
    "pipeline of four": Layout(Mesh(stage=4), stages=4),
    "tied words": Layout(Mesh(stage=2), tied=True),
    "data x pipeline, zero 1": Layout(Mesh(data=2, stage=2), zero=1),
    "data x tensor x pipeline": Layout(Mesh(data=2, model=2, stage=2), shardings=COLUMNS_AND_ROWS),
}


def batch() -> tuple[np.ndarray, np.ndarray]:
    words = np.random.default_rng(0).integers(0, WORDS, (ROWS, LENGTH)).astype(np.int32)
    return words, np.roll(words, -1, 1)


class Loss(nn.Cell):
    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, words: Any, labels: Any) -> Any:
        return self.loss(self.network(words), labels.reshape(-1))


def cell_of(layout: Layout, scale: float = 2.0**126) -> nn.Cell:
    graphls.set_seed(3)
    network = Deep(layout.stages, layout.tied)
    for name, parameter in network.parameters_and_names():
        for pattern, sharding in layout.shardings.items():
            if re.search(pattern, name):
                parameter.sharding = sharding
    loss = nn.GradAccumulationCell(Loss(network), layout.micro)
    optimizer = nn.Adam(network.trainable_params(), 2e-3, eps=1e-4)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(scale, 2, 4))


@dataclass(frozen=True)
class Run:
    losses: list[float]
    flags: list[bool]
    scales: list[float]
    step: Any


@cache
def trained(micro: int, tied: bool, name: str = "") -> Run:
    """Twenty steps, which begin with overflows."""
    layout = LAYOUTS.get(name, Layout(micro=micro, tied=tied))
    step = graphls.compile(cell_of(layout), *batch(), engine="xla", mesh=layout.mesh, zero=layout.zero)
    results = [[v.asnumpy().item() for v in step(*batch())] for _ in range(STEPS)]
    losses, flags, scales = (list(column) for column in zip(*results, strict=True))
    return Run(losses, flags, scales, step)


@pytest.mark.filterwarnings("ignore:Gradients in float32")
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_pipeline_trains_as_one_device(name: str) -> None:
    layout = LAYOUTS[name]
    one, here = trained(layout.micro, layout.tied), trained(layout.micro, layout.tied, name)
    np.testing.assert_allclose(here.losses, one.losses, rtol=1e-5)
    assert (here.flags, here.scales) == (one.flags, one.scales)
    assert any(one.flags)
    assert not all(one.flags)
    assert one.losses[-1] < 0.9 * one.losses[0]


def states_of(name: str) -> dict[str, Any]:
    layout = LAYOUTS[name]
    parameters = trained(layout.micro, layout.tied, name).step.parameters
    return {name: each.storage.current.array for name, each in parameters.items()}


@pytest.mark.filterwarnings("ignore:Gradients in float32")
def test_a_stage_has_its_own_states_and_no_others() -> None:
    states = states_of("pipeline of four")
    devices = {name: {device.id for device in array.devices()} for name, array in states.items()}
    for number, cell in enumerate(("embedding", r"blocks\.0", r"blocks\.1", r"\bnorm\.|head\.")):
        own = [name for name in states if re.search(cell, name)]
        assert len(own) >= 3  # a weight with its two moments
        assert {tuple(devices[name]) for name in own} == {(number,)}


@pytest.mark.filterwarnings("ignore:Gradients in float32")
def test_a_state_is_divided_among_the_devices_of_its_stage() -> None:
    array = next(array for name, array in states_of("data x tensor x pipeline").items() if "head.weight" in name)
    assert len(array.devices()) == 4
    assert array.addressable_shards[0].data.shape == (WORDS // 2, WIDTH)


class Four(nn.Cell):
    """Four layers in four stages."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(*(nn.Dense(4, 4) for _ in range(4)))
        for number, layer in enumerate(self.layers):
            layer.pipeline_stage = number

    def construct(self, x: Any) -> Any:
        return self.layers(x)


def live_parts(graph: Graph) -> list[int]:
    """The most parts of a batch of whose forward each stage has values at a time, by the order of the tasks."""
    live, most = [0] * graph.mesh.stages, [0] * graph.mesh.stages
    for node in graph.nodes:
        if node.micro is not None:
            live[node.stage] += 1 if node.phase == "forward" else -1
            most[node.stage] = max(most[node.stage], live[node.stage])
    return most


def test_a_stage_runs_as_many_forwards_ahead_as_there_are_stages_behind_it() -> None:
    x = np.ones((12, 4), np.float32)
    traced = graphls.trace_graph(small(6, Four()), x, x, mesh=Mesh(stage=4))
    assert live_parts(as_pipeline("stages, default, pipeline").run(traced.graph).graph) == [4, 3, 2, 1]


@pytest.mark.filterwarnings("ignore:Gradients in float32")
def test_equal_tasks_are_one_program() -> None:
    """The first part begins the sums of gradients; all others are alike."""

    def programs(micro: int) -> tuple[int, int]:
        step = graphls.compile(small(micro), *rows(), engine="xla", mesh=Mesh(stage=2))
        return len(step.plan.segments), len(step._session.context.forms[PROGRAMS])

    (few, compiled), (many, same) = programs(4), programs(8)
    assert many - few == 4 * 4
    assert same == compiled


class Pair(nn.Cell):
    """Two layers in two stages; the second one is shifted by `stage`."""

    def __init__(self, first: int | None = 0, second: int | None = 1) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(4, 4), nn.Dense(4, 4)
        self.first.pipeline_stage, self.second.pipeline_stage = first, second

    def construct(self, x: Any) -> Any:
        return self.second(ops.tanh(self.first(x)))


def rows() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    return random.normal(size=(8, 4)).astype(np.float32), random.normal(size=(8, 4)).astype(np.float32)


def small(micro: int, network: nn.Cell | None = None) -> nn.Cell:
    graphls.set_seed(1)
    network = network or Pair()
    parts = nn.GradAccumulationCell(nn.WithLossCell(network, nn.MSELoss()), micro)
    return nn.TrainOneStepCell(parts, nn.Momentum(network.trainable_params(), 0.1, 0.9))


@pytest.mark.parametrize(
    ("network", "error"),
    [
        (Pair(None, None), r"The mesh has 2 stages of a pipeline, and no cell says in which one it runs; set its"),
        (Pair(0, 2), r"The cell 'network.network._backbone.second' has pipeline_stage 2, and the mesh has 2 stages"),
        (Pair(1, 0), r"_backbone.second' runs in stage 0 and reads a result of stage 1; what reads a result runs in"),
    ],
)
def test_a_stage_that_cannot_be_is_refused_with_the_line(network: nn.Cell, error: str) -> None:
    with pytest.raises(GraphValueError, match=error):
        graphls.compile(small(2, network), *rows(), engine="xla", mesh=Mesh(stage=2))


def test_stages_divide_no_values() -> None:
    network = Pair()
    network.first.weight.sharding = ("stage", None)
    with pytest.raises(GraphValueError, match="'stage' has the stages of a pipeline and divides no values"):
        graphls.compile(small(2, network), *rows(), engine="xla", mesh=Mesh(stage=2))


class Chances(Pair):
    """Random numbers in both stages: of dropout, and with a recipe of the gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.drop_again = nn.Dropout(p=0.5), nn.Dropout(p=0.5)
        self.drop_again.pipeline_stage = 1

    def construct(self, x: Any) -> Any:
        return self.drop_again(self.second(self.drop(ops.tanh(self.first(x)))))


def test_random_numbers_of_all_stages_are_those_of_one_device() -> None:
    ends = []
    for mesh in Mesh(stage=2), None:
        graphls.set_seed(1)
        network = amp.auto_mixed_precision(Chances(), amp.NVFP4(random_hadamard_transform=False))
        step = graphls.compile(small(2, network).set_train(), *rows(), engine="xla", mesh=mesh)
        ends.append([step(*rows()).asnumpy() for _ in range(3)])
    np.testing.assert_allclose(*ends, rtol=1e-6)


class Shown(Pair):
    def construct(self, x: Any) -> Any:
        return super().construct(ops.pure_callback(np.sort, x, x))


def test_a_pipeline_runs_without_python() -> None:
    with pytest.raises(GraphRuntimeError, match="stages of a pipeline run without Python, and the step calls"):
        graphls.compile(small(2, Shown()), *rows(), engine="xla", mesh=Mesh(stage=2))


class Words(Pair):
    """Words as inputs of the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(6, 4)
        self.words.pipeline_stage = 0

    def construct(self, x: Any) -> Any:
        return super().construct(self.words(x))


def test_an_index_out_of_range_changes_no_stage() -> None:
    words, (_, labels) = np.arange(8, dtype=np.int32) % 6, rows()
    step = graphls.compile(small(2, Words()), words, labels, engine="xla", mesh=Mesh(stage=2))
    step(words, labels)
    before = {name: each.asnumpy() for name, each in step.parameters.items()}
    with pytest.raises(GraphIndexError, match="out of range"):
        step(words + 9, labels)
    for name, parameter in step.parameters.items():
        np.testing.assert_array_equal(parameter.asnumpy(), before[name])
    step(words, labels)


@pytest.mark.parametrize("mesh", [Mesh(stage=2, data=2), Mesh(stage=1, data=4), None])
def test_an_exported_pipeline_goes_on_elsewhere(mesh: Mesh | None, tmp_path: Path) -> None:
    step = graphls.compile(small(2), *rows(), engine="xla", mesh=Mesh(stage=2, data=2))
    step(*rows())
    folder = step.export(tmp_path / "step")
    again = graphls.load_step(folder, engine="xla" if mesh else "onnxruntime", mesh=mesh)
    for _ in range(3):
        np.testing.assert_allclose(again(*rows()).asnumpy(), step(*rows()).asnumpy(), rtol=1e-5)


def test_plan_page_and_profile_name_the_stages(tmp_path: Path) -> None:
    step = graphls.compile(small(2), *rows(), engine="xla", mesh=Mesh(stage=2))
    assert {row.stage for row in step.plan.segments} == {0, 1}
    assert "xla stage 1 micro 0" in str(step.plan)
    assert re.search(r"Of \d+ B of states, each of the 2 devices has \d+ B at most.", str(step.plan))
    step.dump(tmp_path)
    assert "stage 1 micro 0" in (tmp_path / "index.html").read_text()
    profile = step.profile(*rows(), steps=3)
    assert sum(row.seconds > 0 for row in profile.by_segment) > len(step.plan.segments) // 2
