"""Every elementwise function against NumPy and SciPy: dtypes, shapes, gradients, special numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import ops
from graphls.frontend.tensors.pytree import leaves
from tests.ops.agree import agree, compared
from tests.ops.slopes import assert_slopes

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A function, what it is in NumPy, and the range of each of its operands; `smooth` ones have a gradient."""

    name: str
    reference: Callable[..., Any]
    ranges: tuple[tuple[float, float], ...]
    smooth: bool = True


ANY, INSIDE, POSITIVE, ABOVE_ONE = (-2.0, 2.0), (-0.9, 0.9), (0.3, 3.0), (1.2, 4.0)



CASES = [
    Case("tan", np.tan, ((-1.2, 1.2),)),
    Case("asin", np.arcsin, (INSIDE,)),
    Case("acos", np.arccos, (INSIDE,)),
    Case("atan", np.arctan, (ANY,)),
    Case("atan2", np.arctan2, (ANY, ANY)),
    Case("sinh", np.sinh, (ANY,)),
    Case("cosh", np.cosh, (ANY,)),
    Case("asinh", np.arcsinh, (ANY,)),
    Case("acosh", np.arccosh, (ABOVE_ONE,)),
    Case("atanh", np.arctanh, (INSIDE,)),
    Case("arccos", np.arccos, (INSIDE,)),
    Case("deg2rad", np.deg2rad, ((-180, 180),)),
    Case("rad2deg", np.rad2deg, (ANY,)),
    Case("sinc", np.sinc, (ANY,)),
    Case("hypot", np.hypot, (ANY, ANY)),
    Case("exp2", np.exp2, (ANY,)),
    Case("expm1", np.expm1, (ANY,)),
    Case("log2", np.log2, (POSITIVE,)),
    Case("log10", np.log10, (POSITIVE,)),
    Case("logaddexp", np.logaddexp, (ANY, ANY)),
    Case("logaddexp2", np.logaddexp2, (ANY, ANY)),
    Case("xlogy", special.xlogy, (ANY, POSITIVE)),
    Case("xdivy", np.divide, (ANY, POSITIVE)),
    Case("ldexp", lambda x, y: x * 2.0**y, (ANY, ANY)),
    Case("erfc", special.erfc, (ANY,)),
    Case("erfinv", special.erfinv, (INSIDE,)),
    Case("lgamma", special.gammaln, ((-3.4, 5.0),)),
    Case("digamma", special.digamma, ((0.3, 5.0),)),
    Case("logit", special.logit, ((0.1, 0.9),)),
    Case("absolute", np.abs, (POSITIVE,)),
    Case("negative", np.negative, (ANY,)),
    Case("positive", np.positive, (ANY,)),
    Case("inv", np.reciprocal, (POSITIVE,)),
    Case("sgn", np.sign, (ANY,), smooth=False),
    Case("trunc", np.trunc, (ANY,), smooth=False),
    Case("frac", lambda x: x - np.trunc(x), (ANY,)),
    Case("fmod", np.fmod, (ANY, (0.6, 0.9))),
    Case("remainder", np.mod, (ANY, (0.6, 0.9))),
    Case("truncate_mod", np.fmod, (ANY, (-0.9, -0.6))),
    Case("floor_divide", np.floor_divide, (ANY, (0.6, 0.9)), smooth=False),
    Case("truncate_div", lambda x, y: np.trunc(x / y), (ANY, (0.6, 0.9)), smooth=False),
    Case("true_divide", np.divide, (ANY, POSITIVE)),
    Case("divide", np.divide, (ANY, POSITIVE)),
    Case("multiply", np.multiply, (ANY, ANY)),
    Case("subtract", np.subtract, (ANY, ANY)),
    Case("fmax", np.fmax, (ANY, ANY)),
    Case("fmin", np.fmin, (ANY, ANY)),
    Case("lerp", lambda x, end, w: x + w * (end - x), (ANY, ANY, ANY)),
    Case("addcmul", lambda x, a, b: x + a * b, (ANY, ANY, ANY)),
    Case("addcdiv", lambda x, a, b: x + a / b, (ANY, ANY, POSITIVE)),
    Case("copysign", np.copysign, (POSITIVE, ANY)),
    Case("heaviside", np.heaviside, (ANY, ANY), smooth=False),
    Case("nan_to_num", np.nan_to_num, (ANY,)),
    Case("signbit", np.signbit, (ANY,), smooth=False),
    Case("isneginf", np.isneginf, (ANY,), smooth=False),
    Case("isposinf", np.isposinf, (ANY,), smooth=False),
    Case("gt", np.greater, (ANY, ANY), smooth=False),
    Case("ge", np.greater_equal, (ANY, ANY), smooth=False),
    Case("lt", np.less, (ANY, ANY), smooth=False),
    Case("le", np.less_equal, (ANY, ANY), smooth=False),
    Case("eq", np.equal, (ANY, ANY), smooth=False),
    Case("ne", np.not_equal, (ANY, ANY), smooth=False),
]
SHAPES: list[list[tuple[int, ...]]] = [[(2, 3), (3,), (2, 1)], [(), (2, 3), ()], [(0, 3), (3,), (1, 3)]]


