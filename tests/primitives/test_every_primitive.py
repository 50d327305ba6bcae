"""Every primitive on every one of its samples: types, gradients, ONNX, text, docstring."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphls.primitives  # noqa: F401
from graphls.backends.onnx import Lowered, lower
from graphls.backends.onnxruntime.kernel_checks import is_right
from graphls.ir import Builder, DType, Graph, Type, Value, dump, interpret, parse, verify
from graphls.ir.registry import operations
from graphls.ir.types import bfloat16, bool_, float16, float32, float64, type_of
from graphls.primitives.primitive import Array, Elementwise, Primitive, Sample
from tests.primitives.differentiate import backpropagate

LOOPS = {"product_of_rounds", "scan", "sum_of_rounds", "while_loop"}
HOST_CALLS = {"print", "pure_callback", "py_func"}
COLLECTIVES = {
    "all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "gather_shards", "neighbor_exchange",
    "reduce_scatter", "reduce_shards", "reduce_to",
}  # fmt: skip
WITHOUT_SAMPLES = {
    "composition", "cond", "custom_gradient", "gradient", "overflow_start", "segment", *LOOPS, *HOST_CALLS,
    *COLLECTIVES,
}  # fmt: skip
PRIMITIVES: list[Any] = [p for p in operations() if type(p).__module__.startswith("graphls.primitives")]
CASES = [pytest.param(p, s, id=f"{p.name}-{i}") for p in PRIMITIVES for i, s in enumerate(p.samples)]
SMOOTH = [case for case in CASES if case.values[1].gradient and any(t.dtype.is_float for t in case.values[1].types)]
ROUNDING = {float16: 2.0**-11, float32: 2.0**-24, float64: 2.0**-52, bfloat16: 2.0**-8}


def in_dtype(sample: Sample, dtype: DType) -> tuple[Type, ...]:
    """The operand types of a sample with its float32 operands in another float dtype."""
    return tuple(t.with_dtype(dtype) if t.dtype is float32 else t for t in sample.types)


def draw(sample: Sample, types: tuple[Type, ...], seed: int = 0) -> list[Array]:
    """Operands of these types, as the sample says they are drawn."""
    random = np.random.default_rng(seed)
    arrays = []
    for kind in types:
        if kind.dtype.is_float:
            array: Any = random.uniform(sample.low, sample.high, kind.shape)
        elif kind.dtype is bool_:
            array = random.integers(0, 2, kind.shape)
        else:
            low, high = sample.integers
            array = random.integers(max(low, 0) if kind.dtype.kind == "uint" else low, high, kind.shape)
        with np.errstate(over="ignore"):
            arrays.append(np.asarray(array).astype(kind.dtype.numpy))
    return arrays


def single(primitive: Primitive, sample: Sample, types: tuple[Type, ...]) -> Graph:
    """A graph of one node."""
    inputs = tuple(Value(f"x{i}", t) for i, t in enumerate(types))
    e = Builder()
    outputs = e.emit(primitive, inputs, sample.attrs)
    return verify(Graph("single", inputs, (), tuple(e.nodes), (), outputs))


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_a_docstring_and_samples_stand(primitive: Any) -> None:
    first = (type(primitive).__doc__ or "").splitlines()[0]
    assert first.endswith(".") and len(first) > 10, "the first line of the docstring is one sentence"
    assert primitive.samples or primitive.name in WITHOUT_SAMPLES
    assert primitive.vjp is not None or primitive.name in WITHOUT_SAMPLES


@pytest.mark.parametrize(("primitive", "sample"), CASES)
@pytest.mark.parametrize("dtype", [float16, float32, float64], ids=str)
def test_the_type_rule_agrees_with_numpy(primitive: Any, sample: Sample, dtype: DType) -> None:
    types = in_dtype(sample, dtype)
    inferred = primitive.result_types(types, sample.attrs)
    with np.errstate(all="ignore"):
        results = primitive.evaluate(tuple(draw(sample, types)), sample.attrs, inferred)
    expected = [t.with_dtype(float32) if t.dtype.is_half and primitive.half != "native" else t for t in inferred]
    assert [type_of(np.asarray(r)) for r in results] == expected


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_text_reads_back(primitive: Any, sample: Sample) -> None:
    graph = single(primitive, sample, sample.types)
    assert dump(parse(dump(graph))) == dump(graph)
    verify(parse(dump(graph)))


def smooth_graph(primitive: Any, sample: Sample) -> tuple[Builder, list[Value], list[Value]]:
    """The primitive on float64 operands; returns the operands and the float results."""
    inputs = [Value(f"x{i}", t) for i, t in enumerate(in_dtype(sample, float64))]
    e = Builder()
    outputs = e.emit(primitive, inputs, sample.attrs)
    return e, inputs, [v for v in outputs if v.type.dtype.is_float]


def seeded(results: list[Value], prefix: str) -> list[Value]:
    return [Value(f"{prefix}{i}", v.type) for i, v in enumerate(results)]


def check_gradients(e: Builder, inputs: list[Value], results: list[Value], arrays: list[Array]) -> None:
    """The gradients of random weighted sums of the results against central differences."""
    seeds = seeded(results, f"seed{len(inputs)}_")
    function = Graph("f", tuple(inputs), (), tuple(e.nodes), (), tuple(results))
    gradients = backpropagate(e, zip(results, seeds, strict=True), inputs)
    made = [(i, g) for i, g in enumerate(gradients) if g is not None]
    whole = Graph(
        "gradient", (*inputs, *seeds), (), tuple(e.nodes), (), tuple(g for _, g in made)
    )
    verify(whole)
    for direction in range(2):
        random = np.random.default_rng(direction)
        weights = [np.asarray(random.normal(size=v.type.shape)) for v in results]
        steps = [np.asarray(random.normal(size=a.shape)) if a.dtype == float else None for a in arrays]
        found = interpret(whole, [*arrays, *weights])[0]
        slope = sum(float(np.sum(g * steps[i])) for (i, _), g in zip(made, found, strict=True))
        differences = []
        for h in (1e-5, -1e-5):
            moved = [a if s is None else a + h * s for a, s in zip(arrays, steps, strict=True)]
            values = interpret(function, moved)[0]
            differences.append(sum(float(np.sum(w * v)) for w, v in zip(weights, values, strict=True)))
        expected = (differences[0] - differences[1]) / 2e-5
        assert slope == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("primitive", "sample"), SMOOTH)
def test_the_gradient_is_the_slope(primitive: Any, sample: Sample) -> None:
    e, inputs, results = smooth_graph(primitive, sample)
    check_gradients(e, inputs, results, draw(sample, in_dtype(sample, float64)))


@pytest.mark.parametrize(("primitive", "sample"), SMOOTH)
def test_the_second_gradient_is_the_slope_of_the_first(primitive: Any, sample: Sample) -> None:
    e, inputs, results = smooth_graph(primitive, sample)
    seeds = seeded(results, "g")
    found = backpropagate(e, zip(results, seeds, strict=True), inputs)
    gradients = [g for g in found if g is not None]
    arrays = draw(sample, in_dtype(sample, float64))
    weights = [np.asarray(np.random.default_rng(9).normal(size=v.type.shape)) for v in results]
    check_gradients(e, [*inputs, *seeds], gradients, [*arrays, *weights])


def run(lowered: Lowered, graph: Graph, arrays: list[Array]) -> list[Array]:
    """The outputs of a model on the CPU provider."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        lowered.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = dict(zip(lowered.inputs, arrays, strict=True))
    for node, name in lowered.host:
        (feeds[name],) = node.primitive.evaluate(tuple(arrays), node.attrs, (node.output.type,))
    needed = {i.name for i in session.get_inputs()}
    return list(session.run(list(lowered.outputs), {k: v for k, v in feeds.items() if k in needed}))


