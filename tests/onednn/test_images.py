"""Images: poolings, convolutions and moves of their memory give what NumPy and ONNX Runtime give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphls
from benchmarks.peers.contenders import Contender
from benchmarks.peers.graphls_training import Training
from benchmarks.peers.rows import QUICK_ROWS
from graphls import nn, ops
from graphls.ir import interpret
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.registry import lookup
from graphls.ir.types import Type, float32, float64
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.plan import PlanSession

Shape = tuple[int, ...]
Case = tuple[Shape, dict[str, Any]]

POOLINGS: list[Case] = [
    ((2, 16, 8, 8), {"kernel": (2, 2), "strides": (2, 2)}),
    ((1, 5, 7, 9), {"kernel": (3, 2), "strides": (1, 2), "pads": (1, 1, 1, 0)}),
    ((3, 33, 6, 6), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ((2, 3, 11), {"kernel": (3,), "strides": (2,), "pads": (1, 1)}),
    ((2, 20, 5, 6, 7), {"kernel": (2, 3, 2), "strides": (2, 1, 2), "pads": (0, 1, 0, 1, 1, 1)}),
    ((1, 1, 20, 20), {"kernel": (17, 17), "strides": (1, 2)}),
    ((2, 3, 5, 6), {"kernel": (5, 6)}),
]
DILATED: Case = ((1, 2, 6, 7), {"kernel": (2, 3), "strides": (1, 2), "pads": (1, 1, 0, 2), "dilations": (3, 2)})


def graph_of(build: Callable[..., Sequence[Value]], *shapes: Shape) -> Graph:
    """The graph of what is built on inputs of these shapes."""
    e = Builder()
    inputs = tuple(Value(f"x{i}", Type(float32, shape)) for i, shape in enumerate(shapes))
    results = tuple(build(e, *inputs))
    return Graph("images", inputs, (), tuple(e.nodes), (), results)


def drawn(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Operands with many equal elements."""
    rng = np.random.default_rng(seed)
    return [(rng.integers(-3, 4, v.type.shape) / 2).astype(np.float32) for v in graph.inputs]


def assert_same(graph: Graph, arrays: Sequence[np.ndarray], tolerance: float = 1e-5) -> Counter[str]:
    """Assert that one program computes a graph as NumPy does; returns how often each kind of call stands in it."""
    session = PlanSession(Partition("onednn").run(graph), {})
    (part,) = session.first
    assert isinstance(part, OnednnPart)
    for _ in range(2):
        results = session.run(list(arrays))
    with np.errstate(all="ignore"):
        expected = interpret(graph, list(arrays))[0]
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), reference, rtol=tolerance, atol=tolerance)
        assert np.asarray(result).shape == reference.shape
    return Counter(call.kind for call in part.program.calls)


def pooled(attrs: dict[str, Any]) -> Callable[..., list[Value]]:
    """A max pooling and its gradient."""

    def build(e: Builder, x: Value, g: Value) -> list[Value]:
        y, positions = e.max_pool(x, **attrs)
        e.phase = "backward"
        gx = lookup("max_pool").vjp(e, (e.mul(g, 2.0), None), x, y, positions, **attrs)
        return [y, e.add(gx, x)]

    return build


def pooled_graph(shape: Shape, attrs: dict[str, Any]) -> Graph:
    y = graph_of(lambda e, x: e.max_pool(x, **attrs)[:1], shape).outputs[0].type.shape
    return graph_of(pooled(attrs), shape, y)


@pytest.mark.parametrize(("shape", "attrs"), [*POOLINGS, DILATED])
def test_a_max_pooling_and_its_gradient_are_a_kernel_each(shape: Shape, attrs: dict[str, Any]) -> None:
    graph = pooled_graph(shape, attrs)
    found = assert_same(graph, drawn(graph))
    assert found["max pooling"] == found["max pooling, gradient"] == 1
    assert not {"cast", "reshape", "gather_gradient", "positions of maxima"} & found.keys()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("shape", "attrs"), [*POOLINGS, DILATED])
