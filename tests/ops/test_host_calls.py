"""Python in a step: what functions get and give, what is checked, gradients, effects and what is printed."""

from __future__ import annotations

import copy
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, nn, ops
from graphls.ir import dump, interpret, parse, verify

F32 = np.float32
X = np.array([1.0, 2.0, 3.0], F32)
BACKENDS = ["numpy", "onnxruntime"]
on_backends = pytest.mark.parametrize("backend", BACKENDS)


def sine(x: Any) -> Any:
    return np.sin(x)


def sine_vjp(x: Any, out: Any, gradient: Any) -> Any:
    return gradient * ops.pure_callback(np.cos, x, x)


def nodes(step: Any, *names: str) -> list[Any]:
    return [node for node in step.graph.nodes if node.primitive.name in names]


# -- what functions get and give ------------------------------------------------------------------------------------


@on_backends
def test_a_function_is_called_in_the_middle_of_a_step(backend: str) -> None:
    seen: list[Any] = []

    def noted(x: Any) -> Any:
        seen.append(x.copy())
        return x + 1

    def net(x: Any) -> Any:
        return ops.pure_callback(noted, x, x * 2) * 10

    step = gl.compile(net, X, backend=backend)
    assert seen == [], "nothing is called while a step is compiled"
    assert step(X).tolist() == [30, 50, 70]
    assert step(-X).tolist() == [-10, -30, -50]
    assert [array.tolist() for array in seen] == [[2, 4, 6], [-2, -4, -6]]


def test_outside_of_a_trace_the_function_is_called_at_once() -> None:
    assert ops.pure_callback(sine, X, X).tolist() == np.sin(X).tolist()
    found = ops.py_func(
        lambda given: {"twice": given["x"] * 2, "more": (1,)},
        {"twice": ((3,), gl.float32), "more": (((), gl.int64),)},
        {"x": Tensor(X)},
    )
    assert found["twice"].tolist() == [2, 4, 6] and found["more"][0].type == Tensor(1, gl.int64).type


@on_backends
def test_nests_go_in_and_come_out(backend: str) -> None:
    def function(pair: Any, number: Any) -> Any:
        return {"b": pair["a"] + number, "a": [pair["a"].sum(), number > 0]}

    def net(x: Any) -> Any:
        types = {"a": (((), gl.float32), ((), gl.bool_)), "b": Tensor(shape=(3,), dtype=gl.float32)}
        found = ops.pure_callback(function, types, {"a": x}, 2.0)
        return found["b"], found["a"]

    b, (total, flag) = gl.compile(net, X, backend=backend)(X)
    assert (b.tolist(), float(total), bool(flag)) == ([3, 4, 5], 6.0, True)


@on_backends
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint16", "bool"])
def test_every_dtype_arrives_and_is_given_as_it_is(backend: str, dtype: str) -> None:
    given = np.array([0, 1, 1]).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    seen = []

    def function(x: Any) -> Any:
        seen.append(x.dtype)
        return x[::-1]

    found = gl.compile(lambda x: ops.pure_callback(function, x, x), Tensor(given), backend=backend)(Tensor(given))
    assert found.asnumpy().tolist() == [1, 1, 0] and found.asnumpy().dtype == given.dtype and seen == [given.dtype]


@on_backends
def test_arrays_are_read_only_and_what_is_given_is_copied(backend: str) -> None:
    own = np.zeros(3, F32)

    def writes(x: Any) -> Any:
        x[0] = 5
        return x

    def reuses(x: Any) -> Any:
        own[:] = x
        return own

    with pytest.raises(ValueError, match="read-only"):
        gl.compile(lambda x: ops.py_func(writes, x, x), X, backend=backend)(X)
    step = gl.compile(lambda x: ops.py_func(reuses, x, x), X, backend=backend)
    first, second = step(X), step(2 * X)
    assert first.tolist() == [1, 2, 3] and second.tolist() == [2, 4, 6]


