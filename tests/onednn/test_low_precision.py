"""Low dtypes in kernels: the bits of the interpreter for all blocks and numbers, and steps that are one segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from graphls import amp
from graphls.ir import Graph, Type, Value, interpret
from graphls.ir.build import Builder
from graphls.ir.types import (
    LOW,
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float32,
)
from graphls.passes.precision import scales
from graphls.passes.schedule.partition import Partition
from graphls.primitives.low_precision import FORMATS
from graphls.primitives.scaling import Blocks
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.program.calls import Call
from graphls.runtime.plan import PlanSession
from tests.low_precision.numbers import IDS, around_roundings
from tests.low_precision.steps import LABELS, RECIPES, X, compiled, network, require_engine

Shape = tuple[int, ...]

BLOCKS: list[tuple[Shape, Shape]] = [
    ((64, 256), (1, 32)), ((64, 256), (64, 1)), ((64, 250), (1, 32)), ((70, 130), (32, 1)), ((144, 96), (16, 16)),
    ((130, 140), (128, 128)), ((100, 90), (0, 0)), ((100, 900), (1, 0)), ((100, 90), (0, 1)), ((8, 64, 90), (1, 1, 32)),
    ((8, 64, 90), (0, 0, 0)), ((8, 64, 96), (0, 32, 0)), ((4, 32, 16, 16), (1, 16, 1, 1)),
    ((5, 7, 9, 40), (0, 2, 3, 2)), ((9_001,), (4,)), ((5_000,), (256,)), ((7,), (3,)), ((), ()),
    ((3, 1, 4, 1), (1, 0, 2, 1)),
]  # fmt: skip
"""Shapes and blocks; those from 4096 elements on have kernels for maxima."""
SPECIAL = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-40, 3.4e38, -3.4e38])
EVERY_BLOCK = pytest.mark.parametrize(("shape", "block"), BLOCKS, ids=str)


@pytest.fixture(autouse=True)
def kernels_of_bfloat16() -> None:
    """Skip tests where kernels for bfloat16, which roundings have, are slow: ONNX Runtime rounds there."""
    if not library().has_bfloat16:
        pytest.skip("no instructions for bfloat16")


def drawn(shape: Shape, special: bool = False) -> Any:
    """Numbers of many magnitudes, with nan, infinities, zeros and subnormal ones where asked for."""
    rng = np.random.default_rng(5)
    x = np.asarray(rng.standard_normal(shape) * np.exp(4 * rng.standard_normal(shape)), np.float32)
    if special:
        places = rng.permutation(x.size)[: len(SPECIAL)]
        x.reshape(-1)[places] = rng.permutation(SPECIAL)[: len(places)]
    return x


def scale_of(shape: Shape, block: Shape) -> Any:
    return np.random.default_rng(6).uniform(0.01, 30, Blocks(shape, block).counts).astype(np.float32)


def graph_of(build: Callable[..., Any], arrays: Sequence[Any]) -> Graph:
    e = Builder()
    inputs = tuple(Value(f"x{i}", Type(float32, a.shape)) for i, a in enumerate(arrays))
    results = build(e, *inputs)
    results = results if isinstance(results, tuple) else (results,)
    return Graph("main", inputs, (), tuple(e.nodes), (), results)


def session_of(graph: Graph) -> PlanSession:
    """The session of a graph that is one segment."""
    session = PlanSession(Partition("onednn").run(graph), {})
    (part,) = session.first
    assert isinstance(part, OnednnPart)
    return session


def bits(x: Any) -> Any:
    """The bits of float32, with one nan for all."""
    x = np.asarray(x).astype(np.float32)
    return np.where(np.isnan(x), -1, x.view(np.int32))


def check(build: Callable[..., Any], *arrays: Any) -> PlanSession:
    """Compare the results of a graph with the interpreter's, bit for bit; returns the session."""
    graph = graph_of(build, arrays)
    session = session_of(graph)
    for result, expected in zip(session.run(list(arrays)), interpret(graph, list(arrays))[0], strict=True):
        np.testing.assert_array_equal(bits(result), bits(expected))
    return session


def there_and_back(dtype: DType, block: Shape, wide: DType = float32) -> Callable[..., Any]:
    def build(e: Builder, x: Value, scale: Value, inverse: Value) -> Value:
        return e.dequantize(e.quantize(x, scale, dtype=dtype, block=block), inverse, dtype=wide, block=block)

    return build


@EVERY_BLOCK
@pytest.mark.parametrize("special", [False, True])
def test_blocks_have_the_bits_of_the_interpreter(shape: Shape, block: Shape, special: bool) -> None:
    x, scale = drawn(shape, special), scale_of(shape, block)
    check(lambda e, x: e.absolute_maximum(x, block=block), x)
    complete = (0,) * len(shape)  # which is read from the others
    check(lambda e, x: (e.absolute_maximum(x, block=complete), e.absolute_maximum(x, block=block)), x)
    check(lambda e, x, s: e.quantize(x, s, dtype=float8_e4m3fn, block=block), x, scale)
    check(there_and_back(float8_e5m2, block), x, scale, 1 / scale)


