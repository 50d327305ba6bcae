"""Layers that have no kernel in the usual layouts of oneDNN: none of them runs its slow reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.types import DType, bfloat16, float32
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onednn.binding import Role
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.program.calls import Call
from graphls.runtime.plan import PlanSession
from tests.onednn.test_images import assert_same, drawn, graph_of
from tests.onednn.test_program import kinds

Shape = tuple[int, ...]


def slow_kernels(graph: Graph) -> list[str]:
    """The kernels of a graph that are oneDNN's reference, or columns and products."""
    session = PlanSession(Partition("onednn").run(graph), {})
    (part,) = session.first
    assert isinstance(part, OnednnPart)
    primitives = [call.primitive for call in part.program.calls if isinstance(call, Call)]
    return [f"{p.kind} {p.implementation}" for p in primitives if p.is_reference or "gemm" in p.implementation]


def behind_a_convolution(behind: Callable[..., Sequence[Value]], x: Shape, w: Shape, **attrs: Any) -> Graph:
    """The graph of what is built behind a convolution, whose kernel chooses the layout of its result."""

    def build(e: Builder, x: Value, w: Value) -> Sequence[Value]:
        rank = x.type.rank - 2
        return behind(e, e.convolution(x, w, pads=(1,) * 2 * rank, **attrs))

    return graph_of(build, x, w)


def activated(e: Builder, y: Value) -> list[Value]:
    """Functions and factors, whose kernels have an operand of one element."""
    return [e.sigmoid(e.mul(e.relu(y), 0.5)), e.add(y, 1.0), e.add(y, e.tanh(y))]


def pooled(e: Builder, y: Value) -> list[Value]:
    """Poolings."""
    attrs: dict[str, Any] = {"kernel": (2,) * (y.type.rank - 2), "strides": (2,) * (y.type.rank - 2)}
    mean = e.avg_pool(y, **attrs)
    return [e.max_pool(y, **attrs)[0], mean, e.avg_pool_gradient(e.mul(mean, mean), shape=y.type.shape, **attrs)]


CONVOLUTIONS: list[tuple[Shape, Shape, int]] = [
    ((2, 64, 6, 6), (64, 4, 3, 3), 16), ((2, 64, 6, 6), (64, 8, 3, 3), 8), ((1, 40, 6, 8), (40, 8, 3, 3), 5),
    ((2, 16, 6, 6), (1, 16, 3, 3), 1), ((2, 16, 6, 6), (3, 16, 3, 3), 1), ((2, 16, 6, 6), (24, 16, 3, 3), 1),
    ((2, 32, 8), (32, 4, 3), 8), ((2, 32, 4, 4, 4), (32, 8, 3, 3, 3), 4), ((2, 16, 4, 4, 4), (2, 16, 3, 3, 3), 1),
]  # fmt: skip


@pytest.mark.parametrize("behind", [activated, pooled])
@pytest.mark.parametrize(("x", "w", "groups"), CONVOLUTIONS)
def test_what_stands_behind_a_convolution_has_fast_kernels(
    behind: Callable[..., Sequence[Value]], x: Shape, w: Shape, groups: int
) -> None:
    graph = behind_a_convolution(behind, x, w, groups=groups)
    assert_same(graph, drawn(graph), 1e-4)
    assert not [kernel for kernel in slow_kernels(graph) if not kernel.startswith("convolution")]


CHANNELWISE: list[tuple[Shape, tuple[int, ...], dict[str, Any]]] = [
    ((2, 32, 9, 10), (7, 7), {"pads": (3, 3, 3, 3)}), ((2, 16, 12, 11), (5, 5), {"pads": (2,) * 4, "strides": (2, 2)}),
    ((1, 24, 9, 9), (4, 5), {"pads": (1, 2, 2, 0)}), ((3, 20, 8, 8), (5, 4), {}),
    ((2, 16, 13, 13), (5, 7), {"strides": (2, 2)}),
    ((2, 16, 12, 12), (3, 3), {"pads": (2,) * 4, "dilations": (2, 2)}),
    ((2, 16, 12, 12), (5, 5), {"pads": (4, 6, 4, 6), "dilations": (2, 3), "strides": (2, 1)}),
    ((2, 32, 30), (9,), {"pads": (4, 4)}), ((2, 20, 30), (9,), {"pads": (8, 0)}),
    ((1, 16, 31), (4,), {"strides": (3,)}), ((2, 16, 40), (3,), {"pads": (4, 4), "dilations": (4,)}),
]  # fmt: skip


