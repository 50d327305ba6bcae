"""Forms give the scales and codes of Transformer Engine, torchao and the published rules, the same on every engine.

The literals come from `numbers`, by programs that nobody wrote here: Transformer Engine 2.20.2
(pytorch/custom_recipes/reference_current_scaling.py and reference_nvfp4.py on a CPU with PyTorch 2.14,
jax/quantize/quantizer.py with JAX 0.10) and torchao 0.18.0 (prototype/mx_formats/mx_tensor.py, `to_mx`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.base.sharing.storage import array_in
from graphls.ir import interpret
from graphls.ir.types import (
    bfloat16,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    type_of,
)
from graphls.passes.precision.forms import BlockForm, CurrentForm, DelayedForm, Form, MXForm, NVFP4Form
from tests.engine_sessions import session_on
from tests.passes.recipe_forms import checksum, graph_of, numbers, rounded, without_states

F32_MAX = float(np.finfo(np.float32).max)
X = numbers(32, 64)


# -- one scale for a tensor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "scale", "inverse", "codes"),
    [  # CurrentScalingQuantizerRef.compute_scale
        (CurrentForm(float8_e4m3fn), "0x1.d144060000000p-2", "0x1.19b6dc0000000p+1", 4140954985),
        (CurrentForm(float8_e4m3fn, True), "0x1.0000000000000p-2", "0x1.0000000000000p+2", 644845028),
        (CurrentForm(float8_e5m2), "0x1.d144060000000p+5", "0x1.19b6dc0000000p-6", 1972898106),
        (CurrentForm(float8_e5m2, True), "0x1.0000000000000p+5", "0x1.0000000000000p-5", 3463388071),
    ],
)
def test_current_scaling_is_that_of_transformer_engine(form: Form, scale: str, inverse: str, codes: int) -> None:
    result = rounded(form, X)
    assert result.scale.shape == (1, 1)
    assert (float(result.scale[0, 0]).hex(), float(result.inverse[0, 0]).hex()) == (scale, inverse)
    assert checksum(result.codes) == codes
    np.testing.assert_array_equal(result.numbers, result.low.astype(np.float32) * result.inverse)


@pytest.mark.parametrize(
    ("maximum", "scale", "power"),
    [  # _scale_from_amax_tensor; of inf and nan compute_scale_from_amax, recipe_common.cuh
        (0.0, 1.0, 1.0),
        (np.inf, 1.0, 1.0),
        (np.nan, 1.0, 1.0),
        (1e-37, F32_MAX, 2.0**127),
        (448.0, 1.0, 1.0),
        (447.99997, float.fromhex("0x1.000002p+0"), 1.0),
        (448.00003, float.fromhex("0x1.fffffep-1"), 0.5),
        (3.0, float.fromhex("0x1.2aaaaap+7"), 128.0),
        (F32_MAX, float.fromhex("0x1.c00002p-120"), 2.0**-120),
    ],
)
def test_the_scale_of_special_maxima(maximum: float, scale: float, power: float) -> None:
    x = np.array([[0.0, -maximum]], np.float32)
    assert rounded(CurrentForm(), x).scale == scale
    assert rounded(CurrentForm(power_of_two=True), x).scale == power
    assert rounded(BlockForm(float8_e4m3fn, (1, 128)), x).scale == power


# -- blocks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "power_of_two", "scales", "codes"),
    [  # _scale_from_amax_tensor on each block of `numbers(192, 160)`
        ((1, 128), True, 2520615443, 1424939667),
        ((1, 128), False, 1284906883, 4120147842),
        ((128, 128), True, 1759690934, 2772417951),
        ((128, 128), False, 913793040, 4143440967),
    ],
)
def test_block_scaling_is_that_of_transformer_engine(
    block: tuple[int, int], power_of_two: bool, scales: int, codes: int
) -> None:
    result = rounded(BlockForm(float8_e4m3fn, block, power_of_two), numbers(192, 160))
    assert result.scale.shape == ((192, 2) if block[0] == 1 else (2, 2))
    assert (checksum(result.scale), checksum(result.codes)) == (scales, codes)


def test_scales_of_some_blocks() -> None:
    x = numbers(192, 160)
    lines, squares = (rounded(BlockForm(float8_e4m3fn, block), x).scale for block in ((1, 128), (128, 128)))
    assert lines[:3].tolist() == [[0.25, 8.0], [0.5, 1.0], [0.5, 32.0]]
    assert squares.tolist() == [[0.25, 0.25], [0.25, 0.25]]


@pytest.mark.parametrize(
    ("dtype", "rule", "scales", "all_scales", "codes", "all_codes"),
    [  # to_mx with ScaleCalculationMode.RCEIL and FLOOR
        (float8_e4m3fn, "ceil", [[122, 125], [127, 129], [124, 126]], 1161603625,
         [192, 91, 116, 60, 173, 216, 253, 102], 3650818626),
        (float8_e5m2, "ceil", [[115, 118], [120, 122], [117, 119]], 1572207348,
         [220, 106, 118, 90, 211, 232, 250, 111], 844453718),
        (float8_e4m3fn, "floor", [[122, 125], [127, 128], [124, 125]], 2135774993,
         [192, 91, 116, 60, 173, 216, 253, 102], 458495306),
        (float8_e5m2, "floor", [[115, 118], [120, 121], [117, 118]], 3523312208,
         [220, 106, 118, 90, 211, 232, 250, 111], 1173839978),
    ],
)  # fmt: skip
def test_mx_blocks_are_those_of_torchao(
    dtype: Any, rule: str, scales: list[list[int]], all_scales: int, codes: list[int], all_codes: int
) -> None:
    result = rounded(MXForm(dtype, (1, 32), rule), X)
    exponents = result.inverse.view(np.uint8)
    assert exponents[:3].tolist() == scales and result.codes[0, :8].tolist() == codes
    assert (checksum(exponents), checksum(result.codes)) == (all_scales, all_codes)


@pytest.mark.parametrize(
    ("maximum", "floor", "ceil"),
    [  # biased exponents, by hand: floor(log2(m)) - 8 + 127 of OCP MX 1.0, ceil(log2(m / 448)) + 127 of the other
        (448.0, 127, 127),
        (np.nextafter(np.float32(448), np.float32(np.inf)), 127, 128),
        (np.nextafter(np.float32(448), np.float32(0)), 127, 127),
        (256.0, 127, 127),
        (512.0, 128, 128),
        (1.75, 119, 119),
        (1.7500001, 119, 120),
        (1.0, 119, 119),
        (0.0, 0, 0),
        (2.0**-126, 0, 0),
        (F32_MAX, 246, 247),
        (np.inf, 255, 255),
        (np.nan, 255, 255),
    ],
)
def test_the_exponent_of_mx_blocks(maximum: float, floor: int, ceil: int) -> None:
    x = np.array([[0.0, -maximum]], np.float32)
    results = (rounded(MXForm(float8_e4m3fn, (1, 32), rule), x).inverse for rule in ("floor", "ceil"))
    assert [int(each.view(np.uint8)[0, 0]) for each in results] == [floor, ceil]


def rounded_up(scales: Any) -> Any:
    """The biased exponents of powers of two that are not below these float32: Transformer Engine's bits."""
    bits_of_scales = scales.view(np.uint32)
    exponents, mantissas = bits_of_scales >> 23, bits_of_scales & 0x7FFFFF
    rises = (mantissas > 0) & (exponents != 0xFE) & ~((exponents == 0) & (mantissas <= 0x400000))
    return (exponents + rises).astype(np.uint8)


