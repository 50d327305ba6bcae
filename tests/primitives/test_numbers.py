"""Numbers that a careless lowering gets wrong: 16-bit saturation, one rounding, sums by index, random draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls.primitives  # noqa: F401
from graphls.inspect.testing.laws import backpropagate
from graphls.ir import Builder, Graph, Value, interpret
from graphls.ir.registry import lookup
from graphls.ir.types import float16, float32, float64, int64, type_of, uint8
from graphls.primitives.primitive import Array, f32, of
from graphls.runtime.lowering import lower


def both(arrays: list[Array], build: Any) -> tuple[Array, Array, Any]:
    """One result of a graph in the interpreter and on ONNX Runtime, and the runtime's session with its feeds."""
    inputs = tuple(Value(f"x{i}", type_of(a)) for i, a in enumerate(arrays))
    e = Builder()
    output = build(e, *inputs)
    graph = Graph("numbers", inputs, (), tuple(e.nodes), (), (output,))
    lowered = lower(graph)
    session = onnxruntime.InferenceSession(lowered.model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = dict(zip(lowered.inputs, arrays, strict=True))
    return interpret(graph, arrays)[0][0], session.run(None, feeds)[0], lambda: session.run(None, feeds)[0]


def test_a_float16_product_beyond_the_range_stays_infinite() -> None:
    x = np.full((4,), 300, np.float16)
    for found in both([x], lambda e, v: e.mul(e.mul(v, v), 0.01))[:2]:
        assert found.dtype == np.float16 and np.isinf(found).all()


def test_a_float16_matrix_product_beyond_the_range_stays_infinite() -> None:
    a, b = np.full((1, 2), 300, np.float16), np.full((2, 1), 300, np.float16)
    for found in both([a, b], lambda e, v, w: e.mul(e.matmul(v, w), 0.001))[:2]:
        assert found.dtype == np.float16 and np.isinf(found).all()


def test_a_float16_sum_rounds_once() -> None:
    x = np.full((4096,), 1.0, np.float16)
    x[0] = 0.5
    for found in both([x], lambda e, v: e.sum(v))[:2]:
        assert found == np.float16(4095.5)


def test_the_mean_of_many_float16_has_a_gradient() -> None:
    """1 / n underflows where n is large, and n itself overflows."""
    e = Builder()
    x, g = Value("x", of(float16, 300, 400)), Value("g", of(float16))
    y = e.mean(x)
    gradient = lookup("mean").vjp(e, g, x, y)  # type: ignore[attr-defined]
    graph = Graph("mean", (x, g), (), tuple(e.nodes), (), (gradient,))
    found = interpret(graph, [np.zeros((300, 400), np.float16), np.float16(1024)])[0][0]
    np.testing.assert_array_equal(found, np.full((300, 400), 1024 / 120000).astype(np.float16))


def test_a_float64_becomes_a_float16_in_one_rounding() -> None:
    random = np.random.default_rng(0)
    halves = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = np.append((halves[1:] + halves[:-1]) / 2, 65520.0)
    near = np.concatenate([ties, ties * (1 + 1e-12), ties * (1 - 1e-12), halves, random.normal(size=1000) * 1e5])
    x = np.concatenate([near, -near, [np.inf, -np.inf, np.nan, 1e300, 1e-300]])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    for found in both([x], lambda e, v: e.cast(v, dtype=float16))[:2]:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [1, 7])
def test_sums_by_one_repeated_index_are_right_every_time(size: int) -> None:
    g = np.random.default_rng(0).integers(-8, 9, (100_000, 2)).astype(np.float32)
    indices = np.full((100_000,), size - 1, np.int64)
    expected, found, again = both([g, indices], lambda e, v, i: e.gather_gradient(v, i, axis=0, size=size))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found[size - 1], g.sum(axis=0, dtype=np.float64))
    bits = found.tobytes()
    assert all(again().tobytes() == bits for _ in range(10))


def test_one_hot_has_a_row_of_zeros_for_an_index_outside() -> None:
    indices = np.array([0, 2, 3, -1, 10], np.int64)
    rows = np.zeros((5, 3), np.float32)
    rows[0, 0] = rows[1, 2] = 1
    for found in both([indices], lambda e, i: e.one_hot(i, depth=3, dtype=float32))[:2]:
        np.testing.assert_array_equal(found, rows)


def test_an_index_outside_is_an_error_on_the_cpu() -> None:
    x, indices = np.zeros((3, 2), np.float32), np.array([3], np.int64)
    with pytest.raises(IndexError):
        lookup("gather").evaluate((x, indices), {"axis": 0}, (f32(1, 2),))
    e = Builder()
    values = (Value("x", f32(3, 2)), Value("i", of(int64, 1)))
    y = e.gather(*values, axis=0)
    lowered = lower(Graph("outside", values, (), tuple(e.nodes), (), (y,)))
    session = onnxruntime.InferenceSession(lowered.model.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match="out of"):
        session.run(None, dict(zip(lowered.inputs, (x, indices), strict=True)))


def test_the_first_of_equal_elements_is_the_largest() -> None:
    x = np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32)
    for found in both([x], lambda e, v: e.argmax(v, axis=1))[:2]:
        np.testing.assert_array_equal(found, [1, 0])