def convolved(x: Shape, kernel: tuple[int, ...], attrs: dict[str, Any], dtype: DType = float32) -> Graph:
    """A channel-wise convolution with a bias and all of its gradients."""
    w = (x[1], 1, *kernel)

    def build(e: Builder, x: Value, w: Value, b: Value) -> list[Value]:
        images, kernels, bias = (e.cast(v, dtype=dtype) for v in (x, w, b))
        y = e.convolution_add(images, kernels, bias, groups=x.type.shape[1], **attrs)
        e.phase = "backward"
        g = e.mul(y, 0.5)
        results = [
            y, e.convolution_input_gradient(g, kernels, shape=x.type.shape, groups=x.type.shape[1], **attrs),
            e.convolution_weight_gradient(images, g, shape=w.type.shape, groups=x.type.shape[1], **attrs),
            e.sum(g, axis=(0, *range(2, len(x.type.shape)))),
        ]  # fmt: skip
        return [e.cast(v, dtype=float32) for v in results]

    return graph_of(build, x, w, x[1:2])


@pytest.mark.parametrize(("x", "kernel", "attrs"), CHANNELWISE)
def test_channelwise_convolutions_have_fast_kernels(x: Shape, kernel: tuple[int, ...], attrs: dict[str, Any]) -> None:
    graph = convolved(x, kernel, attrs)
    assert_same(graph, drawn(graph), 1e-4)
    of_images = [kernel for kernel in slow_kernels(graph) if "images" in kernel]
    assert slow_kernels(graph) == of_images
    assert not of_images or "dilations" in attrs