def draw(case: Case, shapes: list[tuple[int, ...]], dtype: Any) -> list[Array]:
    """Operands of the function in its ranges."""
    random = np.random.default_rng(sum(map(ord, case.name)))
    pairs = zip(case.ranges, shapes, strict=False)
    return [np.asarray(random.uniform(low, high, shape)).astype(dtype) for (low, high), shape in pairs]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_functions_agree_with_numpy_on_both_backends(case: Case) -> None:
    arrays = draw(case, SHAPES[0], np.float32)
    expected = case.reference(*(a.astype(np.float64) for a in arrays))
    agree(lambda *args: getattr(ops, case.name)(*args), expected, *arrays, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shapes", SHAPES[1:], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_numbers_and_empty_shapes_broadcast(case: Case, shapes: Any) -> None:
    arrays = draw(case, shapes, np.float32)
    found = getattr(ops, case.name)(*map(graphls.Tensor, arrays))
    compared(found, case.reference(*(a.astype(np.float64) for a in arrays)), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", [c for c in CASES if c.smooth], ids=lambda c: c.name)
def test_float16_is_rounded_once(case: Case) -> None:
    """Within one and a half units of the exact result: one rounding, of what float32 has."""
    arrays = draw(case, [(40,)] * 3, np.float16)
    found = getattr(ops, case.name)(*map(graphls.Tensor, arrays))
    assert found.dtype is graphls.float16
    exact = case.reference(*(a.astype(np.float64) for a in arrays))
    roundings = 6 if case.name in COMPOSED else 1
    unit = roundings * 2.0**-11
    np.testing.assert_allclose(found.asnumpy().astype(np.float64), exact, rtol=unit, atol=unit / 4)


COMPOSED = ("frac", "fmod", "remainder", "truncate_mod", "ldexp", "rad2deg", "deg2rad")
"""Of two or three operations that each round, of which the last cancels or the first is large."""


@pytest.mark.parametrize("case", [c for c in CASES if c.smooth], ids=lambda c: c.name)
def test_gradients_are_slopes(case: Case) -> None:
    assert_slopes(getattr(ops, case.name), *draw(case, SHAPES[0], np.float64))


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 80.0, -80.0, np.inf, -np.inf, np.nan], np.float32)
EVERYWHERE = [
    "tan", "atan", "sinh", "cosh", "asinh", "exp2", "expm1", "log2", "log10", "logaddexp", "logaddexp2", "xlogy",
    "erfc", "erfinv", "trunc", "sgn", "signbit", "heaviside", "fmax", "fmin", "nan_to_num", "isneginf", "isposinf",
    "atan2", "asin", "acos", "acosh", "atanh",
]  # fmt: skip


@pytest.mark.parametrize("name", EVERYWHERE)
def test_infinities_nans_and_zeros(name: str) -> None:
    (case,) = (c for c in CASES if c.name == name)
    grid = np.meshgrid(*[SPECIAL] * len(case.ranges))
    arrays = [g.reshape(-1) for g in grid]
    with np.errstate(all="ignore"):
        expected = case.reference(*arrays)
    agree(getattr(ops, name), expected, *arrays, rtol=1e-5)


