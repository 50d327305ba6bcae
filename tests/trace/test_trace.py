"""Tracing: scopes, lines, states, gradients of the forward that is there, and what cannot be traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import walk
from graphls.ir.errors import GraphTypeError

F32 = np.float32
X = np.arange(6, dtype=F32).reshape(2, 3) / 7


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 3)
        self.act = nn.ReLU()

    def construct(self, x: Any) -> Any:
        return self.act(self.fc(x))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()

    def construct(self, image: Any) -> Any:
        return ops.sum(self.second(self.first(image)))


def names(graph: graphls.Graph) -> list[str]:
    return [node.primitive.name for node in walk(graph)]


def line_of(text: str) -> int:
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_scope_line_and_names_come_from_the_user() -> None:
    graph = graphls.trace_graph(Net(), X).graph
    assert graph.name == "Net" and graph.inputs[0].name == "image"
    matmuls = [n for n in graph.nodes if n.primitive.name == "matmul"]
    assert [n.scope for n in matmuls] == ["first.fc", "second.fc"]
    assert {str(n.loc).rsplit("/")[-1] for n in matmuls} == {f"test_trace.py:{line_of('self.act(self.fc(x))')}"}
    assert [s.name for s in graph.states] == ["first.fc.weight", "first.fc.bias", "second.fc.weight", "second.fc.bias"]
    assert any(v.name == "act" for n in graph.nodes for v in n.outputs)


def test_python_loops_and_containers_just_happen() -> None:
    class Loop(nn.Cell):
        def construct(self, xs: Any, scale: dict[str, Any]) -> Any:
            total = 0
            for x in xs:
                total = total + x * scale["by"]
            return {"total": total, "each": [x + 1 for x in xs]}

    a, b = F32(1), F32(2)
    result = graphls.compile(Loop(), (a, b), {"by": F32(3)}, backend="numpy")((a, b), {"by": F32(3)})
    assert float(result["total"]) == 9
    assert [float(x) for x in result["each"]] == [2, 3]


def test_cells_of_a_repl_lambdas_and_try_are_traced() -> None:
    scope: dict[str, Any] = {}
    exec(
        "from graphls import nn\n"
        "class Typed(nn.Cell):\n"
        "    def construct(s, x):\n"
        "        try:\n"
        "            return (lambda y: y * 2)(x)\n"
        "        finally:\n"
        "            pass\n",
        scope,
    )
    assert float(scope["Typed"]()(graphls.Tensor(4.0))) == 8


def test_the_forward_runs_once() -> None:
    net = Net()
    weights = graphls.ParameterTuple(net.trainable_params())

    class Step(nn.Cell):
        def __init__(self) -> None:
            super().__init__(auto_prefix=False)
            self.net = net

        def construct(self, x: Any) -> Any:
            loss = self.net(x)
            return loss, graphls.GradOperation(get_by_list=True)(self.net, weights)(x)

    traced = graphls.trace_graph(Step(), X).graph
    assert names(traced).count("matmul") == 2
    final = graphls.compile(Step(), X, backend="numpy").graph
    assert [n.primitive.name for n in final.nodes if n.phase == "forward"].count("matmul") == 2


def test_a_parameter_written_in_between_needs_a_new_forward() -> None:
    class Scaled(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = graphls.Parameter(np.ones((), F32), name="w")

        def construct(self, x: Any) -> Any:
            return self.w * self.w * x

    class Step(nn.Cell):
        def __init__(self) -> None:
            super().__init__(auto_prefix=False)
            self.net = Scaled()

        def construct(self, x: Any) -> Any:
            before = self.net(x)
            ops.assign(self.net.w, 3.0)
            return before, graphls.grad(self.net, None, self.net.w)(x)

    before, gradient = graphls.compile(Step(), F32(5), backend="numpy")(F32(5))
    assert (float(before), float(gradient)) == (5, 30)


def test_gradients_by_each_of_two_equal_inputs() -> None:
    class Product(nn.Cell):
        def construct(self, a: Any, b: Any) -> Any:
            return a * b * b

    x = graphls.Tensor(3.0)
    first, second = graphls.GradOperation(get_all=True)(Product())(x, x)
    assert (float(first), float(second)) == (9, 18)


def test_an_input_made_from_another_counts_as_a_constant() -> None:
    class Product(nn.Cell):
        def construct(self, a: Any, b: Any) -> Any:
            return a * b

    product = Product()

    class Step(nn.Cell):
        def construct(self, a: Any) -> Any:
            b = a * a
            y = product(a, b)
            return y, graphls.grad(product, 0)(a, b)

    _, gradient = graphls.compile(Step(), F32(3), backend="numpy")(F32(3))
    assert float(gradient) == 9


def test_second_derivatives() -> None:
    first = graphls.grad(lambda x: x * x * x)
    second = graphls.grad(lambda x: graphls.grad(lambda y: y * y * y)(x))
    assert float(first(graphls.Tensor(2.0))) == 12
    assert float(second(graphls.Tensor(2.0))) == 12


def test_value_and_grad_with_weights_and_other_outputs() -> None:
    net = nn.Dense(3, 1)

    def forward(x: Any, y: Any) -> Any:
        out = net(x)
        return ops.mean((out - y) * (out - y)), out

    step = graphls.value_and_grad(forward, None, graphls.ParameterTuple(net.trainable_params()), has_aux=True)
    y = np.ones((2, 1), F32)
    (loss, out), (weight, bias) = step(graphls.Tensor(X), graphls.Tensor(y))
    expected = X @ net.weight.asnumpy().T + net.bias.asnumpy()
    np.testing.assert_allclose(out.asnumpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(float(loss), ((expected - y) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(weight.asnumpy(), (expected - y).T @ X, rtol=1e-4)
    np.testing.assert_allclose(bias.asnumpy(), (expected - y).sum(0), rtol=1e-4)


def test_a_cell_with_its_own_gradient() -> None:
    class Straight(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return ops.floor(x) + y

        def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
            return dout * 2, dout + out

    by_x, by_y = graphls.GradOperation(get_all=True)(Straight())(graphls.Tensor(1.5), graphls.Tensor(4.0))
    assert (float(by_x), float(by_y)) == (2, 6)


def test_a_bprop_with_too_few_gradients_is_refused() -> None:
    class Short(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return x + y

        def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
            return (dout,)

    with pytest.raises(graphls.TraceError, match="The bprop of Short gives"):
        graphls.grad(Short())(graphls.Tensor(1.5), graphls.Tensor(4.0))


@pytest.mark.parametrize(
    ("construct", "message"),
    [
        (lambda self, x: float(ops.sum(x)), "cannot be made a Python number"),
        (lambda self, x: x.asnumpy(), "cannot be read as numbers"),
        (lambda self, x: [1, 2, 3][: ops.argmax(ops.sum(x, 1))], "cannot be used as a Python index"),
        (lambda self, x: ops.matmul(x, x), "inner sizes 3 and 2 differ"),
        (lambda self, x: x + graphls.Tensor(np.ones((5, 5), F32)), "do not broadcast"),
        (lambda self, x: x.sigmund(), "did you mean 'sign'"),
    ],
)
def test_what_cannot_be_traced_names_the_users_line(construct: Any, message: str) -> None:
    cell = type("Bad", (nn.Cell,), {"construct": construct})()
    with pytest.raises(graphls.GraphlsError, match=message) as caught:
        graphls.compile(cell, X, backend="numpy")
    assert caught.value.location is not None and caught.value.location.file.endswith("test_trace.py")


def test_wrong_argument_counts_are_told() -> None:
    with pytest.raises(TypeError, match=r"construct requires 1 positional argument .*, but got 2"):
        Net()(graphls.Tensor(X), graphls.Tensor(X))


@pytest.mark.parametrize("run", [lambda cell: cell(graphls.Tensor(X)), lambda cell: graphls.compile(cell, X)])
def test_a_cell_without_super_init_says_so(run: Any) -> None:
    class Forgot(nn.Cell):
        def __init__(self) -> None:
            self.x = 1

        def construct(self, x: Any) -> Any:
            return x * self.x

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\) first in the __init__ of Forgot.*test_trace"):
        run(Forgot())


def test_a_cell_is_compiled_once_per_signature() -> None:
    net = Block()
    calls = []
    plain = net.construct

    def construct(x: Any) -> Any:
        calls.append(x.shape)
        return plain(x)

    net.__dict__["construct"] = construct
    for rows in (2, 2, 4, 2):
        net(graphls.Tensor(np.ones((rows, 3), F32)))
    assert calls == [(2, 3), (4, 3)]
    net.set_train()
    net(graphls.Tensor(np.ones((2, 3), F32)))
    net.set_train(False)
    net(graphls.Tensor(np.ones((2, 3), F32)))
    assert calls == [(2, 3), (4, 3), (2, 3)]


def test_arguments_by_name_are_inputs_like_others() -> None:
    net = nn.WithLossCell(nn.Dense(3, 1), nn.MSELoss())
    labels = np.ones((2, 1), F32)
    expected = float(net(X, labels))
    assert float(net(X, label=labels)) == float(net(data=X, label=graphls.Tensor(labels))) == expected
    assert float(net(X, label=labels + 1)) != expected
    (cache,) = net.__dict__["_compiled"].values()
    assert len(cache.steps) == 1


def test_keyword_only_tensors_are_inputs_in_the_type_of_the_cell() -> None:
    class Scaled(nn.Cell):
        def construct(self, x: Any, *, by: Any, plus: float = 0.0) -> Any:
            return x * by + plus

    cell = Scaled().to_float(graphls.float16)
    first = cell(graphls.Tensor([2.0]), by=np.array([3.0], F32), plus=1.0)
    assert first.dtype is graphls.float16 and first.tolist() == [7.0]
    assert cell(graphls.Tensor([2.0]), by=graphls.Tensor([4.0])).tolist() == [8.0]


def test_a_forward_called_by_name_is_the_one_that_is_differentiated() -> None:
    class Step(nn.TrainOneStepCell):
        def construct(self, data: Any, label: Any) -> Any:
            loss = self.network(data=data, label=label)
            return ops.depend(loss, self.optimizer(self.grad_no_sens(self.network, self.weights)(data, label)))

    net = nn.WithLossCell(nn.Dense(3, 1), nn.MSELoss())
    step = Step(net, nn.SGD(net.trainable_params(), 0.1))
    assert names(graphls.trace_graph(step, X, np.ones((2, 1), F32)).graph).count("matmul") == 1


def test_constants_that_cannot_be_hashed_are_refused() -> None:
    class Sized(nn.Cell):
        def construct(self, x: Any, items: Any) -> Any:
            return x + len(items)

    with pytest.raises(graphls.GraphlsError, match=r"must be hashable.*test_trace\.py"):
        Sized()(X, {1, 2})


def test_a_bprop_of_other_arguments_is_refused() -> None:
    class Custom(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * x

        def bprop(self, x: Any, dout: Any) -> Any:
            return dout

    with pytest.raises(graphls.TraceError, match=r"bprop of Custom takes \(x: .* 3 arguments.*test_trace\.py"):
        graphls.grad(Custom())(graphls.Tensor(1.0))


def test_a_compiled_step_is_not_called_in_a_trace() -> None:
    step = graphls.compile(lambda x: x * 2, X, backend="numpy")
    with pytest.raises(graphls.TraceError, match=r"call the cell itself instead.*test_trace\.py"):
        graphls.trace_graph(lambda x: step(x), X)


@pytest.mark.parametrize("position", ["a", 1.0, (0, "b"), True, -3, 2])
def test_wrong_positions_of_a_gradient(position: Any) -> None:
    with pytest.raises(GraphTypeError, match=r"grad_position.*test_trace\.py"):
        graphls.grad(lambda x, y: x * y, position)(X, X)


def test_a_gradient_needs_a_function_and_a_tuple_for_aux() -> None:
    with pytest.raises(GraphTypeError, match=r"not of 3.*test_trace\.py"):
        graphls.grad(3)
    with pytest.raises(GraphTypeError, match=r"has_aux.*test_trace\.py"):
        graphls.grad(ops.sum, 0, None, True)(X)


def test_a_cell_that_has_run_can_be_copied() -> None:
    import copy
    import pickle

    net = nn.Dense(3, 3)
    before = net(X).asnumpy()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert np.array_equal(other(X).asnumpy(), before)
        other.weight.set_data(np.zeros((3, 3), F32))
        assert np.array_equal(net(X).asnumpy(), before) and not np.array_equal(other(X).asnumpy(), before)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_an_index_out_of_range_changes_nothing(backend: str) -> None:
    count = graphls.Parameter(np.zeros((), F32), name="count")

    def pick(x: Any, i: Any) -> Any:
        return ops.assign_add(count, 1.0) + ops.gather(x, i, 0)

    step = graphls.compile(pick, X, np.array([0]), backend=backend)
    with pytest.raises(graphls.GraphlsError, match="could not run"):
        step(X, np.array([7]))
    assert float(count) == 0.0
    assert step(X, np.array([1])).tolist() == (X[1:] + 1).tolist()


class Reading(nn.Cell):
    """What a function of a parameter and an input gives."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.p = graphls.Parameter(np.float32(2), name="p", requires_grad=False)
        self.function = function

    def construct(self, x: Any) -> Any:
        return self.function(self.p, x)


@pytest.mark.parametrize("read", [float, int, np.asarray, lambda p: p.item(), lambda p: p.tolist(), graphls.Tensor])
def test_a_parameter_is_no_number_while_a_cell_is_traced(read: Any) -> None:
    with pytest.raises(graphls.TraceError, match="while the cell is traced"):
        graphls.compile(Reading(lambda p, x: x * read(p)), np.ones(2, np.float32))


def test_a_parameter_as_a_condition_is_asked_in_every_step() -> None:
    cell = Reading(lambda p, x: x * 2 if p else x)
    step = graphls.compile(cell, np.ones(1, np.float32))
    assert step(np.ones(1, np.float32)).tolist() == [2]
    cell.p.set_data(np.float32(0))
    assert step(np.ones(1, np.float32)).tolist() == [1]