@pytest.mark.parametrize("dtype", [d for d in LOW if d is not float8_e8m0fnu], ids=str)
@pytest.mark.parametrize("wide", [float32, bfloat16], ids=str)
def test_every_dtype_is_rounded_to_its_bits(dtype: DType, wide: DType) -> None:
    shape, block = (64, 250), (1, 32)
    for special in (False, True):
        check(there_and_back(dtype, block, wide), drawn(shape, special), scale_of(shape, block), scale_of(shape, block))


@pytest.mark.parametrize("scale", [np.nan, np.inf, 0.0, -3.0, 1e-38, 3e38])
def test_scales_that_are_no_usual_ones_are_computed_as_well(scale: float) -> None:
    scales_of_rows = np.float32([[1], [scale], [2], [3]])
    for special in (False, True):
        check(there_and_back(float8_e4m3fn, (1, 0)), drawn((4, 2000), special), scales_of_rows, scales_of_rows)


@pytest.mark.parametrize("dtype", LOW, ids=IDS)
def test_casts_have_the_bits_of_the_interpreter(dtype: DType) -> None:
    """Of all numbers that eight bits may round differently, and of any bits of float32."""
    some = np.random.default_rng(7).integers(0, 2**32, 1 << 17, dtype=np.uint32).view(np.float32)
    for x in (around_roundings(), some):
        for each in (x, x[np.isfinite(x)]):  # the second without NumPy, which computes what has a nan
            check(lambda e, x: (e.cast(x, dtype=dtype), e.cast(e.cast(x, dtype=dtype), dtype=float32)), each)


@pytest.mark.parametrize("dtype", [d for d in LOW if d is not float8_e8m0fnu], ids=str)
@pytest.mark.parametrize("special", [False, True])
def test_stochastic_rounding_has_the_bits_of_the_interpreter(dtype: DType, special: bool) -> None:
    """Of numbers at the ends of binades and in the middle of two others, with random ones around what makes a tie."""
    form = FORMATS[dtype]
    rng = np.random.default_rng(9)
    many = around_roundings() if special else around_roundings()[np.isfinite(around_roundings())]
    x = np.concatenate([many, np.float32(rng.uniform(-1.2, 1.2, 30_000) * form.most), np.float32(rng.normal(size=999))])
    with np.errstate(all="ignore"):
        size = np.minimum(abs(x), np.float32(form.most)).astype(np.float64)
        unit = np.maximum(2.0 ** np.floor(np.log2(size)), form.least) * 2.0**-form.mantissa
        share = np.nan_to_num(np.copysign(size / unit, x) % 1)
    near = np.floor((0.5 - share) * 2**17) + rng.integers(-2, 3, x.size)
    random = np.where(rng.random(x.size) < 0.5, near, rng.integers(1 - 2**16, 2**16, x.size)) * 2.0**-17
    random = np.clip(random, 2.0**-17 - 0.5, 0.5 - 2.0**-17).astype(np.float32)
    check(lambda e, x, r: e.round_stochastically(x, r, dtype=dtype), x, random)


@pytest.mark.parametrize(("shape", "axis"), [((160, 90), 0), ((64, 64), 1), ((2, 48, 3), 1), ((16,), 0), ((16, 1), 0)])
def test_hadamard_transforms_have_the_bits_of_the_interpreter(shape: Shape, axis: int) -> None:
    check(lambda e, x: e.hadamard_transform(x, axis=axis), drawn(shape))


@pytest.mark.parametrize("is_signed", [True, False])
def test_codes_of_blocks_have_the_bits_of_the_interpreter(is_signed: bool) -> None:
    def build(e: Builder, x: Value) -> tuple[Value, ...]:
        x = x if is_signed else e.mul(x, x)
        maxima = e.absolute_maximum(e.reshape(x, shape=(x.type.size,)), block=(256,))
        codes = e.quantize_blockwise(x, maxima, is_signed=is_signed)
        return maxima, codes, e.mul(e.dequantize_blockwise(codes, maxima, is_signed=is_signed), 3.0)

    check(build, drawn((90, 100)))
    check(build, drawn((64, 300)))


def test_what_only_moves_holds_low_dtypes() -> None:
    def build(e: Builder, x: Value) -> Value:
        low = e.cast(x, dtype=float8_e4m3fn)
        turned = e.transpose(e.concat(low, low, axis=0), permutation=(1, 0))
        return e.cast(e.reshape(turned, shape=(3, 16)), dtype=float32)

    check(build, drawn((4, 6)))


