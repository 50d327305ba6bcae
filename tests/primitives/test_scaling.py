"""Scales of blocks: every form of block in every dtype against loops over blocks with NumPy and ml_dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls import ops
from graphls.inspect.testing import laws
from graphls.inspect.testing.samples import run, single
from graphls.ir import Graph, Type, Value, dump, interpret, parse
from graphls.ir.build import Builder
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.ir.registry import lookup
from graphls.ir.types import (
    as_dtype,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    int32,
    type_of,
)
from graphls.primitives.primitive import Sample
from graphls.primitives.scaling import Blocks
from graphls.runtime.onednn.library import library
from graphls.runtime.onnxruntime.kernel_checks import is_right

FORMATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")
SIGNED = [name for name in FORMATS if name != "float8_e8m0fnu"]
LARGEST = dict(zip(FORMATS, (448.0, 57344.0, 240.0, 57344.0, 2.0**127, 6.0), strict=True))
FLOATS = ("float32", "float16", "bfloat16", "float64")

CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((7,), (0,)), ((7,), (1,)), ((7,), (3,)), ((6,), (3,)), ((7,), (9,)),
    ((4, 6), (0, 0)), ((4, 6), (1, 0)), ((4, 6), (0, 1)), ((4, 6), (1, 1)), ((4, 64), (1, 32)), ((64, 3), (32, 1)),
    ((8, 8), (4, 4)), ((5, 7), (2, 3)), ((5, 256), (1, 128)), ((3, 130), (1, 128)), ((130, 140), (128, 128)),
    ((2, 3, 4), (0, 0, 0)), ((2, 3, 4), (1, 0, 1)), ((2, 3, 4), (0, 1, 0)), ((2, 5, 4), (1, 2, 0)),
    ((2, 4, 6), (2, 2, 2)),
    ((2, 3, 4, 5), (1, 1, 0, 0)), ((2, 3, 4, 5), (0, 2, 3, 2)), ((2, 3, 4, 6), (1, 3, 2, 3)),
    ((0,), (0,)), ((0,), (4,)), ((0, 3), (0, 0)), ((0, 3), (2, 0)), ((3, 0), (1, 32)), ((2, 0, 3), (0, 0, 1)),
]  # fmt: skip
"""Shapes and blocks."""


def each_block(shape: tuple[int, ...], block: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """The index of each block, and where its elements are."""
    starts = [[0] if size == 0 else range(0, n, size) for n, size in zip(shape, block, strict=True)]
    for index in product(*(range(len(each)) for each in starts)):
        sizes = [n if size == 0 else size for n, size in zip(shape, block, strict=True)]
        yield index, tuple(slice(s[i], s[i] + size) for s, i, size in zip(starts, index, sizes, strict=True))


def count(shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if size == 0 else (n + size - 1) // size for n, size in zip(shape, block, strict=True))


def maxima(x: Any, block: tuple[int, ...]) -> Any:
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    result = np.zeros(count(x.shape, block), dtype)
    for index, place in each_block(x.shape, block):
        sizes = [abs(float(each)) for each in x[place].reshape(-1)]
        result[index] = np.nan if any(np.isnan(sizes)) else max(sizes, default=0.0)
    return result


def numpy_of(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def scaled(x: Any, scale: Any, block: tuple[int, ...]) -> Any:
    result = np.zeros(x.shape, np.float32)
    with np.errstate(all="ignore"):
        for index, place in each_block(x.shape, block):
            result[place] = x[place].astype(np.float32) * np.float32(scale[index])
    return result


def saturated(x: Any, name: str) -> Any:
    """A float32 in a low dtype: ml_dtypes rounds to nearest even, and what is beyond becomes the largest."""
    largest = np.float32(LARGEST[name])
    with np.errstate(all="ignore"):
        if name == "float8_e8m0fnu":
            x = np.where(x >= 0, np.minimum(np.maximum(x, np.float32(2.0**-127)), largest), x)
        else:
            x = np.where(x > largest, largest, np.where(x < -largest, -largest, x))
        return np.where(np.isnan(x), np.float32(np.nan), x).astype(numpy_of(name))  # nans of one sign: float4 keeps it


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0, special: bool = True) -> Any:
    """Numbers of many sizes, ties and zeros of both signs, and some infinities and nans."""
    random = np.random.default_rng(seed)
    x = random.normal(size=shape) * 2.0 ** random.integers(-12, 12, shape)
    ties = random.integers(-40, 41, shape) * 2.0 ** random.integers(-12, 5, shape)
    x = np.where(random.random(shape) < 0.4, ties, x)
    x = np.where(random.random(shape) < 0.1, random.choice([0.0, -0.0], shape), x)
    if special:
        x = np.where(random.random(shape) < 0.03, random.choice([np.inf, -np.inf, np.nan], shape), x)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(numpy_of(dtype))


def scales(shape: tuple[int, ...], dtype: str = "float32", seed: int = 1) -> Any:
    random = np.random.default_rng(seed)
    powers = 2.0 ** random.integers(-6, 7, shape)
    return np.asarray(powers if "e8m0" in dtype else powers * random.uniform(1, 2, shape)).astype(numpy_of(dtype))


def bits(x: Any) -> Any:
    """The bits of numbers, the same ones for all nans."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        is_nan = np.isnan(x.astype(np.float64))
    return np.where(is_nan, -1, x.view(f"u{x.dtype.itemsize}").astype(np.int64))


