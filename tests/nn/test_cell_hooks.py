"""Hooks of cells, and what cells have for several devices and for how they are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, nn, ops
from graphls.ir.errors import GraphlsError

X = Tensor(np.array([[1.0, -2.0], [3.0, 4.0]], np.float32))


class Net(nn.Cell):
    """A layer between two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def construct(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.relu(x * 2) * scale


@pytest.fixture(params=[gl.context.GRAPH_MODE, gl.context.PYNATIVE_MODE])
def mode(request: pytest.FixtureRequest) -> Any:
    """Both modes."""
    gl.context.set_context(mode=request.param)
    yield request.param
    gl.context.reset_context()


def test_hooks_of_the_forward(mode: int) -> None:
    net, seen = Net(), []

    def before(cell: Any, inputs: Any) -> Any:
        seen.append(type(cell).__name__)
        return inputs[0] + 1

    def behind(cell: Any, inputs: Any, output: Any) -> Any:
        return output * 10 + inputs[0]

    plain = net(X).asnumpy()
    first, second = net.relu.register_forward_pre_hook(before), net.relu.register_forward_hook(behind)
    given = np.maximum(X.asnumpy() * 2 + 1, 0)
    np.testing.assert_allclose(net(X).asnumpy(), given * 10 + X.asnumpy() * 2 + 1)
    assert seen == ["ReLU"]
    second.remove()
    np.testing.assert_allclose(net(X).asnumpy(), given)
    first.remove()
    first.remove()
    np.testing.assert_allclose(net(X).asnumpy(), plain)


def test_hooks_with_options_and_in_order(mode: int) -> None:
    net, seen = Net(), []
    net.register_forward_pre_hook(lambda cell, args: seen.append("second"))
    net.register_forward_pre_hook(lambda cell, args: seen.append("first"), prepend=True)
    net.register_forward_pre_hook(lambda cell, args, options: (args, {"scale": 3.0}), with_kwargs=True)
    net.register_forward_hook(lambda cell, args, options, out: out + options["scale"], with_kwargs=True)
    np.testing.assert_allclose(net(X).asnumpy(), np.maximum(X.asnumpy() * 2, 0) * 3 + 3)
    assert seen == ["first", "second"]


def test_hooks_of_the_backward(mode: int) -> None:
    net = Net()
    plain = gl.grad(net)(X).asnumpy()
    handle = net.relu.register_backward_pre_hook(lambda cell, gradients: gradients[0] * 5)
    np.testing.assert_allclose(gl.grad(net)(X).asnumpy(), plain * 5)
    handle.remove()
    handle = net.relu.register_backward_hook(lambda cell, by_input, by_output: (by_input[0] + 1,))
    np.testing.assert_allclose(gl.grad(net)(X).asnumpy(), plain + 2)
    handle.remove()
    net.relu.register_backward_hook(lambda cell, by_input, by_output: None)
    np.testing.assert_allclose(gl.grad(net)(X).asnumpy(), plain)
    net.relu.register_backward_hook(lambda cell, by_input, by_output: by_output[0])
    with pytest.raises(ValueError, match="read those of the outputs in a register_backward_pre_hook"):
        gl.grad(net)(X)


def test_in_eager_mode_hooks_of_the_backward_have_numbers_each_time() -> None:
    gl.context.set_context(mode=gl.context.PYNATIVE_MODE)
    net, seen = Net(), []
    net.relu.register_backward_hook(lambda cell, by_input, by_output: seen.append(by_input[0].asnumpy()))
    net.relu.register_backward_pre_hook(lambda cell, gradients: seen.append(gradients[0].asnumpy().sum()))
    by_input = gl.grad(net)
    for count in (1, 2):
        gradient = by_input(X).asnumpy()
        assert len(seen) == 2 * count and seen[-2] == X.size
        np.testing.assert_allclose(seen[-1] * 2, gradient)
    net.relu.register_backward_hook(lambda cell, by_input, by_output: np.zeros(5, np.float32))
    with pytest.raises(ValueError, match=r"test_cell_hooks|lambda"):
        by_input(X)
    gl.context.reset_context()


def test_hooks_that_look_on_have_numbers_in_every_step_and_gradients_go_on(mode: int) -> None:
    net = nn.WithLossCell(nn.SequentialCell(nn.Dense(2, 3), nn.ReLU()), nn.MSELoss())
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    seen: list[tuple[str, Any]] = []
    layer = net._backbone[0]

    def behind(cell: Any, inputs: Any, output: Any) -> None:
        seen.append(("behind", output.asnumpy()))

    layer.register_forward_pre_hook(lambda cell, inputs: seen.append(("before", inputs[0].asnumpy())))
    layer.register_forward_hook(behind)
    layer.register_forward_hook(lambda cell, inputs, options, output: seen.append(options), with_kwargs=True)
    layer.register_backward_pre_hook(lambda cell, gradients: seen.append(("gradient", gradients[0].asnumpy())))
    step = nn.TrainOneStepCell(net, optimizer)
    y = np.ones((2, 3), np.float32)
    for _ in range(3):
        seen.clear()
        weight, bias = (p.asnumpy() for p in layer.trainable_params())
        step(X, Tensor(y))
        (_, given), (_, output), options, (_, gradient) = seen
        assert options == {}
        np.testing.assert_allclose(given, X.asnumpy())
        np.testing.assert_allclose(output, X.asnumpy() @ weight.T + bias, rtol=1e-5)
        wanted = 2 * (np.maximum(output, 0) - y) / y.size * (output > 0)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(layer.bias.asnumpy(), bias - 0.5 * wanted.sum(0), rtol=1e-4, atol=1e-6)


def test_what_a_hook_keeps_stays_as_it_was(mode: int) -> None:
    net, kept = Net(), []
    net.relu.register_forward_hook(lambda cell, inputs, output: kept.append(output))
    by_input = gl.value_and_grad(net)
    for factor in (1, 2, 3):
        by_input(X * factor)
    assert len(kept) == 3
    for factor, output in zip((1, 2, 3), kept, strict=True):
        np.testing.assert_allclose(output.asnumpy(), np.maximum(X.asnumpy() * 2 * factor, 0))


class Felt(nn.Cell):
    """A loss of what hooks keep of a layer inside, as losses of features are written."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Dense(2, 2, weight_init="ones", has_bias=False)
        self.by_name: dict[str, Any] = {}
        self.in_order: list[Any] = []
        self.calls = {"count": 0}
        self.layer.register_forward_hook(self.keep)
        self.layer.register_forward_hook(lambda cell, inputs, output: self.in_order.append(output))

    def keep(self, cell: Any, inputs: Any, output: Any) -> None:
        cell.last, self.by_name["layer"] = output, output
        self.calls["count"] += 1

    def construct(self, x: Tensor) -> Tensor:
        self.layer(x)
        return self.by_name["layer"].sum() + 10 * self.in_order[-1].sum() + 100 * self.layer.last.sum()


def test_what_hooks_keep_is_computed_on_and_has_numbers_behind_the_step(mode: int) -> None:
    net, counted = Felt(), 0
    by_input = gl.value_and_grad(net)
    for factor in (1, 2, 3):
        value, gradient = by_input(X * factor)
        np.testing.assert_allclose(gradient.asnumpy(), np.full((2, 2), 222))
        wanted = X.asnumpy().sum(1, keepdims=True) * factor * np.ones(2)
        assert float(value) == 111 * wanted.sum()
        for kept in (net.by_name["layer"], net.in_order[-1], net.layer.last):
            np.testing.assert_allclose(kept.asnumpy(), wanted)
        counted += 1
        assert len(net.in_order) == net.calls["count"] == counted
    net(X)
    assert len(net.in_order) == net.calls["count"] == counted + 1


def test_a_hook_that_keeps_is_compiled_once_and_reads_numbers(mode: int) -> None:
    net, count = Net(), 0

    def keep(cell: Any, inputs: Any, output: Any) -> None:
        nonlocal count
        count += 1
        cell.last, cell.mean = output, float(output.asnumpy().mean())
        if output.max() > 100:
            seen.append(output.shape)

    seen: list[Any] = []
    net.relu.register_forward_hook(keep)
    by_input = gl.grad(net)
    for factor in (1, 100):
        by_input(X * factor)
    assert count == 2 and seen == [(2, 2)]
    assert net.relu.mean == net.relu.last.asnumpy().mean() == 400


class Chosen(Net):
    """A layer in one answer of a condition."""

    def construct(self, x: Tensor, scale: float = 1.0) -> Tensor:
        if x.sum() > 0:
            return self.relu(x) * scale
        return x


def test_a_hook_under_a_condition_is_called_where_that_holds(mode: int) -> None:
    net, seen = Chosen(), []
    net.relu.register_forward_hook(lambda cell, inputs, output: seen.append(output.asnumpy().sum()))
    by_input = gl.grad(net)
    for factor in (1, -1, 2):
        by_input(X * factor)
    assert seen == [8, 16]


def test_what_a_hook_raises_comes_out_of_the_step(mode: int) -> None:
    net = Net()

    def refuses(cell: Any, inputs: Any, output: Any) -> None:
        raise KeyError("no more")

    handle = net.relu.register_forward_hook(refuses)
    with pytest.raises(KeyError, match="no more"):
        gl.grad(net)(X)
    handle.remove()
    gl.grad(net)(X)


def test_a_hook_that_gives_something_has_a_gradient_also_by_its_weights(mode: int) -> None:
    net, beside = Net(), nn.Dense(2, 2, weight_init="ones", has_bias=False)
    net.relu.register_forward_hook(lambda cell, inputs, output: output * 3 + beside(inputs[0]))
    by_input, by_weight = gl.grad(net, 0, beside.weight)(X)
    np.testing.assert_allclose(by_input.asnumpy(), 6 * (X.asnumpy() > 0) + 4)
    np.testing.assert_allclose(by_weight.asnumpy(), np.tile(X.asnumpy().sum(0) * 2, (2, 1)))


@pytest.fixture
def eager() -> Any:
    """Eager mode, in which hooks of what is differentiated have numbers, as in PyNative mode of MindSpore."""
    gl.context.set_context(mode=gl.context.PYNATIVE_MODE)
    yield
    gl.context.reset_context()


RELU = np.maximum(X.asnumpy() * 2, 0)
SLOPE = 2.0 * (X.asnumpy() > 0)


def hooked(hook: Any) -> Any:
    """What gives the value and the gradient of a network with a hook behind its relu."""
    net = Net()
    net.relu.register_forward_hook(hook)
    return gl.value_and_grad(net)


def test_a_hook_that_gives_something_has_numbers_each_time(eager: None, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []
    counted = {"calls": 0}

    def hook(cell: Any, inputs: Any, output: Any) -> Any:
        counted["calls"] += 1
        seen.append(output)
        cell.last = float(output.sum())
        print(output.max())
        return output * output * counted["calls"]

    by_input = hooked(hook)
    for number in (1, 2, 3):
        value, gradient = by_input(X * number)
        np.testing.assert_allclose(value.asnumpy(), (RELU * number) ** 2 * number)
        np.testing.assert_allclose(gradient.asnumpy(), 2 * RELU * number * SLOPE * number)
        np.testing.assert_allclose(seen[-1].asnumpy(), RELU * number)
    assert len(seen) == counted["calls"] == 3
    assert capsys.readouterr().out == "8.0\n16.0\n24.0\n"


def test_a_hook_computes_with_numbers_that_it_reads(eager: None) -> None:
    def hook(cell: Any, inputs: Any, output: Any) -> Any:
        largest = float(output.asnumpy().max())
        return output / largest if largest > 10 else None

    by_input = hooked(hook)
    for number, scale in ((1, 1), (2, 1 / 16), (1, 1)):
        value, gradient = by_input(X * number)
        np.testing.assert_allclose(value.asnumpy(), RELU * number * scale)
        np.testing.assert_allclose(gradient.asnumpy(), SLOPE * scale)


def test_a_hook_that_assigns_elements_copies_and_chooses(eager: None) -> None:
    def hook(cell: Any, inputs: Any, output: Any) -> Any:
        made = output.copy()
        made[0] = made[1] * 3
        if made.max() > 5:
            made = ops.stop_gradient(made) * 10 + made
        return made, inputs[0]

    net = Net()
    net.relu.register_forward_hook(hook)
    (value, given), gradient = gl.value_and_grad(lambda x: net.relu(x * 2))(X)
    wanted = np.stack([RELU[1] * 3, RELU[1]])
    np.testing.assert_allclose(value.asnumpy(), wanted * 11)
    np.testing.assert_allclose(given.asnumpy(), X.asnumpy() * 2)
    np.testing.assert_allclose(gradient.asnumpy(), np.array([[0, 0], 4 * SLOPE[1]]) + 2)


def test_a_hook_before_with_options_and_one_by_weights_that_change(eager: None) -> None:
    net, beside = Net(), nn.Dense(2, 2, weight_init="ones", has_bias=False)
    net.register_forward_pre_hook(lambda cell, args, options: ((beside(args[0]),), {"scale": 3.0}), with_kwargs=True)
    by_weight = gl.value_and_grad(net, None, beside.weight)
    for factor in (1.0, 2.0):
        beside.weight.set_data(Tensor(np.full((2, 2), factor, np.float32)))
        value, gradient = by_weight(X)
        sums = X.asnumpy().sum(1, keepdims=True) * np.ones(2) * factor
        np.testing.assert_allclose(value.asnumpy(), np.maximum(sums * 2, 0) * 3)
        np.testing.assert_allclose(gradient.asnumpy(), 6 * (sums > 0).T @ X.asnumpy())


def test_hooks_of_what_is_compiled_or_differentiated_twice_are_part_of_the_graph(eager: None) -> None:
    net = Net()
    net.relu.register_forward_hook(lambda cell, inputs, output: output * output)
    np.testing.assert_allclose(gl.grad(gl.grad(net))(X).asnumpy(), 2 * SLOPE**2)
    assert "py_func" not in str(gl.compile(net, X).graph)


def test_what_a_hook_with_numbers_cannot_do(eager: None) -> None:
    beside = nn.Dense(2, 2)
    compiled = gl.jit(lambda x: x * 2)
    nests = iter([lambda x: x, lambda x: (x, x)])
    cases = {
        r"reads '\w+', for which its gradient is not known": lambda c, i, o: float(o.asnumpy().max()) * beside(o),
        "computes with a compiled function, which has no gradient there": lambda c, i, o: compiled(o) * o.asnumpy()[0],
        "gives the same kind of nest": lambda c, i, o: next(nests)(o),
    }
    for told, hook in cases.items():
        with pytest.raises(GraphlsError, match=told):
            hooked(hook)(X)


def test_a_step_with_a_hook_is_compiled_again() -> None:
    net = nn.WithLossCell(nn.Dense(2, 1), nn.MSELoss())
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.0))
    y = Tensor(np.zeros((2, 1), np.float32))
    plain = float(step(X, y))
    net._backbone.register_forward_hook(lambda cell, args, out: out * 0 + 2)
    assert float(step(X, y)) == 4.0 != plain


@pytest.mark.parametrize("kind", ["forward_pre_hook", "forward_hook", "backward_pre_hook", "backward_hook"])
def test_what_is_no_function_is_no_hook(kind: str) -> None:
    with pytest.raises(TypeError, match=r"A hook of a cell is a function, not 3.*test_cell_hooks"):
        getattr(Net(), f"register_{kind}")(3)


def test_methods_that_compile_visit_and_mark(mode: int) -> None:
    net = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU())
    seen: list[str] = []
    assert net.apply(lambda cell: seen.append(cell.cls_name)) is net
    assert seen == ["Dense", "ReLU", "SequentialCell"]
    net.compile(X)
    np.testing.assert_allclose(net.compile_and_run(X).asnumpy(), net(X).asnumpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="matmul cannot multiply"):
        net.compile(Tensor(np.ones((2, 5), np.float32)))
    assert [*net.init_parameters_data().values()] == [*net.get_parameters()]
    assert net.add_flags(skip=True).get_flags() == {"skip": True}
    for name in ("set_comm_fusion", "place", "set_broadcast_flag", "set_jit_config", "offload"):
        assert getattr(net, name)(1) is net
    assert net.get_sub_cell("0") is net[0] and net.get_sub_cell("") is net
    net.check_names()
    net[0].cls_name = "own"
    assert net[0].cls_name == "own"


def test_buffers_are_saved_and_not_trained() -> None:
    net = Net()
    net.register_buffer("mean", Tensor([1.0]))
    net.relu.register_buffer("mask", Tensor([True]), persistent=False)
    assert [name for name, _ in net.named_buffers()] == ["mean", "relu.mask"]
    assert len([*net.buffers(recurse=False)]) == 1
    assert [p.name for p in net.get_parameters()] == ["mean"] and net.trainable_params() == []
    assert isinstance(net.mean, Parameter) and ops.add(net.mean, 1).tolist() == [2.0]