def test_a_max_pooling_keeps_nan_and_infinities(shape: Shape, attrs: dict[str, Any], special: float) -> None:
    graph = pooled_graph(shape, attrs)
    arrays = drawn(graph)
    places = np.random.default_rng(1).permutation(arrays[0].size)
    arrays[0].reshape(-1)[places[: 1 + len(places) // 9]] = special
    arrays[1].reshape(-1)[-1] = np.nan
    assert_same(graph, arrays)


def test_the_gradient_of_a_max_pooling_stays_in_blocks() -> None:
    def build(e: Builder, x: Value, w: Value) -> list[Value]:
        y = e.convolution(x, w, pads=(1, 1, 1, 1))
        attrs: dict[str, Any] = {"kernel": (2, 2), "strides": (2, 2)}
        pooled, positions = e.max_pool(y, **attrs)
        e.phase = "backward"
        g = lookup("max_pool").vjp(e, (e.mul(pooled, 2.0), None), y, pooled, positions, **attrs)
        return [e.convolution_input_gradient(g, w, shape=x.type.shape, pads=(1, 1, 1, 1))]

    graph = graph_of(build, (2, 16, 8, 8), (16, 16, 3, 3))
    assert assert_same(graph, drawn(graph), 1e-4)["reorder"] == 4  # the images, the kernels twice and the result


def test_a_window_of_least_numbers_has_its_maximum() -> None:
    graph = graph_of(lambda e, x: [e.max_pool(x, kernel=(2, 2), strides=(2, 2))[0]], (1, 3, 4, 4))
    x = np.full((1, 3, 4, 4), -np.inf, np.float32)
    x[0, 1] = np.finfo(np.float32).min
    assert_same(graph, [x])


@pytest.mark.parametrize(("shape", "attrs"), [POOLINGS[1], POOLINGS[4]])
def test_positions_of_maxima_that_others_read_are_those_of_numpy(shape: Shape, attrs: dict[str, Any]) -> None:
    graph = graph_of(lambda e, x: e.max_pool(x, **attrs), shape)
    assert_same(graph, drawn(graph))
    assert assert_same(graph, drawn(graph, 1))["positions of maxima"] == 1


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("shape", "attrs"), POOLINGS)
def test_an_average_pooling_counts_padding_as_numpy_does(shape: Shape, attrs: dict[str, Any], counts: bool) -> None:
    def build(e: Builder, x: Value) -> list[Value]:
        y = e.avg_pool(x, count_include_pad=counts, **attrs)
        return [y, e.avg_pool_gradient(e.mul(y, y), shape=shape, count_include_pad=counts, **attrs)]

    graph = graph_of(build, shape)
    arrays = drawn(graph)
    assert_same(graph, arrays)
    arrays[0].reshape(-1)[:4] = np.nan, np.inf, -np.inf, -np.inf
    assert_same(graph, arrays)


def losses(row: str, engine: str, precision: str) -> np.ndarray:
    quick = replace(QUICK_ROWS[row], rate=1e-5)  # at larger ones roundings grow from step to step
    training = Training(quick, Contender(engine, "graphls", precision=precision, engine=engine))
    training.set_values()
    return np.array([float(training.step()) for _ in range(20)])


@pytest.mark.parametrize("precision", ["float32", "scaled"])
@pytest.mark.parametrize("row", ["lenet", "mobilenet", "unet"])
def test_losses_are_those_of_onnx_runtime(row: str, precision: str) -> None:
    expected = losses(row, "onnxruntime", precision)
    np.testing.assert_allclose(losses(row, "onednn", precision), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "target"), [
    ((3, 1, 1), (2, 3, 4, 5)), ((1, 1), (3, 4)), ((2, 16, 1, 1), (2, 16, 5, 5)), ((1, 5), (3, 5)), ((1,), (7,)),
    ((), ()), ((), (2, 3)),
])  # fmt: skip
def test_a_value_is_repeated_by_a_reorder(shape: Shape, target: Shape) -> None:
    def build(e: Builder, x: Value, y: Value) -> list[Value]:
        wide = e.broadcast_to(x, shape=target)
        return [wide, e.mul(wide, y), e.transpose(wide, permutation=tuple(reversed(range(len(target)))))]

    graph = graph_of(build, shape, target)
    assert_same(graph, drawn(graph))


