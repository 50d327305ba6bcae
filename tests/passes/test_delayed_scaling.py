"""Delayed scaling has the history and the scales of the published rule, step by step over 200 steps.

The literals come from functions of Transformer Engine 2.20.2, jax/quantize/quantizer.py, with JAX 0.10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.base.sharing.storage import array_in
from graphls.ir import Builder, Names, Value, interpret
from graphls.ir.build import substitute
from graphls.ir.graph import Graph, Write
from graphls.ir.types import float8_e4m3fn, float8_e5m2, type_of
from graphls.passes.precision.forms import DelayedForm
from tests.engine_sessions import session_on

F32_MAX = float(np.finfo(np.float32).max)

def maximum_of(step: int) -> np.float32:
    """The absolute maximum of a step: of many sizes, 0 in every 29th step, not finite in two."""
    if step in (50, 120):
        return np.float32(np.inf if step == 50 else np.nan)
    return np.float32(step * 37 % 101 * 2.0 ** (step * 13 % 11 - 5) if step % 29 else 0)


TABLE: dict[DelayedForm, dict[int, tuple[str, float]]] = {  # compute_scale_from_amax and DelayedScaleQuantizer.update
    DelayedForm(float8_e4m3fn, 0, 16, "max"): {
        0: ("0x1.0000000000000p+0", 0.0), 1: ("0x1.8375a00000000p+6", 4.625), 2: ("0x1.8375a00000000p+3", 37.0),
        15: ("0x1.5555560000000p-3", 400.0), 17: ("0x1.4990300000000p-3", 1.4375),
        49: ("0x1.2aaaaa0000000p-3", 3072.0), 50: ("0x1.2aaaaa0000000p-3", np.inf),
        51: ("0x1.2aaaaa0000000p-3", 17.25), 66: ("0x1.219dbc0000000p-3", 0.5625), 67: ("0x1.219dbc0000000p-3", 6.875),
        119: ("0x1.3105720000000p-2", 240.0), 120: ("0x1.3105720000000p-2", np.nan),
        137: ("0x1.1eb8520000000p-2", 608.0), 199: ("0x1.a5a5a60000000p-2", 11.375),
    },
    DelayedForm(float8_e5m2, 2, 16, "most_recent"): {
        0: ("0x1.0000000000000p+0", 0.0), 1: ("0x1.8375a00000000p+11", 4.625), 2: ("0x1.8375a00000000p+8", 37.0),
        15: ("0x1.1eb8520000000p+5", 400.0), 17: ("0x1.37a6f40000000p+13", 1.4375),
        49: ("0x1.2aaaaa0000000p+2", 3072.0), 50: ("0x1.2aaaaa0000000p+2", np.inf),
        51: ("0x1.9f89460000000p+9", 17.25), 66: ("0x1.8e38e40000000p+14", 0.5625),
        67: ("0x1.04a7900000000p+11", 6.875), 119: ("0x1.ddddde0000000p+5", 240.0),
        120: ("0x1.ddddde0000000p+5", np.nan), 137: ("0x1.79435e0000000p+4", 608.0),
        199: ("0x1.3b13b20000000p+10", 11.375),
    },
    DelayedForm(float8_e4m3fn, 1, 1, "max"): {
        1: ("0x1.8375a00000000p+5", 0.0), 50: ("0x1.2aaaaa0000000p-4", 0.0), 51: ("0x1.9f89460000000p+3", 0.0),
        120: ("0x1.ddddde0000000p-1", 0.0), 199: ("0x1.3b13b20000000p+4", 0.0),
    },
    DelayedForm(float8_e5m2, 0, 2, "max"): {
        1: ("0x1.8375a00000000p+13", 4.625), 17: ("0x1.4990300000000p+4", 1.4375),
        51: ("0x1.2aaaaa0000000p+4", 17.25), 66: ("0x1.5da8960000000p+5", 0.5625),
        67: ("0x1.04a7900000000p+13", 6.875), 137: ("0x1.59721e0000000p+6", 608.0),
        199: ("0x1.3b13b20000000p+12", 11.375),
    },
}  # fmt: skip
"""The scale for the next step, and the last number of the history, after some steps."""

LAST_HISTORY = [
    0.0, 312.0, 224.0, 1.59375, 11.0, 12.0, 122.0, 784.0, 1088.0, 4.4375, 1.75, 44.0, 324.0, 272.0, 1.6875, 11.375,
]  # fmt: skip


def update_of(form: DelayedForm) -> Graph:
    """A step that reads a maximum and writes the states."""
    maximum, e = Value("maximum", type_of(np.float32(0))), Builder(Names(["maximum", *form.states]))
    states = {name: Value(name, type_of(array), is_state=True) for name, array in form.states.items()}
    new = form.updated(e, maximum, states)
    writes = tuple(Write(states[name], value) for name, value in new.items())
    return Graph("main", (maximum,), tuple(states.values()), tuple(e.nodes), writes, tuple(new.values()))


def transcribed(form: DelayedForm, history: Any, scale: Any, maximum: np.float32, largest: float) -> tuple[Any, Any]:
    """The rule in NumPy: `_default_amax_and_scale_update` of Transformer Engine, pytorch/fp8.py."""
    history[0] = maximum
    amax = history.max() if form.amax_compute_algo == "max" else history[0]
    with np.errstate(all="ignore"):
        new = np.float32(largest) / amax / np.float32(2**form.margin)
    new = new if amax > 0 else scale
    new = new if np.isfinite(amax) else scale
    new = np.float32(F32_MAX) if np.isinf(new) else new
    history = np.roll(history, -1)
    history[0] = 0
    return history, new


@pytest.mark.parametrize("form", TABLE, ids=str)
def test_delayed_scaling_is_the_published_rule_for_200_steps(form: DelayedForm) -> None:
    graph, largest = update_of(form), 448.0 if form.dtype is float8_e4m3fn else 57344.0
    states = dict(form.states)
    history, scale = (states[name].copy() for name in ("amax_history", "scale"))
    for step in range(200):
        _, states = interpret(graph, [maximum_of(step)], states)
        history, scale = transcribed(form, history, scale, maximum_of(step), largest)
        np.testing.assert_array_equal(states["amax_history"], history)
        np.testing.assert_array_equal(states["scale"], scale)
        if step in TABLE[form]:
            last = float(states["scale"]).hex(), float(states["amax_history"][-1])
            np.testing.assert_equal(last, TABLE[form][step])
    if form.amax_history_len == 16:
        assert states["amax_history"].tolist() == LAST_HISTORY


@pytest.mark.parametrize("engine", ["onnxruntime", "xla"])
@pytest.mark.parametrize("form", TABLE, ids=str)
def test_engines_update_to_the_same_bits(form: DelayedForm, engine: str) -> None:
    graph = update_of(form)
    inputs = {state: Value(state.name, state.type) for state in graph.states}
    nodes = tuple(substitute(node, inputs) for node in graph.nodes)
    graph = graph.replace(inputs=(*graph.inputs, *inputs.values()), states=(), writes=(), nodes=nodes)
    session, states = session_on(engine, graph), list(form.states.values())
    for step in range(60):
        operands = [np.asarray(maximum_of(step)), *states]
        states, _ = interpret(graph, operands)
        for result, expected in zip(session.run(operands), states, strict=True):
            np.testing.assert_array_equal(array_in(result), expected)


def test_the_scale_of_a_tiny_maximum_is_the_largest_number() -> None:
    form = DelayedForm(float8_e4m3fn, amax_history_len=2)
    _, states = interpret(update_of(form), [np.float32(1e-37)], form.states)
    assert states["scale"] == np.float32(F32_MAX)
