"""Calls of Python as segments of a plan: the numbers of a step without them, and states of one step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.passes.schedule.host_calls import verify_host_calls
from graphls.runtime.onednn.engine import Onednn
from tests.interrupting import assert_steps_are_whole

F32 = np.float32
X, Y = np.linspace(-1, 1, 64, dtype=F32).reshape(16, 4), np.arange(16, dtype=np.int32) % 3
BACKENDS = ["numpy", "onnxruntime"]
on_backends = pytest.mark.parametrize("backend", BACKENDS)


def same(x: Any) -> Any:
    return x


class Network(nn.Cell):
    """A network with statistics, a random mask, and Python between its layers, in both directions."""

    def __init__(self, calls: bool) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Dense(4, 8), nn.BatchNorm1d(8), nn.Dense(8, 3)
        self.drop = nn.Dropout(p=0.25)
        self.calls = calls

    def through(self, x: Any) -> Any:
        if not self.calls:
            return x + 0 * x
        return ops.py_func(same, x, x, vjp=lambda x, out, g: ops.pure_callback(same, g, g))

    def construct(self, x: Any) -> Any:
        x = self.through(self.norm(self.first(x)))
        return self.through(self.last(self.drop(x)))


def trained(calls: bool, backend: str, scaled: bool = True) -> Any:
    graphls.set_seed(3)
    network = Network(calls)
    criterion = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    loss = nn.WithLossCell(network.to_float(graphls.float16) if scaled else network, criterion)
    optimizer = nn.Adam(network.trainable_params(), 0.05)
    if not scaled:
        return graphls.compile(nn.TrainOneStepCell(loss, optimizer).set_train(), X, Y, backend=backend)
    manager = nn.DynamicLossScaleUpdateCell(2.0**24, 2, 3)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, manager).set_train()
    return graphls.compile(cell, X, Y, backend=backend)


def states(step: Any) -> dict[str, Any]:
    return {name: parameter.asnumpy() for name, parameter in step.parameters.items()}


@on_backends
@pytest.mark.parametrize("scaled", [False, True])
def test_a_training_step_computes_what_it_does_without_the_calls(backend: str, scaled: bool) -> None:
    step, plain = trained(True, backend, scaled), trained(False, backend, scaled)
    verify_host_calls(step.graph)
    for _ in range(10):
        graphls.set_seed(3)
        step(X, Y)
        graphls.set_seed(3)
        plain(X, Y)
    for (name, value), other in zip(states(step).items(), states(plain).values(), strict=True):
        np.testing.assert_allclose(value, other, rtol=2e-3, atol=2e-3, err_msg=name)


@on_backends
def test_a_diagnosis_calls_functions_with_the_dtypes_of_the_step_and_prints_nothing(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def backward(x: Any, out: Any, gradient: Any) -> Any:
        ops.print_("gradient", gradient.sum())
        return ops.py_func(same, gradient, gradient)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(4, 3)

        def construct(self, x: Any) -> Any:
            y = self.dense(x)
            return ops.py_func(same, y, y, vjp=backward)

    net = Net()
    criterion = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    loss = nn.WithLossCell(net.to_float(graphls.float16), criterion)
    manager = nn.DynamicLossScaleUpdateCell(2.0**8, 2, 3)
    cell = nn.TrainOneStepWithLossScaleCell(loss, nn.Momentum(net.trainable_params(), 0.1, 0.9), manager).set_train()
    step = graphls.compile(cell, X, Y, backend=backend)
    step(X, Y)
    assert capsys.readouterr().out.startswith("gradient")
    assert "dense.weight" in str(step.gradient_ranges(X, Y))
    assert "Nothing" in str(step.explain_overflow(X, Y))
    assert capsys.readouterr().out == ""


@on_backends
def test_what_fails_in_any_call_leaves_the_states(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, fails_at = 0, -1

    def counted(x: Any) -> Any:
        nonlocal count
        count += 1
        if count == fails_at:
            raise ZeroDivisionError("mine")
        return x

    monkeypatch.setattr(f"{__name__}.same", counted)
    step = trained(True, backend)
    step(X, Y)
    calls = count
    assert calls == 4
    for number in range(1, calls + 1):
        fails_at, count = number, 0
        before, ticks = states(step), step.version.ticks
        with pytest.raises(ZeroDivisionError, match="mine"):
            step(X, Y)
        assert all((before[name] == value).all() for name, value in states(step).items())
        assert step.version.ticks == ticks
    count, fails_at = 0, -1
    step(X, Y)
    assert step.version.ticks == ticks + 1


class Counters(nn.Cell):
    """States that are written before, between and behind calls, and one that is random."""

    def __init__(self) -> None:
        super().__init__()
        self.a = Parameter(np.ones(3, F32), name="a", requires_grad=False)
        self.b = Parameter(np.ones(3, F32), name="b", requires_grad=False)
        self.c = Parameter(np.ones(3, F32), name="c", requires_grad=False)

    def construct(self, x: Any) -> Any:
        self.a = self.a * 0.5 + ops.rand(3)
        y = ops.py_func(same, x, self.a * x)
        self.b = self.b + y
        z = ops.py_func(same, x, self.b)
        self.c = self.c + 1
        return z + self.c


ONES = np.ones(3, F32)


def values(cell: Any) -> list[Any]:
    held = [parameter.asnumpy().tolist() for parameter in (cell.a, cell.b, cell.c)]
    return [*held, graphls.random.random_state().asnumpy().tolist()]


def made(backend: str) -> tuple[Any, Callable[[], Any], Any]:
    graphls.set_seed(4)
    cell = Counters()
    step = graphls.compile(cell, ONES, backend=backend)
    step(ONES)
    return cell, lambda: step(ONES), step.version


@on_backends
def test_a_step_that_is_interrupted_anywhere_is_whole_or_has_not_been(backend: str) -> None:
    assert_steps_are_whole(lambda: made(backend), values, 30)


@on_backends
def test_a_ctrl_c_in_a_function_comes_out_of_the_step(backend: str) -> None:
    is_pressed = False

    def pressed(x: Any) -> Any:
        if is_pressed:
            signal.raise_signal(signal.SIGINT)
        return x

    cell = Counters()
    step = graphls.compile(lambda x: (cell(x), ops.py_func(pressed, x, x)), ONES, backend=backend)
    step(ONES)
    before, is_pressed = values(cell), True
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            step(ONES)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert values(cell) == before and step.version.ticks == 1


@on_backends
def test_threads_take_turns(backend: str) -> None:
    cell = Counters()
    seen: list[Any] = []

    def noted(x: Any) -> Any:
        seen.append(x.copy())
        return x

    def net(x: Any) -> Any:
        cell.c += 1.0
        return ops.py_func(noted, x, cell.c)

    step = graphls.compile(net, ONES, backend=backend)
    threads = [threading.Thread(target=lambda: [step(ONES) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [array[0] for array in seen] == [*map(float, range(2, 42))]


@on_backends
def test_results_of_functions_are_states_outputs_and_conditions(backend: str) -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.kept = Parameter(Tensor(np.zeros(3, F32)), requires_grad=False)

        def construct(self, x: Any) -> Any:
            found, flag = ops.py_func(lambda x: (x + 1, x.sum() > 0), (x, ((), graphls.bool_)), x)
            self.kept = found
            y = found * 2 if flag else found * 3
            return found, y, self.kept

    net = Net()
    step = graphls.compile(net, ONES, backend=backend)
    for x, factor in ((ONES, 2), (-2 * ONES, 3)):
        found, y, kept = step(x)
        assert found.tolist() == kept.tolist() == net.kept.asnumpy().tolist() == (x + 1).tolist()
        assert y.tolist() == (factor * (x + 1)).tolist()


@on_backends
def test_a_call_that_reads_a_state_sees_it_before_the_step(backend: str) -> None:
    cell = Counters()
    seen: list[Any] = []

    def noted(old: Any, new: Any) -> None:
        seen.append((old[0], new[0], cell.c.asnumpy()[0]))

    def net(x: Any) -> Any:
        old = cell.c + 0.0
        cell.c += 1.0
        ops.py_func(noted, None, old, cell.c)
        return ops.py_func(same, x, x)

    step = graphls.compile(net, ONES, backend=backend)
    step(ONES)
    step(ONES)
    assert seen == [(1, 2, 1), (2, 3, 2)]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_compute_and_call_what_the_interpreter_does(seed: int) -> None:
    calls: list[tuple[str, float]] = []

    def noted(name: str) -> Any:
        def function(x: Any) -> Any:
            calls.append((name, float(x.sum())))
            return np.cos(x)

        return function

    functions = [noted(str(i)) for i in range(12)]

    class Program(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a = Parameter(Tensor(ONES), requires_grad=False)
            self.b = Parameter(Tensor(2 * ONES), requires_grad=False)

        def construct(self, x: Any) -> Any:
            random = np.random.default_rng(seed)
            known = [x, self.a, self.b]
            for function in functions:
                first, second = (known[i] for i in random.integers(0, len(known), 2))
                kind = random.integers(0, 6)
                if kind == 0:
                    known.append(ops.py_func(function, x, first * second))
                elif kind == 1:
                    known.append(ops.pure_callback(np.sin, x, first + second))
                elif kind == 2:
                    ops.py_func(function, x, first - second)
                elif kind == 3:
                    self.a = ops.tanh(first + second)
                    known.append(self.a)
                elif kind == 4:
                    self.b += first
                    known.append(self.b * 0.5)
                else:
                    known.append(ops.tanh(first * 2 + second))
            return known[-1], sum(known[3:], x)

    found = []
    others = [{"engine": "onednn"}] if seed < 3 and Onednn().version() else []
    for options in ({"backend": "numpy"}, {"backend": "onnxruntime"}, *others):
        program = Program()
        step = graphls.compile(program, ONES, **options)
        calls.clear()
        results = [result.asnumpy() for i in range(3) for result in step((i + 1) * ONES)]
        found.append(([*calls], [*results, program.a.asnumpy(), program.b.asnumpy()]))
    first, values = found[0]
    for again, given in found[1:]:
        assert [name for name, _ in first] == [name for name, _ in again]
        np.testing.assert_allclose([total for _, total in first], [total for _, total in again], rtol=1e-3, atol=1e-3)
        for value, other in zip(values, given, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-4)


@on_backends
def test_hooks_see_numbers_by_calls(backend: str) -> None:
    seen: list[tuple[str, Any]] = []

    def noted(name: str) -> Callable[[Any], None]:
        return lambda x: seen.append((name, x.tolist()))

    net = nn.Dense(3, 1, weight_init="ones", has_bias=False)
    net.register_forward_hook(lambda cell, inputs, output: ops.py_func(noted("forward"), None, output))
    net.register_backward_hook(lambda cell, inputs, outputs: ops.py_func(noted("backward"), None, inputs[0]))
    step = graphls.compile(ops.grad(lambda x: (net(x) * 2).sum()), ONES.reshape(1, 3), backend=backend)
    for i in (1, 2):
        assert step(i * ONES.reshape(1, 3)).tolist() == [[2, 2, 2]]
    assert seen == [("forward", [[3]]), ("backward", [[2, 2, 2]]), ("forward", [[6]]), ("backward", [[2, 2, 2]])]