def test_the_gradient_of_a_mean_is_repeated_for_a_normalisation() -> None:
    graphls.set_seed(0)
    x = np.random.default_rng(0).normal(size=(4, 8, 6, 6)).astype(np.float32)
    network = nn.SequentialCell(nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24), nn.AdaptiveAvgPool2d(1)).set_train()
    weights = network.trainable_params()
    gradient = ops.value_and_grad(lambda x: ops.sum(network(x) ** 2), None, weights)
    results = [graphls.compile(gradient, x, engine=engine)(x) for engine in ("onednn", "onnxruntime")]
    (loss, found), (expected_loss, expected) = results
    assert float(loss.asnumpy()) == pytest.approx(float(expected_loss.asnumpy()), rel=1e-5)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4, atol=1e-4)


def test_numpy_reads_a_constant_that_is_repeated() -> None:
    def build(e: Builder, x: Value) -> list[Value]:
        number = e.constant(np.full((1, 1), 1.5, np.float32))
        wide = e.cast(e.broadcast_to(number, shape=(3, 4)), dtype=float64)
        return [e.mul(x, e.cast(wide, dtype=float32))]

    graph = graph_of(build, (3, 4))
    assert_same(graph, drawn(graph))


@pytest.mark.parametrize(
    ("shape", "starts", "stops", "steps"),
    [
        ((4, 5, 6), (0, 1, 0), (4, 3, 6), (1, 1, 1)),
        ((4, 5, 6), (0, 1, 1), (4, 5, 6), (2, 2, 2)),
        ((2, 3, 8, 9), (0, 0, 1, 0), (2, 3, 8, 7), (1, 1, 2, 3)),
        ((5, 9), (1, 2), (5, 9), (4, 4)),
        ((7,), (1,), (7,), (3,)),
        ((2, 16, 6, 6), (0, 0, 2, 3), (2, 16, 4, 4), (1, 1, 1, 1)),
    ],
)
def test_a_slice_and_its_gradient_move_a_part(shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> None:
    bounds = {"starts": starts, "stops": stops, "steps": steps}

    def build(e: Builder, x: Value) -> list[Value]:
        part = e.slice(x, **bounds)
        return [part, e.slice_gradient(e.mul(part, part), shape=shape, **bounds)]

    graph = graph_of(build, shape)
    found = assert_same(graph, drawn(graph))
    assert found["moves"] == 1 and not {"slice", "slice_gradient"} & found.keys()


@pytest.mark.parametrize("channels", [(16, 16), (16, 24), (32, 16, 48), (5, 7), (24, 16)])
@pytest.mark.parametrize("sizes", [(6, 6), (9,), (3, 4, 5)])
def test_channels_are_joined_and_parted(channels: Sequence[int], sizes: Shape) -> None:
    shapes = [(2, n, *sizes) for n in channels]
    ends = np.cumsum([0, *channels])

    def build(e: Builder, *inputs: Value) -> list[Value]:
        *images, w = inputs
        pads = (1,) * (2 * len(sizes))
        ws = [e.slice(w, starts=(0,) * w.type.rank, stops=(n, n, *w.type.shape[2:]), steps=(1,) * w.type.rank)
              for n in channels]  # fmt: skip
        joined = e.concat(*(e.convolution(x, v, pads=pads) for x, v in zip(images, ws, strict=True)), axis=1)
        total = e.convolution(joined, w, pads=pads)
        parts = [
            e.slice(total, starts=(0, a, *(0,) * len(sizes)), stops=(2, b, *sizes), steps=(1,) * (2 + len(sizes)))
            for a, b in pairwise(map(int, ends))
        ]
        return [joined, *(e.relu(p) for p in parts)]

    graph = graph_of(build, *shapes, (int(ends[-1]), int(ends[-1]), *(3,) * len(sizes)))
    assert_same(graph, drawn(graph), 1e-4)


def test_joined_channels_keep_their_blocks() -> None:
    def build(e: Builder, x: Value, w: Value, v: Value) -> list[Value]:
        y = e.convolution(x, w, pads=(1, 1, 1, 1))
        return [e.convolution(e.concat(y, e.relu(y), axis=1), v, pads=(1, 1, 1, 1))]

    graph = graph_of(build, (2, 16, 8, 8), (16, 16, 3, 3), (16, 32, 3, 3))
    assert assert_same(graph, drawn(graph), 1e-4)["reorder"] == 4  # the images, the kernels and the result


CONVOLUTIONS: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 3, 9, 8), (6, 3, 3, 3), {"pads": (1, 1, 1, 1)}),
    ((1, 16, 8, 8), (32, 16, 1, 1), {"strides": (2, 2)}),
    ((2, 24, 7, 7), (24, 1, 3, 3), {"groups": 24, "pads": (1, 1, 1, 1)}),
    ((2, 6, 10, 9), (4, 3, 3, 2), {"groups": 2, "dilations": (2, 1), "pads": (0, 1, 2, 0)}),
    ((2, 5, 12), (7, 5, 3), {"strides": (2,), "pads": (1, 1)}),
    ((2, 8, 20), (8, 1, 5), {"groups": 8, "pads": (2, 2)}),
    ((1, 4, 5, 6, 5), (8, 4, 2, 3, 2), {"pads": (1, 1, 0, 0, 1, 1)}),
    ((2, 12, 6, 6), (12, 1, 5, 5), {"groups": 12, "pads": (2, 2, 2, 2)}),
]