def assert_same(actual: Any, expected: Any) -> None:
    actual = np.asarray(actual)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(bits(actual), bits(expected))


def of_interpreter(graph: Graph, arrays: list[Any]) -> Any:
    return interpret(graph, arrays)[0]


def of_onnx(graph: Graph, arrays: list[Any]) -> Any:
    """The results of ONNX Runtime, where bfloat16 is float32 at the border, as low dtypes are."""
    operands = [each.astype(np.float32) if each.dtype == ml_dtypes.bfloat16 else each for each in arrays]
    results = run(laws.model_of(graph, kernel_is_right=is_right), graph, operands)
    return [each.astype(v.type.dtype.numpy) for each, v in zip(results, graph.outputs, strict=True)]


def of_xla(graph: Graph, arrays: list[Any]) -> Any:
    return each_of_xla([graph], [arrays])[0]


def each_of_xla(graphs: list[Graph], operands: list[list[Any]]) -> Any:
    """The results of several graphs as one program of XLA, which takes most of its time for each program."""
    jax = pytest.importorskip("jax")
    from graphls.runtime.xla.tracing import traced

    def together(*operands: Any) -> Any:
        return [traced(jax, graph, values)[0] for graph, values in zip(graphs, operands, strict=True)]

    with jax.enable_x64(True):
        compiled = jax.jit(together).lower(*operands).compile({"xla_allow_excess_precision": False})
        return [[np.asarray(each) for each in results] for results in compiled(*operands)]


def of_other_kernels(graph: Graph, arrays: list[Any]) -> Any:
    """The results of ONNX Runtime, by the operators for one whose kernels are wrong."""
    operands = [each.astype(np.float32) if each.dtype == ml_dtypes.bfloat16 else each for each in arrays]
    return run(laws.model_of(graph, kernel_is_right=lambda *_: False), graph, operands)


ENGINES = [of_interpreter, of_onnx, of_xla]


def graph_of(name: str, arrays: list[Any], **attrs: Any) -> Graph:
    return single(lookup(name), Sample((), attrs), [type_of(each) for each in arrays])


def result_of(engine: Any, name: str, arrays: list[Any], **attrs: Any) -> Any:
    return engine(graph_of(name, arrays, **attrs), arrays)[0]


