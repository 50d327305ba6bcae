"""A kernel that fails leaves the states of one step, or they say that they may be half written."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.base.errors import GraphRuntimeError
from tests.onednn.test_threads import X, Y, compiled, losses, states


def broken(number: int) -> tuple[Any, dict[str, bytes]]:
    """A step of which the kernel of a number has failed, and the states before."""
    step = compiled()
    losses(step)
    before = states(step)
    (part,) = step._session.last
    at = [place for place, call in enumerate(part.program.calls) if not call.runs_python][number]
    calls = part.turn().calls
    call, calls[at] = calls[at], partial(int, 1)
    with pytest.raises(GraphRuntimeError, match=r"oneDNN could not run a .*: out of memory"):
        step(X, Y)
    calls[at] = call
    return step, before


def test_a_failure_before_the_updates_changes_nothing() -> None:
    step, before = broken(0)
    assert states(step) == before
    losses(step)


def test_states_that_are_overwritten_before_a_failure_say_so_until_they_are_set() -> None:
    step, before = broken(-1)
    for use in (lambda: states(step), lambda: step(X, Y)):
        with pytest.raises(GraphRuntimeError, match=r"may be that of half a step.*oneDNN could not run"):
            use()
    for name, parameter in step.parameters.items():
        parameter.set_data(graphls.Tensor(np.frombuffer(before[name], parameter.dtype.numpy).reshape(parameter.shape)))
    losses(step)
