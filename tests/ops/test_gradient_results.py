"""How gradients are nested: one position gives a tensor, however it is written (measured with MindSpore 2.10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.ir.errors import GraphTypeError


def product(x: Any, y: Any) -> Any:
    return x * y


class Scaled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.scale = Parameter(np.array([3.0], np.float32), name="scale")

    def construct(self, x: Tensor) -> Tensor:
        return ops.sum(x * self.scale)


X, Y = Tensor([2.0, 3.0]), Tensor([5.0, 7.0])


@pytest.mark.parametrize("position", [0, (0,)])
def test_one_position_gives_a_tensor(position: Any) -> None:
    np.testing.assert_array_equal(graphls.grad(product, position)(X, Y).asnumpy(), [5.0, 7.0])
    value, gradient = graphls.value_and_grad(product, position)(X, Y)
    np.testing.assert_array_equal(gradient.asnumpy(), [5.0, 7.0])
    assert value.shape == (2,)
    for jacobian in (ops.jacrev, ops.jacfwd):
        np.testing.assert_array_equal(jacobian(product, position)(X, Y).asnumpy(), [[5.0, 0.0], [0.0, 7.0]])


def test_several_positions_give_a_tuple() -> None:
    by_x, by_y = graphls.grad(product, (0, 1))(X, Y)
    np.testing.assert_array_equal(by_x.asnumpy(), [5.0, 7.0])
    np.testing.assert_array_equal(by_y.asnumpy(), [2.0, 3.0])


def test_a_tuple_of_one_weight_gives_a_tuple() -> None:
    net = Scaled()
    (by_weight,) = graphls.grad(net, None, [net.scale])(X)
    assert by_weight.shape == (1,)
    by_input, (by_weight,) = graphls.grad(net, (0,), [net.scale])(X)
    assert (by_input.shape, by_weight.shape) == ((2,), (1,))


def adam(var: Any, m: Any, v: Any) -> Any:
    return ops.Adam()(var, m, v, 0.9, 0.99, 0.1, 0.9, 0.99, 1e-8, Tensor(np.ones(3, np.float32)))


def test_an_operator_that_updates_refuses_what_keeps_no_value() -> None:
    parameters = [Parameter(np.zeros(3, np.float32), name=name) for name in ("var", "m", "v")]
    with pytest.raises(GraphTypeError, match=r"is a Parameter, not f32\[3\]"):
        graphls.compile(adam, *(Tensor(p.asnumpy()) for p in parameters))
    with pytest.raises(GraphTypeError, match="inside vmap"):
        stacked = [Parameter(np.zeros((2, 3), np.float32), name=name) for name in ("var", "m", "v")]
        graphls.compile(lambda x: ops.vmap(adam)(*stacked)[0] + x, Tensor(np.zeros(3, np.float32)))
    adam(*parameters)
    np.testing.assert_allclose(parameters[0].asnumpy(), -0.1 * np.ones(3), rtol=1e-5)


def test_a_tensor_of_an_array_has_its_own_memory() -> None:
    array = np.zeros(3, np.float32)
    copied, shared = Tensor(array), Tensor.from_numpy(array)
    array[0] = 5
    np.testing.assert_array_equal(copied.asnumpy(), [0, 0, 0])
    np.testing.assert_array_equal(shared.asnumpy(), [5, 0, 0])


WRITES: dict[str, Any] = {
    "attribute": lambda cell, value: setattr(cell, "weight", value),
    "assign": lambda cell, value: ops.assign(cell.weight, value),
    "stopped": lambda cell, value: setattr(cell, "weight", ops.stop_gradient(value)),
}


@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize("name", WRITES)
def test_a_gradient_flows_through_a_parameter_that_construct_writes(
    name: str, mode: str, request: pytest.FixtureRequest
) -> None:
    """As it does through a local variable; with `stop_gradient` it ends there, as MindSpore's does at every write."""

    class Writing(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = Parameter(np.float32(7), name="weight")

        def construct(self, x: Tensor, y: Tensor) -> Any:
            before = self.weight * x
            WRITES[name](self, x * y)
            return 2 * x * y, self.weight + 1, before

    if mode == "eager":
        request.getfixturevalue("eager")
    cell = Writing()
    gradient = ops.GradOperation(get_all=True, get_by_list=True)(cell, graphls.ParameterTuple([cell.weight]))
    (by_x, by_y), (by_weight,) = gradient(Tensor(3.0), Tensor(5.0))
    expected = (10 + 7, 6) if name == "stopped" else (15 + 7, 9)
    assert (float(by_x), float(by_y), float(by_weight)) == (*expected, 3.0)
    assert float(cell.weight.value()) == 15.0


def test_the_sensitivity_may_have_its_name() -> None:
    by_name = ops.GradOperation(get_all=True, sens_param=True)(product)(X, Y, sens=Tensor([2.0, 1.0]))
    assert [t.asnumpy().tolist() for t in by_name] == [[10.0, 7.0], [4.0, 3.0]]
    assert ops.GradOperation()(product)(1, 2) == ()


def test_an_operator_is_a_function_for_a_multitype_graph() -> None:
    apply: Any = ops.MultitypeFuncGraph("apply")
    apply.register("Function", "Tensor")(lambda function, x: function(x))
    assert apply(ops.Neg(), X).asnumpy().tolist() == apply(ops.neg, X).asnumpy().tolist() == [-2.0, -3.0]
