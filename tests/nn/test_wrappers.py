"""Cells around a network: evaluation, gradients, accumulation inside of a call, setting a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
X, Y = np.arange(8, dtype=F32).reshape(4, 2), np.ones((4, 1), F32)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")

    def construct(self, x: Any) -> Any:
        return self.fc(x)


class Doubled(nn.Cell):
    """Twice the weight times each of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(F32(3), name="weight")
        self.fixed = graphls.Parameter(F32(1), name="fixed", requires_grad=False)

    def construct(self, x: Any, y: Any) -> Any:
        return 2.0 * self.weight * self.fixed * x + y


A, B = np.array([1.0, 2.0], F32), np.array([5.0, 7.0], F32)


# -- WithEvalCell ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_evaluation_gives_loss_outputs_and_labels(backend: str) -> None:
    cell = nn.WithEvalCell(Net(), nn.MSELoss())
    loss, outputs, label = graphls.compile(cell, X, Y, backend=backend)(X, Y)
    expected = X.sum(1, keepdims=True)
    assert outputs.tolist() == expected.tolist() and label.tolist() == Y.tolist()
    np.testing.assert_allclose(float(loss), ((expected - 1) ** 2).mean(), rtol=1e-6)
    assert [p.name for p in cell.get_parameters()] == ["fc.weight", "fc.bias"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_evaluation_in_float32(backend: str) -> None:
    net = Net().to_float(graphls.float16)
    x, labels = X.astype(np.float16), Y.astype(np.float16)
    for is_cast, dtype in ((False, graphls.float16), (True, graphls.float32)):
        cell = nn.WithEvalCell(net, nn.MSELoss(), add_cast_fp32=is_cast)
        found = graphls.compile(cell, x, labels, backend=backend)(x, labels)
        assert [item.dtype for item in found] == [dtype] * 3
    classes = np.array([0, 0, 0, 0], np.int32)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    found = graphls.compile(nn.WithEvalCell(net, loss, True), x, classes, backend=backend)(x, classes)
    assert [item.dtype for item in found] == [graphls.float32, graphls.float32, graphls.int32]


def test_arguments_of_evaluation() -> None:
    text = r"For 'WithEvalCell', the type of 'add_cast_fp32' should be 'bool', but got type 'int'\."
    with pytest.raises(TypeError, match=text + r" \(\S*test_wrappers\.py:\d+\)"):
        nn.WithEvalCell(Net(), nn.MSELoss(), 1)
    for parts, name in (((1, nn.MSELoss()), "network"), ((Net(), "mean"), "loss_fn")):
        with pytest.raises(TypeError, match=f"The argument '{name}' must be a Cell or a function, but got"):
            nn.WithEvalCell(*parts)


# -- ForwardValueAndGrad --------------------------------------------------------------------------------------


def plain(result: Any) -> Any:
    return tuple(map(plain, result)) if isinstance(result, tuple) else result.tolist()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sens", [None, np.array([10.0, 100.0], F32)])
def test_value_and_gradients_by_flags(sens: Any, backend: str) -> None:
    net = Doubled()
    factors = np.ones(2, F32) if sens is None else sens
    inputs = (A, B) if sens is None else (A, B, sens)
    by_a, by_b = (6 * factors).tolist(), factors.tolist()
    by_weight, by_fixed = float((2 * A * factors).sum()), float((6 * A * factors).sum())
    weights = [net.fixed, net.weight]
    for flags, expected in (
        ({}, by_a),
        ({"get_all": True}, (by_a, by_b)),
        ({"get_by_list": True}, (by_fixed, by_weight)),
        ({"get_all": True, "get_by_list": True}, ((by_a, by_b), (by_fixed, by_weight))),
    ):
        given = weights if "get_by_list" in flags else None
        cell = nn.ForwardValueAndGrad(net, given, sens_param=sens is not None, **flags)
        value, gradients = graphls.compile(cell, *inputs, backend=backend)(*inputs)
        assert value.tolist() == (6 * A + B).tolist() and plain(gradients) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_value_and_gradient_of_a_function_share_one_forward(backend: str) -> None:
    def noisy(x: Any) -> Any:
        return ops.sum(ops.dropout(x, 0.5) * x)

    graphls.set_seed(3)
    x = np.ones(64, F32)
    value, gradient = graphls.compile(nn.ForwardValueAndGrad(noisy), x, backend=backend)(x)
    np.testing.assert_allclose(gradient.asnumpy().sum(), 2 * float(value), rtol=1e-6)
    assert 0 < float(value) < 128


def test_arguments_of_value_and_gradients() -> None:
    net = Doubled()
    for name in ("get_all", "get_by_list", "sens_param"):
        with pytest.raises(TypeError, match=f"the type of '{name}' should be 'bool', but got type 'int'"):
            nn.ForwardValueAndGrad(net, **{name: 1})
    with pytest.raises(TypeError, match="'network' must be cell, function type or method type, but got"):
        nn.ForwardValueAndGrad(3)
    for weights in (None, net.weight):
        with pytest.raises(TypeError, match="'get_by_list' is set to True, the argument 'weights' must be Parameters"):
            nn.ForwardValueAndGrad(net, weights, get_by_list=True)
    with pytest.raises(TypeError, match="ParameterTuple holds parameters"):
        nn.ForwardValueAndGrad(net, [1], get_by_list=True)


# -- WithGradCell ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_by_all_trainable_parameters(backend: str) -> None:
    net = Doubled()
    cell = nn.WithGradCell(net)
    assert net.training
    (by_weight,) = graphls.compile(cell, A, B, backend=backend)(A, B)
    assert by_weight.tolist() == 2 * A.sum()
    (scaled,) = graphls.compile(nn.WithGradCell(net, sens=graphls.Tensor([1.0, 3.0])), A, B, backend=backend)(A, B)
    assert scaled.tolist() == 2 * (A * [1, 3]).sum()
    cell = nn.WithGradCell(Net(), nn.MSELoss())
    by_weight, by_bias = graphls.compile(cell, X, Y, backend=backend)(X, Y)
    difference = X.sum(1, keepdims=True) - Y
    np.testing.assert_allclose(by_weight.asnumpy(), (2 * difference * X).mean(0, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(by_bias.asnumpy(), (2 * difference).mean(0), rtol=1e-6)


def test_arguments_of_gradients() -> None:
    with pytest.raises(TypeError, match="WithGradCell takes a cell, not 3"):
        nn.WithGradCell(3)
    with pytest.raises(TypeError, match="'loss_fn' must be a Cell or a function, but got 3"):
        nn.WithGradCell(Net(), 3)


# -- ParameterUpdate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_setting_a_parameter(backend: str) -> None:
    weight = graphls.Parameter(np.zeros(2, F32), name="weight")
    cell = nn.ParameterUpdate(weight)
    assert graphls.compile(cell, A, backend=backend)(A).tolist() == A.tolist()
    assert weight.asnumpy().tolist() == A.tolist() and weight.name == "weight"
    cell(graphls.Tensor(B))
    assert weight.asnumpy().tolist() == B.tolist()
    with pytest.raises(ValueError, match="cannot take a"):
        cell(graphls.Tensor(np.zeros(3, F32)))
    with pytest.raises(TypeError, match=r"For 'ParameterUpdate', 'param' must be 'Parameter', but got <class 'int'>\."):
        nn.ParameterUpdate(1)


# -- GradAccumulationCell -------------------------------------------------------------------------------------


class Parts(nn.Cell):
    """Sums of what it sees, and the number of rows, which are no tensors."""

    def construct(self, x: Any, factor: Any, y: Any = None) -> Any:
        return {"sum": ops.sum(x) * factor, "first": x[0]}, x.shape[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_of_a_batch_are_summed(backend: str) -> None:
    cell = nn.GradAccumulationCell(Parts(), 2)
    found, count = graphls.compile(cell, X, 3.0, backend=backend)(X, 3.0)
    assert (float(found["sum"]), found["first"].tolist(), count) == (3 * X.sum(), (X[0] + X[2]).tolist(), 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("micro_size", [1, 2, 4])
def test_training_with_parts_of_a_batch(micro_size: int, backend: str) -> None:
    """The loss is the sum of the parts', so its gradient is micro_size times that of the mean."""
    net = Net()
    loss = nn.GradAccumulationCell(nn.WithLossCell(net, nn.MSELoss()), micro_size)
    step = nn.TrainOneStepWithLossScaleCell(loss, nn.SGD(net.trainable_params(), 0.001), graphls.Tensor(4.0))
    value, overflow, _ = graphls.compile(step, X, Y, backend=backend)(X, Y)
    difference = X.sum(1, keepdims=True) - Y
    np.testing.assert_allclose(float(value), micro_size * (difference**2).mean(), rtol=1e-6)
    expected = 1 - 0.001 * micro_size * (2 * difference * X).mean(0, keepdims=True)
    np.testing.assert_allclose(net.fc.weight.asnumpy(), expected, rtol=1e-6)
    assert not bool(overflow)


def test_moving_averages_move_with_every_part() -> None:
    bn = nn.BatchNorm1d(2)
    cell = nn.GradAccumulationCell(bn, 2).set_train()
    graphls.compile(cell, X, backend="numpy")(X)
    mean = np.zeros(2)
    for part in (X[:2], X[2:]):
        mean = 0.9 * mean + 0.1 * part.mean(0)
    np.testing.assert_allclose(bn.moving_mean.asnumpy(), mean, rtol=1e-6)


def test_arguments_of_accumulation() -> None:
    with pytest.raises(TypeError, match="GradAccumulationCell takes a cell, not 3"):
        nn.GradAccumulationCell(3, 2)
    for size, error in ((2.0, TypeError), (True, TypeError), (0, ValueError), (-1, ValueError)):
        with pytest.raises(error, match="For 'GradAccumulationCell', the 'micro_size' must be int and must > 0"):
            nn.GradAccumulationCell(Net(), size)
    for x in (X[:3], F32(1)):
        text = r"input of shape \(.*\) cannot be split into 2 parts along its first axis.*test_wrappers\.py"
        with pytest.raises(ValueError, match=text):
            graphls.compile(nn.GradAccumulationCell(Net(), 2), x, backend="numpy")


class Changing(nn.Cell):
    """Gives more results at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def construct(self, x: Any) -> Any:
        self.calls.append(1)
        return (x,) * len(self.calls)


def test_parts_with_different_results() -> None:
    with pytest.raises(ValueError, match="every part of a batch as many outputs"):
        graphls.compile(nn.GradAccumulationCell(Changing(), 2), X, backend="numpy")