WRONG: list[Any] = [
    (lambda x: x.astype(np.float64), TypeError, r"gives f64\[3\] where f32\[3\] is declared"),
    (lambda x: x[:1], ValueError, r"gives f32\[1\] where f32\[3\] is declared"),
    (lambda x: None, TypeError, r"gives NoneType where f32\[3\] is declared"),
    (lambda x: "text", TypeError, r"gives str where f32\[3\] is declared"),
    (lambda x: 1.0, TypeError, r"gives f64\[\] where f32\[3\] is declared"),
]


@on_backends
@pytest.mark.parametrize(("function", "error", "message"), WRONG)
def test_other_results_than_declared_are_an_error_with_the_line_of_the_call(
    backend: str, function: Any, error: Any, message: str
) -> None:
    step = gl.compile(lambda x: ops.pure_callback(function, x, x), X, backend=backend)
    with pytest.raises(error, match=message + r".*test_host_calls\.py") as raised:
        step(X)
    assert isinstance(raised.value, gl.ir.errors.GraphlsError)


def test_numbers_of_python_take_the_declared_type() -> None:
    scalar = ((), gl.float16)
    assert float(ops.pure_callback(lambda: 2, scalar)) == 2.0
    with pytest.raises(ValueError, match="300, which does not fit the i8"):
        ops.pure_callback(lambda: 300, ((), gl.int8))
    with pytest.raises(TypeError, match="gives a tuple of 1 where a tuple of 2 is declared"):
        ops.pure_callback(lambda: (1,), (scalar, scalar))


@pytest.mark.parametrize("wrong", [None, 3, gl.float32, ((-1,), gl.float32), "f32[3]"])
def test_what_declares_no_type_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"A result|at least one result"):
        ops.pure_callback(sine, wrong, X)
    with pytest.raises(TypeError, match="takes a function"):
        ops.pure_callback(wrong, X, X)


class Loop(Exception):
    """What a user's function raises."""


@on_backends
def test_what_the_function_raises_comes_out_and_the_states_stay(backend: str) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = Parameter(Tensor(0.0), requires_grad=False)

        def construct(self, x: Any) -> Any:
            self.count += 1.0
            y = ops.py_func(fails, x, x * self.count)
            self.count += 1.0
            return y

    is_failing = False

    def fails(x: Any) -> Any:
        if is_failing:
            raise (IndexError if x[0] > 1 else Loop)("mine")
        return x

    net = Net()
    step = gl.compile(net, X, backend=backend)
    assert step(X).tolist() == [1, 2, 3] and float(net.count.asnumpy()) == 2
    is_failing = True
    with pytest.raises(IndexError, match=r"^mine$"):
        step(X)
    with pytest.raises(Loop, match=r"^mine$"):
        step(X / 100)
    assert float(net.count.asnumpy()) == 2 and step.version.ticks == 1
    is_failing = False
    assert step(X).tolist() == [3, 6, 9] and float(net.count.asnumpy()) == 4


@on_backends
def test_a_function_cannot_run_a_step_on_the_same_states_and_may_run_others(backend: str) -> None:
    other = gl.compile(lambda x: x * 3, X, backend=backend)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = Parameter(Tensor(0.0), requires_grad=False)

        def construct(self, x: Any) -> Any:
            self.count += 1.0
            return ops.py_func(function, x, x)

    def function(x: Any) -> Any:
        if x[0] > 5:
            step(x - 5)
        return other(x).asnumpy() + net.count.asnumpy()

    net = Net()
    step = gl.compile(net, X, backend=backend)
    assert step(X).tolist() == [3, 6, 9] and step(X).tolist() == [4, 7, 10]
    with pytest.raises(RuntimeError, match="A function that a step calls cannot run a step on the same states"):
        step(X + 5)
    assert step(X).tolist() == [5, 8, 11]


# -- in the graph ---------------------------------------------------------------------------------------------------


def test_equal_pure_calls_are_one_and_unused_ones_none() -> None:
    def net(x: Any) -> Any:
        ops.pure_callback(np.exp, x, x)
        return ops.pure_callback(sine, x, x) + ops.pure_callback(sine, x, x) + ops.pure_callback(np.cos, x, x)

    step = gl.compile(net, X, backend="numpy")
    assert [node.attrs["function"] for node in nodes(step, "pure_callback")] == ["sine", "cos"]


