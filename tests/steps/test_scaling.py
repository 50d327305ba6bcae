"""Steps in float32 and bfloat16 are told that loss scaling does nothing for them; others are left alone."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops

X, Y = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
MESSAGE = "need no loss scaling"


def scaled_step(dtype: Any, scale: Any = None, step_class: Any = nn.TrainOneStepWithLossScaleCell) -> nn.Cell:
    net = nn.Dense(4, 3).to_float(dtype)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    scale = nn.DynamicLossScaleUpdateCell(16, 2, 3) if scale is None else scale
    return step_class(nn.WithLossCell(net, nn.MSELoss()), optimizer, scale)


def told(cell: Any, *inputs: Any) -> list[str]:
    """What compiling a step tells."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graphls.compile(cell, *inputs, backend="numpy")
    assert {w.category for w in caught} <= {UserWarning} and {w.filename for w in caught} <= {__file__}
    return [str(w.message) for w in caught]


class Written(nn.TrainOneStepWithLossScaleCell):
    """A step of the user's own; the warning names the line of its check."""

    def construct(self, x: Any, y: Any) -> Any:
        loss = self.network(x, y)
        sens = ops.ones_like(loss) * ops.cast(self.scale_sense, loss.dtype) / 2.0
        grads = self.grad(self.network, self.weights)(x, y, sens)
        grads = tuple(g / self.scale_sense for g in grads)
        overflow = self.get_overflow_status(None, grads)
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, self.process_loss_scale(overflow)


LINES = Path(__file__).read_text().splitlines()
LINE = next(n for n, line in enumerate(LINES, 1) if "get_overflow_status(None" in line)


@pytest.mark.parametrize("dtype", [graphls.float32, graphls.bfloat16])
@pytest.mark.parametrize(
    "scale",
    [None, nn.FixedLossScaleUpdateCell(2.0), graphls.Tensor([8.0]), graphls.Tensor(8, graphls.int32)],
)
def test_scaling_without_float16_is_told_once(dtype: Any, scale: Any) -> None:
    cell = scaled_step(dtype, scale)
    (message,) = told(cell, X, Y)
    assert f"Gradients in {dtype.long_name} {MESSAGE}" in message
    assert "TrainOneStepCell" in message and "test_scaling.py:" in message
    assert told(cell, X[:1], Y[:1]) == []


def test_a_step_of_ones_own_is_told_its_line() -> None:
    (message,) = told(scaled_step(graphls.float32, step_class=Written), X, Y)
    assert message.endswith(f"test_scaling.py:{LINE})")


@pytest.mark.parametrize(
    "cell",
    [
        scaled_step(graphls.float16),
        scaled_step(graphls.float16, step_class=Written),
        scaled_step(graphls.float32, graphls.Tensor(1.0)),
        scaled_step(graphls.float32, nn.FixedLossScaleUpdateCell(1)),
    ],
)
def test_scaling_of_float16_and_by_1_is_not_told(cell: Any) -> None:
    assert told(cell, X, Y) == []


def test_a_network_that_is_float16_in_one_layer_is_scaled_rightly() -> None:
    net = nn.SequentialCell(nn.Dense(4, 4), nn.Dense(4, 4).to_float(graphls.float16), nn.Dense(4, 3))
    loss = nn.WithLossCell(net, nn.MSELoss())
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    assert told(nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.FixedLossScaleUpdateCell(8)), X, Y) == []


def test_steps_without_a_window_are_not_told() -> None:
    net = nn.Dense(4, 3)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=8.0)
    assert told(nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, 8.0), X, Y) == []


@pytest.mark.parametrize("trained", [False, True])
def test_a_number_inside_the_network_is_no_loss_scale(trained: bool) -> None:
    class Tempered(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(4, 3)
            self.temperature = graphls.Parameter(2.0, requires_grad=trained)

        def construct(self, x: Any) -> Any:
            return ops.tanh(self.dense(x) * self.temperature)

    net = Tempered()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    loss = nn.WithLossCell(net, nn.MSELoss())
    assert told(nn.TrainOneStepWithLossScaleCell(loss, optimizer, graphls.Tensor(1.0)), X, Y) == []


def function_step(dtype: Any) -> Any:
    net, scaler = nn.Dense(4, 3).to_float(dtype), amp.DynamicLossScaler(2.0**10, 2, 100)
    optimizer = nn.SGD(net.trainable_params(), 0.1)

    def forward(x: Any, y: Any) -> Any:
        return scaler.scale(ops.mean(ops.square(ops.cast(net(x), graphls.float32) - y)))

    def step(x: Any, y: Any) -> Any:
        loss, gradients = graphls.value_and_grad(forward, None, optimizer.parameters)(x, y)
        gradients = scaler.unscale(gradients)
        finite = amp.all_finite(gradients)
        if finite:
            loss = ops.depend(loss, optimizer(gradients))
        scaler.adjust(finite)
        return scaler.unscale(loss)

    return step


def test_functional_scalers_are_told_too() -> None:
    assert told(function_step(graphls.float16), X, Y) == []
    for dtype in (graphls.float32, graphls.bfloat16):
        (message,) = told(function_step(dtype), X, Y)
        assert dtype.long_name in message


def test_calling_a_step_tells_once() -> None:
    cell = scaled_step(graphls.float32)
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        cell(X, Y)
        cell(X[:1], Y[:1])
    assert len(caught) == 1
