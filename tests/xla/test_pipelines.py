"""Pipelines: stages of a transformer on devices of their own train as one device, alone and with other layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, nn, ops
from tests.xla.test_mesh import COLUMNS_AND_ROWS, LENGTH, STEPS, WIDTH, WORDS, Block

pytest.importorskip("jax")

ROWS = 8


class Deep(nn.Cell):
    """Four blocks between words and scores; with `tied` the words are the weights of the scores as well."""

    def __init__(self, stages: int, tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.CellList([Block(None) for _ in range(4)])
        self.norm, self.tied = nn.LayerNorm((WIDTH,)), tied
        self.head = None if tied else nn.Dense(WIDTH, WORDS, has_bias=False)
        self.embedding.pipeline_stage = 0
        for number, block in enumerate(self.blocks):
            block.pipeline_stage = number * stages // 4
        self.norm.pipeline_stage = stages - 1

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
    micro: int = 4
    zero: int = 0
    shardings: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    tied: bool = False


LAYOUTS = {
    "pipeline": Layout(Mesh(stage=2)),
    "pipeline of four": Layout(Mesh(stage=4), stages=4),
    "one part": Layout(Mesh(stage=2), micro=1),
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
    optimizer = nn.Adam(network.trainable_params(), 3e-3, eps=1e-4)
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
