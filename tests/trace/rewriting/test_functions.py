"""Which functions are rewritten, and that they stay what they are: names, defaults, variables around them, speed."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, nn, ops
from graphls.frontend.trace.rewriting.functions import rewritten
from tests.trace.rewriting.agree import compiled, tensor

OFFSET = 1.0


def halved(x: Any, times: int = 2, *, plus: float = 0.5) -> Any:
    """Halves a few times.

    Unless x is negative.
    """
    for _ in range(times):
        if x > 0:
            x = x / 2
    return x + plus + OFFSET


def step(carry: Any, x: Any = None) -> Any:
    first = carry if carry > 2 else carry * 2
    second = first - 1
    if second > 4:
        second = second * 0.5
    return second + 1


def steps(carry: Any, x: Any) -> tuple[Any, Any]:
    return step(carry), x * 2


class Called:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        y = x
        if x > 1:
            y = x * self.factor
        y = y + 0
        if x > 2:
            return y * 2
        return y


def values(x: Any) -> list[Any]:
    """The same functions by every way in which users hand over functions."""
    c = ops.cond(x > 0, step, Called(3.0), x)
    s = ops.scan(steps, x, ops.stack([x, x]))[0]
    w = ops.while_loop(lambda v: v < 4, lambda v: step(v) + 1, x)
    f = ops.fori_loop(0, 2, lambda i, v: step(v) + i, x)
    m = ops.HyperMap()(step, (x, x + 1))[1]
    p = functools.partial(halved, times=1)(x)
    v = ops.vmap(step)(ops.stack([x, x]))[0]
    return [c, s, w, f, m, p, v, graphls.grad(step)(x), next(map(Called(2.0), [x]))]


def expected(x: float) -> list[float]:
    def loop(v: float) -> float:
        while v < 4:
            v = step(v) + 1
        return v

    slope = (step(x + 1e-6) - step(x - 1e-6)) / 2e-6
    first = step(x) if x > 0 else Called(3.0)(x)
    return [
        first, step(step(x)), loop(x), step(step(x)) + 1, step(x + 1), halved(x, 1), step(x), slope, Called(2.0)(x)
    ]  # fmt: skip


@pytest.mark.parametrize("x", [3.0, 1.5, 0.75])
def test_functions_that_are_handed_over(x: float) -> None:
    step_ = compiled(values, (1.0,))
    np.testing.assert_allclose([float(v) for v in step_(tensor(x))], expected(x), rtol=1e-5)


def test_a_rewritten_function_is_the_same_function() -> None:
    new = rewritten(halved)
    assert new is not halved and new(8.0) == halved(8.0) and new(8.0, 1, plus=2) == halved(8.0, 1, plus=2)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__"):
        assert getattr(new, name) == getattr(halved, name)
    assert new.__globals__ is halved.__globals__
    assert new.__code__.co_firstlineno == halved.__code__.co_firstlineno
    assert new.__code__.co_filename == __file__ and new.__code__.co_name == "halved"


def test_globals_are_read_when_a_function_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    new = rewritten(halved)
    before = new(8.0)
    monkeypatch.setitem(globals(), "OFFSET", 11.0)
    assert new(8.0) == before + 10


def test_what_graphls_and_python_define_stays_as_it_is() -> None:
    for function in (nn.Dense.construct, functools.reduce, functools.wraps, np.sum, len, Called, 3):
        assert rewritten(function) is function


def test_generators_and_functions_that_assign_globals_stay_as_they_are() -> None:
    def generator(x: Any) -> Any:
        if x:
            yield x

    def with_global(x: Any) -> Any:
        global OFFSET
        if x:
            OFFSET = OFFSET * 1

    def with_locals(x: Any) -> Any:
        return locals() if x else x

    for function in (generator, with_global, with_locals):
        assert rewritten(function) is function


def test_lambdas_on_one_line_are_not_mixed_up() -> None:
    first, second = (lambda x: x if x > 0 else x * 2), (lambda x: x if x > 0 else x * 3)
    assert [rewritten(f)(-1.0) for f in (first, second)] == [-2, -3]
    one = lambda y: y if y > 0 else y * 5  # noqa: E731
    assert rewritten(one) is not one and rewritten(one)(-1.0) == -5


def test_a_function_of_a_file_that_has_changed_stays_as_it_is(tmp_path: Any) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def f(x):\n    if x > 0:\n        return x\n    return -x\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("def f(x, y):\n    if x > 0:\n        return y\n    return -y\n")
    assert rewritten(names["f"]) is names["f"]


def test_functions_are_let_go() -> None:
    def made() -> Any:
        names: dict[str, Any] = {}
        exec(compile("def f(x):\n    return x\n", __file__, "exec"), names)
        return names["f"]

    function = made()
    rewritten(function)
    code = weakref.ref(function.__code__)
    del function
    gc.collect()
    assert code() is None


def test_eager_mode_runs_what_stands_there() -> None:
    seen: list[str] = []

    class Plain(nn.Cell):
        def construct(self, x: Any) -> Any:
            import sys

            if x > 0:
                seen.append(sys._getframe().f_code.co_name)
                seen.append(sys._getframe(1).f_code.co_filename)
            return x

    graphls.set_context(mode=graphls.PYNATIVE_MODE)
    try:
        Plain()(graphls.Tensor(1.0))
    finally:
        graphls.set_context(mode=graphls.GRAPH_MODE)
    assert seen[0] == "construct" and "rewriting" not in seen[1]


def doubled(x: Any) -> Any:
    while ops.sum(x) < 100:
        x = x * 2
    return x


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code says no columns")
def test_lambdas_of_lambdas_on_one_line_are_told_apart_by_their_columns() -> None:
    x = np.float32(3)
    slope = graphls.compile(lambda x: ops.grad(lambda x: ops.sum(doubled(x)))(x), x)
    assert float(slope(x)) == 64
    pair = lambda x: doubled(x), lambda x: -doubled(x)
    assert [float(graphls.compile(function, x)(x)) for function in pair] == [192, -192]


class History:
    def __init__(self, value: Any) -> None:
        self.values = [value]

    def push(self, value: Any) -> None:
        self.values.append(value)


def test_objects_that_carry_a_value_out_of_a_branch_are_traced_once_for_each_answer() -> None:
    def last(x: Any, flag: Any) -> Any:
        history = History(x)
        if flag:
            history.push(x * 2)
        else:
            history.push(x + 5)
        return history.values[-1] * 10

    step = graphls.compile(last, np.float32(3), np.bool_(True))
    assert [float(step(np.float32(3), flag)) for flag in (np.bool_(True), np.bool_(False))] == [60, 80]


KEPT = History(0)


def test_values_that_outlive_a_loop_in_an_object_are_refused() -> None:
    def run(x: Any) -> Any:
        ops.while_loop(lambda x: x < 100, lambda x: (KEPT.push(x * 2), x * 2)[1], x)
        return KEPT.values[-1]

    with pytest.raises(GraphlsError, match="that an object has carried out of it"):
        graphls.compile(run, np.float32(3))
