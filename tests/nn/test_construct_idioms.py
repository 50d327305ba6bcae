"""What stands in the construct of training steps: depend, assignments to parameters, nests, stop_gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ops import functional as F
from graphls.ops import operations as P
from tests.nn.linear import BACKENDS, BATCHES, F32, Net, Reference, check


class Depends(nn.Cell):
    """Every form of `depend` that scripts use."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.optimizer = nn.SGD(self.net.trainable_params(), 0.1)
        self.count = graphls.Parameter(graphls.Tensor(0.0), name="count")
        self.grad = ops.GradOperation(get_by_list=True)

    def construct(self, x: Any) -> Any:
        loss = ops.mean(self.net(x))
        grads = self.grad(lambda x: ops.mean(self.net(x)), self.optimizer.parameters)(x)
        success = ops.depend(True, self.optimizer(grads))
        ret = ops.depend((loss, {"grads": grads}), success)
        before = ops.depend(self.count, loss)
        ops.assign_add(self.count, 2.0)
        text = F.depend("text", ops.depend(x, self.count))
        value = P.Depend()(before, (ret, [None, 1.0]))
        ops.assign(before, before * 3.0)
        return ret, success, text, ops.depend(value + 1.0, (self.count, {"a": x})), ops.depend(None, x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_form_of_depend(backend: str) -> None:
    cell = Depends()
    x = BATCHES[0][0]
    step = graphls.compile(cell, x, backend=backend)
    (loss, extra), success, text, value, nothing = step(x)
    reference = Reference(0.1)
    expected = [np.repeat(x.mean(0, keepdims=True).T / 3, 3, 1), np.full(3, 1 / 3)]
    np.testing.assert_allclose(float(loss), (x @ reference.weights[0] + reference.weights[1]).mean(), rtol=1e-4)
    check(extra["grads"], expected)
    reference.descend(expected)
    check(cell.optimizer.parameters, reference.weights)
    assert (success, text, nothing, float(value), float(cell.count)) == (True, "text", None, 7, 6)


def test_depend_takes_a_value_and_an_expression() -> None:
    for call in (lambda x: ops.depend(x), lambda x: ops.depend(x, x, x), lambda x: ops.Depend()(x)):
        with pytest.raises(TypeError, match=r"expr|3 were given"):
            graphls.compile(call, BATCHES[0][0], backend="numpy")
    x = graphls.Tensor(1.0)
    assert ops.depend(x, 3) is x and ops.depend(None, x) is None


class Assigning(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a = graphls.Parameter(np.array([1.0, 2.0], F32), name="a")
        self.b = graphls.Parameter(np.array([5.0, 6.0], F32), name="b")
        self.counter = graphls.Parameter(graphls.Tensor(3, graphls.int32), name="counter")
        self.calls = 0

    def construct(self, x: Any) -> Any:
        old = self.a * 1.0
        self.a = self.b
        self.b = x
        self.b += 1
        self.counter = 0
        self.counter += 4
        return old, self.a, self.b * 2.0, self.counter


@pytest.mark.parametrize("backend", BACKENDS)
def test_assigning_an_attribute_writes_the_parameter(backend: str) -> None:
    cell = Assigning()
    a, b = cell.a, cell.b
    step = graphls.compile(cell, np.zeros(2, F32), backend=backend)
    assert [t.tolist() for t in step(np.array([7, 8], F32))] == [[1, 2], [5, 6], [16, 18], 4]
    assert (cell.a, cell.b) == (a, b) and a.tolist() == [5, 6] and b.tolist() == [8, 9] and int(cell.counter) == 4
    assert [t.tolist() for t in step(np.array([0, 0], F32))] == [[5, 6], [8, 9], [2, 2], 4]
    with pytest.raises(TypeError, match=r"Parameter 'a' already exists.*use set_data.*test_construct_idioms"):
        cell.a = 3.0


class Nested(nn.Cell):
    def construct(self, pair: Any, options: Any, factor: float = 2.0) -> Any:
        x, (y, names) = pair
        return {"sum": x + y, "pair": (options["scale"] * x, [names, options["list"][0] * factor])}


@pytest.mark.parametrize("backend", BACKENDS)
def test_tuples_and_dicts_go_in_and_out(backend: str) -> None:
    x, y = BATCHES[0]
    inputs = ((x, (x * 2, "name")), {"scale": np.array(3, F32), "list": [y]})
    for found in (graphls.compile(Nested(), *inputs, backend=backend)(*inputs), Nested()(*inputs)):
        np.testing.assert_allclose(found["sum"].asnumpy(), x * 3)
        np.testing.assert_allclose(found["pair"][0].asnumpy(), x * 3)
        assert isinstance(found["pair"], tuple) and found["pair"][1][0] == "name"
        np.testing.assert_allclose(found["pair"][1][1].asnumpy(), y * 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_gradient_flows_through_stop_gradient(backend: str) -> None:
    def function(x: Any, y: Any) -> Any:
        kept, also = ops.stop_gradient((x * y, {"y": y}))
        return ops.sum(kept * x + also["y"] * ops.stop_gradient(2.0) * y)

    x, y = BATCHES[0][0], BATCHES[1][0]
    gradient = ops.GradOperation(get_all=True)(function)
    for found, expected in zip(graphls.compile(gradient, x, y, backend=backend)(x, y), (x * y, 2 * y), strict=True):
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)
