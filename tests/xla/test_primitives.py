"""Every primitive that XLA takes gives what the interpreter gives, by the same rule: in all dtypes, at special numbers.

Integers, bools and what IEEE 754 rounds once are equal to the bit. Elementary functions differ by `ULPS` units in the
last place, in 16 bits by one, which is where the float32 lies beside a tie; sums and products by 16 roundings of 1 or
of the result. XLA takes float32, float64 and bfloat16 below the smallest normal number as zeros, on a CPU; those of
float16 are normal float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from graphls.base.errors import GraphlsError
from graphls.inspect.testing.laws import SPECIAL, is_elementwise
from graphls.inspect.testing.samples import draw, in_dtype, single
from graphls.ir import Builder, DType, Type, Value, interpret
from graphls.ir.graph import Graph
from graphls.ir.registry import lookup, operations
from graphls.ir.types import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    type_of,
    uint8,
    uint16,
    uint32,
    uint64,
)
from graphls.primitives.primitive import Elementwise, Sample
from graphls.runtime.xla.tracing import takes, traced

jax = pytest.importorskip("jax")

Case = tuple[Graph, list[Any], DType]

PRIMITIVES: list[Any] = [p for p in operations() if type(p).__module__.startswith("graphls.primitives") and p.samples]
FLOATS = (float32, float64, float16, bfloat16)
INTEGERS = (int8, int16, int64, uint8, uint16, uint32, uint64)
ON_HOST = {f"random_{what}" for what in ("bernoulli", "bytes", "integers", "normal", "permutation", "uniform")}

ROUNDED_ONCE = {
    "abs", "add", "ceil", "fake_quantize", "floor", "floor_div", "fmod", "maximum", "minimum", "mod", "mul", "neg",
    "reciprocal", "relu", "relu_gradient", "round", "sign", "sqrt", "square", "sub", "truncate_div",
}  # fmt: skip
ULPS = 8
"""The most units in the last place between an elementary function of XLA and NumPy's."""

OTHER_ULPS = {"div": 1, "erfc": 512, "erfinv": 32}
"""XLA multiplies by the reciprocal of a broadcast divisor; in erfc, far out, exp(-x * x) multiplies a rounding."""

FROM_ONE = {"logaddexp"}
"""Their units are those of 1 at least: a sum that cancels."""

OTHER_ZEROS = {"maximum", "minimum", "mod", "sign"}
"""Their zeros may have another sign: NumPy and XLA order -0.0 and 0.0 differently."""

BITS = {float16: 10, bfloat16: 7, float32: 23, float64: 52}
OPTIONS = {
    "xla_allow_excess_precision": False, "xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False,
}  # fmt: skip
"""Those of the engine, without LLVM's optimizations, which take six times as long and change no rule of XLA."""

LEAST = {float16: 2.0**-14, bfloat16: 2.0**-126, float32: 2.0**-126, float64: 2.0**-1022}


def of_samples(primitive: Any) -> Iterator[Case]:
    """The distinct samples of a primitive in all dtypes of floats, and the first one of int32 in other integers."""
    keys: set[tuple[object, ...]] = set()
    first = next((i for i, s in enumerate(primitive.samples) if any(kind.dtype is int32 for kind in s.types)), None)
    for number, sample in enumerate(primitive.samples):
        for dtype in FLOATS:
            types = in_dtype(sample, dtype)
            if (number, *map(str, types)) not in keys:
                keys.add((number, *map(str, types)))
                yield single(primitive, sample, types), draw(sample, types), dtype
        for dtype in INTEGERS if number == first else ():
            types = tuple(kind.with_dtype(dtype) if kind.dtype is int32 else kind for kind in sample.types)
            narrow = Sample(types, sample.attrs, integers=(max(sample.integers[0], -100), min(sample.integers[1], 100)))
            yield from accepted(primitive, narrow, draw(narrow, types), dtype)


def accepted(primitive: Any, sample: Sample, arrays: list[Any], dtype: DType) -> Iterator[Case]:
    """A case, unless the type rule refuses its operands."""
    try:
        graph = single(primitive, sample, tuple(map(type_of, arrays)))
    except GraphlsError:
        return
    yield graph, arrays, dtype


