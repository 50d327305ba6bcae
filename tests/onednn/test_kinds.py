"""Layers that have no kernel in the usual layouts of oneDNN: none of them runs its slow reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.program.calls import Call
from graphls.runtime.plan import PlanSession
from tests.onednn.test_images import assert_same, drawn, graph_of

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
