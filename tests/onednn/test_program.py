"""Programs: fusion groups, reorders, and the arena."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphls
from graphls import nn, ops
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.program.arena import LINE, Buffer, placed

X = np.random.default_rng(0).normal(size=(2, 16, 8, 8)).astype(np.float32)
BUFFERS = st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 40), st.integers(0, 9)), max_size=40)


def kinds(step: graphls.Compiled) -> Counter[str]:
    """How often each kind of call stands in the one program of a step."""
    (part,) = (part for part in (*step._session.first, *step._session.last) if isinstance(part, OnednnPart))
    return Counter(call.kind for call in part.program.calls)


def trained(network: nn.Cell, x: Any, engine: str = "onednn") -> graphls.Compiled:
    loss = nn.WithLossCell(network, nn.MSELoss())
    cell = nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 0.1)).set_train()
    return graphls.compile(cell, x, np.zeros(network(graphls.Tensor(x)).shape, np.float32), engine=engine)


@given(BUFFERS)
def test_buffers_that_are_needed_at_once_do_not_overlap(sizes: list[tuple[int, int, int]]) -> None:
    buffers = [Buffer(size, first=first, last=first + more) for size, first, more in sorted(sizes, key=lambda s: s[1])]
    end = placed(buffers)
    for number, buffer in enumerate(buffers):
        assert buffer.offset % LINE == 0 and buffer.offset + buffer.size <= end
        for other in buffers[:number]:
            at_once = buffer.first <= other.last and other.first <= buffer.last
            apart = buffer.offset + buffer.size <= other.offset or other.offset + other.size <= buffer.offset
            assert apart or not at_once


def test_a_buffer_takes_the_place_of_one_that_nobody_needs_any_more() -> None:
    buffers = [Buffer(8, first=0, last=1), Buffer(4, first=1, last=3), Buffer(4, first=2, last=3)]
    assert placed(buffers) == 2 * LINE and [b.offset for b in buffers] == [0, LINE, 0]


def test_layouts_stay_between_kernels() -> None:
    convolutions = [nn.Conv2d(16, 16, 3, pad_mode="pad", padding=1) for _ in range(3)]
    network = nn.SequentialCell(convolutions[0], nn.Sigmoid(), convolutions[1], nn.Sigmoid(), convolutions[2])
    step = graphls.compile(network.set_train(False), X, engine="onednn")
    # One for the images and one for the result; the weights live in their kernels' layouts.
    assert kinds(step) == {"reorder": 2, "convolution": 3, "elementwise": 2}


def test_a_chain_of_elementwise_nodes_is_one_kernel() -> None:
    step = graphls.compile(lambda x: ops.tanh(ops.abs(x * 2.0 + 1.0) / 3.0) - x, X, engine="onednn")
    assert kinds(step) == {"elementwise": 1}  # which writes where the result leaves
    expected = np.tanh(np.abs(X * 2 + 1) / np.float32(3)) - X
    np.testing.assert_allclose(step(X).asnumpy(), expected, rtol=1e-6, atol=1e-6)


def test_a_value_that_is_read_twice_is_computed_once() -> None:
    step = graphls.compile(lambda x: (y := ops.sigmoid(x)) * 2.0 + ops.square(y), X, engine="onednn")
    assert kinds(step)["elementwise"] == 2
    y = 1 / (1 + np.exp(-X.astype(np.float64)))
    np.testing.assert_allclose(step(X).asnumpy(), y * 2 + y * y, rtol=1e-6)


@pytest.mark.parametrize("shape", [(8, 16, 6, 6), (8, 5, 6, 7), (16, 12)])
def test_a_normalisation_is_one_kernel_in_each_direction(shape: tuple[int, ...]) -> None:
    graphls.set_seed(1)
    x = np.random.default_rng(2).normal(3, 2, shape).astype(np.float32)
    norm = nn.BatchNorm2d(shape[1]) if len(shape) == 4 else nn.BatchNorm1d(shape[1])
    scaled = nn.Conv2d(shape[1], shape[1], 1) if len(shape) == 4 else nn.Dense(shape[1], shape[1])
    network = nn.SequentialCell(scaled, norm)
    step = trained(network, x)
    found = kinds(step)
    assert found["batch normalisation"] == found["batch normalisation, gradients"] == 1
    assert found["reduction"] <= 2  # of the loss and of the bias


def test_numbers_are_brought_into_layouts_once() -> None:
    network = nn.SequentialCell(nn.Conv2d(16, 16, 3), nn.ReLU())
    step = graphls.compile(network.set_train(False), X, engine="onednn")
    assert kinds(step)["reorder"] == 2  # the image and the result


def test_a_constant_of_another_float_is_given_back_as_it_is() -> None:
    step = graphls.compile(
        lambda x: (x * 2.0, graphls.Tensor(np.full((3, 2), 1.5), graphls.bfloat16)), X, engine="onednn"
    )
    assert (step(X)[1].float().asnumpy() == 1.5).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("axes", "is_product"),
    [((0,), True), ((0, 1), True), ((1,), True), ((1, 2), True), ((0, 2), False), ((2, 3), False), (range(4), False)],
)
def test_sums_over_axes_before_others_move_nothing(axes: Sequence[int], is_product: bool) -> None:
    axes = tuple(axes)
    x = X.copy()
    x[0, 0, 0, 0], x[1, 1, 1, 1], x[0, 2, 2, 2], x[1, 2, 2, 2] = np.nan, np.inf, np.inf, -np.inf
    step = graphls.compile(lambda x: (ops.sum(x, axes), ops.mean(x, axes)), X, engine="onednn")
    assert kinds(step)["sums of columns"] == (2 if is_product else 0)
    for data in (X, x):
        for result, expected in zip(step(data), (data.sum(axes), data.mean(axes)), strict=True):
            np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 5), (2, 6, 5), (2, 3, 6, 5)])
def test_sums_and_factors_are_operations_behind_a_product(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, w, y = (rng.normal(size=s).astype(np.float32) for s in (shape, (5, 7), (*shape[:-1], 7)))
    scale = np.float32(0.3)

    def build(x: Any, w: Any, y: Any, scale: Any) -> Any:
        return y + (ops.matmul(x, w) * scale + y), ops.matmul(x, w + 1.0) * scale

    step = graphls.compile(build, x, w, y, scale, engine="onednn")
    assert kinds(step)["matrix product"] == 2 and kinds(step)["elementwise"] == 1
    first, second = step(x, w, y, scale)
    np.testing.assert_allclose(first.asnumpy(), x @ w * scale + y + y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(second.asnumpy(), x @ (w + 1) * scale, rtol=1e-5, atol=1e-5)
