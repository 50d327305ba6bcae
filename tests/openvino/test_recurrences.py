"""Short recurrences are written out on OpenVINO; other loops stay on ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino")

import graphls
from graphls import nn, ops
from graphls.runtime.lowering.lowering import lower
from graphls.runtime.openvino.target import target

SEQUENCE = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
LENGTHS = np.array([5, 2, 4], np.int32)


class Last(nn.Cell):
    """The mean of what a layer gives at the last time, and of its last state."""

    def __init__(self, layer: nn.Cell, *lengths: Any) -> None:
        super().__init__()
        self.layer, self.lengths = layer, lengths

    def construct(self, x: Any) -> Any:
        outputs, state = self.layer(x, None, *map(graphls.Tensor, self.lengths))
        return ops.mean(outputs[-1]) + ops.mean(ops.square(state[0]))


def trained(
    layer: str, engine: str, dtype: Any, *lengths: Any, **settings: Any
) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """A compiled step and the parameters after two of them."""
    graphls.set_seed(3)
    network = Last(getattr(nn, layer)(4, 6, **settings), *lengths)
    if dtype is not graphls.float32:
        network.to_float(dtype)
    optimizer = nn.Momentum(network.trainable_params(), 0.5, 0.9)
    step = graphls.compile(nn.TrainOneStepCell(network, optimizer).set_train(), SEQUENCE, engine=engine)
    for _ in range(2):
        step(SEQUENCE)
    return step, [p.asnumpy() for p in network.trainable_params()]


@pytest.mark.parametrize("dtype", [graphls.float32, graphls.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("layer", "lengths", "settings"),
    [("LSTM", (), {"bidirectional": True}), ("GRU", (LENGTHS,), {}), ("RNN", (), {})],
    ids=["LSTM", "GRU", "RNN"],
)
def test_a_recurrent_layer_is_one_segment_with_the_numbers_of_onnx_runtime(
    layer: str, lengths: Any, settings: Any, dtype: Any
) -> None:
    step, found = trained(layer, "openvino", dtype, *lengths, **settings)
    _, wanted = trained(layer, "onnxruntime", dtype, *lengths, **settings)
    assert all(segment.engine == "openvino" for segment in step.plan.segments if "backward" in segment.phases)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6 if dtype is graphls.float32 else 2e-3)


def products(x: Any, length: int) -> Any:
    return ops.scan(lambda c, a: (ops.matmul(c, c) * a,) * 2, x, ops.ones((length, 2, 2), graphls.float32))[0]


def sums(x: Any, length: int) -> Any:
    return ops.scan(lambda c, a: (c + a,) * 2, x, ops.ones((length, 2, 2), graphls.float32))[0]


@pytest.mark.parametrize(
    ("network", "length", "engine"),
    [(products, 9, "openvino"), (products, 5000, "onnxruntime"), (sums, 9, "onnxruntime")],
    ids=["short", "long", "without products"],
)
def test_loops_that_are_long_or_have_no_products_are_for_onnx_runtime(network: Any, length: int, engine: str) -> None:
    x = np.eye(2, dtype=np.float32)
    steps = [graphls.compile(lambda x: network(x, length), x, engine=name) for name in ("openvino", "onnxruntime")]
    assert steps[0].plan.segments[-1].engine == engine
    np.testing.assert_array_equal(*(step(x).asnumpy() for step in steps))


def test_iterations_take_what_other_iterations_made_and_no_stack_apart() -> None:
    x = SEQUENCE[0]

    def twice(x: Any) -> Any:
        there = ops.scan(lambda c, a: (ops.matmul(c, c) + a, ops.sin(c)), x[:, :3], ops.stack([x[:, :3]] * 4))[1]
        return ops.scan(lambda c, a: (ops.matmul(c, a), ops.sum(c)), x[:, :3], there, reverse=True)

    graph = graphls.compile(twice, x).graph
    operators = [node.op_type for node in lower(graph, target=target()).model.graph.node]
    assert operators.count("Split") == 1
    assert not {"Squeeze", "Unsqueeze"} & set(operators)
    found, wanted = (graphls.compile(twice, x, engine=name)(x) for name in ("openvino", "onnxruntime"))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_row_that_each_iteration_gives_is_stacked_as_often() -> None:
    x = np.eye(3, dtype=np.float32)[:1]
    y = np.eye(3, dtype=np.float32)

    def repeated(x: Any, y: Any) -> Any:
        last, (rows, sums) = ops.scan(lambda c, a: (ops.matmul(c, y) + a, (x, ops.sum(c))), x, ops.stack([x] * 4))
        return last, ops.exp(rows), x * 2.0, sums

    found, wanted = (graphls.compile(repeated, x, y, engine=name)(x, y) for name in ("openvino", "onnxruntime"))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