def test_equal_elements_share_the_gradient_of_the_largest() -> None:
    e = Builder()
    x, g = Value("x", f32(4)), Value("g", f32())
    y = e.max(x)
    gradient = lookup("max").vjp(e, g, x, y)  # type: ignore[attr-defined]
    graph = Graph("max", (x, g), (), tuple(e.nodes), (), (gradient,))
    found = interpret(graph, [np.array([1, 3, 3, 2], np.float32), np.float32(1)])[0][0]
    np.testing.assert_array_equal(found, [0, 0.5, 0.5, 0])


def test_a_product_has_a_gradient_where_elements_are_zero() -> None:
    e = Builder()
    x, g = Value("x", f32(3, 3)), Value("g", f32(3))
    y = e.prod(x, axis=(1,))
    gradient = lookup("prod").vjp(e, g, x, y, axis=(1,))  # type: ignore[attr-defined]
    graph = Graph("prod", (x, g), (), tuple(e.nodes), (), (gradient,))
    rows = np.array([[2, 3, 4], [2, 0, 4], [0, 0, 4]], np.float32)
    found = interpret(graph, [rows, np.ones(3, np.float32)])[0][0]
    np.testing.assert_array_equal(found, [[12, 8, 6], [0, 8, 0], [0, 0, 0]])


@pytest.mark.parametrize("row", [[2.0, 0.0, 3.0, 5.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0, 2.0], [2.0, 3.0, 4.0, 0.0]])
def test_a_product_has_a_second_gradient_where_elements_are_zero(row: list[float]) -> None:
    """The second derivative by two elements is the product of the others, and 0 by one twice."""
    e, count = Builder(), len(row)
    x, seed = Value("x", of(float64, count)), Value("seed", of(float64, count))
    (first,) = backpropagate(e, [(e.prod(x), e.constant(1.0, float64))], [x])
    (second,) = backpropagate(e, [(first, seed)], [x])  # type: ignore[list-item]
    graph = Graph("second", (x, seed), (), tuple(e.nodes), (), (second,))  # type: ignore[arg-type]
    for i in range(count):
        others = [0.0 if i == j else np.prod([v for k, v in enumerate(row) if k not in (i, j)]) for j in range(count)]
        found = interpret(graph, [np.array(row), np.eye(count)[i]])[0][0]
        np.testing.assert_array_equal(found, others)


@pytest.mark.parametrize("name", ["floor_div", "mod"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_integers_by_zero_and_minus_one_do_not_stop_the_process(name: str, dtype: str) -> None:
    least = np.iinfo(dtype).min
    x, y = np.array([least, 5, -5, 0, 7], dtype), np.array([-1, 0, -1, 0, -2], dtype)
    expected = {"floor_div": [least, 0, 5, 0, -4], "mod": [0, 0, 0, 0, -1]}[name]
    for found in both([x, y], lambda e, a, b: getattr(e, name)(a, b))[:2]:
        np.testing.assert_array_equal(found, np.array(expected, dtype))


def uniform(seed: int, step: int, site: int, *shape: int) -> Array:
    state = np.array([seed, step], np.int64)
    return np.asarray(lookup("random_uniform").evaluate((state,), {"shape": shape, "site": site}, (f32(*shape),))[0])


def test_uniform_numbers_are_uniform() -> None:
    x = uniform(1, 2, 3, 200_000)
    assert x.dtype == np.float32 and x.min() >= 0 and x.max() < 1
    assert x.mean() == pytest.approx(0.5, abs=0.003) and x.var() == pytest.approx(1 / 12, abs=0.001)


def test_random_numbers_are_a_function_of_seed_step_and_site() -> None:
    streams = [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (-1, 2, 3), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    drawn = [uniform(*stream, 1000) for stream in streams]
    for i, (stream, x) in enumerate(zip(streams, drawn, strict=True)):
        np.testing.assert_array_equal(uniform(*stream, 1000), x)
        assert not any(np.array_equal(x, other) for other in drawn[:i])
        assert not any(abs(np.corrcoef(x, other)[0, 1]) > 0.15 for other in drawn[:i])


def test_the_random_stream_stays_what_it_is() -> None:
    """Checkpoints resume on any version, so these numbers may never change."""
    np.testing.assert_array_equal(uniform(7, 11, 13, 3), uniform(7, 11, 13, 5)[:3])
    assert uniform(7, 11, 13, 3).tolist() == STREAM


STREAM = [0.6483120322227478, 0.5303301811218262, 0.4839070439338684]


def test_random_bytes_are_those_of_the_stream() -> None:
    state = np.array([7, 11], np.int64)
    short, long = (
        np.asarray(lookup("random_bytes").evaluate((state,), {"shape": (size,), "site": 13}, (of(uint8, size),))[0])
        for size in (5, 100_001)
    )
    assert short.dtype == np.uint8 and short.tolist() == long[:5].tolist() == BYTES
    assert abs(np.bincount(long, minlength=256) - 100_001 / 256).max() < 100


BYTES = [207, 199, 247, 165, 67]


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_bernoulli_draws_have_their_probability(probability: float) -> None:
    attrs = {"shape": (100_001,), "site": 5, "probability": probability}
    state = np.array([3, 4], np.int64)
    (drawn,) = lookup("random_bernoulli").evaluate((state,), attrs, (of(int64, 1),))
    assert drawn.dtype == bool and drawn.shape == (100_001,)
    assert drawn.mean() == pytest.approx(probability, abs=0.006)
    assert drawn.mean() == probability or 0 < probability < 1