def assert_close(found: Array, expected: Array, dtype: DType) -> None:
    """Equal infinities and nans, and within a few roundings elsewhere."""
    assert type_of(found) == type_of(expected)
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    unit = ROUNDING[dtype]
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=16 * unit, atol=16 * unit, equal_nan=True
    )


@pytest.mark.parametrize(("primitive", "sample"), CASES)
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_the_onnx_model_agrees_with_numpy(primitive: Any, sample: Sample, dtype: DType) -> None:
    types = in_dtype(sample, dtype)
    graph = single(primitive, sample, types)
    lowered = lower(graph, kernel_is_right=is_right)
    onnx.checker.check_model(lowered.model, full_check=True)
    arrays = draw(sample, types)
    expected = interpret(graph, arrays)[0]
    for found, wanted, value in zip(run(lowered, graph, arrays), expected, graph.outputs, strict=True):
        assert_close(found, wanted, value.type.dtype)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_onnx_model_agrees_with_numpy_in_bfloat16(primitive: Any, sample: Sample) -> None:
    """Between casts from and to float32, because the runtime takes no bfloat16 arrays."""
    narrow = {t: t.with_dtype(bfloat16) for t in sample.types if t.dtype is float32}
    inputs = tuple(Value(f"x{i}", t) for i, t in enumerate(sample.types))
    e = Builder()
    operands = [e.cast(v, dtype=bfloat16) if v.type in narrow else v for v in inputs]
    results = e.emit(primitive, operands, sample.attrs)
    outputs = tuple(e.cast(v, dtype=float32) if v.type.dtype is bfloat16 else v for v in results)
    graph = verify(Graph("bfloat16", inputs, (), tuple(e.nodes), (), outputs))
    lowered, arrays = lower(graph, kernel_is_right=is_right), draw(sample, sample.types)
    onnx.checker.check_model(lowered.model, full_check=True)
    for found, wanted in zip(run(lowered, graph, arrays), interpret(graph, arrays)[0], strict=True):
        assert_close(found, wanted, bfloat16)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_model_in_native_half_is_well_typed(primitive: Any, sample: Sample) -> None:
    lowered = lower(single(primitive, sample, in_dtype(sample, float16)), device="cuda")
    onnx.checker.check_model(lowered.model, full_check=True)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_model_for_a_gpu_agrees_with_numpy(primitive: Any, sample: Sample) -> None:
    """In float32, which the CPU computes as a GPU does; that its kernels go wrong is told by refusing to trust any."""
    graph = single(primitive, sample, sample.types)
    lowered, arrays = lower(graph, device="cuda", kernel_is_right=lambda *_: False), draw(sample, sample.types)
    onnx.checker.check_model(lowered.model, full_check=True)
    for node in lowered.model.graph.node:
        pads = next((list(a.ints) for a in node.attribute if a.name == "pads" and node.op_type.startswith("Conv")), [])
        assert pads[: len(pads) // 2] == pads[len(pads) // 2 :], "CUDA's kernels of uneven padding write elsewhere"
    for found, wanted in zip(run(lowered, graph, arrays), interpret(graph, arrays)[0], strict=True):
        assert_close(found, wanted, float32)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 300.0, -300.0, 6e4, -6e4, 1e-7, np.inf, -np.inf, np.nan]
