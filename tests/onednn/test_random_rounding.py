"""Rounding at random to float4_e2m1fn by bytes, there and back: the bits of the interpreter, in a few kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.ir import Graph, Type, Value, interpret
from graphls.ir.build import Builder
from graphls.ir.types import DType, bfloat16, float4_e2m1fn, float32, uint8
from graphls.passes.precision.scales import scaled
from graphls.primitives.scaling import Blocks
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import Call
from tests.onednn.test_low_precision import SPECIAL, Shape, bits, session_of

CASES: list[tuple[Shape, Shape]] = [
    ((64, 256), (1, 16)), ((64, 250), (1, 16)), ((96, 80), (16, 1)), ((3, 32, 48), (1, 1, 16)), ((64, 256), (16, 16)),
    ((2, 32, 5), (0, 16, 0)), ((7, 30), (0, 0)), ((64, 16), (1, 0)),
]  # fmt: skip
"""Shapes and blocks, those of the last four in other kernels."""


@pytest.fixture(autouse=True)
def kernels_of_bfloat16() -> None:
    if not library().has_bfloat16:
        pytest.skip("no instructions for bfloat16")


def graph_of(shape: Shape, block: Shape, wide: DType = float32) -> Graph:
    e, counts = Builder(), Blocks(shape, block).counts
    x, drawn = Value("x", Type(float32, shape)), Value("drawn", Type(uint8, shape))
    scale, inverse = Value("scale", Type(float32, counts)), Value("inverse", Type(float32, counts))
    random = e.add(e.mul(e.cast(drawn, dtype=float32), 2.0**-8), 2.0**-9 - 0.5)
    low = e.round_stochastically(scaled(e, x, scale, block), random, dtype=float4_e2m1fn)
    y = e.dequantize(low, inverse, dtype=wide, block=block)
    return Graph("main", (x, scale, drawn, inverse), (), tuple(e.nodes), (), (y,))


def arrays_of(shape: Shape, block: Shape) -> list[Any]:
    """Numbers up to 7, many of which are on the grid of all sums with random numbers that make a tie, or beside it."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-7, 7, shape).astype(np.float32) * np.exp2(-rng.integers(0, 12, shape)).astype(np.float32)
    grid = np.float32(rng.integers(-7 * 512, 7 * 512, shape) / 512)
    beside = np.nextafter(grid, np.float32(rng.choice([-9, 9], shape)))
    x = np.choose(rng.integers(0, 3, shape), [x, grid, beside])
    drawn = rng.integers(0, 256, shape).astype(np.uint8)
    counts = Blocks(shape, block).counts
    powers = np.exp2(rng.integers(-9, 9, counts)).astype(np.float32)
    return [x / _spread(powers, shape, block), powers, drawn, rng.uniform(0.1, 9, counts).astype(np.float32)]


def _spread(scale: Any, shape: Shape, block: Shape) -> Any:
    for axis, (n, size) in enumerate(zip(shape, block, strict=True)):
        scale = np.repeat(scale, size or n, axis).take(range(n), axis)
    return scale


def check(graph: Graph, arrays: list[Any]) -> list[Any]:
    """Compare with the interpreter, bit for bit; returns the calls of the program."""
    session = session_of(graph)
    (result,), (expected,) = session.run(arrays), interpret(graph, arrays)[0]
    np.testing.assert_array_equal(bits(result), bits(expected))
    (part,) = session.first
    return list(part.program.calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("shape", "block"), CASES, ids=str)
@pytest.mark.parametrize("wide", [float32, bfloat16], ids=str)
def test_roundings_have_the_bits_of_the_interpreter(shape: Shape, block: Shape, wide: DType) -> None:
    graph, arrays = graph_of(shape, block, wide), arrays_of(shape, block)
    check(graph, arrays)
    places = np.random.default_rng(0).permutation(arrays[0].size)[: len(SPECIAL)]
    arrays[0].reshape(-1)[places] = SPECIAL
    check(graph, arrays)


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0, 0.0, 1e-38, 3e38])
@pytest.mark.parametrize("operand", [1, 3])
def test_scales_that_are_no_usual_ones_are_computed_as_well(number: float, operand: int) -> None:
    arrays = arrays_of((64, 256), (1, 16))
    arrays[operand][5, 2] = number
    check(graph_of((64, 256), (1, 16)), arrays)


@pytest.mark.parametrize(("shape", "block"), CASES[:1] + CASES[2:4], ids=str)
def test_a_rounding_is_a_few_kernels(shape: Shape, block: Shape) -> None:
    calls = check(graph_of(shape, block), arrays_of(shape, block))
    kernels = [call.primitive.implementation for call in calls if isinstance(call, Call)]
    assert len(calls) <= 7, [call.kind for call in calls]
    assert not [name for name in kernels if name.startswith("ref")], kernels
