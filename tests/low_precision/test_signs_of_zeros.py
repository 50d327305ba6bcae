"""ONNX Runtime rounds with the signs of zeros where something other than a product may read them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphls
from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Value, interpret, verify
from graphls.ir.types import DType, Type, float4_e2m1fn, float8_e4m3fn, float32
from graphls.runtime.lowering import Lowered, lower

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