def test_exponents_round_up_as_in_transformer_engine() -> None:
    """`_cast_to_e8m0_with_rounding_up` of jax/quantize/quantizer.py, for maxima of all sizes and beside its steps.

    Below 2 ** -126 the quotient there is rounded to few bits, and its exponent may be one less.
    """
    random = np.random.default_rng(0)
    at_steps = np.float32(448) * np.exp2(np.arange(-125, 119, dtype=np.float32))
    beside = [np.nextafter(at_steps, np.float32(limit)) for limit in (0, np.inf)]
    drawn = np.exp2(random.uniform(-126, 127, 20000)).astype(np.float32)
    maxima = np.concatenate([at_steps, *beside, drawn])
    form = MXForm(float8_e4m3fn, (1, 1))
    np.testing.assert_array_equal(rounded(form, maxima[None]).inverse.view(np.uint8)[0], rounded_up(maxima / 448))


# -- two levels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "codes", "all_codes"),
    [  # NVFP4QuantizerRef; twice the numbers of the first row, and the checksum of all
        (NVFP4Form((1, 16)), [0, 1, 6, 0, 0, 0, -12, 2], 3076442790),
        (NVFP4Form((16, 16)), [0, 0, 0, 0, 0, 0, 0, 0], 52630016),
        (NVFP4Form((16, 1), hadamard_axis=0), [-12, 2, 8, -2, -12, 8, 8, 1], 48301288),
    ],
)
def test_nvfp4_is_that_of_transformer_engine(form: NVFP4Form, codes: list[int], all_codes: int) -> None:
    low = rounded(form, X).low.astype(np.float32) + np.float32(0)
    low = low if form.hadamard_axis is None else low.T
    assert (2 * low[0, :8]).tolist() == codes
    assert checksum(low) == all_codes