class Checks:
    """Results of a primitive on an engine that are compared with what is expected, all of them at the end."""

    def __init__(self, engine: Any, name: str) -> None:
        self.engine, self.name = engine, name
        self.graphs: list[Graph] = []
        self.operands: list[list[Any]] = []
        self.expected: list[Any] = []

    def add(self, expected: Any, arrays: list[Any], **attrs: Any) -> None:
        self.graphs.append(graph_of(self.name, arrays, **attrs))
        self.operands.append(arrays)
        self.expected.append(expected)

    def run(self) -> None:
        graphs, operands = self.graphs, self.operands
        is_xla = self.engine is of_xla
        found = each_of_xla(graphs, operands) if is_xla else map(self.engine, graphs, operands)
        for (actual,), expected in zip(found, self.expected, strict=True):
            assert_same(actual, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_maxima_of_blocks(engine: Any, dtype: str) -> None:
    checks = Checks(engine, "absolute_maximum")
    for shape, block in CASES if engine is of_interpreter or dtype == "float32" else CASES[6:17]:
        for special in (False, True):
            x = numbers(shape, dtype, special=special)
            checks.add(maxima(x, block), [x], block=block)
    checks.run()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_nan_anywhere_makes_the_maximum_of_its_block_nan(engine: Any) -> None:
    for block in ((0, 0), (1, 0), (0, 1), (1, 8), (8, 8)):
        x = numbers((24, 24), "float32", special=False)
        x[3, 0] = x[7, 20] = x[9, 23] = np.nan
        x[7, 3], x[3, 3], x[15] = np.inf, -np.inf, -np.inf
        assert_same(result_of(engine, "absolute_maximum", [x], block=block), maxima(x, block))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SIGNED)
def test_quantized_blocks(engine: Any, name: str) -> None:
    checks = Checks(engine, "quantize")
    for shape, block in CASES if engine is of_interpreter or name == FORMATS[0] else CASES[:17]:
        x, scale = numbers(shape, "float32"), scales(count(shape, block))
        checks.add(saturated(scaled(x, scale, block), name), [x, scale], dtype=as_dtype(name), block=block)
    checks.run()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale_dtype", ["float32", "bfloat16", "float8_e8m0fnu", "float8_e4m3fn"])
def test_quantized_in_every_dtype_of_operands(engine: Any, dtype: str, scale_dtype: str) -> None:
    checks = Checks(engine, "quantize")
    for shape, block in (((4, 6), (0, 0)), ((4, 64), (1, 32)), ((5, 7), (2, 3))):
        x, scale = numbers(shape, dtype), scales(count(shape, block), scale_dtype)
        for name in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
            checks.add(saturated(scaled(x, scale, block), name), [x, scale], dtype=as_dtype(name), block=block)
    checks.run()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_dequantized_blocks(engine: Any, name: str, dtype: str) -> None:
    checks = Checks(engine, "dequantize")
    for shape, block in CASES if engine is of_interpreter or name == FORMATS[0] else CASES[6:17]:
        q, scale = saturated(numbers(shape, "float32"), name), scales(count(shape, block))
        if engine is of_xla:
            q = np.where(abs(q.astype(np.float32)) == 2.0**-127, q.dtype.type(1), q)  # no number of XLA
        with np.errstate(all="ignore"):
            expected = scaled(q, scale, block).astype(numpy_of(dtype))
        checks.add(expected, [q, scale], dtype=as_dtype(dtype), block=block)
    checks.run()


@pytest.mark.parametrize("engine", [*ENGINES, of_other_kernels])
@pytest.mark.parametrize("name", SIGNED)
def test_every_number_of_16_bits_is_rounded_to_the_nearest_even_one(engine: Any, name: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    for dtype in ("float16", "bfloat16"):
        x, one = every.view(numpy_of(dtype)), np.ones((1,), np.float32)
        if engine is of_xla:
            x = np.where(abs(x.astype(np.float32)) < 2.0**-126, 0, x)  # XLA has no numbers below the normal ones
        actual = result_of(engine, "quantize", [x, one], dtype=as_dtype(name), block=(0,))
        assert_same(actual, saturated(x.astype(np.float32), name))


@pytest.mark.parametrize("engine", [*ENGINES, of_other_kernels])
@pytest.mark.parametrize("name", SIGNED)
def test_numbers_of_float32_beside_ties_are_rounded_to_their_side(engine: Any, name: str) -> None:
    exact = np.unique(np.arange(256, dtype=np.uint8).view(numpy_of(name)).astype(np.float32))
    exact = exact[np.isfinite(exact)]
    ties = np.float32(np.concatenate([exact, (exact[1:] + exact[:-1]) / 2]))
    x = np.concatenate([ties, *(np.nextafter(ties, np.float32(way)) for way in (np.inf, -np.inf))])
    x = np.concatenate([x, np.random.default_rng(0).integers(0, 1 << 32, 200_000).astype(np.uint32).view(np.float32)])
    x = np.where(abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)
    actual = result_of(engine, "quantize", [x, np.ones((1,), np.float32)], dtype=as_dtype(name), block=(0,))
    assert_same(actual, saturated(x, name))


def test_the_shape_of_the_scales() -> None:
    for shape, block in CASES:
        assert Blocks(shape, block).counts == count(shape, block)


shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)


