"""Casts to dtypes of eight bits and fewer: the bytes of `ml_dtypes` for all numbers of 16 bits and many of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Value, interpret, verify
from graphls.ir.types import LOW, DType, Type, bfloat16, bool_, float16, float32, float64, int32
from graphls.runtime.lowering import lower
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.xla.tracing import traced
from tests.low_precision.numbers import IDS, Array, around_roundings, bits, every, expected

EVERY = pytest.mark.parametrize("dtype", LOW, ids=IDS)
SATURATE = pytest.mark.parametrize("saturate", [True, False], ids=["saturating", "plain"])


def beside(x: Array) -> Array:
    """Numbers of float64 so close to these that float32 does not tell them apart."""
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64) * (1 + 2.0**-40)


SOURCES: dict[str, Any] = {
    "float16": lambda: every(float16),
    "bfloat16": lambda: every(bfloat16),
    "float32": around_roundings,
    "float64": lambda: beside(around_roundings()),
}


def cast_graph(kind: Type, dtype: DType, saturate: bool) -> graphls.Graph:
    """A graph of one cast."""
    x, e = Value("x", kind), Builder()
    y = e.cast(x, dtype=dtype) if saturate else e.cast(x, dtype=dtype, saturate=False)
    return _graph(e, x, y)


def _graph(e: Builder, x: Value, *results: Value) -> graphls.Graph:
    return verify(graphls.Graph("main", (x,), (), tuple(e.nodes), (), results))


def by_interpreter(graph: graphls.Graph, x: Array) -> Array:
    return np.asarray(interpret(graph, [x])[0][0])


@EVERY
@SATURATE
@pytest.mark.parametrize("source", SOURCES)
def test_the_interpreter_casts_as_ml_dtypes(dtype: DType, saturate: bool, source: str) -> None:
    x = SOURCES[source]()
    graph = cast_graph(Type(graphls.ir.as_dtype(x.dtype), x.shape), dtype, saturate)
    result = by_interpreter(graph, x)
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(bits(result), bits(expected(x, dtype, saturate)))


@EVERY
def test_casts_from_low_dtypes_are_exact(dtype: DType) -> None:
    x = every(dtype)
    for wide in (float32, bfloat16, float64, float16):
        result = by_interpreter(cast_graph(Type(dtype, x.shape), wide, True), x)
        exact = x.astype(np.float32).astype(np.float64)
        exact = np.where(exact > float(np.finfo(np.float16).max), np.inf, exact) if wide is float16 else exact
        result = result.astype(np.float64)
        is_stored = (wide is not float16) | (exact >= 2.0**-24) | (exact <= 0)
        np.testing.assert_array_equal(result, np.where(is_stored | np.isnan(exact), exact, 0))


@pytest.mark.parametrize("operands", [(Type(LOW[0], (2,)),) * 2, (Type(LOW[0], (2,)), Type(float32, (2,)))])
def test_arithmetic_says_to_cast(operands: tuple[Type, ...]) -> None:
    inputs = tuple(Value(f"x{i}", kind) for i, kind in enumerate(operands))
    for primitive in ("add", "mul", "maximum", "greater", "equal"):
        with pytest.raises(TypeError, match="in float8_e4m3fn; cast f8e4m3fn"):
            getattr(Builder(), primitive)(*inputs)
    with pytest.raises(TypeError, match="computes, which is not done in float8_e4m3fn"):
        Builder().exp(inputs[0])


def test_saturate_is_for_low_dtypes() -> None:
    x = Value("x", Type(float32, (2,)))
    for dtype, saturate in ((float16, False), (int32, False), (LOW[0], 1), (bool_, None)):
        with pytest.raises(TypeError, match="takes no saturate"):
            Builder().cast(x, dtype=dtype, saturate=saturate)


@EVERY
def test_what_only_moves_elements_takes_low_dtypes(dtype: DType) -> None:
    array = every(dtype).reshape(2, -1)
    x, e = Value("x", Type(dtype, array.shape)), Builder()
    turned = e.transpose(x, permutation=(1, 0))
    columns = e.concat(turned, turned, axis=1)
    graph = _graph(e, x, columns, e.reshape(x, shape=(array.size,)))
    both, flat = interpret(graph, [array])[0]
    np.testing.assert_array_equal(bits(both), bits(np.concatenate([array.T, array.T], 1)))
    np.testing.assert_array_equal(bits(flat), bits(array.reshape(-1)))


@EVERY
def test_the_text_of_a_cast_reads_back(dtype: DType) -> None:
    for saturate in (True, False):
        graph = cast_graph(Type(float32, (2, 3)), dtype, saturate)
        text = str(graph)
        assert f": {dtype.name}[2,3]" in text and ("saturate" in text) is not saturate
        assert str(graphls.parse(text)) == text
    array = every(dtype)
    x, e = Value("x", Type(float32)), Builder()
    graph = _graph(e, x, e.constant(array), e.constant(array[:3]))
    for before, after in zip(graph.nodes, graphls.parse(str(graph)).nodes, strict=True):
        np.testing.assert_array_equal(bits(before.attrs["value"]), bits(after.attrs["value"]))


def lowered_results(graph: graphls.Graph, *arrays: Array) -> list[Array]:
    """The results of a graph by ONNX Runtime, in the dtypes of the graph."""
    model = lower(graph)
    fed = [a.astype(exchanged(v.type).dtype.numpy) for a, v in zip(arrays, graph.inputs, strict=True)]
    results = run(model, graph, fed)
    return [r.astype(v.type.dtype.numpy) for r, v in zip(results, graph.outputs, strict=True)]


def unsigned_nan(x: Array) -> Array:
    """The bytes, with one nan for all, whose sign a runtime may change."""
    return np.where(np.isnan(x.astype(np.float32)), 255, bits(x))


@EVERY
@SATURATE
@pytest.mark.parametrize("source", SOURCES)
def test_onnx_runtime_casts_as_ml_dtypes(dtype: DType, saturate: bool, source: str) -> None:
    x = SOURCES[source]()
    graph = cast_graph(Type(graphls.ir.as_dtype(x.dtype), x.shape), dtype, saturate)
    (result,) = lowered_results(graph, x)
    np.testing.assert_array_equal(unsigned_nan(result), unsigned_nan(expected(x, dtype, saturate)))


@EVERY
@SATURATE
def test_xla_casts_as_ml_dtypes(dtype: DType, saturate: bool) -> None:
    """From all dtypes in one program, of which each takes long to compile."""
    jax = pytest.importorskip("jax")
    sources = {source: draw() for source, draw in SOURCES.items()}
    graphs = [cast_graph(Type(graphls.ir.as_dtype(x.dtype), x.shape), dtype, saturate) for x in sources.values()]
    with jax.enable_x64(True):
        together = jax.jit(lambda *operands: [traced(jax, g, [x])[0][0] for g, x in zip(graphs, operands, strict=True)])
        results = together(*sources.values())
    for (source, x), result in zip(sources.items(), results, strict=True):
        if source == "float64":  # whose conversion to a float32 takes the smallest for zeros on a CPU
            x = np.where(abs(x) < 2.0**-126, np.copysign(0, x), x)
        wanted = expected(x, dtype, saturate)
        np.testing.assert_array_equal(unsigned_nan(np.asarray(result)), unsigned_nan(wanted), err_msg=source)
