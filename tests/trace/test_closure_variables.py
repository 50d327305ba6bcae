"""What functions read from around them: a graph is made again where that has changed, and only there."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor, nn, ops
from graphls.step.calling.jit import jit

X = Tensor(np.ones(2, np.float32))
alpha: float = 2.0
options = argparse.Namespace(alpha=2.0, name="a")
dense = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")


class Holder:
    """An object with a number and a method."""

    def __init__(self) -> None:
        self.alpha = 2.0
        self.unused = 0

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.alpha).sum()


holder = Holder()


def of_global(x: Tensor) -> Tensor:
    return (x * alpha).sum()


def of_attribute(x: Tensor) -> Tensor:
    return (x * options.alpha).sum()


def of_lambda(x: Tensor) -> Tensor:
    return (lambda y: (y * alpha).sum())(x)


def indirectly(x: Tensor) -> Tensor:
    return of_global(x)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "global": of_global,
    "attribute": of_attribute,
    "lambda": of_lambda,
    "called": indirectly,
    "object": lambda x: (x * holder.alpha).sum(),
    "method": holder.forward,
    "jit": lambda x: (x * 1.0).sum() * inner(x) / x.sum() / x.sum() * 1.0,
}


@jit
def inner(x: Tensor) -> Tensor:
    return (x * alpha).sum()


def set_alpha(value: float) -> None:
    """Change the number in every place."""
    global alpha
    alpha = options.alpha = holder.alpha = value


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What has been compiled."""
    made: list[Any] = []
    compile = gl.api.compile

    def counting(function: Any, *inputs: Any, **settings: Any) -> Any:
        made.append(function)
        return compile(function, *inputs, **settings)

    monkeypatch.setattr(gl.api, "compile", counting)
    return made


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_gradient_sees_another_number_around_its_function(
    function: Callable[[Tensor], Tensor], traces: list[Any]
) -> None:
    set_alpha(2.0)
    value_and_grad = gl.value_and_grad(function)
    for number in (2.0, 2.0, 3.0, 2.0, 3.0):
        set_alpha(number)
        holder.unused += 1
        value, _ = value_and_grad(X)
        assert float(value) == pytest.approx(2 * number if function is not FUNCTIONS["jit"] else number)
    assert len(traces) == 2


def test_a_variable_of_an_outer_function_and_one_that_is_set_later(traces: list[Any]) -> None:
    @jit
    def scaled(x: Tensor) -> Tensor:
        return x * factor

    factor = 2.0
    np.testing.assert_array_equal(scaled(X).asnumpy(), [2.0, 2.0])
    factor = 3.0
    np.testing.assert_array_equal(scaled(X).asnumpy(), [3.0, 3.0])
    assert len(traces) == 2


def test_one_and_true_are_not_the_same() -> None:
    flag: Any = 1

    @jit
    def named(x: Tensor) -> Any:
        return x, type(flag).__name__

    assert named(X)[1] == "int"
    flag = True
    assert named(X)[1] == "bool"


def test_another_network_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit
    def called(x: Tensor) -> Tensor:
        return dense(ops.reshape(x, (1, 2)))

    assert called(X).asnumpy().item() == 2.0
    monkeypatch.setitem(globals(), "dense", nn.Dense(2, 1, weight_init="zeros", bias_init="ones"))
    assert called(X).asnumpy().item() == 1.0


def test_another_function_under_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "of_global", lambda x: x * options.alpha)
    set_alpha(2.0)
    function = jit(indirectly)
    np.testing.assert_array_equal(function(X).asnumpy(), [2.0, 2.0])
    monkeypatch.setitem(globals(), "of_global", lambda x: x + alpha)
    np.testing.assert_array_equal(function(X).asnumpy(), [3.0, 3.0])
    set_alpha(4.0)
    np.testing.assert_array_equal(function(X).asnumpy(), [5.0, 5.0])


def test_a_setting_of_a_cell_that_is_only_looked_at() -> None:
    net = nn.Dense(2, 1)
    net.factor = 2.0

    @jit
    def scaled(x: Tensor) -> Tensor:
        return x * net.factor

    np.testing.assert_array_equal(scaled(X).asnumpy(), [2.0, 2.0])
    net.factor = 3.0
    np.testing.assert_array_equal(scaled(X).asnumpy(), [3.0, 3.0])


def test_a_number_of_many_values_warns_once_and_keeps_few_graphs(traces: list[Any]) -> None:
    step = 0

    def counting(x: Tensor) -> Tensor:
        nonlocal step
        step += 1
        return ops.mul(x, step).sum()

    function = gl.value_and_grad(counting)
    with pytest.warns(UserWarning, match="counting reads step and is compiled again for each value of that") as caught:
        found = [float(function(X)[0]) for _ in range(12)]
    assert found == [2.0 * (i + 1) for i in range(12)]
    assert (len(caught), len(traces)) == (1, 12)
