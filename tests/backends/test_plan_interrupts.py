"""A Ctrl-C in the middle of a plan leaves the states of one step, wherever it comes."""

from __future__ import annotations

import pytest

from tests.backends.test_plan import X, Y, states, trained
from tests.interrupting import interrupted_at, places_in


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_an_interrupted_plan_has_states_of_one_step(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(True, monkeypatch, engine=engine)
    for _ in range(9):
        step(X, Y)
    start = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    before = states(step)
    places = places_in(lambda: step(X, Y))
    whole = states(step)
    assert places > 10 and whole != before
    for place in range(0, places, 2):
        for name, value in start.items():
            step.parameters[name].set_data(value)
        ticks = step.clock.ticks
        interrupted_at(place, lambda: step(X, Y))
        assert states(step) == (whole if step.clock.ticks > ticks else before), place
