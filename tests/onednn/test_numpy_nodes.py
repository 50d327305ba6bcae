"""Nodes without a kernel: NumPy computes them on the buffers of the kernels, so that a step is one segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base.errors import GraphIndexError
from graphls.inspect.testing.samples import assert_close, draw, single
from graphls.ir import interpret
from graphls.ir.graph import Graph
from graphls.ir.registry import lookup
from graphls.ir.types import bool_, float32, int32, int64
from graphls.passes.schedule.partition import Partition
from graphls.primitives.primitive import Sample, f32, of
from graphls.runtime.onednn.numpy_nodes import FUNCTIONS, QUICK
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.rules import interprets, takes
from graphls.runtime.plan import PlanSession
from graphls.tensors import apply

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)

LARGE = {
    "gather": Sample((f32(1000, 64), of(int32, 40, 16)), {"axis": 0}, integers=(-1000, 1000)),
    "gather_gradient": Sample((f32(40, 16, 64), of(int32, 40, 16)), {"axis": 0, "size": 300}, integers=(-300, 300)),
    "gather_elements": Sample((f32(300, 200), of(int64, 300, 1)), {"axis": 1}, integers=(-200, 200)),
    "gather_elements_gradient": Sample((f32(300, 90), of(int64, 300, 90)), {"axis": 1, "size": 99}, integers=(-99, 99)),
    "one_hot": Sample((of(int32, 60, 5),), {"depth": 300, "axis": 1, "dtype": float32}, integers=(-3, 303)),
    "where": Sample((of(bool_, 300, 1, 9), f32(300, 9, 9), f32())),
    "cast": Sample((f32(300, 99),), {"dtype": int32}, low=-9.0, high=9.0),
    "slice_gradient": Sample(
        (f32(300, 30, 5),), {"shape": (300, 30, 9), "starts": (0, 0, 0), "stops": (300, 30, 9), "steps": (1, 1, 2)}
    ),
    "greater": Sample((f32(300, 99), f32(99))),
    "logical_and": Sample((of(bool_, 300, 999), of(bool_, 300, 999))),
    "mod": Sample((of(int32, 300, 99), of(int32, 99)), integers=(-3, 3)),
    "argmax": Sample((f32(300, 99),), {"axis": 1}),
}


def graph_of(name: str, sample: Sample) -> Graph:
    return single(lookup(name), sample, sample.types)


def samples() -> list[Any]:
    small = [(n, s) for n in sorted({*FUNCTIONS, *QUICK, "mod", "fmod", "equal", "top_k"}) for s in lookup(n).samples]
    pairs = [*small, *LARGE.items()]
    return [
        pytest.param(name, sample, id=f"{name}-{number}")
        for number, (name, sample) in enumerate(pairs)
        if all(map(interprets, graph_of(name, sample).nodes))
    ]


def run(graph: Graph, *steps: list[np.ndarray]) -> list[np.ndarray]:
    """The results of the last of some steps: each reads and writes what lies elsewhere than in the one before."""
    session = PlanSession(Partition("onednn").run(graph), {})
    assert all(isinstance(part, OnednnPart) for part in session.first)
    return [np.asarray(r) for r in [session.run(arrays) for arrays in steps][-1]]


def step_of(function: Callable[..., Any], *inputs: Any, engine: str = "onednn") -> graphls.Compiled:
    return graphls.compile(function, *inputs, engine=engine)


def segments(step: graphls.Compiled) -> list[str]:
    return [segment.engine for segment in step.plan.segments]


def test_large_samples_are_tried() -> None:
    assert {"gather", "where", "top_k"} <= {case.values[0] for case in samples()}
    for name, sample in LARGE.items():
        assert all(map(interprets, graph_of(name, sample).nodes)), name


@pytest.mark.parametrize(("name", "sample"), samples())
@pytest.mark.filterwarnings("error")
def test_a_node_gives_what_the_interpreter_gives(name: str, sample: Sample) -> None:
    graph = graph_of(name, sample)
    arrays = draw(sample, sample.types)
    for result, expected in zip(
        run(graph, draw(sample, sample.types, 1), arrays), interpret(graph, arrays)[0], strict=True
    ):
        assert result.dtype == expected.dtype and result.shape == expected.shape
        assert_close(result, expected, float32)


def trained(
    network: nn.Cell, x: Any, y: Any, engine: str, is_scaled: bool = False
) -> tuple[graphls.Compiled, list[Any]]:
    """A training step, and the losses of 20."""
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    update = nn.Momentum(loss.trainable_params(), 0.05, 0.9)
    cell: nn.Cell = nn.TrainOneStepCell(loss, update)
    if is_scaled:
        cell = nn.TrainOneStepWithLossScaleCell(loss, update, nn.DynamicLossScaleUpdateCell(2.0**126, 2, 3))
    step = graphls.compile(cell.set_train(), x, y, engine=engine)
    results = [step(x, y) for _ in range(20)]
    return step, [float((r[0] if is_scaled else r).asnumpy()) for r in results]


class Embedded(nn.Cell):
    """Embeddings of words, with gradients of words that occur often, masked, and their mean classified."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(600, 32), nn.Embedding(16, 32)
        self.dense = nn.Dense(32, 10)

    def construct(self, x: graphls.Tensor) -> Any:
        e = self.words(x) + self.places(ops.arange(16))
        mask = ops.expand_dims(ops.cast(x % 7 != 0, graphls.float32), -1)
        return self.dense((e * mask).sum(1) / mask.sum(1))