def test_functions_of_one_name_are_told_apart() -> None:
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    step = gl.compile(lambda x: ops.pure_callback(first, x, x) * ops.pure_callback(second, x, x), X, backend="numpy")
    assert step(X).tolist() == [6, 12, 20]
    assert [node.attrs["function"] for node in nodes(step, "pure_callback")] == ["<lambda>", "<lambda>_1"]


@on_backends
def test_calls_with_effects_stay_in_order_each_once(backend: str) -> None:
    calls: list[str] = []

    def noted(name: str) -> Any:
        def function(*x: Any) -> Any:
            calls.append(name)
            return x[0] if x else None

        return function

    once = noted("once")

    def net(x: Any) -> Any:
        ops.py_func(noted("unused"), x, x)
        y = ops.py_func(once, x, x)
        ops.py_func(noted("nothing"), None)
        return y + ops.py_func(once, x, x)

    step = gl.compile(net, X, backend=backend)
    assert step(X).tolist() == [2, 4, 6] and calls == ["unused", "once", "nothing", "once"]


def test_constants_are_not_folded() -> None:
    calls = []

    def one() -> float:
        calls.append(1)
        return 1.0

    step = gl.compile(lambda x: x + ops.pure_callback(one, ((), gl.float32)), X, backend="numpy")
    assert not calls and step(X).tolist() == [2, 3, 4] and len(calls) == 1


def test_the_text_reads_back_and_says_what_is_missing_when_it_runs() -> None:
    def net(x: Any) -> Any:
        ops.print_('a "text"', x)
        return ops.pure_callback(sine, x, x), ops.py_func(sine, x, x)

    step = gl.compile(net, X, backend="numpy")
    text = dump(step.graph)
    graph = verify(parse(text))
    assert dump(graph) == text and not graph.diff(step.graph)
    with pytest.raises(RuntimeError, match="The function 'sine' is not known"):
        interpret(graph, [X])


def test_a_copy_of_a_step_calls_the_same_function() -> None:
    step = gl.compile(lambda x: ops.pure_callback(sine, x, x), X, backend="numpy")
    assert copy.deepcopy(step)(X).tolist() == np.sin(X).tolist()


def in_a_loop(x: Any) -> Any:
    return ops.scan(lambda carry, _: (ops.pure_callback(sine, carry, carry), None), x, length=3)[0]


def in_a_branch(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        y = ops.py_func(sine, x, x)
    return y


def in_a_condition(x: Any) -> Any:
    return ops.while_loop(lambda c: ops.py_func(np.any, ((), gl.bool_), c > 0), lambda c: c - 1, x)


@pytest.mark.parametrize("net", [in_a_loop, in_a_branch, in_a_condition])
def test_loops_and_branches_call_no_python(net: Any) -> None:
    with pytest.raises(TypeError, match=r"is Python and cannot be called in .*test_host_calls\.py"):
        gl.compile(net, X)


def test_a_gradient_in_a_branch_calls_no_python() -> None:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return ops.pure_callback(sine, x, x, vjp=sine_vjp).sum()

    inner = Net()

    def net(x: Any) -> Any:
        y = inner(x)
        return ops.cond(y > 0, lambda: ops.grad(inner)(x), lambda: x)

    with pytest.raises(TypeError, match=r"cos is Python and would be called in a cond, .*test_host_calls\.py"):
        gl.compile(net, X)


# -- gradients ------------------------------------------------------------------------------------------------------


@on_backends
def test_a_vjp_is_the_gradient(backend: str) -> None:
    def net(x: Any) -> Any:
        return (ops.pure_callback(sine, x, x * 2, vjp=sine_vjp) * x).sum()

    found = gl.compile(ops.grad(net), X, backend=backend)(X)
    np.testing.assert_allclose(found.asnumpy(), np.sin(2 * X) + 2 * X * np.cos(2 * X), rtol=1e-6)


def test_a_vjp_of_nests_may_give_none() -> None:
    def function(pair: Any, k: Any) -> Any:
        return pair[0] * pair[1], k

    def vjp(pair: Any, k: Any, out: Any, gradients: Any) -> Any:
        return gradients[0] * pair[1], gradients[0] * pair[0], None

    def net(x: Any, y: Any, k: Any) -> Any:
        types = (((3,), gl.float32), ((), gl.int64))
        return ops.pure_callback(function, types, (x, y), k, vjp=vjp)[0].sum()

    a, b = gl.compile(ops.grad(net, (0, 1)), X, 2 * X, np.array(3), backend="numpy")(X, 2 * X, np.array(3))
    assert a.tolist() == [2, 4, 6] and b.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="a gradient for each of the 1 inputs, not 2"):
        gl.compile(ops.grad(lambda x: ops.pure_callback(sine, x, x, vjp=lambda x, o, g: (g, g)).sum()), X)
    with pytest.raises(TypeError, match=r"of the type of each input, not f32\[\] for f32\[3\].*test_host_calls\.py"):
        gl.compile(ops.grad(lambda x: ops.pure_callback(sine, x, x, vjp=lambda x, o, g: g.sum()).sum()), X)