def test_the_sign_of_zero_counts() -> None:
    zeros = np.array([0.0, -0.0, np.inf, -np.inf], np.float32)
    agree(ops.signbit, np.array([False, True, False, True]), zeros)
    agree(lambda x: 1 / ops.copysign(0.0, x), np.array([np.inf, -np.inf] * 2), zeros)
    agree(ops.hypot, np.array([np.inf, np.inf, 0.0]), np.float32([np.inf, 1, 0]), np.float32([1, -np.inf, -0.0]))
    agree(lambda y: ops.atan2(y, -1.0), np.arctan2(zeros, -1.0), zeros)


def test_gradients_at_ties_and_zeros() -> None:
    """Where a composition could lose them, the gradients are the analytic ones."""

    def slopes(function: Any, *points: float) -> list[float]:
        grad = ops.grad(function, tuple(range(len(points))))
        return [float(g) for g in leaves(grad(*(graphls.Tensor(p) for p in points)))]

    assert slopes(ops.logaddexp, 1.5, 1.5) == pytest.approx([0.5, 0.5])
    assert slopes(ops.sinc, 0.0) == [0.0]
    assert slopes(ops.xlogy, 0.0, 0.0) == [0.0, 0.0]
    assert slopes(ops.xlogy, 0.0, np.e) == pytest.approx([1.0, 0.0])
    assert slopes(ops.hypot, 3e30, 4e30) == pytest.approx([0.6, 0.8])


def test_small_and_large_numbers_are_exact() -> None:
    small = np.array([1e-7, -3e-6, 1e-3, 88.0, -104.0], np.float32)
    agree(ops.expm1, np.expm1(small.astype(np.float64)), small, rtol=1e-6, atol=0)
    far = np.array([3.0, 5.0, 8.0, -6.0], np.float32)
    agree(ops.erfc, special.erfc(far.astype(np.float64)), far, rtol=2e-5, atol=0)
    agree(ops.hypot, np.array([5e30, 5e-30]), np.float32([3e30, 3e-30]), np.float32([4e30, 4e-30]), rtol=1e-6, atol=0)
    agree(ops.logaddexp, np.array([np.log1p(np.exp(-20.0))]), np.float32([0]), np.float32([-20]), rtol=1e-5, atol=0)


WILD = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32)


def test_the_gamma_function_and_its_derivatives() -> None:
    x = np.array([1e-3, 0.1, 0.5, 1, 1.5, 2, 3, 10, 100, 1e5, -0.5, -1.3, -7.7, -100.3])
    for name, reference in (("lgamma", special.gammaln), ("digamma", special.digamma)):
        agree(getattr(ops, name), reference(x), x, rtol=1e-11, atol=1e-11)
    for n in (1, 2, 3, 5):
        positive = x[x > 0]
        agree(lambda x: ops.polygamma(n, x), special.polygamma(n, positive), positive, rtol=1e-10, atol=1e-11)  # noqa: B023
        assert_slopes(lambda x: ops.polygamma(n, x), np.array([-2.3, -0.4, 0.2, 1.7]))  # noqa: B023
    agree(ops.lgamma, np.array([np.inf, np.inf, np.inf, np.nan]), np.float32([0, -2, np.inf, np.nan]))
    agree(lambda x: ops.mvlgamma(x, 3), special.multigammaln(4.5, 3)[None], np.array([4.5]))
    agree(lambda x: ops.logit(x, 0.1), special.logit(np.array([0.1, 0.5, 0.9])), np.array([0.0, 0.5, 1.0]))