WORDS = np.minimum(np.random.default_rng(1).zipf(1.3, (16, 16)), 599).astype(np.int32)
CLASSES = np.random.default_rng(2).integers(0, 10, 16).astype(np.int32)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_network_of_embeddings_learns_as_on_onnx_runtime(is_scaled: bool) -> None:
    losses = []
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(3)
        step, history = trained(Embedded(), WORDS, CLASSES, engine, is_scaled)
        losses.append(history)
        if engine == "onednn" and not is_scaled:
            assert segments(step) == ["onednn"]
    np.testing.assert_allclose(*losses, rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_an_error_at_the_line_and_changes_nothing() -> None:
    step, _ = trained(Embedded(), WORDS, CLASSES, "onednn")
    before = [p.asnumpy().tobytes() for p in step.parameters.values()]
    with pytest.raises(GraphIndexError, match="gather could not run: index 600 is out of bounds"):
        step(np.full_like(WORDS, 600), CLASSES)
    assert [p.asnumpy().tobytes() for p in step.parameters.values()] == before
    step(WORDS, CLASSES)


def test_labels_that_are_no_inputs_are_checked() -> None:
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    step = step_of(lambda x, y: loss(x, y * 2), X, np.zeros(8, np.int32))
    assert segments(step) == ["onednn"]
    with pytest.raises(graphls.GraphlsError, match="18") as caught:
        step(X, np.full(8, 9, np.int32))
    assert caught.value.location is not None


FUNCTIONS_OF_USERS: dict[str, Callable[..., Any]] = {
    "accuracy": lambda x, y: ops.cast(ops.argmax(x, 1) == ops.cast(y, graphls.int64), graphls.float32).mean(),
    "smooth": lambda x, y: ops.one_hot(y, 16, graphls.Tensor(0.9, graphls.float32), graphls.Tensor(0.1)) * x,
    "masked": lambda x, y: ops.where(ops.expand_dims(y > 3, 1), x, ops.zeros_like(x)),
    "cumulated": lambda x, y: (ops.cumsum(y, 0), ops.cumsum(x, 1)),
    "best": lambda x, y: ops.topk(x, 3),
    "integers": lambda x, y: (y * 3 - 7) // 2 % 5,
    "renamed": lambda x, y: (ops.reshape(y, (2, 4)), ops.transpose(ops.reshape(y, (2, 4)), (1, 0)), y),
}


@pytest.mark.parametrize("name", FUNCTIONS_OF_USERS)
def test_what_users_compute_is_one_segment(name: str) -> None:
    y = np.arange(8, dtype=np.int32)
    results = []
    for engine in ("onednn", "onnxruntime"):
        step = step_of(FUNCTIONS_OF_USERS[name], X, y, engine=engine)
        if engine == "onednn":
            assert segments(step) == ["onednn"]
        step(X, y[::-1])
        result = step(X, y)
        results.append([r.asnumpy() for r in (result if isinstance(result, tuple) else (result,))])
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_a_selection_keeps_nan_and_infinities_apart() -> None:
    x = np.array([np.nan, np.inf, -0.0, 1.0] * 8000, np.float32)
    step = step_of(lambda x, y: ops.where(y > 0, x, -x), x, x[::-1].copy())
    expected = np.where(x[::-1] > 0, x, -x)
    np.testing.assert_array_equal(step(x, x[::-1].copy()).asnumpy().view(np.int32), expected.view(np.int32))


def test_large_functions_of_floats_are_left_to_others() -> None:
    graph = graph_of("erfinv", Sample((f32(300, 99),)))
    assert not any(map(takes, graph.nodes)) and not any(map(interprets, graph.nodes))


@pytest.mark.parametrize(("rows", "size"), [(5000, 1), (5000, 3), (700, 200_000), (16, 16), (1, 5), (3000, 40)])
def test_sums_of_rows_round_in_few_steps(rows: int, size: int) -> None:
    rng = np.random.default_rng(rows)
    g, places = rng.normal(size=(rows, 16)).astype(np.float32), rng.integers(-size, size, rows).astype(np.int32)
    places[: rows // 2] = size - 1
    step = step_of(lambda g, places: apply("gather_gradient", g, places, axis=0, size=size) * 1.0, g, places)
    expected = np.zeros((size, 16))
    np.add.at(expected, places, g.astype(np.float64))
    magnitudes = np.zeros((size, 16))
    np.add.at(magnitudes, places, abs(g.astype(np.float64)))
    assert (abs(step(g, places).asnumpy() - expected) <= 2e-6 * magnitudes).all()
    assert segments(step) == ["onednn"]
