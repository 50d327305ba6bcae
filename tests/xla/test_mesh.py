"""Steps on a mesh of eight devices train as on one, with memory and flags as the layout says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, Tensor, nn, ops
from graphls.dataset import NumpySlicesDataset
from graphls.runtime.xla.part import XlaPart
from graphls.runtime.xla.program import PARTS
from graphls.train import History, Model

pytest.importorskip("jax")

WIDTH, LENGTH, WORDS, ROWS, STEPS = 32, 16, 64, 8, 20
EIGHT = Mesh(data=8)
FOUR_BY_TWO = Mesh(data=4, model=2)
COLUMNS_AND_ROWS = {
    r"embedding": ("model", None),
    r"(query|first)\.weight": ("model", None),
    r"(query|first)\.bias": ("model",),
    r"(output|second)\.weight": (None, "model"),
    r"head\.weight": ("model", None),
}
"""Tensor parallelism as in Megatron-LM (Shoeybi et al., 2019): columns, then rows; the words, and their scores."""


class Block(nn.Cell):
    """Causal attention of four heads, then two layers of ReLU; `sequence` divides what is between them along time."""

    def __init__(self, sequence: str | None) -> None:
        super().__init__()
        self.sequence = sequence
        self.norm1, self.norm2 = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.query, self.output = nn.Dense(WIDTH, 3 * WIDTH), nn.Dense(WIDTH, WIDTH)
        self.first, self.second = nn.Dense(WIDTH, 4 * WIDTH), nn.Dense(4 * WIDTH, WIDTH)
        self.mask = Tensor(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))

    def construct(self, x: Any) -> Any:
        q, k, v = (
            ops.transpose(part.reshape(-1, LENGTH, 4, WIDTH // 4), (0, 2, 1, 3))
            for part in ops.split(self.query(self.norm1(x)), WIDTH, axis=-1)
        )
        weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) / np.float32((WIDTH // 4) ** 0.5) + self.mask)
        attended = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)).reshape(-1, LENGTH, WIDTH)
        x = self.divided(x + self.output(attended))
        return self.divided(x + self.second(ops.relu(self.first(self.norm2(x)))))

    def divided(self, x: Any) -> Any:
        return ops.shard(x, "data", self.sequence, None) if self.sequence else x


class Transformer(nn.Cell):
    """A block between words and scores."""

    def __init__(self, sequence: str | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.block = Block(sequence)
        self.head = nn.Dense(WIDTH, WORDS, has_bias=False)

    def construct(self, words: Any) -> Any:
        return self.head(self.block(self.embedding(words))).reshape(-1, WORDS)


@dataclass(frozen=True)
class Layout:
    """How a step is divided; `shardings` are those of parameters by patterns of their names."""

    mesh: Mesh | None = None
    zero: int = 0
    shardings: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    sequence: str | None = None


LAYOUTS = {
    "data": Layout(EIGHT),
    "zero 1": Layout(EIGHT, 1),
    "zero 2": Layout(EIGHT, 2),
    "zero 3": Layout(EIGHT, 3),
    "tensor": Layout(Mesh(model=8), shardings={**COLUMNS_AND_ROWS, r"(query)\.": ()}),
    "sequence": Layout(FOUR_BY_TWO, sequence="model"),
    "data x tensor": Layout(FOUR_BY_TWO, shardings=COLUMNS_AND_ROWS),
    "data x tensor x sequence, zero 1": Layout(FOUR_BY_TWO, 1, COLUMNS_AND_ROWS, "model"),
    "data x tensor, zero 3": Layout(FOUR_BY_TWO, 3, COLUMNS_AND_ROWS),
}
ONE = Layout()


@dataclass(frozen=True)
class Run:
    """Losses, flags and scales of all steps, and the bytes of the states and of everything on each device."""

    losses: list[float]
    flags: list[bool]
    scales: list[float]
    bytes_of_states: int
    bytes_of_step: int


def batch() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    words = random.integers(0, WORDS, (ROWS, LENGTH)).astype(np.int32)
    return words, np.roll(words, -1, 1).reshape(-1)


def step_of(layout: Layout, scale: float) -> Any:
    graphls.set_seed(3)
    network = Transformer(layout.sequence if layout.mesh else None)
    for name, parameter in network.parameters_and_names():
        for pattern, sharding in layout.shardings.items():
            if re.search(pattern, name) and sharding:
                parameter.sharding = sharding
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Adam(network.trainable_params(), 3e-3, eps=1e-4)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(scale, 2, 4))
    return graphls.compile(cell, *batch(), engine="xla", mesh=layout.mesh, zero=layout.zero)


@cache
def trained(name: str, scale: float = 2.0**126) -> Run:
    """Twenty steps of a layout; by default they begin with overflows."""
    step = step_of(LAYOUTS.get(name, ONE), scale)
    results = [[v.asnumpy().item() for v in step(*batch())] for _ in range(STEPS)]
    losses, flags, scales = (list(column) for column in zip(*results, strict=True))
    (part,) = step._session.last
    assert isinstance(part, XlaPart)
    memory = part.program.compiled.memory_analysis()
    states = [parameter.storage.current.array for parameter in part.parameters.values()]
    of_states = sum(array.addressable_data(0).nbytes for array in states)
    return Run(losses, flags, scales, of_states, memory.argument_size_in_bytes + memory.temp_size_in_bytes)


@pytest.mark.filterwarnings("ignore:Gradients in float32", "ignore:.* states.* are whole")
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_trains_as_one_device(name: str) -> None:
    one, here = trained("one"), trained(name)
    np.testing.assert_allclose(here.losses, one.losses, rtol=1e-5)
    assert (here.flags, here.scales) == (one.flags, one.scales)
    assert any(one.flags)
    assert not all(one.flags)
    assert one.losses[-1] < 0.9 * one.losses[0]


@pytest.mark.filterwarnings("ignore:Gradients in float32", "ignore:.* states.* are whole")
def test_memory_of_a_device_falls_as_the_layout_says() -> None:
    """Adam has two moments for each parameter: of three parts ZeRO divides two, then all of them."""
    one = trained("one").bytes_of_states
    assert trained("data").bytes_of_states == one
    assert trained("zero 1").bytes_of_states == pytest.approx(one * (1 / 3 + 2 / 3 / 8), rel=0.01)
    assert trained("zero 2").bytes_of_states == trained("zero 1").bytes_of_states
    assert trained("zero 3").bytes_of_states == pytest.approx(one / 8, rel=0.02)
    assert trained("data x tensor").bytes_of_states == pytest.approx(one / 2, rel=0.05)
    assert trained("data x tensor, zero 3").bytes_of_states == pytest.approx(one / 8, rel=0.02)
    steps = [trained(name).bytes_of_step for name in ("one", "data", "zero 1", "zero 3")]
    assert steps == sorted(steps, reverse=True)


class Layer(nn.Cell):
    """A layer of 512 KiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(128, 512), nn.Dense(512, 128)

    def construct(self, x: Any) -> Any:
        return x + self.second(ops.relu(self.first(x)))


