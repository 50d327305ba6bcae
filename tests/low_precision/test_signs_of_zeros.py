"""ONNX Runtime rounds with the signs of zeros where something other than a product may read them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphls
from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Value, interpret, verify
from graphls.ir.types import DType, Type, float4_e2m1fn, float8_e4m3fn, float32
from graphls.passes.precision.forms import NVFP4Form
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.signs_of_zeros import of_positive, without_signs

X = np.float32([[-1e-9, 0.0, -0.0, 0.3], [np.nan, -7.0, 2.5, 900.0]])
ONE = np.ones((1, 1), np.float32)
Ends = Callable[[Builder, Value, Value], tuple[Value, ...]]


def results(dtype: DType, ends: Ends) -> tuple[Lowered, list[np.ndarray], list[np.ndarray]]:
    """The model of a graph on a rounded array, what it computes, and what the interpreter does."""
    x, scale, e = Value("x", Type(float32, (2, 4))), Value("scale", Type(float32, (1, 1))), Builder()
    low = e.quantize(x, scale, dtype=dtype, block=(0, 0))
    outputs = ends(e, low, e.dequantize(low, scale, dtype=float32, block=(0, 0)))
    graph = verify(graphls.Graph("main", (x, scale), (), tuple(e.nodes), (), outputs))
    lowered = lower(graph)
    return lowered, list(run(lowered, graph, [X, ONE])), [np.asarray(y) for y in interpret(graph, [X, ONE])[0]]


def product(e: Builder, low: Value, wide: Value) -> tuple[Value, ...]:
    return (e.matmul(wide, wide, transpose_b=True),)


@pytest.mark.parametrize("dtype", [float8_e4m3fn, float4_e2m1fn], ids=str)
@pytest.mark.parametrize("others", [lambda e, low, wide: (wide,), lambda e, low, wide: (e.neg(wide),)])
def test_zeros_have_signs_where_others_read_them(dtype: DType, others: Ends) -> None:
    _, actual, expected = results(dtype, lambda e, low, wide: product(e, low, wide) + others(e, low, wide))
    zeros = expected[-1] == 0
    assert zeros.any()
    np.testing.assert_array_equal(actual[-1], expected[-1])
    np.testing.assert_array_equal(np.signbit(actual[-1][zeros]), np.signbit(expected[-1][zeros]))


@pytest.mark.parametrize("dtype", [float8_e4m3fn, float4_e2m1fn], ids=str)
def test_products_alone_cost_no_signs(dtype: DType) -> None:
    short, actual, expected = results(dtype, product)
    long, *_ = results(dtype, lambda e, low, wide: (*product(e, low, wide), wide))
    np.testing.assert_array_equal(actual[0], expected[0])
    assert len(short.model.graph.node) <= len(long.model.graph.node) - 3


def operators(lowered: Lowered) -> list[str]:
    return [node.op_type for node in lowered.model.graph.node]


def test_a_nan_stays_where_its_scale_is_nan_as_well() -> None:
    """In float4, which has none: with a scale that does not depend on the numbers it is 0, as in the interpreter."""
    x, e = Value("x", Type(float32, (2, 32))), Builder()
    more = type("More", (), {"absolute_maximum": lambda self, y: e.absolute_maximum(y, block=(0,) * y.rank)})()
    wide = NVFP4Form((1, 16)).rounded(e, x, more)
    outputs = product(e, wide, wide)
    graph = verify(graphls.Graph("main", (x,), (), tuple(e.nodes), (), outputs))
    numbers = np.random.default_rng(0).normal(size=(2, 32)).astype(np.float32)
    for special in (0.5, np.nan, np.inf):
        numbers[1, 3] = special
        lowered = lower(graph)
        (actual,), (expected,) = run(lowered, graph, [numbers]), interpret(graph, [numbers])[0]
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert "ThresholdedRelu" not in operators(lowered)
    assert "ThresholdedRelu" in operators(results(float4_e2m1fn, product)[0])


def test_roundings_of_maxima_take_no_magnitudes() -> None:
    """Absolute maxima, and scales of them, are never negative; differences of them may be."""

    def lowered(is_scale: bool) -> list[str]:
        x, e = Value("x", Type(float32, (4, 64))), Builder()
        maxima = e.absolute_maximum(x, block=(1, 16))
        scale = e.minimum(e.div(maxima, 3.0) if is_scale else e.sub(maxima, 3.0), 1e9)
        wide = e.cast(e.cast(scale, dtype=float8_e4m3fn), dtype=float32)
        graph = verify(graphls.Graph("main", (x,), (), tuple(e.nodes), (), (wide,)))
        numbers = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
        numbers[0, :16] = 0
        model = lower(graph)
        (actual,), (expected,) = run(model, graph, [numbers]), interpret(graph, [numbers])[0]
        np.testing.assert_array_equal(np.asarray(actual).view(np.uint32), np.asarray(expected).view(np.uint32))
        return operators(model)

    assert lowered(True).count("Abs") == 1 and lowered(False).count("Abs") == 2


@pytest.mark.parametrize("rows", [1 << 8, 1 << 4])
def test_many_short_rows_are_multiplied_by_rows(rows: int) -> None:
    """Where no sign of a zero is read, a number for each 16 is repeated by a product with ones, which is faster."""
    x, scale, e = Value("x", Type(float32, (rows, 4, 16))), Value("scale", Type(float32, (rows, 4, 1))), Builder()
    other = Value("random", Type(float32, (rows, 4, 16)))
    low = e.round_stochastically(e.mul(x, scale), other, dtype=float8_e4m3fn)
    graph = verify(graphls.Graph("main", (x, scale, other), (), tuple(e.nodes), (), (low,)))
    random = np.random.default_rng(0)
    arrays = [random.normal(size=v.type.shape).astype(np.float32) for v in graph.inputs]
    arrays[2] = (np.round(arrays[2] * 64) % 64 - 31) / np.float32(128)
    arrays[1][0, 0] = np.float32([np.nan])
    arrays[1][0, 1] = np.float32([np.inf])
    lowered = lower(graph)
    (actual,), (expected,) = run(lowered, graph, arrays), interpret(graph, arrays)[0]
    np.testing.assert_array_equal(np.asarray(actual, np.float32), np.asarray(expected, np.float32))
    assert ("MatMul" in operators(lowered)) == (rows == 1 << 8)


def test_a_nan_that_leaves_is_none() -> None:
    """Where what is moved of the rounded numbers is a result as well, a nan of them is 0."""
    x, e = Value("x", Type(float32, (2, 32))), Builder()
    maxima = e.absolute_maximum(x, block=(0, 0))
    low = e.quantize(x, e.div(6.0, maxima), dtype=float4_e2m1fn, block=(0, 0))
    moved = e.cast(e.reshape(low, shape=(64,)), dtype=float32)
    wide = e.dequantize(low, maxima, dtype=float32, block=(0, 0))
    outputs = (moved, *product(e, wide, wide))
    lowered = lower(verify(graphls.Graph("main", (x,), (), tuple(e.nodes), (), outputs)))
    assert "ThresholdedRelu" in operators(lowered)


def test_signs_of_long_chains_take_linear_time() -> None:
    """Each value of the chain is read twice, and the chain is longer than Python's stack."""
    x, e = Value("x", Type(float32, (4,))), Builder()
    value = e.absolute_maximum(x, block=(0,))
    for _ in range(1500):
        value = e.minimum(e.mul(value, value), 1.0)
    low = e.cast(value, dtype=float8_e4m3fn)
    graph = graphls.Graph("main", (x,), (), tuple(e.nodes), (), (e.cast(low, dtype=float32),))
    nodes = tuple(e.nodes)
    assert low in of_positive(nodes) and low not in without_signs(nodes, graph.outputs)