@settings(max_examples=200, deadline=None)
@given(shapes.flatmap(lambda s: st.tuples(st.just(s), st.tuples(*(st.integers(0, 5) for _ in s)))), st.integers(0, 99))
def test_any_shape_in_any_blocks(form: tuple[Any, Any], seed: int) -> None:
    shape, block = form
    x = numbers(shape, "float32", seed)
    assert_same(result_of(of_interpreter, "absolute_maximum", [x], block=block), maxima(x, block))
    scale = scales(count(shape, block), seed=seed)
    q = result_of(of_interpreter, "quantize", [x, scale], dtype=as_dtype("float8_e4m3fn"), block=block)
    assert_same(q, saturated(scaled(x, scale, block), "float8_e4m3fn"))
    y = result_of(of_interpreter, "dequantize", [q, scale], dtype=as_dtype("float32"), block=block)
    assert_same(y, scaled(q, scale, block))


def test_xla_joins_no_scale_with_what_is_around_it() -> None:
    x = numbers((40, 64), "float32", special=False)
    e = Builder()
    inputs = (Value("x", Type(float32, x.shape)),)
    constants = [e.constant(value=np.full((1, 1), each, np.float32)) for each in (0.1, 0.3, 1 / 3)]
    once = e.mul(inputs[0], constants[0])
    q = e.quantize(once, constants[1], dtype=float8_e4m3fn, block=(0, 0))
    back = e.dequantize(q, constants[2], dtype=float32, block=(0, 0))
    results = q, e.mul(back, constants[0])  # a sum would read the product before its rounding, as of any mul
    twice = e.mul(e.mul(inputs[0], constants[1]), constants[0])
    other = e.quantize(twice, constants[2], dtype=float8_e5m2, block=(0, 0))
    graph = Graph("chain", inputs, (), tuple(e.nodes), (), (*results, other))
    for actual, expected in zip(of_xla(graph, [x]), of_interpreter(graph, [x]), strict=True):
        assert_same(actual, expected)


def test_what_overflows_before_its_scale_is_the_largest_number_in_xla() -> None:
    """Its simplifier would multiply both constants first, and 20 would be the result."""
    e, x = Builder(), Value("x", Type(float32, (2,)))
    large = e.mul(x, e.constant(value=np.float32(1e30)))
    q = e.quantize(large, e.constant(value=np.float32([2e-38])), dtype=float8_e4m3fn, block=(0,))
    graph = Graph("chain", (x,), (), tuple(e.nodes), (), (q,))
    assert of_xla(graph, [np.float32([1e9, 1])])[0].astype(np.float32).tolist() == [448.0, 0.0]


def test_what_does_not_fit_is_refused_with_a_sentence() -> None:
    x, scale, q = Type(float32, (4, 6)), Type(float32, (1, 1)), Type(float8_e4m3fn, (4, 6))
    quantize, dequantize, maximum = (lookup(name) for name in ("quantize", "dequantize", "absolute_maximum"))
    with pytest.raises(GraphValueError, match=r"a size for each of the 2 axes, 0 for a whole one, not \(0,\)"):
        maximum.result_types((x,), {"block": (0,)})
    with pytest.raises(GraphValueError, match="size for each of the 2 axes"):
        maximum.result_types((x,), {"block": (0, -1)})
    with pytest.raises(GraphTypeError, match="cast"):
        maximum.result_types((q,), {"block": (0, 0)})
    with pytest.raises(GraphValueError, match=r"in blocks of \(1, 2\) takes a scale of the shape \(4, 3\)"):
        quantize.result_types((x, scale), {"dtype": float8_e4m3fn, "block": (1, 2)})
    with pytest.raises(GraphTypeError, match="takes a low dtype, such as graphls"):
        quantize.result_types((x, scale), {"dtype": float16, "block": (0, 0)})
    with pytest.raises(GraphTypeError, match="has no sign"):
        quantize.result_types((x, scale), {"dtype": float8_e8m0fnu, "block": (0, 0)})
    with pytest.raises(GraphTypeError, match="floating point operands"):
        quantize.result_types((Type(int32, (4, 6)), scale), {"dtype": float8_e4m3fn, "block": (0, 0)})
    with pytest.raises(GraphTypeError, match="float or low dtype"):
        quantize.result_types((x, Type(int32, (1, 1))), {"dtype": float8_e4m3fn, "block": (0, 0)})
    with pytest.raises(GraphTypeError, match="takes an array of a low dtype"):
        dequantize.result_types((x, scale), {"dtype": float32, "block": (0, 0)})
    with pytest.raises(GraphTypeError, match="gives float32, float16 or bfloat16"):
        dequantize.result_types((q, scale), {"dtype": float8_e5m2, "block": (0, 0)})


