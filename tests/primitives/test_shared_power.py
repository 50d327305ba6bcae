"""Powers of two that blocks share: by a search among all of them, and the same on every engine."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Value, interpret, verify
from graphls.ir.registry import lookup
from graphls.ir.types import Type, float32, int32
from graphls.runtime.lowering import lower
from graphls.runtime.xla.tracing import traced
from tests.low_precision.numbers import bits

LARGEST = [(448.0, True), (57344.0, True), (6.0, True), (448.0, False), (6.0, False), (1.0, False)]
POWERS = np.exp2(np.arange(-127, 128, dtype=np.float64))


def maxima() -> np.ndarray:
    """Numbers of all sizes, those where the power changes with their neighbours, and what is not finite."""
    steps = np.concatenate([
        np.float32(largest) * np.exp2(np.arange(-140, 128, dtype=np.float64)) for largest in (1, 1.5, 1.75)
    ])  # fmt: skip
    steps = steps[steps < np.finfo(np.float32).max].astype(np.float32)
    beside = [np.nextafter(steps, np.float32(limit)) for limit in (0, np.inf)]
    others = np.float32([0, -0.0, np.finfo(np.float32).max, np.inf, np.nan])
    drawn = np.exp2(np.random.default_rng(0).uniform(-149, 127.9, 2000)).astype(np.float32)
    return np.concatenate([steps, *beside, others, drawn])


def graph_of(size: int, largest: float, rounds_up: bool) -> graphls.Graph:
    x, e = Value("x", Type(float32, (size,))), Builder()
    y = e.shared_power(x, largest=largest, rounds_up=rounds_up)
    return verify(graphls.Graph("main", (x,), (), tuple(e.nodes), (), (y,)))


def sought(x: np.ndarray, largest: float, rounds_up: bool) -> np.ndarray:
    """The biased exponents, by a search."""
    x, wide = np.where(x < 2.0**-126, np.float32(0), x), x.astype(np.float64)
    if rounds_up:
        codes = np.searchsorted(POWERS * largest, x.astype(np.float64), side="left")
    else:
        codes = np.searchsorted(POWERS * 2.0 ** np.floor(np.log2(largest)), x.astype(np.float64), side="right") - 1
    return np.where(np.isfinite(wide), np.clip(codes, 0, 254), 255)


@pytest.mark.parametrize(("largest", "rounds_up"), LARGEST)
def test_powers_are_those_of_a_search(largest: float, rounds_up: bool) -> None:
    x = maxima()
    (result,), _ = interpret(graph_of(x.size, largest, rounds_up), [x])
    np.testing.assert_array_equal(np.asarray(result).view(np.uint8), sought(x, largest, rounds_up))


@pytest.mark.parametrize(("largest", "rounds_up"), LARGEST)
def test_engines_give_the_same_powers(largest: float, rounds_up: bool) -> None:
    jax = pytest.importorskip("jax")
    x = maxima()
    graph = graph_of(x.size, largest, rounds_up)
    wanted = bits(np.asarray(interpret(graph, [x])[0][0]))
    (by_runtime,) = run(lower(graph), graph, [x])
    (by_xla,) = jax.jit(lambda x: traced(jax, graph, [x])[0])(x)
    np.testing.assert_array_equal(bits(by_runtime), wanted)
    np.testing.assert_array_equal(bits(np.asarray(by_xla)), wanted)


def test_other_operands_are_refused() -> None:
    primitive = lookup("shared_power")
    with pytest.raises(TypeError, match="shared_power"):
        primitive.result_types((Type(int32, (2,)),), {"largest": 448.0, "rounds_up": True})
    with pytest.raises(ValueError, match="which is 2 or more, not 1"):
        primitive.result_types((Type(float32, (2,)),), {"largest": 1.0, "rounds_up": True})
