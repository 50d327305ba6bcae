"""A change of `requires_grad` after a step was made takes effect at the next one, or is refused with its line."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import load_checkpoint, load_param_into_net, nn, ops, save_checkpoint

X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)
Step = Callable[..., Any]


def network() -> Any:
    return nn.SequentialCell(nn.Dense(3, 3), nn.Dense(3, 2))


def step_of(net: Any, parameters: Any = None) -> Any:
    optimizer = nn.Adam(list(net.get_parameters()) if parameters is None else parameters, 0.1)
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)


def moved(net: Any, step: Step, *inputs: Any) -> list[str]:
    """The parameters that a call changes."""
    before = {p.name: p.asnumpy() for p in net.get_parameters()}
    step(*(inputs or (X, Y)))
    return [p.name for p in net.get_parameters() if (p.asnumpy() != before[p.name]).any()]


ALL = ["0.weight", "0.bias", "1.weight", "1.bias"]


def by_call(net: Any) -> Step:
    step = step_of(net)
    return lambda x, y: step(graphls.Tensor(x), graphls.Tensor(y))


def by_jit(net: Any) -> Step:
    optimizer = nn.Adam(list(net.get_parameters()), 0.1)
    gradient = graphls.value_and_grad(nn.WithLossCell(net, nn.MSELoss()), None, optimizer.parameters)

    @graphls.jit
    def step(x: Any, y: Any) -> Any:
        loss, gradients = gradient(x, y)
        return ops.depend(loss, optimizer(gradients))

    return lambda x, y: step(graphls.Tensor(x), graphls.Tensor(y))


def by_model(net: Any) -> Step:
    model = graphls.Model(net, nn.MSELoss(), nn.Adam(list(net.get_parameters()), 0.1))
    return lambda x, y: model.train(1, [(x, y)])


@pytest.mark.parametrize("make", [by_call, by_jit, by_model])
def test_cells_functions_and_models_take_a_change_at_the_next_step(make: Callable[[Any], Step]) -> None:
    net = network()
    step = make(net)
    assert moved(net, step) == ALL
    net[0].weight.requires_grad = False
    assert moved(net, step) == ALL[1:]
    net[0].weight.requires_grad = True
    assert moved(net, step) == ALL


@pytest.mark.parametrize("before", [True, False])
def test_a_compiled_step_refuses_a_change_with_its_line_until_it_is_undone(before: bool) -> None:
    net = network()
    net[0].weight.requires_grad = net[0].bias.requires_grad = before
    step = graphls.compile(step_of(net), X, Y)
    step(X, Y)
    net[0].weight.requires_grad = net[0].bias.requires_grad = not before
    text = rf"of '0.weight' \(and of '0.bias'\) was set to {not before} at .*test_requires_grad.py:\d+, but this step"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text):
            assert moved(net, step) == []
    with pytest.raises(RuntimeError, match="compile it again"):
        copy.deepcopy(step)(X, Y)
    net[0].weight.requires_grad = net[0].bias.requires_grad = before
    expected = ALL if before else ALL[2:]
    assert moved(net, step) == expected
    net[0].weight.requires_grad = not before
    again = graphls.compile(step_of(net), X, Y)
    assert moved(net, again) == (ALL[1:] if before else ["0.weight", *ALL[2:]])


def test_repeated_steps_refuse_a_change_too() -> None:
    net = network()
    many = graphls.compile(step_of(net), X, Y).repeated(2)
    assert moved(net, many, np.stack([X, X]), np.stack([Y, Y])) == ALL
    net[0].weight.requires_grad = False
    with pytest.raises(RuntimeError, match=r"requires_grad of '0.weight' was set to False"):
        many(np.stack([X, X]), np.stack([Y, Y]))


def test_steps_that_share_parameters_follow_the_flags_of_what_they_train() -> None:
    """As adversarial networks train, each of two steps reads what the other one trains."""
    first, second = nn.Dense(3, 3), nn.Dense(3, 2)
    net = nn.SequentialCell(first, second)
    steps = [graphls.compile(step_of(net, part.trainable_params()), X, Y) for part in (first, second)]
    for _ in range(2):
        for step, other, names in ((steps[0], second, ALL[:2]), (steps[1], first, ALL[2:])):
            for parameter in other.get_parameters():
                parameter.requires_grad = False
            assert moved(net, step) == names
            for parameter in other.get_parameters():
                parameter.requires_grad = True


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_parameter_that_no_optimizer_has_is_told_of_once_when_it_is_unfrozen(is_compiled: bool) -> None:
    net = network()
    net[0].weight.requires_grad = False
    cell = step_of(net, net.trainable_params())
    step = graphls.compile(cell, X, Y) if is_compiled else lambda x, y: cell(graphls.Tensor(x), graphls.Tensor(y))
    step(X, Y)
    net[0].weight.requires_grad = True
    with pytest.warns(UserWarning, match="'0.weight' was set to True at .*, and no optimizer of this step has it"):
        assert moved(net, step) == ALL[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(X, Y)


class Descent(nn.Cell):
    """An optimizer of a user's own, which asks for nothing."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(auto_prefix=False)
        self.parameters = graphls.ParameterTuple(parameters)

    def construct(self, gradients: Any) -> Any:
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            ops.assign(parameter, parameter - 0.1 * gradient)
        return True


def test_an_optimizer_of_a_user_that_updates_a_frozen_parameter_is_told_of() -> None:
    net = network()
    net[0].weight.requires_grad = False
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), Descent(net.get_parameters()))
    with pytest.warns(UserWarning, match="'0.weight' has requires_grad=False and is updated all the same"):
        step = graphls.compile(cell, X, Y)
    assert moved(net, step) == ALL


def test_statistics_and_optimizers_that_leave_frozen_parameters_are_fine() -> None:
    net = nn.SequentialCell(nn.Dense(3, 2), nn.BatchNorm1d(2))
    net[0].weight.requires_grad = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step = graphls.compile(step_of(net).set_train(), X, Y)
        assert "0.weight" not in moved(net, step) and "1.moving_mean" in moved(net, step)


def test_steps_read_no_flags_until_one_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    cell, reads = step_of(net), []
    compiled = graphls.compile(cell, X, Y)
    x, y = graphls.Tensor(X), graphls.Tensor(Y)
    cell(x, y)
    flag = graphls.Parameter.requires_grad

    def read(parameter: Any) -> bool:
        reads.append(parameter.name)
        return bool(flag.fget(parameter))

    monkeypatch.setattr(graphls.Parameter, "requires_grad", property(read, flag.fset))
    for _ in range(3):
        cell(x, y)
        compiled(X, Y)
    assert not reads
    net[0].weight.requires_grad = True  # as it is
    reads.clear()
    cell(x, y)
    compiled(X, Y)
    assert not reads


def test_checkpoints_leave_the_flags_and_steps_go_on(tmp_path: Path) -> None:
    net = network()
    net[0].weight.requires_grad = False
    cell = step_of(net)
    step = graphls.compile(cell, X, Y)
    step(X, Y)
    save_checkpoint(cell, tmp_path / "a")
    step(X, Y)
    expected = [p.asnumpy() for p in cell.get_parameters()]
    for _ in range(2):
        load_param_into_net(cell, load_checkpoint(tmp_path / "a.ckpt"))
        assert not net[0].weight.requires_grad
        assert moved(net, step) == ALL[1:]
        for parameter, value in zip(cell.get_parameters(), expected, strict=True):
            np.testing.assert_array_equal(parameter.asnumpy(), value)
