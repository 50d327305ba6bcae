"""Products of rounded operands in bfloat16: which ones, and the sums of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphls import amp
from graphls.ir import Graph, interpret
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import DType, bfloat16, float4_e2m1fn, float8_e4m3fn, float8_e5m2, float8_e8m0fnu, float32
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.narrow_products import with_narrow_products
from tests.low_precision.steps import LABELS, X, compiled, network
from tests.onednn.test_low_precision import drawn, graph_of, session_of

Scales = Callable[[Builder, Value], tuple[Value, Value]]
"""Gives the scale of the blocks of a maximum, and its inverse."""


@pytest.fixture(autouse=True)
def kernels_of_bfloat16() -> None:
    if not library().has_bfloat16:
        pytest.skip("no instructions for bfloat16")


def shared(e: Builder, maximum: Value) -> tuple[Value, Value]:
    power = e.shared_power(maximum, largest=448.0, rounds_up=True)
    return e.div(1.0, e.cast(power, dtype=float32)), power


def powers(e: Builder, maximum: Value) -> tuple[Value, Value]:
    """The greatest power of two below the quotient, in float32 (`BlockScaling`)."""
    power = e.cast(e.shared_power(e.div(448.0, maximum), largest=1.0, rounds_up=False), dtype=float32)
    scale = e.where(e.is_finite(maximum), power, e.constant(1.0, float32))
    return scale, e.where(e.is_finite(maximum), e.div(1.0, scale), maximum)


def two_levels(e: Builder, maximum: Value) -> tuple[Value, Value]:
    """A float8 for each block times a float32 for all (`NVFP4`)."""
    total = e.absolute_maximum(maximum, block=(0,) * maximum.rank)
    factor = e.div(total, 2688.0)
    low = e.cast(e.cast(e.div(e.div(maximum, 6.0), factor), dtype=float8_e4m3fn), dtype=float32)
    inverse = e.mul(low, factor)
    return e.div(1.0, inverse), inverse


def single(e: Builder, maximum: Value) -> tuple[Value, Value]:
    return e.div(448.0, maximum), e.div(maximum, 448.0)


CASES: dict[str, tuple[Scales, DType, tuple[int, int]]] = {
    "shared": (shared, float8_e4m3fn, (1, 32)),
    "shared in e5m2": (shared, float8_e5m2, (32, 1)),
    "powers": (powers, float8_e4m3fn, (16, 16)),
    "two levels": (two_levels, float4_e2m1fn, (1, 16)),
    "single": (single, float8_e4m3fn, (0, 0)),
}


def rounded(e: Builder, x: Value, case: str) -> Value:
    scales, dtype, block = CASES[case]
    scale, inverse = scales(e, e.absolute_maximum(x, block=block))
    return e.dequantize(e.quantize(x, scale, dtype=dtype, block=block), inverse, dtype=float32, block=block)


def products(graph: Graph) -> list[DType]:
    """The dtypes of the first operands of products."""
    return [node.inputs[0].type.dtype for node in graph.nodes if node.primitive.name == "matmul"]


def check(build: Callable[..., Any], *arrays: Any) -> None:
    graph = graph_of(build, arrays)
    results = session_of(graph).run(list(arrays))
    for result, expected in zip(results, interpret(graph, list(arrays))[0], strict=True):
        size = np.nanmax(np.where(np.isinf(expected), np.nan, abs(expected)))
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6 * size)


@pytest.mark.parametrize("first", CASES)
@pytest.mark.parametrize("second", CASES)
def test_products_of_rounded_operands_are_narrow(first: str, second: str) -> None:
    def build(e: Builder, x: Value, y: Value) -> Value:
        return e.matmul(rounded(e, x, first), rounded(e, y, second), transpose_b=True)

    x, y = drawn((96, 128)), drawn((80, 128))
    assert products(with_narrow_products(graph_of(build, (x, y))).graph) == [bfloat16]
    check(build, x, y)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so(case: str, number: float) -> None:
    def build(e: Builder, x: Value, y: Value) -> Value:
        return e.matmul(rounded(e, x, case), rounded(e, y, case))

    x, y = drawn((96, 128)), abs(drawn((128, 64)))
    x[7, 9] = number
    graph = graph_of(build, (x, y))
    (result,), (expected,) = session_of(graph).run([x, y]), interpret(graph, [x, y])[0]
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))
    assert not np.isfinite(expected).all()


def test_moved_operands_and_all_readers_of_one_are_narrow() -> None:
    def build(e: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        low, other = rounded(e, x, "two levels"), rounded(e, y, "single")
        turned = e.transpose(low, permutation=(1, 0))
        parts = e.reshape(low, shape=(2, 48, 128))
        return e.matmul(parts, other), e.add(e.matmul(other, turned), 1.0)

    x, y = drawn((96, 128)), drawn((128, 128))
    assert products(with_narrow_products(graph_of(build, (x, y))).graph) == [bfloat16] * 2
    check(build, x, y)


def test_what_others_read_stays_in_float32() -> None:
    """As do the products with it, and all that these read."""

    def build(e: Builder, x: Value, y: Value) -> tuple[Value, ...]:
        first, second, third = rounded(e, x, "shared"), rounded(e, y, "shared"), rounded(e, x, "single")
        return e.matmul(first, second), e.matmul(third, second), e.exp(e.neg(e.abs(third)))

    x, y = drawn((96, 128)), drawn((128, 64))
    graph = graph_of(build, (x, y))
    assert products(with_narrow_products(graph).graph) == [float32] * 2
    check(build, x, y)


@pytest.mark.parametrize("scale", ["a float32 for each row", "a sum"])
def test_scales_of_many_digits_stay_in_float32(scale: str) -> None:
    def build(e: Builder, x: Value, s: Value) -> Value:
        s = s if scale == "a float32 for each row" else e.add(e.cast(e.cast(s, dtype=float8_e8m0fnu), dtype=float32), s)
        low = e.dequantize(e.cast(x, dtype=float8_e4m3fn), s, dtype=float32, block=(1, 0))
        return e.matmul(low, low, transpose_b=True)

    x, s = drawn((96, 128)), abs(drawn((96, 1)))
    assert products(with_narrow_products(graph_of(build, (x, s))).graph) == [float32]
    check(build, x, s)


def test_a_profile_has_the_nodes_of_the_step() -> None:
    """Products in bfloat16 and what scales their sums count as the products of the step."""
    step = compiled(network(amp.MXFP8()), engine="onednn")
    kernels = [kernel for run in step.profile(X, LABELS, steps=2).runs for kernel in run.kernels]
    products = [kernel for kernel in kernels if kernel.operator.startswith("matrix product")]
    assert products and all(kernel.node is not None for kernel in kernels)
    assert {kernel.node.primitive.name for kernel in products if kernel.node} == {"matmul"}
