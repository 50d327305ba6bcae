"""States that live in the layout of a convolution's kernel: nobody else sees it, and bits are those of rows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base.errors import GraphRuntimeError
from graphls.runtime.onednn import part
from graphls.runtime.onednn.binding import Descriptor
from graphls.runtime.onednn.blocked import BlockedArray
from graphls.runtime.onednn.state_layouts import StateLayouts
from tests.sharing.test_forks import in_child

SHAPE = 4, 16, 9, 9
X = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
Y = np.arange(SHAPE[0], dtype=np.int32)
LARGE = "0.weight", "2.weight"
"""The weights whose channels fill blocks; those of the last convolution do not."""


def convolutions() -> nn.Cell:
    graphls.set_seed(3)
    return nn.SequentialCell(
        nn.Conv2d(16, 32, 3, has_bias=True), nn.ReLU(), nn.Conv2d(32, 16, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, pad_mode="pad", padding=1, group=16), nn.Conv2d(16, 5, 3), nn.AvgPool2d(9, 9),
        nn.Flatten(),
    )  # fmt: skip


def training(optimizer: str = "Momentum", is_scaled: bool = False, network: nn.Cell | None = None) -> nn.Cell:
    network = network or convolutions()
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    weights = loss.trainable_params()
    update = nn.Momentum(weights, 0.05, 0.9) if optimizer == "Momentum" else nn.Adam(weights, 1e-3)
    if not is_scaled:
        return nn.TrainOneStepCell(loss, update).set_train()
    return nn.TrainOneStepWithLossScaleCell(loss, update, nn.DynamicLossScaleUpdateCell(2.0**127, 2, 3)).set_train()


def compiled(cell: nn.Cell, engine: str = "onednn") -> Any:
    return graphls.compile(cell, X, Y, engine=engine)


def bits(step: Any) -> dict[str, bytes]:
    return {name: parameter.asnumpy().tobytes() for name, parameter in step.parameters.items()}


def blocked(step: Any) -> set[str]:
    return {name for name, p in step.parameters.items() if isinstance(p.storage.current, BlockedArray)}


def in_rows(cell: nn.Cell, steps: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The states behind a training that holds them in rows."""
    with monkeypatch.context() as patch:
        patch.setattr(part, "layouts_of", lambda *_: StateLayouts())
        step = compiled(cell)
        for _ in range(steps):
            step(X, Y)
    assert not blocked(step)
    return bits(step)


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize(("optimizer", "moments"), [("Momentum", ("moments",)), ("Adam", ("moment1", "moment2"))])
def test_bits_are_those_of_a_training_in_rows(
    optimizer: str, moments: tuple[str, ...], is_scaled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    step = compiled(training(optimizer, is_scaled))
    for _ in range(6):
        step(X, Y)
    assert blocked(step) == {*LARGE, *(f"{kind}.{name}" for kind in moments for name in LARGE)}
    assert bits(step) == in_rows(training(optimizer, is_scaled), 6, monkeypatch)


def test_no_weight_gradient_or_weight_of_a_forward_kernel_is_reordered() -> None:
    step = compiled(training())
    step(X, Y)
    reorders = _reorders_of_weights(step)
    assert {c.node.primitive.name for c in reorders} == {"convolution_input_gradient"}
    assert len(reorders) == 1, "The images of the first convolution are inputs, whose gradient nobody reads."


@pytest.mark.parametrize("optimizer", ["Momentum", "Adam"])
def test_a_training_goes_on_from_a_checkpoint_with_the_same_bits(optimizer: str, tmp_path: Path) -> None:
    step = compiled(training(optimizer))
    for _ in range(3):
        step(X, Y)
    first = training(optimizer)
    other = compiled(first)
    for _ in range(2):
        other(X, Y)
    graphls.save_checkpoint(first, str(tmp_path / "first.ckpt"))
    resumed = training(optimizer)
    graphls.load_param_into_net(resumed, graphls.load_checkpoint(str(tmp_path / "first.ckpt")))
    other = compiled(resumed)
    other(X, Y)
    assert bits(other) == bits(step)


def test_a_state_that_python_reads_or_sets_in_each_step_has_the_same_bits() -> None:
    step, other = compiled(training()), compiled(training())
    for _ in range(4):
        step(X, Y)
        other(X, Y)
        for parameter in other.parameters.values():
            value = parameter.asnumpy()
            value += 1  # which is a copy
            parameter.set_data(graphls.Tensor(parameter.asnumpy()))
    assert bits(step) == bits(other)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda cell: pickle.loads(pickle.dumps(cell))])