@pytest.mark.skipif(not library().has_bfloat16, reason="no instructions for bfloat16")
@pytest.mark.parametrize(("x", "kernel", "attrs"), CHANNELWISE[:9])
def test_channelwise_convolutions_of_bfloat16_have_fast_kernels(
    x: Shape, kernel: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    graph = convolved(x, kernel, attrs, bfloat16)
    assert_same(graph, drawn(graph), 0.1)
    assert not slow_kernels(graph) or "dilations" in attrs


def convolution(rank: int, inputs: int, outputs: int, size: int, groups: int = 1) -> nn.Cell:
    """A convolution that keeps the size."""
    kind = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[rank]
    padding: Any = size // 2 if rank == 1 else (size // 2,) * 2 * rank
    return kind(inputs, outputs, size, pad_mode="pad", padding=padding, group=groups, has_bias=True)


class Residual(nn.Cell):
    """A body added to what comes in."""

    def __init__(self, *cells: nn.Cell) -> None:
        super().__init__()
        self.body = nn.SequentialCell(*cells)

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        return x + self.body(x) * 0.5


NETWORKS: dict[str, tuple[Callable[[], nn.Cell], Shape]] = {
    "groups": (lambda: nn.SequentialCell(
        convolution(2, 3, 64, 3),
        Residual(convolution(2, 64, 64, 3, 16), nn.BatchNorm2d(64), nn.SiLU(), convolution(2, 64, 64, 3, 8), nn.GELU()),
        nn.BatchNorm2d(64), nn.ReLU(), convolution(2, 64, 1, 3), nn.Sigmoid(),
    ), (2, 3, 6, 6)),
    "large kernels": (lambda: nn.SequentialCell(
        convolution(2, 3, 16, 3), Residual(convolution(2, 16, 16, 7, 16), nn.GELU()), nn.Conv2d(16, 16, 5, 2, group=16)
    ), (2, 3, 9, 9)),
    "rows": (lambda: nn.SequentialCell(
        convolution(1, 3, 16, 3), Residual(convolution(1, 16, 16, 9, 16), nn.BatchNorm1d(16), nn.ReLU()),
        convolution(1, 16, 2, 1),
    ), (3, 3, 20)),
}  # fmt: skip


def losses(name: str, engine: str, is_scaled: bool) -> tuple[graphls.Compiled, list[float]]:
    """The losses of 20 steps."""
    make, shape = NETWORKS[name]
    graphls.set_seed(3)
    network, x = make(), np.random.default_rng(4).normal(size=shape).astype(np.float32)
    target = np.zeros(network(graphls.Tensor(x)).shape, np.float32)
    loss, rule = nn.WithLossCell(network, nn.MSELoss()), nn.SGD(network.trainable_params(), 0.1)
    scale = nn.DynamicLossScaleUpdateCell(2**10, 2, 2000)
    cell = nn.TrainOneStepWithLossScaleCell(loss, rule, scale) if is_scaled else nn.TrainOneStepCell(loss, rule)
    step = graphls.compile(cell.set_train(), x, target, engine=engine)
    results = [step(x, target) for _ in range(20)]
    return step, [float((result[0] if is_scaled else result).asnumpy()) for result in results]


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_losses_are_those_of_onnx_runtime(name: str, is_scaled: bool) -> None:
    step, values = losses(name, "onednn", is_scaled)
    np.testing.assert_allclose(values, losses(name, "onnxruntime", is_scaled)[1], rtol=1e-5, atol=1e-6)
    assert values[-1] < values[0]
    assert {segment.engine for segment in step.plan.segments} == {"onednn"}


def test_a_batch_normalisation_of_rows_is_one_kernel_in_each_direction() -> None:
    count = kinds(losses("rows", "onednn", False)[0])
    assert count["batch normalisation"] == count["batch normalisation, gradients"] == 1


@pytest.mark.parametrize("first", [0, 8, 16, 4])
def test_channels_that_cut_blocks_are_not_moved_one_by_one(first: int) -> None:
    def behind(e: Builder, y: Value) -> list[Value]:
        starts, stops = (0, first, 0, 0), (*y.type.shape[:1], first + 16, *y.type.shape[2:])
        return [e.mul(e.slice(y, starts=starts, stops=stops, steps=(1,) * 4), 2.0)]

    graph = behind_a_convolution(behind, (2, 16, 6, 6), (32, 16, 3, 3))
    assert_same(graph, drawn(graph), 1e-4)
    (part,) = PlanSession(Partition("onednn").run(graph), {}).first
    assert isinstance(part, OnednnPart)
    reorders = [call for call in part.program.calls if isinstance(call, Call) and call.kind == "reorder"]
    are_plain = [call.views[Role.SOURCE].layout.shape == (2, 32, 6, 6) for call in reorders]
    assert any(are_plain) == (first % 16 > 0)


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize(("x", "w"), [
    ((2, 8, 4, 5, 6), (8, 8, 3, 3, 3)), ((1, 5, 4, 5, 6), (20, 5, 3, 3, 3)), ((2, 12, 7, 6), (20, 12, 3, 3)),
    ((2, 1, 4, 5, 6), (8, 1, 3, 3, 3)), ((2, 8, 20), (6, 8, 3)), ((2, 3, 7, 6), (8, 3, 3, 3)),
])  # fmt: skip
def test_gradients_of_kernels_between_few_channels_are_fast(x: Shape, w: Shape, dtype: DType) -> None:
    if dtype is bfloat16 and not library().has_bfloat16:
        pytest.skip("no instructions for bfloat16")
    rank = len(x) - 2

    def build(e: Builder, x: Value, w: Value, b: Value) -> list[Value]:
        images, kernels, bias = (e.cast(v, dtype=dtype) for v in (x, w, b))
        y = e.sigmoid(e.convolution_add(images, kernels, bias, pads=(1,) * 2 * rank))
        inner = e.convolution_weight_gradient(images, y, shape=w.type.shape, pads=(1,) * 2 * rank)
        return [e.cast(v, dtype=float32) for v in (inner, e.sum(y, axis=(0, *range(2, rank + 2))))]

    graph = graph_of(build, x, w, w[:1])
    assert_same(graph, drawn(graph), 1e-4 if dtype is float32 else 0.1)
    assert not [kernel for kernel in slow_kernels(graph) if "kernels" in kernel]
