"""Cells that are computed again for their gradient: the same numbers, and nothing kept in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.graph import captures, walk

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 3, 2, 2)).astype(F32)


class Block(nn.Cell):
    """Moving averages, a random mask, an inner cell, and a value that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.dense = nn.Dense(12, 12, weight_init="ones")
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x: Any) -> Any:
        y = ops.reshape(self.norm(x), (4, 12))
        y = ops.tanh(self.dense(y) * 0.1)
        return ops.reshape(self.drop(y) * y, (4, 3, 2, 2)), y


class Branching(Block):
    """The same under a condition on a tensor."""

    def construct(self, x: Any) -> Any:
        x, y = super().construct(x)
        if ops.sum(y) > 0:
            return ops.exp(x) * 0.5, y
        return ops.sin(x), y


class Outer(nn.Cell):
    """A recomputed cell in a recomputed cell."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Block()
        self.inner.recompute()

    def construct(self, x: Any) -> Any:
        y, z = self.inner(ops.sigmoid(x))
        return ops.sin(y), ops.cos(z)


class WithBprop(nn.Cell):
    """A gradient of its own, three times that of the sine."""

    def construct(self, x: Any) -> Any:
        return ops.sin(x), ops.reshape(x, (4, 12))

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (ops.cos(x) * dout[0] * 3.0,)


class Passing(nn.Cell):
    """Results that are no floats, are inputs, or are no tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.array([2.0, 3.0], F32), name="weight")

    def construct(self, x: Any) -> Any:
        self.weight = self.weight * 1.5
        chosen = ops.gather(self.weight, ops.argmax(x, 3) % 2, 0)
        return {"x": x, "y": ops.sum(x * x, 3) * chosen, "count": ops.cast(x > 0, graphls.int32), "name": "a"}


class Net(nn.Cell):
    def __init__(self, block: Any, is_recomputed: bool) -> None:
        super().__init__()
        self.scale = graphls.Parameter(np.full((3, 1, 1), 0.7, F32), name="scale")
        self.blocks = nn.CellList([block(), block()])
        for cell in self.blocks if is_recomputed else ():
            cell.recompute()

    def construct(self, x: Any) -> Any:
        total = 0.0
        for block in self.blocks:
            found = block(x * self.scale)
            x, other = (found["x"], found["y"]) if isinstance(found, dict) else found
            total = total + ops.sum(other * other)
        return ops.mean(x * x) + total


