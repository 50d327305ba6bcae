"""Steps that are kept: never one with stale constants, never too many, and one warning that says what changes."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops
from graphls.step.calling.cache import MANY_CHANGES, MOST_STEPS, CompileCache

F32 = np.float32
X = Tensor(np.ones(2, F32))


@pytest.fixture(autouse=True)
def no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps are compiled here, and what runs them makes no difference."""
    compile = graphls.compile
    monkeypatch.setattr(
        "graphls.api.compile", lambda *a, device, **o: compile(*a, **{"backend": "numpy", **o})
    )


class Scaled(nn.Cell):
    def __init__(self, rate: Any = 1.0) -> None:
        super().__init__()
        self.rate = rate

    def construct(self, x: Any, by: Any = 1.0) -> Any:
        return x * self.rate / by


def around() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Ways in which a constant comes into a graph: what each gives, as the sign of a number divided by the constant."""
    cell, scaled = Scaled(), Scaled()
    factor: Any = 1.0

    @graphls.jit
    def divided(x: Any, by: Any) -> Any:
        return x / by

    @graphls.jit
    def reading(x: Any) -> Any:
        return x / factor

    def by_closure(by: Any) -> Any:
        nonlocal factor
        factor = by
        return reading(X)

    def by_attribute(by: Any) -> Any:
        scaled.rate = by
        return 1 / scaled(X)

    yield "argument", lambda by: cell(X, by)
    yield "named", lambda by: cell(X, by=by)
    yield "function", lambda by: divided(X, by)
    yield "nested", lambda by: graphls.jit(lambda x, pair: x / pair[0])(X, (by,))
    yield "closure", by_closure
    yield "attribute", by_attribute
    yield "gradient", lambda by: graphls.grad(cell)(X, by)


@pytest.mark.parametrize("way", [pytest.param(call, id=name) for name, call in around()])
def test_zeros_of_two_signs_are_two_constants(way: Callable[[Any], Any]) -> None:
    for by, sign in ((0.0, 1), (-0.0, -1), (0.0, 1), (-0.0, -1)):
        assert (way(by).asnumpy() == sign * np.inf).all()


def test_a_compiled_step_refuses_the_zero_of_the_other_sign_and_takes_its_nan() -> None:
    step = graphls.compile(Scaled(), X, 0.0)
    step(X, 0.0)
    for other in (-0.0, 0, False):
        with pytest.raises(graphls.GraphlsError, match="compiled for the constant"):
            step(X, other)
    graphls.compile(Scaled(), X, float("nan"))(X, float("inf") - float("inf"))


def test_one_step_for_every_nan_and_one_for_each_class_of_one() -> None:
    cell = Scaled()
    for by in (float("nan"), float("nan"), 1, 1.0, True):
        cell(X, by)
    (cache,) = cell.__dict__["_compiled"].values()
    assert sum(map(len, cache.steps.values())) == 4


def test_an_attribute_that_gets_the_value_that_it_has_compiles_nothing() -> None:
    cell = Scaled(2.0)
    cell(X)
    before = graphls.step.calling.cache.Configuration.changes
    cell.rate = 2.0
    assert graphls.step.calling.cache.Configuration.changes == before
    cell.rate = 2
    assert graphls.step.calling.cache.Configuration.changes != before


@pytest.mark.parametrize("holder", ["attribute", "list", "closure"])
def test_a_tensor_that_is_changed_in_place_is_seen(holder: str) -> None:
    tensor = Tensor(np.ones(2, F32))
    cell = Scaled()
    cell.rate = [tensor] if holder == "list" else tensor

    class Listed(Scaled):
        def construct(self, x: Any, by: Any = 1.0) -> Any:
            return x * self.rate[0]

    listed = Listed([tensor])
    call: Any = {"attribute": cell, "list": listed, "closure": graphls.jit(lambda x: x * tensor)}[holder]
    assert call(X).asnumpy().tolist() == [1, 1]
    tensor[1] = 5
    assert call(X).asnumpy().tolist() == [1, 5]
    tensor[0] = 7
    assert call(X).asnumpy().tolist() == [7, 5]


def steps_of(cell: nn.Cell) -> int:
    caches = [cache for cache in cell.__dict__["_compiled"].values() if isinstance(cache, CompileCache)]
    return sum(len(steps) for cache in caches for steps in cache.steps.values())


def test_steps_that_a_changed_attribute_made_useless_go_with_one_warning() -> None:
    cell = Scaled()
    with pytest.warns(UserWarning, match="Scaled is compiled again each time that 'rate' of Scaled changes") as caught:
        for i in range(2 * MANY_CHANGES):
            cell.rate = float(i)
            assert cell(X).asnumpy().tolist() == [i, i]
    assert len(caught) == 1 and steps_of(cell) == 1


def test_modes_that_come_back_compile_nothing() -> None:
    cell = nn.SequentialCell(nn.Dropout(p=0.5))
    found = []
    for i in range(20):
        cell.set_train(bool(i % 2))
        found.append(graphls.step.calling.cache.cache_of(cell).find(X))
    assert len(set(found)) == 2 == steps_of(cell)


@pytest.mark.parametrize(("kind", "text"), [("shape", "the shape of number 0"), ("number", "the value of number 1")])
def test_kinds_of_arguments_are_kept_up_to_a_number_with_one_warning(kind: str, text: str) -> None:
    cell = Scaled()
    refs = []
    message = f"for more than {MOST_STEPS} kinds of arguments, which differ in {text}"
    with pytest.warns(UserWarning, match=message) as caught:
        for i in range(1, MOST_STEPS + 5):
            arguments = (Tensor(np.ones(i, F32)),) if kind == "shape" else (X, float(i))
            cell(*arguments)
            refs.append(weakref.ref(next(iter(cell.__dict__["_compiled"].values())).last[2]))
            cell(*((X,) if kind == "number" else (Tensor(np.ones(1, F32)),)))
    gc.collect()
    assert len(caught) == 1 and steps_of(cell) == MOST_STEPS
    assert sum(ref() is not None for ref in refs) <= MOST_STEPS + 1
    assert refs[-1]() is not None and refs[1]() is None


def test_gradient_functions_of_a_cell_are_kept_up_to_a_number() -> None:
    cell = nn.Dense(2, 1)
    for _ in range(MOST_STEPS + 10):
        graphls.grad(cell, None, (graphls.Parameter(np.ones(1, F32), name="p"),))
    assert len(cell.__dict__["_compiled"]) <= MOST_STEPS


class Counting(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.calls = graphls.Parameter(np.zeros(1, F32), name="calls")

    def construct(self, x: Any) -> Any:
        old = self.calls + 0
        self.calls = self.calls + 1
        return old + ops.sum(x) * 0


def test_states_outlive_the_steps_that_wrote_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("graphls.step.calling.cache.MOST_STEPS", 3)
    cell = Counting()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(8):
            assert cell(Tensor(np.ones(i % 5 + 1, F32))).asnumpy() == i
    assert cell.calls.asnumpy() == 8 and steps_of(cell) == 3
