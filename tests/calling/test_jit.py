"""`jit`, and what goes with it: functions and methods as one graph, in both modes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, nn, ops
from graphls.context import reset_context, set_context
from graphls.ir.errors import GraphlsError
from graphls.step.calling.jit import Jit, JitConfig, jit, jit_class, ms_class, ms_function, mutable


@pytest.fixture(autouse=True, params=[0, 1], ids=["graph", "eager"])
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs in both modes."""
    set_context(mode=request.param)
    yield
    reset_context()


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def is_traced(x: Tensor) -> bool:
    return "in the graph" in repr(x)


def steps(function: Jit) -> int:
    """How many graphs a function has."""
    caches = function.caches.values()
    return sum(len(steps) for cache in caches for steps in cache.steps.values())


def test_a_function_is_traced_once_for_each_kind_of_arguments() -> None:
    seen = []

    @jit
    def scaled(x: Tensor, factor: float = 2.0, *, plus: float = 0.0) -> Tensor:
        """Doc."""
        seen.append(is_traced(x))
        return x * factor + plus

    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Doc.")
    for _ in range(3):
        np.testing.assert_array_equal(scaled(ones(2)).asnumpy(), [2.0, 2.0])
    np.testing.assert_array_equal(scaled(ones(2), 3.0).asnumpy(), [3.0, 3.0])
    np.testing.assert_array_equal(scaled(factor=3.0, x=ones(2)).asnumpy(), [3.0, 3.0])
    np.testing.assert_array_equal(scaled(ones(2), 3.0, plus=1.0).asnumpy(), [4.0, 4.0])
    np.testing.assert_array_equal(scaled(ones(2, 1)).asnumpy(), [[2.0], [2.0]])
    assert seen == [True] * 4 == [True] * steps(scaled)


@pytest.mark.parametrize(
    "decorate",
    [jit, jit(), jit(mode="PIJit", jit_config=JitConfig(jit_level="O1")), ms_function, ms_function(input_signature=())],
)
def test_with_arguments_and_without(decorate: Any) -> None:
    @decorate
    def doubled(x: Tensor) -> Tensor:
        assert is_traced(x)
        return x + x

    np.testing.assert_array_equal(doubled(ones(2)).asnumpy(), [2.0, 2.0])


def test_options_and_objects_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="jit has no option 'jit_levl'; did you mean 'jit_level'"):
        jit(jit_levl="O0")
    for name, value in {"dynamic": 5, "capture_mode": "z", "jit_level": "zz", "infer_boost": "zz"}.items():
        with pytest.raises(ValueError, match=f"For 'jit', the '{name}' must be one of"):
            jit(f, **{name: value})
    with pytest.raises(TypeError, match="'fullgraph' must be bool"):
        jit(f, fullgraph="zz")
    with pytest.raises(TypeError, match="jit takes a function, a method or a cell, not 3"):
        jit(3)
    with pytest.raises(GraphlsError, match=r"f cannot be called like this: got an unexpected keyword argument 'z'"):
        jit(f)(x=1, z=2)


def f(x: Tensor) -> Tensor:
    """A function for a wrong call."""
    return x


class Layer(nn.Cell):
    """A cell with `jit` on its construct and on a method of its own."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(weight), name="weight")
        self.offset = 1.0

    @jit
    def construct(self, x: Tensor) -> Tensor:
        assert is_traced(x)
        return x * self.weight

    @jit
    def shifted(self, x: Tensor) -> Tensor:
        assert is_traced(x)
        ops.assign_add(self.weight, 1.0)
        return x + self.offset


def test_methods_of_cells_belong_to_their_cell() -> None:
    first, second = Layer(2.0), Layer(3.0)
    for layer, wanted in ((first, 2.0), (second, 3.0), (first, 2.0)):
        np.testing.assert_array_equal(layer(ones(2)).asnumpy(), [wanted] * 2)
    np.testing.assert_array_equal(first.shifted(ones(2)).asnumpy(), [2.0, 2.0])
    assert (float(first.weight), float(second.weight)) == (3.0, 3.0)
    first.offset = 5.0
    np.testing.assert_array_equal(first.shifted(ones(2)).asnumpy(), [6.0, 6.0])


def test_a_cell_and_its_construct_can_be_given() -> None:
    class Plain(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            assert is_traced(x)
            return x * 2

    np.testing.assert_array_equal(jit(Plain())(ones(2)).asnumpy(), [2.0, 2.0])
    net = Plain()
    net.construct = jit(net.construct)  # type: ignore[method-assign]
    np.testing.assert_array_equal(net(ones(2)).asnumpy(), [2.0, 2.0])


@jit_class
class Scaler:
    """A plain object with a method that is a graph."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @jit
    def __call__(self, x: Tensor) -> Tensor:
        return x * self.scale

    @jit
    def method(self, x: Tensor) -> Tensor:
        return x * self.scale


def test_methods_of_plain_objects_and_of_their_copies() -> None:
    scaler = Scaler(2.0)
    np.testing.assert_array_equal(scaler.method(ones(1)).asnumpy(), [2.0])
    twin = copy.copy(scaler)
    twin.scale = 4.0
    np.testing.assert_array_equal(twin.method(ones(1)).asnumpy(), [4.0])
    np.testing.assert_array_equal(scaler(ones(1)).asnumpy(), [2.0])


def test_one_graph_in_another_and_under_a_gradient() -> None:
    inner = jit(lambda x: ops.square(x))
    outer = jit(lambda x: inner(x) + 1.0)
    np.testing.assert_array_equal(outer(ones(2) * 3).asnumpy(), [10.0, 10.0])
    assert steps(inner) == 0
    np.testing.assert_array_equal(gl.grad(inner)(ones(2) * 3).asnumpy(), [6.0, 6.0])


def test_a_training_step_as_a_function_is_one_graph() -> None:
    net = nn.Dense(3, 1, weight_init="ones", bias_init="zeros")
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    grad_fn = gl.value_and_grad(lambda x, y: ops.mean(ops.square(net(x) - y)), None, optimizer.parameters)

    @jit
    def train_step(x: Tensor, y: Tensor) -> Tensor:
        loss, grads = grad_fn(x, y)
        return ops.depend(loss, optimizer(grads))

    losses = [float(train_step(ones(2, 3), ones(2, 1))) for _ in range(3)]
    np.testing.assert_allclose(losses, [4.0, 0.16, 0.0064], rtol=1e-4)
    assert steps(train_step) == 1


def test_mutable_makes_numbers_inputs() -> None:
    @jit
    def total(items: Any, factor: Any) -> Tensor:
        return (items[0] + items[1]["a"]) * factor

    for number in (1.0, 2.0, 3.0):
        found = total(mutable([number, {"a": 1}]), mutable(2.0))
        assert float(found) == (number + 1) * 2
    assert steps(total) == 1
    weight = Parameter(ones(2), name="w")
    assert mutable((weight,))[0] is weight
    with pytest.raises(TypeError, match="mutable takes numbers and tensors, or pytrees of them, not 'a'"):
        mutable("a")
    with pytest.raises(TypeError, match="mutable takes a tuple or list for a dynamic_len, not 3"):
        mutable(3, True)
    with pytest.raises(TypeError, match="'dynamic_len' must be bool"):
        mutable((1, 2), 3)


def test_jit_class_takes_classes_that_are_no_cells() -> None:
    assert jit_class is not None and ms_class(Scaler) is Scaler
    for wrong in (Layer, Scaler(1.0)):
        with pytest.raises(TypeError, match="jit_class decorates classes other than cells"):
            jit_class(wrong)  # type: ignore[type-var]