def in_codes(layout: Layout) -> tuple[list[float], int]:
    """Losses of a perceptron with moments in 8 bits, and the bytes of these moments on a device."""
    graphls.set_seed(1)
    network = nn.SequentialCell(nn.Dense(64, 128), nn.Tanh(), nn.Dense(128, 64))
    optimizer = nn.Adam(network.trainable_params(), 1e-2, state_bits=8)
    x = np.random.default_rng(0).normal(size=(16, 64)).astype(np.float32)
    model = Model(network, nn.MSELoss(), optimizer, engine="xla", mesh=layout.mesh, zero=layout.zero)
    history = History()
    model.train(3, NumpySlicesDataset((x, -x), shuffle=False).batch(16), callbacks=history, dataset_sink_mode=False)
    moments = (p for p in optimizer.get_parameters() if "weight" in p.name and "moment" in p.name)
    sizes = sum(p.storage.current.array.addressable_data(0).nbytes for p in moments)
    return history.history["net_output"], sizes


def test_moments_in_8_bits_are_divided_with_their_maxima() -> None:
    (losses, size), (divided, part) = in_codes(ONE), in_codes(Layout(EIGHT, 1))
    np.testing.assert_allclose(divided, losses, rtol=1e-5)
    assert size == 8 * part == 2 * 2 * 64 * 128 * (1 + 4 / 256)


@cache
def layers(zero: int, is_recomputed: bool = False) -> tuple[list[float], int]:
    """The losses of three steps of eight layers on eight devices, and the bytes of their temporary values."""
    graphls.set_seed(1)
    network = nn.SequentialCell(*(Layer() for _ in range(8)))
    if is_recomputed:
        for layer in network:
            layer.recompute()
    x = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)
    cell = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)
    step = graphls.compile(cell, x, 2 * x, engine="xla", mesh=EIGHT, zero=zero)
    (part,) = step._session.last
    memory = part.program.compiled.memory_analysis()
    return [step(x, 2 * x).asnumpy().item() for _ in range(3)], memory.temp_size_in_bytes


@pytest.mark.parametrize("is_recomputed", [False, True])
def test_zero_3_has_the_weights_of_few_layers_whole_at_a_time(is_recomputed: bool) -> None:
    """Forward and backward gather them, layer by layer, and gradients are reduced where they are ready."""
    losses, size = layers(3, is_recomputed)
    np.testing.assert_allclose(losses, layers(0)[0], rtol=1e-5)
    assert losses[-1] < losses[0]
    layer = 4 * 2 * 128 * 512
    assert size < 3.2 * layer


