"""Weights that a step uses and does not train are told of, once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

X, Y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)
Keep = Callable[[nn.Cell], Any]


class Net(nn.Cell):
    """A layer that is kept in some way, and one that is not."""

    def __init__(self, keep: Keep, stops: bool = False) -> None:
        super().__init__()
        self.first = nn.Dense(3, 3)
        self.kept = keep(nn.Dense(3, 3))
        self.stops = stops
        self.last = nn.Dense(3, 2)

    def construct(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.kept.values() if isinstance(self.kept, dict) else self.kept:
            more = layer(x)
            x = x + (ops.stop_gradient(more) if self.stops else more)
        return self.last(x)


def trained(net: nn.Cell) -> list[str]:
    """What is said while a step of training is compiled."""
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graphls.compile(step, X, Y)
        graphls.compile(step, X, Y)
    return [str(each.message) for each in caught]


def in_list(cell: nn.Cell) -> list[nn.Cell]:
    return [cell]


def in_dict(cell: nn.Cell) -> dict[str, nn.Cell]:
    return {"a": cell}


@pytest.mark.parametrize("keep", [in_list, in_dict])
def test_a_cell_in_a_plain_container_is_told_of_once(keep: Keep) -> None:
    (text,) = trained(Net(keep))
    assert "No optimizer trains 'weight', 'bias'" in text and "nn.CellList" in text
    assert "test_untrained.py" in text


def test_a_frozen_cell_or_one_behind_stop_gradient_is_meant() -> None:
    net = Net(in_list)
    for parameter in net.kept[0].get_parameters():
        parameter.requires_grad = False
    assert trained(net) == []
    assert trained(Net(in_list, stops=True)) == []


def test_registered_cells_and_weights_that_the_optimizer_has_are_fine() -> None:
    assert trained(Net(lambda cell: nn.CellList([cell]))) == []
    net = Net(in_list)
    net.kept[0].weight.name, net.kept[0].bias.name = "kept.weight", "kept.bias"
    parameters = [*net.trainable_params(), *net.kept[0].trainable_params()]
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(parameters, 0.1, 0.9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphls.compile(step, X, Y)


def test_a_function_trains_what_it_is_told_to() -> None:
    net = nn.Dense(3, 2)
    other = nn.Dense(3, 3)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    gradient = graphls.value_and_grad(lambda x, y: ops.mse_loss(net(other(x)), y), None, optimizer.parameters)

    def step(x: Any, y: Any) -> Any:
        loss, gradients = gradient(x, y)
        optimizer(gradients)
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphls.compile(step, X, Y)


def test_a_step_of_float32_weights_that_gets_float64_says_so() -> None:
    net = nn.Dense(2, 1)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params()))
    with pytest.warns(UserWarning, match="'weight' is Float32 and meets float64"):
        step(np.ones((3, 2)), np.ones((3, 1)))
    wide = nn.Dense(2, 1, dtype=graphls.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphls.compile(net, np.ones((3, 2), np.float32))
        graphls.compile(wide, np.ones((3, 2)))
