"""bfloat16 on CUDA: kernels of the table are used where they give the bits of float32 rounded."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graphls.inspect.testing.laws import SPECIAL
from graphls.inspect.testing.samples import draw
from graphls.ir import Builder, Graph, Value, registry, verify
from graphls.ir.types import Type, bfloat16, float32, type_of
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import Array, FloatElementwise, Primitive, Sample, f32, sample
from graphls.runtime.lowering import lower
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.onnxruntime.kernel_search import element_types
from graphls.runtime.onnxruntime.placement import place
from tests.networks.agreement import same_bits
from tests.networks.evaluator import Evaluator
from tests.primitives.test_every_primitive import CASES, ELEMENTWISE, PRIMITIVES

RUNTIMES = ("1.19.2", "1.31.1")


def narrow(primitive: Primitive, types: tuple[Type, ...], attrs: Any) -> Graph:
    """The primitive on float32 that is rounded to bfloat16 before, so that it is there in 16 bits."""
    inputs = tuple(Value(f"x{i}", kind) for i, kind in enumerate(types))
    e = Builder()
    operands = [e.cast(v, dtype=bfloat16) if v.type.dtype is float32 else v for v in inputs]
    results = e.emit(primitive, operands, attrs)
    return verify(Graph("narrow", inputs, (), tuple(e.nodes), (), tuple(results)))


def results(graph: Graph, arrays: list[Array], device: str, runtime: str) -> list[Array]:
    lowered = lower(graph, device=device, runtime=runtime)
    feeds = {n: a.astype(exchanged(type_of(a)).dtype.numpy) for n, a in zip(lowered.inputs, arrays, strict=True)}
    for node, name in lowered.host:
        (feeds[name],) = node.primitive.evaluate(tuple(arrays), node.attrs, (node.output.type,))
    with np.errstate(all="ignore"):
        return Evaluator(lowered.model).run(list(lowered.outputs), feeds)


def check(graph: Graph, arrays: list[Array]) -> None:
    wanted = results(graph, arrays, "cpu", RUNTIMES[0])
    for runtime in RUNTIMES:
        found = results(graph, arrays, "cuda", runtime)
        assert all(same_bits(a, b).all() for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_samples(primitive: Any, sample: Sample) -> None:
    """Every primitive, computed in one way or the other."""
    check(narrow(primitive, sample.types, sample.attrs), draw(sample, sample.types))


@pytest.mark.parametrize("primitive", ELEMENTWISE, ids=lambda p: p.name)
def test_special_numbers(primitive: Any) -> None:
    """All of bfloat16 for functions of one operand."""
    count = len(primitive.samples[0].types)
    every = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
    grid = [every] if count == 1 else np.meshgrid(*[np.array(SPECIAL, np.float32)] * count)
    arrays = [np.ascontiguousarray(array).reshape(-1) for array in grid]
    check(narrow(primitive, tuple(Type(float32, a.shape) for a in arrays), primitive.samples[0].attrs), arrays)


@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("add", RUNTIMES),
        ("div", RUNTIMES),
        ("mul", RUNTIMES),
        ("neg", RUNTIMES),
        ("sub", RUNTIMES),
        ("reshape", RUNTIMES),
        ("transpose", RUNTIMES),
        ("where", RUNTIMES),
        ("abs", RUNTIMES[1:]),
        ("exp", ()),
        ("matmul", ()),
        ("relu", ()),
        ("sum", ()),
    ],
)
def test_the_table_decides_what_is_native(name: str, native: tuple[str, ...]) -> None:
    """Abs has a kernel in newer versions only; the others that are not native may give other bits."""
    (primitive,) = (p for p in PRIMITIVES if p.name == name)
    graph = narrow(primitive, primitive.samples[0].types, primitive.samples[0].attrs)
    for runtime in RUNTIMES:
        model = lower(graph, device="cuda", runtime=runtime).model
        kinds = element_types(model)
        takes = {kinds[name] for node in model.graph.node if node.op_type != "Cast" for name in node.input}
        assert ("bfloat16" in takes) == (runtime in native)
        assert all(node.device == "cuda" for node in place(model, runtime).nodes)


@pytest.mark.parametrize(("factor", "is_native"), [(0.5, True), (0.1, False)])
def test_a_number_that_bfloat16_does_not_hold_is_no_operand(
    factor: float, is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))

    class Weighted(FloatElementwise):
        flops_per_element = 0
        samples = (sample(f32(2)),)

        def onnx(self, e: Emitter, x: str) -> str:
            return e.Mul(x, e.scalar(factor))

    model = lower(narrow(registry._operations["weighted"], (Type(float32, (2,)),), {}), device="cuda").model
    kinds = element_types(model)
    assert {kinds[node.input[0]] for node in model.graph.node if node.op_type == "Mul"} == {
        "bfloat16" if is_native else "float"
    }
