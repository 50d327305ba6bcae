"""Copies of parameters, cells, models and compiled steps have states and sessions of their own and the same numbers."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.train import Model

X, Y = np.ones((8, 4), np.float32), np.ones((8, 2), np.float32)
Copying = Callable[[Any], Any]
DEEP = [
    pytest.param(copy.deepcopy, id="deepcopy"),
    pytest.param(lambda item: pickle.loads(pickle.dumps(item)), id="pickle"),
]


def trained(backend: str = "onnxruntime") -> tuple[Any, Any]:
    """A train network with dropout, and its step, which has run twice."""
    graphls.set_seed(1)
    net = nn.SequentialCell(nn.Dense(4, 8), nn.Dropout(p=0.2), nn.Dense(8, 2))
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    cell.set_train()
    step = graphls.compile(cell, X, Y, backend=backend)
    step(X, Y), step(X, Y)
    return cell, step


def states(cell: Any) -> dict[str, Any]:
    return {parameter.name: parameter.asnumpy().tolist() for parameter in cell.get_parameters()}


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
@pytest.mark.parametrize("copied", DEEP)
def test_a_copy_of_a_step_goes_on_alone_with_the_same_numbers(copied: Copying, backend: str) -> None:
    cell, step = trained(backend)
    other_cell, other = copied((cell, step))
    before = states(cell)
    losses = [float(other(X, Y)) for _ in range(3)]
    assert states(cell) == before and states(other_cell) != before
    assert [float(step(X, Y)) for _ in range(3)] == losses
    assert states(other_cell) == states(cell)


@pytest.mark.parametrize("copied", DEEP)
def test_a_copy_of_repeated_steps(copied: Copying) -> None:
    _, step = trained()
    many = step.repeated(2)
    inputs = np.stack([X, X]), np.stack([Y, Y])
    other = copied(many)
    assert other(*inputs).asnumpy().tolist() == many(*inputs).asnumpy().tolist()


def test_a_shallow_copy_of_a_step_shares_its_states() -> None:
    cell, step = trained()
    other, before = copy.copy(step), states(cell)
    other(X, Y)
    assert states(cell) != before
    step(X, Y)
    twin, twin_step = trained()
    twin_step(X, Y), twin_step(X, Y)
    assert states(cell) == states(twin)


@pytest.mark.parametrize("copied", DEEP)
def test_a_copy_of_a_cell_that_has_run(copied: Copying) -> None:
    cell, _ = trained()
    cell(X, Y)
    other, state = copied(cell), graphls.random.random_state().asnumpy()
    loss = float(cell(X, Y))
    graphls.random.random_state().set_data(state)
    assert float(other(X, Y)) == loss and states(other) == states(cell)
    assert {id(p) for p in other.optimizer.parameters} <= {id(p) for p in other.get_parameters()}


@pytest.mark.parametrize("copied", DEEP)
def test_a_copy_of_a_model_that_has_trained_and_predicted(copied: Copying) -> None:
    graphls.set_seed(1)
    net = nn.Dense(4, 2)
    model = Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.1), metrics={"loss"})
    data = graphls.dataset.NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(4)
    model.train(1, data)
    model.predict(X)
    other, before = copied(model), net.weight.asnumpy()
    other.train(1, data)
    np.testing.assert_array_equal(net.weight.asnumpy(), before)
    model.train(1, data)
    np.testing.assert_array_equal(model.predict(X).asnumpy(), other.predict(X).asnumpy())
    assert other.eval(data) == model.eval(data)


@pytest.mark.parametrize("copied", [copy.copy, *DEEP])
def test_copies_of_parameters_and_tensors(copied: Copying) -> None:
    parameter = graphls.Parameter(np.ones(2, np.float32), name="p", requires_grad=False)
    other = copied(parameter)
    assert (other.name, other.requires_grad, other.type) == ("p", False, parameter.type)
    assert other.asnumpy().tolist() == copied(graphls.Tensor(np.ones(2, np.float32))).asnumpy().tolist() == [1, 1]


def loss_of(cell: Any) -> float:
    return float(cell(X, Y))


def test_a_cell_goes_to_a_process_that_is_spawned() -> None:
    cell, _ = trained()
    cell.set_train(False)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(loss_of, (cell,)) == loss_of(cell)