def test_the_text_has_dtypes_and_blocks() -> None:
    text = """graph @g(%x: f32[4,64], %s: f8e8m0fnu[4,2]) {
  %m = absolute_maximum(%x) {block=[1, 32]} : f32[4,2]
  %q = quantize(%x, %s) {block=[1, 32], dtype=f4e2m1fn} : f4e2m1fn[4,64]
  %y = dequantize(%q, %m) {block=[1, 32], dtype=bf16} : bf16[4,64]
  return %y
}
"""
    printed = dump(parse(text))
    for line in text.splitlines():
        assert line in printed


# The scale of an MX block is 2 ** (floor(log2(largest)) - emax): OCP Microscaling Formats (MX) specification 1.0, 6.3,
# with emax 8 of E4M3, 15 of E5M2 and 2 of E2M1. Below: numbers of one block, its scale, and the elements, by hand.
MX = {
    # The largest is 400, floor(log2) 8: the scale is 1. 400 is a tie of 384 and 416, 17 of 16 and 18, 19 of 18 and 20.
    "float8_e4m3fn": ([400.0, 17.0, -0.3, 0.0, 19.0, -0.0009765625, 3.0, 1.06], 1.0,
                      [384.0, 16.0, -0.3125, 0.0, 20.0, -0.0, 3.0, 1.0]),
    # The largest is 3, floor(log2) 1: the scale is 2 ** -14. 3 becomes 49152 and 0.11 becomes 1802, of 1792 and 2048.
    "float8_e5m2": ([3.0, 0.11, -1.125, 0.0, 2.0**-16, 1e-9, -2.0, 1.375], 2.0**-14,
                    [49152.0, 1792.0, -16384.0, 0.0, 0.25, 2.0**-16, -32768.0, 24576.0]),
    # The largest is 0.9, floor(log2) -1: the scale is 1 / 8. 0.9 is 7.2, beyond 6; 0.3125 is 2.5, a tie of 2 and 3.
    "float4_e2m1fn": ([0.9, 0.3125, -0.4375, 0.03, 0.0312, -0.05, 0.25, 0.65], 0.125,
                      [6.0, 2.0, -4.0, 0.0, 0.0, -0.5, 2.0, 6.0]),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", list(MX))
def test_blocks_of_the_mx_specification(engine: Any, name: str) -> None:
    block, scale, elements = MX[name]
    x = np.zeros((2, 64), np.float32)
    x[1, 32:40] = block
    largest = result_of(engine, "absolute_maximum", [x], block=(1, 32))
    assert_same(largest, np.float32([[0, 0], [0, block[0]]]))
    emax = {"float8_e4m3fn": 8, "float8_e5m2": 15, "float4_e2m1fn": 2}[name]
    assert scale == 2.0 ** (np.floor(np.log2(largest[1, 1])) - emax)
    inverse = np.float32([[1, 1], [1, 1 / scale]])
    q = result_of(engine, "quantize", [x, inverse], dtype=as_dtype(name), block=(1, 32))
    np.testing.assert_array_equal(bits(q[1, 32:40]), bits(np.float32(elements).astype(numpy_of(name))))
    scale_array = np.float32([[1, 1], [1, scale]]).astype(ml_dtypes.float8_e8m0fnu)
    y = result_of(engine, "dequantize", [q, scale_array], dtype=float32, block=(1, 32))
    assert_same(y[1, 32:40], np.float32(elements) * np.float32(scale))


def check_engine(settings: dict[str, Any]) -> None:
    """Skip a test where its engine is not installed."""
    if settings.get("engine") == "xla":
        pytest.importorskip("jax")
    if settings.get("engine") == "onednn":
        try:
            library()
        except GraphRuntimeError as error:
            pytest.skip(error.message)


@pytest.mark.parametrize("settings", [{"backend": "numpy"}, {}, {"engine": "xla"}, {"engine": "onednn"}], ids=str)
def test_a_gradient_passes_straight_through_by_hand(settings: dict[str, Any]) -> None:
    """As the docstring of `ops.quantize` says; the value is the rounded one, to the bit."""
    check_engine(settings)
    x = graphls.Tensor(numbers((4, 64), "float32", special=False))
    block = (1, 32)

    def rounded(x: Any) -> Any:
        scale = 448.0 / ops.maximum(ops.absolute_maximum(x, block), 1e-6)
        return ops.dequantize(ops.quantize(x, scale, block=block), 1.0 / scale, block=block)

    def straight(x: Any) -> Any:
        return (rounded(x) + (x - ops.stop_gradient(x))) * 3.0

    def both(x: Any) -> Any:
        return graphls.value_and_grad(lambda x: straight(x).sum())(x)[1], straight(x), rounded(x)

    gradient, y, plain = graphls.compile(both, x, **settings)(x)
    np.testing.assert_array_equal(gradient.asnumpy(), np.full((4, 64), 3, np.float32))
    np.testing.assert_array_equal(y.asnumpy(), plain.asnumpy() * np.float32(3))
    scale = np.float32(448) / np.maximum(maxima(x.asnumpy(), block), np.float32(1e-6))
    q = saturated(scaled(x.asnumpy(), scale, block), "float8_e4m3fn")
    expected = scaled(q, np.float32(1) / scale, block)
    if "engine" in settings:  # which take a quotient to the last place
        np.testing.assert_allclose(plain.asnumpy(), expected, rtol=1e-6)
    else:
        assert_same(plain.asnumpy(), expected)


@pytest.mark.parametrize("settings", [{"backend": "numpy"}, {}, {"engine": "xla"}, {"engine": "onednn"}], ids=str)
@pytest.mark.parametrize("name", SIGNED)
def test_steps_on_every_engine_have_the_same_bits(settings: dict[str, Any], name: str) -> None:
    check_engine(settings)
    x, scale = numbers((40, 64), "float32", special=False), scales((40, 2))

    def step(x: Any, scale: Any) -> Any:
        q = ops.quantize(x, scale, as_dtype(name), (1, 32))
        return ops.absolute_maximum(x, (1, 32)), q, ops.dequantize(q, scale, graphls.bfloat16, (1, 32))

    operands = graphls.Tensor(x), graphls.Tensor(scale)
    largest, q, y = graphls.compile(step, *operands, **settings)(*operands)
    expected = saturated(scaled(x, scale, (1, 32)), name)
    assert_same(largest.asnumpy(), maxima(x, (1, 32)))
    assert_same(q.asnumpy(), expected)
    np.testing.assert_array_equal(y.asnumpy(), scaled(expected, scale, (1, 32)).astype(ml_dtypes.bfloat16))


def test_functions_have_one_block_and_a_number_for_its_scale_by_default() -> None:
    x = graphls.Tensor(numbers((4, 6), "float32", special=False))
    q = ops.quantize(x, 0.25)
    assert q.dtype is float8_e4m3fn
    assert_same(q.asnumpy(), saturated(x.asnumpy() * np.float32(0.25), "float8_e4m3fn"))
    assert_same(ops.dequantize(q, 4.0).asnumpy(), q.asnumpy().astype(np.float32) * np.float32(4))
    assert_same(ops.absolute_maximum(x).asnumpy(), maxima(x.asnumpy(), (0, 0)))
    assert ops.absolute_maximum([1, -3]).asnumpy() == [3.0]
    gradients = graphls.grad(lambda x: ops.dequantize(ops.quantize(x, 0.25), 4.0).sum())(x)
    np.testing.assert_array_equal(gradients.asnumpy(), np.zeros((4, 6)))