@pytest.mark.parametrize(
    ("block", "scales", "all_scales"),
    [  # NVFP4QuantizerRef: codes of float8_e4m3fn
        ((1, 16), [[76, 76, 94, 100], [100, 113, 126, 75], [76, 89, 102, 97]], 848157239),
        ((16, 16), [[126, 121, 126, 118]] * 3, 1389436023),
    ],
)
def test_scales_of_nvfp4_blocks(block: tuple[int, int], scales: list[list[int]], all_scales: int) -> None:
    codes = scale_codes(NVFP4Form(block), X)
    codes = codes if block[0] == 1 else np.repeat(codes, 16, axis=0)  # which writes those of a block once for each row
    assert codes[:3].tolist() == scales and checksum(codes) == all_scales


def test_two_levels_by_hand() -> None:
    """amax 2688: s_enc is 1. Blocks of 12, 2688 and 0.003: 2, 448 and 2 ** -9 * 0.25, which rounds to 0."""
    x = np.zeros((1, 64), np.float32)
    x[0, 3], x[0, 20], x[0, 21], x[0, 40] = 12, -2688, 100, 0.003
    result = rounded(NVFP4Form((1, 16)), x)
    assert scale_codes(NVFP4Form((1, 16)), x).view(float8_e4m3fn.numpy).astype(float).tolist() == [[2, 448, 0, 0]]
    assert result.inverse.tolist() == [[2, 448, 0, 0]]
    assert result.scale.tolist() == [[0.5, np.float32(1 / 448), F32_MAX, F32_MAX]]
    assert result.numbers[0, [3, 20, 21, 40, 50]].tolist() == [12, -2688, 0, 0, 0]


def test_a_tensor_of_zeros_stays_one() -> None:
    for form in EVERY:
        zeros = np.zeros((2, 40), np.float32)
        np.testing.assert_array_equal(rounded(form, zeros, random=draws(form, (2, 40))).numbers, zeros)


def scale_codes(form: NVFP4Form, x: Any) -> Any:
    """The bytes of the scales of blocks."""
    graph = graph_of(form, type_of(x))
    codes = [n.outputs[0] for n in graph.nodes if n.primitive.name == "cast" and n.outputs[0].dtype is float8_e4m3fn]
    return interpret(graph.replace(outputs=tuple(codes)), [x])[0][0].view(np.uint8)


def random_numbers(seed: int, shape: tuple[int, ...]) -> Any:
    """The middles of 256 parts of [-1/2, 1/2)."""
    return ((np.random.default_rng(seed).integers(0, 256, shape) + 0.5) / 256 - 0.5).astype(np.float32)


def draws(form: Form, shape: tuple[int, ...]) -> list[Any]:
    """Random numbers for a form that reads some."""
    return [random_numbers(3, shape)] * getattr(form, "is_stochastic", False)


NEAREST, AT_RANDOM = NVFP4Form((1, 16)), NVFP4Form((1, 16), is_stochastic=True)
NUMBERS_OF_FP4 = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]
"""OCP Microscaling Formats v1.0, table 5."""


def test_stochastic_rounding_takes_one_of_the_two_nearest_numbers() -> None:
    random = random_numbers(0, X.shape)
    result = rounded(AT_RANDOM, X, random=[random])
    size = np.minimum(abs(X * np.repeat(rounded(NEAREST, X).scale, 16, axis=1)), np.float32(6))
    every = np.array(NUMBERS_OF_FP4, np.float32)
    outer = np.searchsorted(every, size)
    low, high = every[np.maximum(outer - 1, 0)], every[outer]
    share = np.where(high > size, (size - low) / np.where(high > low, high - low, 1), 1)
    expected = np.where(random * np.sign(X) > 0.5 - share, high, low) * np.sign(X)
    np.testing.assert_array_equal(result.low.astype(np.float32), expected)
    np.testing.assert_array_equal(result.inverse, rounded(NEAREST, X).inverse)