class Scores(nn.Cell):
    """A layer in float16, whose gradients overflow where an input is large."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(6, 4).to_float(graphls.float16)

    def construct(self, x: Any) -> Any:
        return self.dense(x).astype(graphls.float32)


def skipped(mesh: Mesh | None, zero: int) -> tuple[list[Any], np.ndarray]:
    """Losses, flags and scales of six steps, two of which overflow in one row alone, and the last weights."""
    graphls.set_seed(5)
    random = np.random.default_rng(1)
    x, y = random.normal(size=(8, 6)).astype(np.float32), random.normal(size=(8, 4)).astype(np.float32)
    network = Scores()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(network, nn.MSELoss()), optimizer, nn.DynamicLossScaleUpdateCell(2.0**12, 2, 2)
    )
    step = graphls.compile(cell, x, y, engine="xla", mesh=mesh, zero=zero)
    results = []
    for number in range(6):
        rows = x.copy()
        rows[5] *= 3e3 if number in (1, 4) else 1
        results += [v.asnumpy().item() for v in step(rows, y)]
    return results, network.dense.weight.asnumpy()


@pytest.mark.parametrize("zero", [0, 2])
def test_all_devices_skip_a_step_that_overflows_on_one(zero: int) -> None:
    results, weights = skipped(EIGHT, zero)
    expected, expected_weights = skipped(None, 0)
    assert expected[1::3] == [False, True, False, False, True, False]
    assert results[1::3] == expected[1::3]
    assert results[2::3] == expected[2::3]
    np.testing.assert_allclose(results[::3], expected[::3], rtol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-3, atol=1e-4)


def test_a_state_that_is_set_is_divided_again() -> None:
    step = step_of(LAYOUTS["zero 3"], 2.0**10)
    words, labels = batch()
    first = step(words, labels)[0].asnumpy()
    embedding = next(p for name, p in step.parameters.items() if name.endswith("embedding.embedding_table"))
    assert embedding.asnumpy().shape == (WORDS, WIDTH)
    embedding.set_data(Tensor(np.zeros((WORDS, WIDTH), np.float32)))
    second = step(words, labels)[0].asnumpy()
    assert second == pytest.approx(np.log(WORDS), rel=1e-2)  # equal words, but for what a step has trained
    assert first != second
    assert embedding.storage.current.array.addressable_data(0).shape == (WORDS // 8, WIDTH)


def test_plan_and_profile_say_what_each_device_has() -> None:
    x, y = np.ones((8, 4), np.float32), np.ones((8, 16), np.float32)
    net = nn.Dense(4, 16, has_bias=False)
    net.weight.sharding = ("model", None)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step = graphls.compile(cell, x, y, engine="xla", mesh=FOUR_BY_TWO, zero=1)
    whole = sum(state.type.nbytes for state in step.graph.states)
    own = whole - 256 // 2 - 256 * 7 // 8  # of the weight and its moments, each 256 bytes
    assert f"Of {whole} B of states, each of the 8 devices has {own} B." in str(step.plan)
    assert "By liveness, all as on one device, a step holds" in str(step.profile(x, y, steps=1))
    assert "on mesh(data=4, model=2)" in repr(step)


def test_a_mesh_of_more_devices_than_there_are_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, x = nn.Dense(2, 3), np.ones((16, 2), np.float32)
    graphls.compile(cell, x, engine="xla", mesh=EIGHT)
    monkeypatch.delattr("jaxlib.xla_client.make_cpu_client")
    with pytest.raises(graphls.ir.errors.GraphRuntimeError, match="16 are needed; JAX divides a CPU once in a process"):
        graphls.compile(cell, x, engine="xla", mesh=Mesh(data=16))


def test_options_that_an_older_version_of_xla_does_not_have_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "xla_cpu_of_a_later_version", True)
    cell, x = nn.Dense(2, 3, "ones", has_bias=False), np.ones((16, 2), np.float32)
    assert graphls.compile(cell, x, engine="xla", mesh=EIGHT)(x).asnumpy().tolist() == [[2.0] * 3] * 16


def test_a_mesh_that_no_cpu_can_be_divided_for_is_an_error_at_once() -> None:
    cell, x = nn.Dense(2, 3), np.ones((16, 2), np.float32)
    with pytest.raises(graphls.ir.errors.GraphRuntimeError, match="4096 devices at most, and the mesh has 1000000;"):
        graphls.compile(cell, x, engine="xla", mesh=Mesh(data=10**6))


def test_steps_of_two_threads_take_turns() -> None:
    """Without that, the devices of one step wait for threads on which those of the other wait."""
    x = np.ones((8, 4), np.float32)
    cells = [nn.Dense(4, 4, "ones", has_bias=False) for _ in range(2)]
    steps = [graphls.compile(lambda v, c=c: ops.sum(c(v)), x, engine="xla", mesh=EIGHT) for c in cells]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(lambda step=step: [step(x).asnumpy().item() for _ in range(100)]) for step in steps]
        for run in runs:
            assert run.result(timeout=100) == [128.0] * 100