def test_a_copy_of_a_cell_has_the_values_in_rows(duplicate: Any) -> None:
    cell = convolutions()
    compiled(training(network=cell))(X, Y)
    for own, other in zip(cell.get_parameters(), duplicate(cell).get_parameters(), strict=True):
        assert isinstance(other.storage.current, np.ndarray)
        np.testing.assert_array_equal(own.asnumpy(), other.asnumpy())


@pytest.mark.parametrize("target", [{"engine": "onednn"}, {"engine": "onnxruntime"}, {"backend": "numpy"}])
@pytest.mark.parametrize("is_scaled", [False, True])
def test_another_step_reads_the_weights_between_two_of_a_training(target: dict[str, str], is_scaled: bool) -> None:
    network, alone = convolutions(), compiled(training(is_scaled=is_scaled))
    evaluation = graphls.compile(network.set_train(False), X, **target)
    evaluation(X)
    step = compiled(training(is_scaled=is_scaled, network=network))
    for _ in range(3):
        step(X, Y)
        alone(X, Y)
        scores = evaluation(X).asnumpy()
        other = copy.deepcopy(network).set_train(False)
        expected = graphls.compile(other, X, engine="onnxruntime")(X).asnumpy()
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    assert bits(step) == bits(alone)


@pytest.mark.parametrize("count", [1, 3, 64])
def test_steps_of_onednn_in_turns_agree_on_layouts(count: int) -> None:
    network = convolutions()
    cell = training(network=network)
    step = compiled(cell)
    x, y = np.repeat(X[:1], count, 0), np.zeros(count, np.int32)
    other = graphls.compile(cell, x, y, engine="onednn")
    evaluation = graphls.compile(network.set_train(False), X, engine="onednn")
    for _ in range(2):
        step(X, Y), other(x, y), evaluation(X)
    buffers = {name: p.storage.versioned for name, p in step.parameters.items()}
    for _ in range(2):
        step(X, Y), other(x, y), evaluation(X)
    assert all(p.storage.versioned is buffers[name] for name, p in step.parameters.items())
    assert blocked(step)