def special(primitive: Any) -> Iterator[Case]:
    """Special numbers, numbers of many sizes, extreme integers, empty arrays and scalars for an elementwise one."""
    first = primitive.samples[0]
    count = len(first.types)
    if is_elementwise(primitive):
        for dtype in FLOATS:
            pairs = zip(special_floats(count, dtype), wide_floats(count, dtype), strict=True)
            yield from accepted(primitive, first, [np.concatenate(pair) for pair in pairs], dtype)
        for shape in ((), (0, 2)):
            yield from accepted(primitive, first, [np.ones(shape, np.float32)] * count, float32)
    for dtype in (int32, *INTEGERS) if isinstance(primitive, Elementwise) else ():
        limits = np.iinfo(dtype.numpy)
        numbers = np.array([limits.min, limits.max, limits.max - 1, 0, 1, 2, 3, limits.min // 2], dtype.numpy)
        numbers = np.append(numbers, numbers[3:6] - 4).astype(dtype.numpy)  # below 0 where there are such
        grid = [each.reshape(-1) for each in np.meshgrid(*[numbers] * count)]
        yield from accepted(primitive, first, grid, dtype)


def special_floats(count: int, dtype: DType) -> list[Any]:
    """All pairs of special numbers, without those whose quotient or product is below the smallest normal number."""
    numbers = [*SPECIAL, 1.9 / LEAST[dtype]]
    if count == 1:
        numbers += [-numbers[-1], 4 * LEAST[dtype], -4 * LEAST[dtype]]
    grid = [each.reshape(-1).astype(dtype.numpy) for each in np.meshgrid(*[np.array(numbers)] * min(count, 2))]
    if count == 1:
        return grid
    x, y = (each.astype(np.longdouble) for each in grid)
    with np.errstate(all="ignore"):
        tiny = [(abs(z) > 0) & (abs(z) < LEAST[dtype]) for z in (x * y, x / y, y / x)]
    return [np.resize(grid[i % 2][~np.logical_or.reduce(tiny)], 200 + grid[0].size) for i in range(count)]


def wide_floats(count: int, dtype: DType) -> list[Any]:
    random = np.random.default_rng(count)
    drawn = [random.normal(size=300) * np.exp(2 * random.normal(size=300)) for _ in range(count)]
    return [each.astype(dtype.numpy) for each in drawn]


REDUCTIONS = {"sum", "mean", "max", "min", "prod", "softmax", "log_softmax", "argmax", "argmin", "cumsum", "top_k"}


def reduced(primitive: Any) -> Iterator[Case]:
    """Rows with infinities and nans first, last and in the middle."""
    for number, pair in enumerate([(np.inf, np.inf), (-np.inf, -np.inf), (np.nan, np.nan), (np.inf, -np.inf)]):
        x = np.random.default_rng(0).uniform(0.5, 1.5, (12, 12))
        x[3, 0] = x[7, 9] = x[9, 11] = pair[0]
        x[7, 3] = pair[1]
        axis: Any = number % 2
        attrs = {"axis": (axis,) if primitive.name in ("sum", "mean", "max", "min", "prod") else axis}
        attrs |= {"k": 5, "largest": number < 2} if primitive.name == "top_k" else {}
        for dtype in (float32, float16):
            yield from accepted(primitive, Sample((), attrs), [x.astype(dtype.numpy)], dtype)


def cases(primitive: Any) -> list[Case]:
    every = [*of_samples(primitive), *special(primitive)]
    return [*every, *reduced(primitive)] if primitive.name in REDUCTIONS else every


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_a_rule_gives_in_xla_what_it_gives_in_numpy(primitive: Any) -> None:
    """All samples in one program, as each compilation takes a tenth of a second."""
    every = cases(primitive)
    taken = [case for case in every if all(map(takes, case[0].nodes))]
    assert len(taken) == (0 if primitive.name in ON_HOST else len(every))
    for (graph, arrays, dtype), results in zip(taken, in_xla(taken), strict=True):
        for result, expected in zip(results, interpret(graph, arrays)[0], strict=True):
            assert type_of(result) == type_of(expected)
            check(primitive, result, expected, dtype)


def in_xla(taken: list[Case]) -> list[list[Any]]:
    """The results of all cases."""
    every = [arrays for _, arrays, _ in taken]
    with jax.enable_x64(True):
        program = jax.jit(lambda several: [traced(jax, c[0], a)[0] for c, a in zip(taken, several, strict=True)])
        results = program.lower(every).compile(OPTIONS)(every)
    return [[np.asarray(each) for each in several] for several in results]


def check(primitive: Any, result: Any, expected: Any, dtype: DType) -> None:
    """Assert that a result is the expected one, within the bounds that stand above."""
    kind: Type = type_of(expected)
    if kind.dtype.is_low:
        result, expected = result.astype(np.float32), expected.astype(np.float32)
    if not kind.dtype.is_float:
        np.testing.assert_array_equal(result, expected)
        return
    of_result = kind.dtype  # a cast has other units than its operands
    actual, wanted = (flushed(each.astype(np.longdouble), of_result) for each in (result, expected))
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
    is_exact = primitive.name in ROUNDED_ONCE or primitive.half != "rounded" or not primitive.flops_per_element
    with np.errstate(invalid="ignore"):
        difference = np.where((actual == wanted) | np.isnan(wanted), 0, abs(actual - wanted))
    if is_exact:
        assert not difference.any(), (difference.max(), actual[difference > 0], wanted[difference > 0])
        if primitive.name not in OTHER_ZEROS:
            np.testing.assert_array_equal(np.signbit(actual[wanted == 0]), np.signbit(wanted[wanted == 0]))
        return
    least = 1.0 if primitive.name in FROM_ONE or not primitive.elementwise else 0.0
    most = 16 if not primitive.elementwise else 1 if of_result.is_half else OTHER_ULPS.get(primitive.name, ULPS)
    ulps = difference / unit(wanted, of_result, least)
    worst = int(np.argmax(ulps)) if ulps.size else 0
    assert not (ulps > most).any(), (ulps.reshape(-1)[worst], actual.reshape(-1)[worst], wanted.reshape(-1)[worst])


def flushed(x: Any, dtype: DType) -> Any:
    """Numbers in which those below the smallest normal one are zeros, as they are to XLA."""
    return x if dtype is float16 else np.where(abs(x) < LEAST[dtype], np.copysign(0, x), x)


def unit(x: Any, dtype: DType, least: float) -> Any:
    """The unit in the last place of each number, taken as `least` where it is smaller."""
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.where(np.isfinite(x), abs(x), 1), max(least, LEAST[dtype]))
    return np.ldexp(np.longdouble(1), np.frexp(size)[1] - 1 - BITS[dtype])


def test_a_mask_times_an_infinity_is_nan() -> None:
    """XLA makes a selection of a product with a converted bool, and the overflow of a float16 would stay unseen."""
    graph = masked()
    x, keeps = np.array([np.inf, 1.0, 2.0], np.float16), np.array([False, False, True])
    expected = interpret(graph, [x, keeps])[0]
    assert np.isnan(expected[0][0])
    for result, wanted in zip(in_xla([(graph, [x, keeps], float16)])[0], expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def masked() -> Graph:
    x, keeps = Value("x", Type(float16, (3,))), Value("keeps", Type(bool_, (3,)))
    e = Builder()
    y = e.mul(x, e.cast(keeps, dtype=float16))
    return Graph("masked", (x, keeps), (), tuple(e.nodes), (), (y,))


@pytest.mark.parametrize("name", ["floor_div", "truncate_div", "fake_quantize"])
def test_a_quotient_by_a_broadcast_number_is_rounded_once(name: str) -> None:
    """One that is an integer, or halfway between two, is not a bit below: XLA would multiply by the reciprocal."""
    y = np.linspace(0.1, 0.9, 33, dtype=np.float32)[:, None]
    x = (np.arange(100, dtype=np.float32) / 2 * y).astype(np.float32)
    operands, attrs = ([x, -y, y], {"steps": 15}) if name == "fake_quantize" else ([x, y], {})
    graph = single(lookup(name), Sample((), attrs), tuple(map(type_of, operands)))
    ((result,),) = in_xla([(graph, operands, float32)])
    np.testing.assert_array_equal(result, interpret(graph, operands)[0][0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_numbers_below_the_smallest_normal_one_are_zeros_on_a_cpu(dtype: DType) -> None:
    if jax.default_backend() != "cpu":
        pytest.skip("Other devices keep them.")
    x = np.array([LEAST[dtype] / 2, -LEAST[dtype] / 2]).astype(dtype.numpy)
    graph = single(lookup("add"), Sample((), {}), (type_of(x), type_of(x)))
    ((result,),) = in_xla([(graph, [x, 0 * x], dtype)])
    assert result.astype(float).tolist() == (x.astype(float).tolist() if dtype is float16 else [0.0, 0.0])