def test_options() -> None:
    x, y = np.float32([-2.5, 2.5, 7.0]), np.float32([2.0, 2.0, -2.0])
    agree(lambda x, y: ops.div(x, y, rounding_mode="floor"), np.floor(x / y), x, y)
    agree(lambda x, y: ops.div(x, y, rounding_mode="trunc"), np.trunc(x / y), x, y)
    agree(lambda x, y: ops.subtract(x, y, alpha=0.5), x - 0.5 * y, x, y)
    agree(lambda x, y: ops.addcmul(x, x, y, 2), x + 2 * x * y, x, y)
    agree(lambda x, y: ops.addcdiv(x, x, y, value=graphls.Tensor(0.5)), x + 0.5 * x / y, x, y)
    agree(lambda x: ops.round(x * 1.237, decimals=1), np.round(x * 1.237, 1), x, atol=1e-5)
    agree(lambda x: ops.nan_to_num(x, 1.0, 2.0, -2.0), np.array([1, 2, -2, 0.5]), WILD)
    half = np.float16([np.inf, -np.inf, np.nan])
    agree(ops.nan_to_num, np.array([65504, -65504, 0]), half)
    assert ops.float_power(graphls.Tensor(x), 2).dtype is graphls.float64
    agree(lambda x: ops.float_power(x, 2), x.astype(np.float64) ** 2, x)


def test_integers_stay_integers() -> None:
    x, y = np.int32([-7, 7, -8, 9]), np.int32([2, -2, 3, 4])
    for name, expected in {
        "trunc": x, "fmod": np.fmod(x, y), "remainder": np.mod(x, y), "truncate_div": np.trunc(x / y),
        "floor_divide": x // y, "multiply": x * y, "heaviside": np.heaviside(x, y), "fmax": np.maximum(x, y),
    }.items():  # fmt: skip
        operands = (x,) if name == "trunc" else (x, y)
        agree(getattr(ops, name), expected, *operands)
        assert getattr(ops, name)(*map(graphls.Tensor, operands)).dtype is graphls.int32
    agree(lambda x, y: ops.addcmul(x, x, y, 2), x + 2 * x * y, x, y)
    agree(ops.true_divide, x / y, x, y)
    agree(ops.log2, np.array([0, 1, 3]), np.int64([1, 2, 8]))


def test_bools_count_as_integers() -> None:
    x = np.array([True, False])
    for name, expected in {"neg": [-1, 0], "abs": [1, 0], "sign": [1, 0], "square": [1, 0]}.items():
        agree(getattr(ops, name), np.array(expected, np.int32), x)


BITS = [("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_bits(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([[info.min, -1 if info.min else 1, 0], [1, 100, info.max]], dtype)
    y = np.array([3, 5, info.max], dtype)
    for name, reference in BITS:
        agree(getattr(ops, name), reference(x, y), x, y)
    agree(ops.invert, np.invert(x), x)
    shifts = np.array([0, 1, info.bits - 1], dtype)
    agree(ops.bitwise_left_shift, np.left_shift(x, shifts), x, shifts)
    agree(ops.bitwise_right_shift, np.right_shift(x, shifts), x, shifts)


def test_bits_of_bools_are_logic() -> None:
    x, y = np.array([True, True, False]), np.array([True, False, False])
    for name, reference in BITS:
        agree(getattr(ops, name), reference(x, y), x, y)
    agree(ops.bitwise_not, ~x, x)


def test_nearness() -> None:
    x = np.float32([1.0, 1.0, np.inf, np.inf, np.nan, 0.0])
    y = np.float32([1.0 + 1e-6, 1.1, np.inf, -np.inf, np.nan, np.inf])
    agree(ops.isclose, np.isclose(x, y), x, y)
    agree(lambda x, y: ops.isclose(x, y, equal_nan=True), np.isclose(x, y, equal_nan=True), x, y)
    agree(lambda x, y: ops.isclose(x, y, rtol=0.2), np.isclose(x, y, rtol=0.2), x, y)
    agree(ops.isclose, np.array([True, False]), np.int64([2**40, 2**40]), np.int64([2**40 + 1, 2**41]))
    agree(ops.allclose, False, x, y)
    agree(lambda x: ops.allclose(x, x), True, x[:4])
    agree(lambda x, y: ops.approximate_equal(x, y, 0.05), np.array([True, False]), x[:2], y[:2])


def test_biases_are_added_to_channels() -> None:
    x, bias = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32), np.float32([1, 2, 3])
    agree(ops.bias_add, x + bias[:, None, None], x, bias)
    agree(ops.bias_add, x[..., 0, 0] + bias, x[..., 0, 0], bias)
    agree(ops.accumulate_n, x * 2, [graphls.Tensor(x), graphls.Tensor(x)])