def step_of(
    block: Any, is_recomputed: bool, backend: str, mode: str = "outputs", scaled: bool = True
) -> tuple[Any, Any]:
    graphls.set_seed(3)
    net = Net(block, is_recomputed)
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    scale = nn.FixedLossScaleUpdateCell(8.0)
    cell: Any = nn.TrainOneStepCell(net, optimizer)
    cell = nn.TrainOneStepWithLossScaleCell(net, optimizer, scale) if scaled else cell
    return net, graphls.compile(cell.set_train(), X, backend=backend, overflow_mode=mode)


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("block", [Block, Branching, Outer, WithBprop, Passing])
def test_the_numbers_are_the_same(block: Any, backend: str, mode: str) -> None:
    (plain, expected), (net, step) = (step_of(block, again, backend, mode) for again in (False, True))
    for number in range(3):
        x = X * F32(number - 1)
        graphls.set_seed(number)
        wanted = expected(x)
        graphls.set_seed(number)
        for a, b in zip(step(x), wanted, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
        for p, q in zip(net.get_parameters(), plain.get_parameters(), strict=True):
            np.testing.assert_allclose(p.asnumpy(), q.asnumpy(), rtol=1e-5, atol=1e-6, err_msg=p.name)


def kept(graph: Any) -> set[str]:
    """The float values made in a block by the forward that the backward reads, branches included."""
    backward = [n for n in graph.nodes if n.phase == "backward"]
    read = {v for n in backward for v in (*n.inputs, *(c for r in n.regions for c in captures(r)))}
    forward = [n for n in graph.nodes if n.phase == "forward" and n.scope.startswith("network.")]
    return {n.primitive.name for n in forward for v in n.outputs if v in read and v.type.size > 1}


class Plain(nn.Cell):
    """Three values in between that the gradient needs."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(2, 2)

    def construct(self, x: Any) -> Any:
        y = ops.sin(ops.exp(ops.tanh(self.dense(x))))
        return y * 1.0, y


def count(graph: Any, name: str) -> int:
    return sum(n.primitive.name == name for n in walk(graph))


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_in_between_is_kept(backend: str, scaled: bool) -> None:
    _, plain = step_of(Plain, False, backend, scaled=scaled)
    _, step = step_of(Plain, True, backend, scaled=scaled)
    assert {"tanh", "exp"} <= kept(plain.graph) and kept(step.graph) <= {"sin", "mul"}
    counts = {name: (count(plain.graph, name), count(step.graph, name)) for name in ("tanh", "exp", "sin")}
    assert counts == {"tanh": (2, 4), "exp": (2, 4), "sin": (2, 2)}, "again is what the gradient needs, and no more"
    conditions = [n for n in step.graph.nodes if n.primitive.name == "cond" and n.phase == "backward"]
    assert len(conditions) == 2
    for node in conditions:
        assert [count(r, "exp") for r in node.regions] == [1, 0]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("block", [Block, Branching, Outer, WithBprop, Passing])
def test_a_step_without_a_window_gives_the_same_numbers(block: Any, backend: str) -> None:
    (plain, expected), (net, step) = (step_of(block, again, backend, scaled=False) for again in (False, True))
    for x in (X, -X):
        graphls.set_seed(1)
        wanted = expected(x).asnumpy()
        graphls.set_seed(1)
        np.testing.assert_allclose(step(x).asnumpy(), wanted, rtol=1e-6)
    for p, q in zip(net.get_parameters(), plain.get_parameters(), strict=True):
        np.testing.assert_allclose(p.asnumpy(), q.asnumpy(), rtol=1e-5, atol=1e-6, err_msg=p.name)


def test_a_gradient_alone_runs_the_cell_again() -> None:
    steps = [graphls.compile(graphls.grad(Net(Plain, again)), X, backend="numpy") for again in (False, True)]
    assert [count(step.graph, "exp") for step in steps] == [2, 4]


@pytest.mark.parametrize("scaled", [True, False])
def test_the_runtime_keeps_the_copies_apart(scaled: bool) -> None:
    _, step = step_of(Plain, True, "onnxruntime", scaled=scaled)
    branches = [a.g for n in step.onnx.graph.node for a in n.attribute if a.name == "then_branch"]
    assert sum(n.op_type == "Exp" for n in step.onnx.graph.node) == 2
    assert sum(n.op_type == "Exp" for branch in branches for n in branch.node) == 2


class Hidden(nn.Cell):
    """An infinity in the backward, in float16, that no gradient shows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones(3, F32), name="weight")
        self.to_float(graphls.float16)

    def construct(self, x: Any) -> Any:
        y = self.weight * x
        return ops.cast(ops.minimum(y, 1.0) * 60000.0, graphls.float32) + ops.cast(y, graphls.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("mode", "raised"), [("outputs", False), ("window", True)])
def test_a_window_sees_what_is_made_again(mode: str, raised: bool, backend: str) -> None:
    for is_recomputed in (False, True):
        net = nn.SequentialCell(Hidden().recompute(is_recomputed))
        step = nn.TrainOneStepWithLossScaleCell(net, nn.SGD(net.trainable_params(), 0.1), graphls.Tensor(4.0))
        x = np.full(3, 10, F32)
        assert bool(graphls.compile(step, x, backend=backend, overflow_mode=mode)(x)[1]) is raised


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_gradients(backend: str) -> None:
    class Cubic(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.sum(x * x * x)

    first = ops.GradOperation()(Cubic().recompute())
    second = ops.GradOperation()(lambda x: ops.sum(first(x) * x))
    x = np.array([1.0, -2.0], F32)
    np.testing.assert_allclose(graphls.compile(first, x, backend=backend)(x).asnumpy(), 3 * x**2)
    np.testing.assert_allclose(graphls.compile(second, x, backend=backend)(x).asnumpy(), 9 * x**2)


def test_a_cell_without_gradient_is_as_it_was() -> None:
    net = Net(Plain, True)
    names = [n.primitive.name for n in graphls.compile(net, X, backend="numpy").graph.nodes]
    assert names == [n.primitive.name for n in graphls.compile(Net(Plain, False), X, backend="numpy").graph.nodes]


def test_the_flag_is_seen_and_taken_back() -> None:
    cell = Plain()
    gradient = ops.GradOperation()(lambda x: ops.sum(cell(x)[0]))
    values = [gradient(X).asnumpy() for _ in (cell.recompute(), cell.recompute(mp_comm_recompute=False))]
    values += [gradient(X).asnumpy() for _ in (cell.recompute(False),)]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])
    assert cell.configuration() != cell.recompute().configuration()
    with pytest.raises(TypeError, match=r"'mode' must be bool, but got 1.*test_recompute"):
        cell.recompute(1)