@pytest.mark.parametrize("call", [ops.pure_callback, ops.py_func])
def test_without_a_vjp_there_is_no_gradient(call: Any) -> None:
    with pytest.raises(TypeError, match=r"no gradient rule: \w+.*or give a vjp to what calls Python"):
        gl.compile(ops.grad(lambda x: call(sine, x, x).sum()), X)
    found = gl.compile(ops.grad(lambda x: (x * ops.stop_gradient(call(sine, x, x))).sum()), X, backend="numpy")(X)
    assert found.tolist() == np.sin(X).tolist()


@on_backends
def test_a_recomputed_cell_calls_python_once(backend: str) -> None:
    calls: list[int] = []

    def noted(x: Any) -> Any:
        calls.append(1)
        return np.sin(x)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 3, weight_init="ones")

        def construct(self, x: Any) -> Any:
            y = ops.tanh(self.dense(x))
            ops.print_("once")
            return ops.exp(ops.py_func(noted, y, y, vjp=sine_vjp))

    net = Net()
    given = X.reshape(1, 3) / 10

    def found() -> Any:
        step = gl.compile(ops.value_and_grad(lambda x: net(x).sum(), 0, net.trainable_params()), given, backend=backend)
        return step(given)

    plain = found()
    net.recompute()
    again = found()
    assert len(calls) == 2
    for a, b in zip((plain[1][0], *plain[1][1]), (again[1][0], *again[1][1]), strict=True):
        assert a.tolist() == b.tolist()


# -- what measures and keeps steps ------------------------------------------------------------------------------------


@on_backends
def test_a_profile_has_the_time_of_calls(backend: str) -> None:
    taken = []

    def called(x: Any) -> Any:
        begin = perf_counter()
        y = np.sin(np.ones((300, 300), F32) @ np.ones((300, 300), F32))[:1, :3] * x
        taken.append(perf_counter() - begin)
        return y

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 4, weight_init="ones")

        def construct(self, x: Any) -> Any:
            return ops.tanh(self.dense(ops.py_func(called, x, x)))

    step = gl.compile(Net(), X.reshape(1, 3), backend=backend)
    found = step.profile(X.reshape(1, 3), steps=3)
    (call,) = nodes(step, "py_func")
    assert found.node_seconds[call] >= min(taken)
    assert "py_func" in str(found) and "tanh" in str(found)


def test_no_model_and_no_many_steps_hold_calls(tmp_path: Any) -> None:
    step = gl.compile(lambda x: ops.py_func(sine, x, x), X, backend="numpy")
    with pytest.raises(ValueError, match=r"A model cannot hold 'sine', which is Python.*test_host_calls\.py"):
        step.save(tmp_path / "other.onnx")
    assert step.placement(device="cuda").sentences == ()
    step.dump(tmp_path / "dumped")
    assert {"index.html", "00_trace.ir"} <= {path.name for path in (tmp_path / "dumped").iterdir()}
    with pytest.raises(ValueError, match=r"calls Python \(sine\) cannot run many times.*test_host_calls\.py"):
        step.repeated(2)