@pytest.mark.parametrize(("shape", "weights", "attrs"), CONVOLUTIONS)
def test_a_convolution_has_its_gradients(shape: Shape, weights: Shape, attrs: dict[str, Any]) -> None:
    """Also those of a transposed one, whose result is the gradient of images."""

    def build(e: Builder, x: Value, w: Value, b: Value) -> list[Value]:
        y = e.convolution_add(x, w, b, **attrs)
        g = e.mul(y, 0.5)
        axes = tuple(i for i in range(len(shape)) if i != 1)
        gw = e.convolution_weight_gradient(x, g, shape=weights, **attrs)
        return [y, e.convolution_input_gradient(g, w, shape=shape, **attrs), gw, e.sum(g, axis=axes, keepdims=False)]

    graph = graph_of(build, shape, weights, weights[:1])
    found = assert_same(graph, drawn(graph), 1e-4)
    assert found["convolution, gradient of kernels"] and not found["reduction"]
    arrays = drawn(graph)
    arrays[2][-1] = np.nan  # kernels leave padding out, where NumPy multiplies infinities by zeros
    assert_same(graph, arrays, 1e-4)


def test_a_sum_that_the_images_of_a_convolution_depend_on_is_apart() -> None:
    def build(e: Builder, x: Value, g: Value) -> list[Value]:
        total = e.sum(g, axis=(0, 2, 3), keepdims=True)
        shape = (4, 3, 3, 3)
        return [total, e.convolution_weight_gradient(e.mul(x, e.sum(total)), g, shape=shape, pads=(1, 1, 1, 1))]

    graph = graph_of(build, (2, 3, 5, 5), (2, 4, 5, 5))
    assert_same(graph, drawn(graph), 1e-4)
