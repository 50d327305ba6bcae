"""16-bit floats computed as such give the bits of float32 that is rounded after every primitive, of all primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from graphls.inspect.testing.laws import SPECIAL
from graphls.inspect.testing.samples import draw, in_dtype, single
from graphls.ir import Graph
from graphls.ir.types import DType, bfloat16, float16, float32, type_of
from graphls.primitives.primitive import Array, Sample
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.lowering.kernel_tables import OLDEST
from graphls.runtime.lowering.types import exchanged
from tests.backends.test_opsets import meaning_of
from tests.networks.agreement import same_bits
from tests.networks.evaluator import Evaluator
from tests.primitives.test_every_primitive import ELEMENTWISE, PRIMITIVES

SAMPLES = [pytest.param(p, s, id=f"{p.name}-{i}") for p in PRIMITIVES for i, s in enumerate(p.samples)]

DEVICES = [
    pytest.param(float16, True, id="float16"),
    pytest.param(float16, False, id="float16-compositions"),
    pytest.param(bfloat16, True, id="bfloat16"),
]


def test_nothing_is_left_of_what_was_tried_in_16_bits() -> None:
    (primitive,) = (p for p in PRIMITIVES if p.name == "erfc")
    graph = single(primitive, primitive.samples[0], in_dtype(primitive.samples[0], float16))
    lowered = lower(graph, device="cuda")
    read = {name for node in lowered.model.graph.node for name in node.input}
    assert {tensor.name for tensor in lowered.model.graph.initializer} <= read
    assert set(lowered.origins) == {node.name for node in lowered.model.graph.node}


def lowered_for(graph: Graph, device: str, is_right: bool, opset: int | None = None) -> Lowered:
    """A model for a runtime that has many kernels of bfloat16."""
    return lower(graph, device=device, kernel_is_right=lambda *_: is_right, opset=opset, runtime="1.31.1")


def results(graph: Graph, arrays: list[Array], device: str, is_right: bool) -> list[Array]:
    """What a model gives where each operator rounds."""
    return run(graph, lowered_for(graph, device, is_right), arrays)


def run(graph: Graph, lowered: Lowered, arrays: list[Array]) -> list[Array]:
    feeds = {n: a.astype(exchanged(type_of(a)).dtype.numpy) for n, a in zip(lowered.inputs, arrays, strict=True)}
    for node, name in lowered.host:
        (feeds[name],) = node.primitive.evaluate(tuple(arrays), node.attrs, (node.output.type,))
    with np.errstate(all="ignore"):
        return Evaluator(lowered.model).run(list(lowered.outputs), feeds)


def check(graph: Graph, arrays: list[Array], is_right: bool, opsets: Sequence[int | None] = (None,)) -> None:
    wanted = results(graph, arrays, "cpu", is_right)
    seen = set[object]()
    for opset in opsets:
        lowered = lowered_for(graph, "cuda", is_right, opset)
        if (meaning := opset and meaning_of(lowered.model, opset)) in seen:
            continue
        seen.add(meaning)
        found = run(graph, lowered, arrays)
        for a, b, value in zip(found, wanted, graph.outputs, strict=True):
            places = np.argwhere(~same_bits(a, b))
            at = f"{value.name} at {places[0]}, opset {opset}" if len(places) else ""
            assert not at, f"{at}: {a[tuple(places[0])]}, not {b[tuple(places[0])]}"


@pytest.mark.parametrize(("dtype", "is_right"), DEVICES)
@pytest.mark.parametrize(("primitive", "sample"), SAMPLES)
def test_samples(primitive: Any, sample: Sample, dtype: DType, is_right: bool) -> None:
    types = in_dtype(sample, dtype)
    check(single(primitive, sample, types), draw(sample, types), is_right)


@pytest.mark.parametrize(("dtype", "is_right"), DEVICES)
@pytest.mark.parametrize("primitive", ELEMENTWISE, ids=lambda p: p.name)
def test_special_numbers(primitive: Any, dtype: DType, is_right: bool) -> None:
    """All numbers of the dtype for functions of one operand."""
    count = len(primitive.samples[0].types)
    every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    grid = [every] if count == 1 else np.meshgrid(*[np.array(SPECIAL, np.float32).astype(dtype.numpy)] * count)
    arrays = [array.reshape(-1) for array in grid]
    check(single(primitive, Sample((), {}), tuple(map(type_of, arrays))), arrays, is_right)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [float16, float32, bfloat16], ids=str)
def test_samples_at_other_opsets(dtype: DType) -> None:
    for primitive, sample in (case.values for case in SAMPLES):
        types = in_dtype(sample, dtype)
        check(single(primitive, sample, types), draw(sample, types), True, [OLDEST, 19, 20, 22, 23])
