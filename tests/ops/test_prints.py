"""What steps print: as MindSpore's graphs do, in the order of the program, and where the answer of an `if` is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, nn, ops
from tests.ops.test_host_calls import X, on_backends, sine, sine_vjp


def shown(x: Any) -> Any:
    ops.print_("x is", x, 3, 2.5, True, (x.sum(), "text"))
    return x * 2


ARRAY = "Tensor(shape=[3], dtype=Float32, value=[ 1.00000000e+00  2.00000000e+00  3.00000000e+00])"
SHOWN = f"x is\n{ARRAY}\n3\n2.5\n1\n6\ntext\n"


@on_backends
def test_print_in_a_step(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    step = gl.compile(shown, X, backend=backend)
    assert capsys.readouterr().out == ""
    for _ in range(2):
        assert step(X).tolist() == [2, 4, 6]
        assert capsys.readouterr().out == SHOWN
    assert shown(Tensor(X)).tolist() == [2, 4, 6] and capsys.readouterr().out == SHOWN


@on_backends
def test_what_branches_print_appears_where_it_is_the_answer(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> Any:
        ops.print_("first")
        if x.sum() > 0:
            ops.print_("positive", x.sum() * 2)
            if x[0] > 5:
                ops.print_("large", x[0])
        else:
            ops.print_("negative")
        ops.print_("last")
        return x

    step = gl.compile(net, X, backend=backend)
    for factor, wanted in ((1, "positive 12"), (10, "positive 120 large 10"), (-1, "negative")):
        step(factor * X)
        assert capsys.readouterr().out.split() == ["first", *wanted.split(), "last"]


@on_backends
def test_a_print_between_calls_keeps_its_place(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def says(x: Any) -> Any:
        print("called")
        return x

    def net(x: Any) -> Any:
        ops.print_("before")
        y = ops.py_func(says, x, x)
        ops.print_("behind")
        return y

    gl.compile(net, X, backend=backend)(X)
    assert capsys.readouterr().out.split() == ["before", "called", "behind"]


@on_backends
def test_print_shows_a_state_as_it_was_there(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.count = Parameter(Tensor(0.0), requires_grad=False)

        def construct(self, x: Any) -> Any:
            ops.print_("before", self.count)
            self.count += 1.0
            ops.print_("after", self.count)
            return x

    step = gl.compile(Net(), X, backend=backend)
    for _ in range(2):
        step(X)
    assert capsys.readouterr().out.split() == ["before", "0", "after", "1", "before", "1", "after", "2"]


def test_print_lets_gradients_through_and_is_in_gradients_of_cells(capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> Any:
        return (ops.Print()(x) ** 2).sum()

    assert gl.compile(ops.grad(net), X)(X).tolist() == [2, 4, 6]
    assert capsys.readouterr().out.count("Tensor(shape=[3]") == 1

    class Own(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * 2

        def bprop(self, x: Any, out: Any, gradient: Any) -> Any:
            ops.print_("gradient", gradient)
            return (gradient * 2,)

    own = Own()
    gl.compile(ops.grad(lambda x: own(x).sum()), X)(X)
    assert capsys.readouterr().out.startswith("gradient\nTensor(shape=[3]")


def test_a_step_may_do_nothing_but_print(capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> None:
        ops.print_(x.sum())

    assert gl.compile(net, X)(X) is None
    assert capsys.readouterr().out == "6\n"
    gl.compile(lambda: ops.py_func(lambda: print("called"), None))()
    assert capsys.readouterr().out == "called\n"


@on_backends
def test_diagnosis_and_profile_print_nothing(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> Any:
        y = ops.py_func(sine, x, shown(x), vjp=sine_vjp)
        return shown(y).sum()

    for function in (ops.grad(lambda x: shown(x).sum()), ops.grad(net)):
        step = gl.compile(function, X, backend=backend)
        step.profile(X, steps=1)
        step.explain_overflow(X)
        assert capsys.readouterr().out == ""


def test_a_saved_model_leaves_out_what_is_printed(tmp_path: Any) -> None:
    import onnxruntime

    gl.compile(shown, X).save(tmp_path / "step.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "step.onnx", providers=["CPUExecutionProvider"])
    assert [array.tolist() for array in session.run(None, {session.get_inputs()[0].name: X})] == [[2, 4, 6]]


def test_many_steps_print_what_each_of_them_has(capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> Any:
        ops.print_(x.sum(), "of")
        return x

    step = gl.compile(net, X)
    step.repeated(3)(np.stack([X, 2 * X, 3 * X]))
    assert capsys.readouterr().out.split() == ["6", "of", "12", "of", "18", "of"]


@on_backends
def test_a_loop_prints_what_each_iteration_has(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def body(carry: Any, item: Any) -> Any:
        ops.print_("item", item)
        if item > 1.5:
            ops.print_("large", item)
        return carry + item, None

    forward, backward = "item 1 item 2 item 3 large 2 large 3", "item 3 item 2 item 1 large 3 large 2"
    for reverse, wanted in ((False, forward), (True, backward)):
        step = gl.compile(lambda x, r=reverse: ops.scan(body, x[0], x, reverse=r)[0], X, backend=backend)
        assert step(X).tolist() == 7
        assert capsys.readouterr().out.split() == wanted.split()


@on_backends
def test_loops_in_loops_and_branches_print(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> Any:
        def inner(carry: Any, item: Any) -> Any:
            ops.print_("inner", carry, item)
            return carry, None

        def outer(carry: Any, item: Any) -> Any:
            ops.print_("outer")
            ops.scan(inner, item, x[:2])
            return carry + item, None

        y = x[0]
        if x[0] > 0:
            y = ops.scan(outer, x[0], x[1:])[0]
        return y

    step = gl.compile(net, X, backend=backend)
    assert step(X).tolist() == 6
    assert capsys.readouterr().out.split() == "outer outer inner 2 1 inner 2 2 inner 3 1 inner 3 2".split()  # noqa: SIM905
    step(-X)
    assert capsys.readouterr().out == ""


def test_a_gradient_of_a_loop_prints_its_forward_once(capsys: pytest.CaptureFixture[str]) -> None:
    def net(x: Any) -> Any:
        def body(carry: Any, item: Any) -> Any:
            ops.print_(carry)
            return carry * item, None

        return ops.scan(body, x[0], x)[0]

    assert gl.compile(ops.grad(net), X)(X).tolist() == [12, 3, 2]
    assert capsys.readouterr().out.split() == ["1", "1", "2"]


def looping(x: Any) -> Any:
    while x.sum() > 0:
        ops.print_("round", x)
        x = x - 1
    return x


def while_looping(x: Any) -> Any:
    def body(c: Any) -> Any:
        ops.print_("round", c)
        return c - 1

    return ops.while_loop(lambda c: c.sum() > 0, body, x)


@pytest.mark.parametrize("net", [looping, while_looping])
def test_a_loop_of_unknown_length_prints_nothing_with_a_warning(net: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match=r"number of iterations the graph decides is not shown .*test_prints\.py"):
        step = gl.compile(net, X)
    step(X)
    assert capsys.readouterr().out == ""
