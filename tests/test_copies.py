"""Copies of parameters, cells, models and compiled steps have states and sessions of their own and the same numbers."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphls
import graphls.onnx
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
        assert pool.apply_async(loss_of, (cell,)).get(600) == loss_of(cell)


def arguments() -> dict[str, Any]:
    """A value for each argument without a default, by its name; any other is 2."""
    net = nn.Dense(4, 4)
    optimizer = nn.SGD(net.trainable_params())
    return {
        "params": net.trainable_params(), "parameters": net.trainable_params(), "network": net, "layer": net,
        "backbone": net, "optimizer": optimizer, "loss_fn": nn.MSELoss(), "learning_rate": 0.5, "axis": 1,
        "min_lr": 0.1, "max_lr": 0.5, "power": 0.5, "end_learning_rate": 0.1, "central_fraction": 0.5, "momentum": 0.9,
        "scale_sense": graphls.Tensor([8.0]), "paddings": ((1, 1),), "param": net.weight, "start": 0, "decay_rate": 0.5,
        "encoder_layer": nn.TransformerEncoderLayer(4, 2, 4), "decoder_layer": nn.TransformerDecoderLayer(4, 2, 4),
        "unflattened_size": (2, 2), "ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1],
        "normalized_shape": (4,), "schedule": nn.ExponentialDecayLR(0.1, 0.9, 2), "total_steps": 9,
    }  # fmt: skip


SMALL = {"d_model": 4, "nhead": 2, "dim_feedforward": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}
"""What a transformer is by default is large."""


def cells() -> dict[str, nn.Cell]:
    """One cell of each class of nn."""
    given, made = arguments(), {}
    for name in nn.__all__:
        kind = getattr(nn, name)
        if not (isinstance(kind, type) and issubclass(kind, nn.Cell)) or name in ("Optimizer", "LearningRateSchedule"):
            continue
        taken = inspect.signature(kind).parameters.values()
        wanted = [p.name for p in taken if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        small = {p.name: SMALL[p.name] for p in taken if p.name in SMALL and p.name not in wanted}
        made[name] = kind(*(given.get(each, 2) for each in wanted), **small)
    return made


@pytest.mark.parametrize("copied", DEEP)
def test_every_cell_can_be_copied(copied: Copying) -> None:
    for name, cell in cells().items():
        try:
            other = copied(cell)
        except Exception as error:
            raise AssertionError(name) from error
        assert type(other) is type(cell) and str(other) == str(cell) and states(other) == states(cell)


def deep_model(operators: int) -> bytes:
    """An ONNX model of this many sums in a row, as deep as no nest of Python may be."""
    nodes = [helper.make_node("Add", [f"x{i}", "b"], [f"x{i + 1}"]) for i in range(operators)]
    ends = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [2]) for i in (0, operators)]
    weight = numpy_helper.from_array(np.ones(2, np.float32), "b")
    graph = helper.make_graph(nodes, "deep", ends[:1], ends[1:], [weight])
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


@pytest.mark.parametrize("copied", [copy.copy, *DEEP])
def test_a_copy_of_an_onnx_model_has_its_trained_weights(copied: Copying) -> None:
    net = graphls.onnx.load(deep_model(400), outputs=["x300"])
    (weight,) = net.trainable_params()
    weight.set_data(graphls.Tensor(np.full(2, 2, np.float32)))
    other = copied(net)
    x = np.zeros(2, np.float32)
    assert other(x).tolist() == net(x).tolist() == [600, 600]
    assert inspect.signature(other.construct) == inspect.signature(net.construct)
    other.trainable_params()[0].set_data(graphls.Tensor(np.zeros(2, np.float32)))
    assert net(x).tolist() == ([0, 0] if copied is copy.copy else [600, 600])
    assert graphls.onnx.load(deep_model(2), fixed={"x0": x}).open_inputs == ()
    fixed = copied(graphls.onnx.load(deep_model(2), fixed={"x0": x}, frozen="b"))
    assert fixed().tolist() == [2, 2] and not fixed.trainable_params()