def test_the_mean_of_stochastic_rounding_is_the_number() -> None:
    """Of 6,000 draws; a standard deviation of the mean is at most half a step / sqrt(6000)."""
    x = np.tile(np.linspace(-6, 6, 16, dtype=np.float32), (6000, 1))
    x[0, 0] = 2688.0  # so that the scale of the tensor is 1, and those of other blocks are 1
    random = random_numbers(1, x.shape)
    result = rounded(AT_RANDOM, x, random=[random]).numbers[1:]
    np.testing.assert_allclose(result.mean(axis=0), x[1], atol=4 / 6000**0.5)
    nearest = rounded(NEAREST, x).numbers[1:].mean(axis=0)
    assert abs(nearest - x[1]).max() > 0.3


# -- delayed scaling ----------------------------------------------------------------------------------------------


def test_a_tensor_is_rounded_by_the_scale_of_the_step_before() -> None:
    form = DelayedForm(float8_e4m3fn, amax_history_len=2)
    x = np.array([[1.0, 300.0, -2000.0]], np.float32)
    assert rounded(form, x).numbers.tolist() == [[1, 288, -448]]
    states = {"amax_history": np.zeros(2, np.float32), "scale": np.float32(0.21875)}
    result = rounded(form, x, states)
    assert result.scale.tolist() == [[0.21875]] and result.low.astype(float).tolist() == [[0.21875, 64, -448]]
    np.testing.assert_array_equal(result.numbers, np.array([[0.21875, 64, -448]], np.float32) / np.float32(0.21875))


# -- all forms ----------------------------------------------------------------------------------------------------

EVERY: list[Form] = [
    CurrentForm(), CurrentForm(float8_e5m2, True), DelayedForm(amax_history_len=4), BlockForm(float8_e4m3fn, (1, 128)),
    BlockForm(float8_e5m2, (128, 128), False), MXForm(float8_e4m3fn, (1, 32)), MXForm(float8_e5m2, (32, 1), "floor"),
    MXForm(float4_e2m1fn, (1, 32)), NVFP4Form((1, 16)), NVFP4Form((16, 16)), NVFP4Form((16, 1), hadamard_axis=0),
    NVFP4Form((16, 1), is_stochastic=True, hadamard_axis=0), NVFP4Form((1, 16), is_stochastic=True),
]  # fmt: skip


@pytest.mark.parametrize("form", EVERY, ids=str)
@pytest.mark.parametrize("dtype", [float32, bfloat16, float16, float64], ids=str)
def test_a_rounded_tensor_has_its_own_type(form: Form, dtype: Any) -> None:
    x = numbers(20, 150).astype(dtype.numpy)
    result = rounded(form, x, random=draws(form, x.shape))
    assert type_of(result.numbers) == type_of(x)
    if not form.states and getattr(form, "hadamard_axis", None) is None:
        error, size = (abs(each.astype(float)).max() for each in (result.numbers - x, x))
        assert error < size / 6


@pytest.mark.parametrize("form", EVERY, ids=str)
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_an_overflow_is_not_rounded_away(form: Form, special: float) -> None:
    """A product with such an operand is not finite either, so that loss scaling skips the step."""
    x = numbers(16, 32)
    x[3, 5] = special
    assert not np.isfinite(rounded(form, x, random=draws(form, x.shape)).numbers[3, 5])


@pytest.mark.parametrize("form", EVERY, ids=str)
@pytest.mark.parametrize("dtype", [float32, bfloat16, float16], ids=str)
@pytest.mark.parametrize("engine", ["onnxruntime", "xla"])
def test_engines_round_to_the_same_bits(form: Form, dtype: Any, engine: str) -> None:
    x = numbers(24, 150).astype(dtype.numpy)
    graph = without_states(graph_of(form, type_of(x)))
    states = [array if array.ndim else np.float32(0.0123) for array in form.states.values()]
    states = [*draws(form, x.shape), *states]
    (expected,), _ = interpret(graph, [x, *states])
    (result,) = session_on(engine, graph).run([x, *states])
    np.testing.assert_array_equal(bits(array_in(result)), bits(expected))


def bits(array: Any) -> Any:
    """The integers of its bytes."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