def test_products_read_the_numbers_without_signs_of_zeros() -> None:
    """The rounding that has no signs of zeros, times the matrix that leaves it as it is."""
    x, scale = drawn((64, 96)), scale_of((64, 96), (1, 32))
    round_to = there_and_back(float8_e4m3fn, (1, 32))

    def build(e: Builder, x: Value, scale: Value, inverse: Value) -> Value:
        return e.matmul(round_to(e, x, scale, inverse), e.constant(np.eye(96, dtype=np.float32)))

    arrays = [x, scale, (1 / scale).astype(np.float32)]
    (result,), (expected,) = (
        session_of(graph_of(build, arrays)).run(arrays), interpret(graph_of(round_to, arrays), arrays)[0],
    )  # fmt: skip
    np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize(("shape", "block"), BLOCKS[:12], ids=str)
def test_no_kernel_is_a_slow_one(shape: Shape, block: Shape) -> None:
    def build(e: Builder, x: Value, scale: Value, inverse: Value) -> tuple[Value, Value]:
        return e.absolute_maximum(x, block=block), there_and_back(float8_e4m3fn, block)(e, x, scale, inverse)

    arrays = [drawn(shape), *[scale_of(shape, block)] * 2]
    (part,) = session_of(graph_of(build, arrays)).first
    kernels = [call.primitive.implementation for call in part.program.calls if isinstance(call, Call)]  # type: ignore[attr-defined]
    assert not [name for name in kernels if name.startswith("ref")], kernels


@pytest.mark.parametrize("power_of_two", [False, True])
def test_scales_have_the_bits_of_the_interpreter(power_of_two: bool) -> None:
    """Of quotients: the reciprocal of a kernel times a number is another number in a fifth of all cases."""

    def build(e: Builder, x: Value) -> tuple[Value, ...]:
        maximum = e.absolute_maximum(x, block=(1, 4))
        scale = scales.current_scale(e, maximum, float8_e4m3fn, scales.LARGEST, power_of_two)
        power = e.cast(e.shared_power(maximum, largest=448.0, rounds_up=True), dtype=float32)
        shared = e.cast(e.cast(power, dtype=float8_e8m0fnu), dtype=float32)
        low = [e.cast(e.cast(maximum, dtype=dtype), dtype=float32) for dtype in LOW]
        return scale, scales.inverse(e, scale, maximum), power, shared, *low

    x = np.concatenate([around_roundings()[::3], np.float32(np.random.default_rng(8).uniform(0, 9, 40_000))])
    check(build, x[: x.size // 4 * 4].reshape(-1, 4))


@pytest.mark.parametrize("count", [1, 8192, 20_000])
def test_scales_in_parts_and_by_other_names_have_the_bits_of_the_interpreter(count: int) -> None:
    """NumPy computes many scales part by part; reshaped ones, and the float32 of a low dtype, are the same memory."""

    def build(e: Builder, x: Value) -> tuple[Value, ...]:
        maximum = e.absolute_maximum(x, block=(1, 4))
        factor = e.div(e.absolute_maximum(maximum, block=(0, 0)), 2688.0)
        wide = e.cast(e.cast(e.div(maximum, factor), dtype=float8_e4m3fn), dtype=float32)
        inverse = e.mul(wide, e.reshape(factor, shape=()))
        scale = e.minimum(e.div(1.0, inverse), scales.LARGEST)
        signed = e.cast(e.cast(e.sub(maximum, factor), dtype=float8_e5m2), dtype=float32)
        chosen = e.where(e.greater(maximum, factor), scale, inverse)
        return e.reshape(wide, shape=(count,)), wide, e.reshape(scale, shape=(count, 1, 1)), signed, chosen

    for special in (False, True):
        check(build, drawn((count, 4), special and count > 1))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("scale", [None, 2.0**10])
def test_a_step_is_one_segment(name: str, scale: float | None) -> None:
    plan = compiled(network(RECIPES[name]), scale, engine="onednn").plan
    assert [segment.engine for segment in plan.segments] == ["onednn"]


def test_a_recipe_in_bfloat16_is_one_segment() -> None:
    net = amp.auto_mixed_precision(network(), "O2", bfloat16)
    plan = compiled(amp.auto_mixed_precision(net, RECIPES["current"]), engine="onednn").plan
    assert [segment.engine for segment in plan.segments] == ["onednn"]


@pytest.mark.parametrize("engine", ["onednn", "xla"])
def test_numbers_that_the_host_draws_wait_for_no_window_of_a_loss_scale(engine: str) -> None:
    require_engine(engine)
    step = compiled(network(RECIPES["nvfp4"]), 2.0**10, engine=engine)
    expected = compiled(network(RECIPES["nvfp4"]), 2.0**10, backend="numpy")
    losses, others = ([float(each(X, LABELS)[0]) for _ in range(3)] for each in (step, expected))
    np.testing.assert_allclose(losses, others, rtol=1e-2)  # a sum in another order may round elsewhere
