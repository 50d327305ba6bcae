"""Recurrent layers and other loops in bfloat16 on oneDNN: one segment, near the numbers of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, ops
from graphls.ir import interpret
from graphls.ir.types import bfloat16
from graphls.runtime.onednn.program.program import computed
from tests.onednn.test_recurrent import (
    LAYERS,
    LOOPS,
    MATRIX,
    ROWS,
    SEQUENCES,
    counted,
    flat,
    history,
    kinds,
    layer_of,
    training,
)


@pytest.fixture(autouse=True)
def _needs_instructions() -> None:
    if bfloat16 not in computed():
        pytest.skip("this processor has no instructions for bfloat16")


def step_of(name: str, settings: dict[str, Any], engine: str, is_scaled: bool = False) -> graphls.Compiled:
    network = amp.auto_mixed_precision(layer_of(name, settings), "O2", graphls.bfloat16)
    return training(network, SEQUENCES, engine, is_scaled)


def narrow(network: Callable[..., Any]) -> Callable[..., Any]:
    """A loop in bfloat16 on arrays of float32."""

    def run(x: Any, rows: Any) -> Any:
        results = network(ops.cast(x, graphls.bfloat16), ops.cast(rows, graphls.bfloat16))
        return tuple(ops.cast(result, graphls.float32) for result in flat(results))

    return run


@pytest.mark.parametrize("settings", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_training_is_one_segment_with_losses_near_those_of_onnx_runtime(name: str, settings: dict[str, Any]) -> None:
    step = step_of(name, settings, "onednn")
    assert [segment.engine for segment in step.plan.segments] == ["onednn"]
    expected = history(step_of(name, settings, "onnxruntime"), SEQUENCES)
    np.testing.assert_allclose(history(step, SEQUENCES), expected, rtol=3e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("settings", "count"),
    [({}, 1), ({"num_layers": 2}, 2), ({"num_layers": 2, "bidirectional": True}, 4), ({"has_bias": False}, 1)], ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_layer_is_one_kernel_in_each_direction(name: str, settings: dict[str, Any], count: int) -> None:
    calls = kinds(step_of(name, settings, "onednn"))
    assert calls[name] == calls[f"{name}, gradients"] == count


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.filterwarnings("ignore:Gradients in")
def test_overflows_are_those_of_onnx_runtime(name: str) -> None:
    results = [history(step_of(name, {}, engine, True), SEQUENCES) for engine in ("onednn", "onnxruntime")]
    losses, expected = results
    assert (losses[:, 1:] == expected[:, 1:]).all()
    np.testing.assert_allclose(losses[:, 0], expected[:, 0], rtol=3e-2)


@pytest.mark.parametrize("network", [n for n in LOOPS if n is not counted])
def test_a_loop_and_its_gradient_are_near_those_of_the_reference(network: Callable[..., Any]) -> None:
    values = narrow(network)

    def loss(x: Any, rows: Any) -> Any:
        return sum(ops.sum(ops.sin(result * 0.1)) for result in values(x, rows))

    for function in (values, graphls.grad(loss, (0, 1))):
        step = graphls.compile(function, MATRIX, ROWS, engine="onednn")
        assert [segment.engine for segment in step.plan.segments] == ["onednn"]
        expected, _ = interpret(step.graph, [MATRIX, ROWS])
        for a, b in zip(flat(step(MATRIX, ROWS)), expected, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b, rtol=0, atol=3e-2 * np.abs(b).max())


def cell_of(dtype: Any, narrowed: Any) -> Callable[..., Any]:
    """An LSTM whose inputs are of one dtype, while its states, of another one, are rounded in each iteration."""

    def run(x: Any, w: Any, r: Any) -> Any:
        def step(states: Any, projection: Any) -> Any:
            h, c = states
            gates = ops.cast(projection, graphls.float32) + ops.cast(ops.dense(h, r), graphls.float32)
            i, f, g, o = (gates[:, 8 * k : 8 * k + 8] for k in range(4))
            c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
            h = ops.cast(ops.cast(ops.sigmoid(o) * ops.tanh(c), narrowed), graphls.float32)
            return (h, c), h

        projections = ops.dense(ops.cast(x, dtype), ops.cast(w, dtype))
        zeros = ops.zeros((x.shape[1], 8), graphls.float32)
        return ops.scan(step, (zeros, zeros), projections)[1]

    return run


@pytest.mark.parametrize(
    ("dtype", "narrowed", "bound"),
    [(graphls.float32, graphls.bfloat16, 1e-3), (graphls.bfloat16, graphls.float32, 1e-5)],
    ids=["rounded states", "states of float32"],
)
def test_a_loop_that_is_not_all_of_bfloat16_rounds_where_its_graph_does(
    dtype: Any, narrowed: Any, bound: float
) -> None:
    x = SEQUENCES.transpose(1, 0, 2).copy()
    w, r = (np.sin(np.arange(32 * width, dtype=np.float32)).reshape(32, width) for width in (5, 8))
    step = graphls.compile(cell_of(dtype, narrowed), x, w, r, engine="onednn")
    expected, _ = interpret(step.graph, [x, w, r])
    result = step(x, w, r).asnumpy()
    if narrowed is graphls.bfloat16:
        assert (result == result.astype(bfloat16.numpy).astype(np.float32)).all()
    np.testing.assert_allclose(result, expected[0], rtol=0, atol=bound)