ELEMENTWISE = [p for p in PRIMITIVES if isinstance(p, Elementwise) and p.samples[0].types[0].dtype.is_float]


def check_special(name: str, arrays: list[Array], **attrs: Any) -> None:
    """The ONNX model against NumPy on given operands."""
    (primitive,) = (p for p in PRIMITIVES if p.name == name)
    graph = single(primitive, Sample((), attrs), tuple(map(type_of, arrays)))
    expected = interpret(graph, arrays)[0]
    for found, wanted in zip(run(lower(graph, kernel_is_right=is_right), graph, arrays), expected, strict=True):
        dtype = next(t.dtype for t in map(type_of, arrays) if t.dtype.is_float)
        assert_close(found, wanted, dtype)


@pytest.mark.parametrize("primitive", ELEMENTWISE, ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_elementwise_infinities_and_nans_agree_with_numpy(primitive: Any, dtype: DType) -> None:
    count = len(primitive.samples[0].types)
    grid = np.meshgrid(*[np.array(SPECIAL * (3 if count == 1 else 1))] * count)
    check_special(primitive.name, [g.reshape(-1).astype(dtype.numpy) for g in grid])


COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_finite"]


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_comparisons_with_infinities_and_nans_agree_with_numpy(name: str, dtype: DType) -> None:
    grid = np.meshgrid(*[np.array(SPECIAL)] * (1 if name == "is_finite" else 2))
    check_special(name, [g.reshape(-1).astype(dtype.numpy) for g in grid])


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, "both"])
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_reductions_keep_infinities_and_nans(name: str, axis: int, special: Any, dtype: DType) -> None:
    """The special number stands first, last and in the middle of the rows, some of which have none."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (24, 24))
    first, second = (np.inf, -np.inf) if special == "both" else (special, special)
    x[3, 0] = x[7, 20] = x[9, 23] = first
    x[7, 3] = second
    along: Any = axis if "softmax" in name else (axis,)
    check_special(name, [x.astype(dtype.numpy)], axis=along)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1)])
@pytest.mark.parametrize("dtype", [float32, float16, float64], ids=str)
def test_max_pool_keeps_infinities_and_nans(pads: Any, dtype: DType) -> None:
    x = np.random.default_rng(0).normal(size=(2, 2, 12, 12))
    x[0, 0, 3, 3], x[0, 1, 8, 2], x[1, 0, 5, 5], x[1, 1] = np.nan, np.inf, -np.inf, np.nan
    (primitive,) = (p for p in PRIMITIVES if p.name == "max_pool")
    x = x.astype(dtype.numpy)
    graph = single(primitive, Sample((), {"kernel": (3, 3), "strides": (2, 2), "pads": pads}), (type_of(x),))
    (expected, places), (found, found_places) = interpret(graph, [x])[0], run(lower(graph), graph, [x])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.where(np.isnan(found), 0, found_places), np.where(np.isnan(found), 0, places))
    assert found_places.min() >= 0 and found_places.max() < x.size
