"""A Ctrl-C in the middle of a plan leaves the states of one step, wherever it comes."""

from __future__ import annotations

import pytest

from tests.backends.test_plan import X, Y, states, trained
from tests.interrupting import assert_states_are_of_one_step


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy", "xla"])
def test_an_interrupted_plan_has_states_of_one_step(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "xla":
        pytest.importorskip("jax")
    step = trained(True, monkeypatch, engine=engine)
    for _ in range(9):
        step(X, Y)
    assert_states_are_of_one_step(step, lambda: step(X, Y), states, 2)