def test_weights_of_an_inference_are_reordered_once_and_a_training_chooses_again() -> None:
    network, alone = convolutions(), compiled(training())
    x = X[:1, :, :5, :5]
    small = nn.SequentialCell(*list(network)[:5]).set_train(False)
    inference = graphls.compile(small, x, engine="onednn")
    first = inference(x).asnumpy()
    assert blocked(inference) == set(LARGE)
    assert not _reorders_of_weights(inference)
    assert not any(inference.parameters[name].storage.current.is_written for name in LARGE)
    np.testing.assert_array_equal(inference(x).asnumpy(), first)
    step = compiled(training(network=network))
    state = step.parameters[LARGE[0]].storage
    strides = [n // 4 for n in np.empty(state.read().shape[::-1], np.float32).strides[::-1]]
    layout = Descriptor.strided(state.read().shape, strides)
    other = BlockedArray.of(state.read(), state.current.type, layout, 1, False)
    state.replace(other)
    for _ in range(2):
        step(X, Y), alone(X, Y)
        inference(x)
    assert bits(step) == bits(alone)
    assert not state.current.layout.equals(other.layout)


def _reorders_of_weights(step: Any) -> list[Any]:
    (only,) = (*step._session.first, *step._session.last)
    shapes = {(32, 16, 3, 3), (16, 32, 1, 1)}
    return [c for c in only.program.calls if c.kind == "reorder" and c.views[1].layout.shape in shapes]


def test_steps_that_want_other_layouts_take_over_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, alone = training(), compiled(training())
    step = compiled(cell)
    (only,) = step._session.last
    layouts = only.layouts
    other = compiled(cell)
    step(X, Y)
    for name in LARGE:  # as a step would that wants another layout
        state = step.parameters[name].storage
        kind, array = state.current.type, state.read()
        strides = np.empty(kind.shape[::-1]).strides
        layout = Descriptor.strided(kind.shape, [n // 8 for n in strides[::-1]])
        state.replace(BlockedArray.of(array, kind, layout, 1))
    other(X, Y)
    step(X, Y)
    assert only.layouts is not layouts
    for _ in range(3):
        alone(X, Y)
    assert bits(step) == bits(alone)


@pytest.fixture
def one_thread_in_all_processes() -> Iterator[None]:
    """Steps compute on one thread, as a forked process does anyhow: several add numbers in another order."""
    graphls.set_context(runtime_num_threads=1)
    yield
    graphls.reset_context()


@pytest.mark.usefixtures("one_thread_in_all_processes")
def test_a_child_process_reads_states_and_goes_on() -> None:
    step, alone = compiled(training()), compiled(training())
    step(X, Y)
    alone(X, Y)
    assert in_child(lambda: bits(step)) == bits(alone)
    alone(X, Y)
    assert in_child(lambda: (step(X, Y), bits(step))[1]) == bits(alone)


def test_a_state_that_a_failed_step_may_have_half_written_says_so_until_it_is_set() -> None:
    step, alone = compiled(training()), compiled(training())
    step(X, Y)
    before = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    (only,) = step._session.last
    calls = only.turn().calls
    call, calls[-1] = calls[-1], partial(int, 1)
    with pytest.raises(GraphRuntimeError, match=r"oneDNN could not run a"):
        step(X, Y)
    calls[-1] = call
    for use in (lambda: bits(step), lambda: step(X, Y)):
        with pytest.raises(GraphRuntimeError, match=r"may be that of half a step"):
            use()
    for name, parameter in step.parameters.items():
        parameter.set_data(graphls.Tensor(before[name]))
    step(X, Y)
    alone(X, Y), alone(X, Y)
    assert bits(step) == bits(alone)
    assert blocked(step)


class Penalised(nn.Cell):
    """A loss with the squares of the weights and their greatest number, which is read in rows."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network, self.weight = network, network[0].weight

    def construct(self, x: Any, y: Any) -> Any:
        scores = ops.cross_entropy(self.network(x), y)
        return scores + 1e-3 * ops.reduce_sum(self.weight * self.weight) + ops.amax(ops.abs(self.weight))


@pytest.mark.parametrize("clips", [False, True])
def test_other_readers_of_a_weight_and_of_its_gradient(clips: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def cell() -> nn.Cell:
        network = Penalised(convolutions())
        update = nn.Momentum(network.trainable_params(), 0.05, 0.9, weight_decay=1e-2)
        return Clipped(network, update).set_train() if clips else nn.TrainOneStepCell(network, update).set_train()

    step = compiled(cell())
    for _ in range(4):
        step(X, Y)
    assert {f"network.{name}" for name in LARGE} < blocked(step)
    assert bits(step) == in_rows(cell(), 4, monkeypatch)


class Clipped(nn.TrainOneStepCell):
    """A step whose gradients are clipped by their common norm."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        gradients = self.grad(self.network, self.weights)(*inputs, self.sens)
        self.optimizer(ops.clip_by_global_norm(gradients, 0.1))
        return loss


def test_a_state_that_another_engine_reads_in_the_step_is_in_rows() -> None:
    network = Sorted(convolutions())
    step = compiled(training(network=network))
    step(X, Y)
    assert "network.0.weight" not in blocked(step)
    assert "network.2.weight" in blocked(step)


class Sorted(nn.Cell):
    """A network to whose scores a number of a sorted weight is added, which another engine sorts."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network, self.weight = network, network[0].weight

    def construct(self, x: Any) -> Any:
        return self.network(x) + ops.sort(self.weight, axis=0)[0][9, 0, 0, 0]
