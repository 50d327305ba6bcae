"""Functions of one number are right to the last bits: far out, near zero, in float64, and at signed zeros."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import graphls
from graphls import Tensor, ops

BACKENDS = ("eager", "numpy", "onnxruntime")
WHOLE = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 1e-30, 1.0, -1.0, 0.5, -0.5, 20.0, -20.0]
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cosh": np.cosh,
    "erf": scipy.special.erf,
    "erfc": np.vectorize(math.erfc),
    "erfinv": scipy.special.erfinv,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "log1p": np.log1p,
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": scipy.special.expit,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
"""What each function is in float64; SciPy's own tail of erfc is less exact than that of the C library."""


def run(function: Callable[..., Any], backend: str, *inputs: Tensor) -> np.ndarray[Any, Any]:
    """What a function gives at once, or compiled."""
    called = function if backend == "eager" else graphls.compile(function, *inputs, backend=backend)
    return np.asarray(called(*inputs).asnumpy())


def points(dtype: Any) -> np.ndarray[Any, Any]:
    """Special numbers, and random ones of every size, as many as the vector unit takes at a time."""
    random = np.random.default_rng(0)
    sizes = (1e-6, 1e-2, 0.3, 1, 3, 10, 30, 100, 1e4, 1e10, 1e20)
    with np.errstate(over="ignore"):
        return np.concatenate([WHOLE, *(random.uniform(-1, 1, 150) * s for s in sizes)]).astype(dtype)


def check(found: Any, expected: Any, dtype: Any, units: float = 8) -> None:
    """Equal within a few roundings, relatively, but for denormal results; zeros have their signs."""
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        expected = np.asarray(expected).astype(dtype)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=units * float(info.eps), atol=float(info.tiny) * units)
    zero = (expected == 0) & (found == 0)
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_right_to_the_last_bits_everywhere(name: str, dtype: Any, backend: str) -> None:
    x = points(dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64))
    if name == "erfinv":
        x, expected = x[(x != 0) | ~np.signbit(x)], expected[(x != 0) | ~np.signbit(x)]  # SciPy makes 0.0 of -0.0
    check(run(getattr(ops, name), backend, Tensor(x)), expected, dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["cos", "sin", "tan"])
def test_angles_of_any_size_are_right_in_float64(name: str, backend: str) -> None:
    """Near a zero of the sine, the runtime's kernel is exact to a rounding of the angle only."""
    random = np.random.default_rng(1)
    scattered = random.uniform(-1, 1, 200) * 10.0 ** random.uniform(-8, 30, 200)
    x = np.concatenate([[0.0, 0.5, -0.5, np.inf, 1e19, 1e22, 1e300], scattered])
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(x)
    np.testing.assert_allclose(run(getattr(ops, name), backend, Tensor(x)), expected, rtol=1e-12, atol=2e-15)


@pytest.mark.parametrize("backend", BACKENDS)
def test_atan2_is_right_in_float64_in_every_quadrant(backend: str) -> None:
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -1e-9, 1e300, np.inf, -np.inf, np.nan])
    y, x = (grid.reshape(-1) for grid in np.meshgrid(numbers, numbers))
    check(run(ops.atan2, backend, Tensor(y), Tensor(x)), np.arctan2(y, x), np.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_tiny_sigmoid_is_no_zero(dtype: str, backend: str) -> None:
    """The runtime's kernel is off by 6e-8, twice too large at -17 and 0 below."""
    x = Tensor(np.linspace(-17.5, -8, 64), dtype)
    inputs = x.asnumpy().astype(np.float64)
    found = run(ops.sigmoid, backend, x).astype(np.float64)
    unit = {"float32": 2e-7, "bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    np.testing.assert_allclose(found, scipy.special.expit(inputs), rtol=unit, atol=3e-8 if dtype == "float16" else 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_logarithm_of_a_sigmoid_far_out_is_finite(backend: str) -> None:
    x = Tensor(np.array([-20.0, -50.0, -87.0], np.float32))
    np.testing.assert_allclose(run(lambda x: ops.log(ops.sigmoid(x)), backend, x), [-20, -50, -87], rtol=1e-6)


@pytest.mark.parametrize("name", ["silu", "mish", "softplus", "logsigmoid"])
@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_slopes_far_out_are_relatively_right(name: str, backend: str) -> None:
    """Against central differences in float64."""
    x = np.array([-19.0, -17.0, -12.0, -5.0, 2.0], np.float32) * (-1 if name == "logsigmoid" else 1)
    wide, h = x.astype(np.float64), 1e-5
    values = [getattr(ops, name)(Tensor(wide + d)).asnumpy() for d in (h, -h)]
    found = run(ops.grad(lambda x: ops.sum(getattr(ops, name)(x))), backend, Tensor(x))
    np.testing.assert_allclose(found, (values[0] - values[1]) / (2 * h), rtol=2e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_square_root_is_rounded_right_at_every_position(dtype: Any, backend: str) -> None:
    """Of every float16, and of the same number at each place of an array."""
    x = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(dtype)
    np.testing.assert_array_equal(run(ops.sqrt, backend, Tensor(x)), np.sqrt(x))
    same = run(ops.sqrt, backend, Tensor(np.full(37, 1.7, dtype)))
    assert len(set(same.tolist())) == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_exponentials_keep_infinities_and_nans(dtype: Any, backend: str) -> None:
    nothing = Tensor(np.full((2, 40), -np.inf, dtype))
    np.testing.assert_array_equal(run(lambda x: ops.logsumexp(x, 1), backend, nothing), [-np.inf, -np.inf])
    rows = Tensor(np.array([[1, np.nan, 2], [1, 2, np.nan], [np.nan, 1, 2]], dtype))
    assert np.isnan(run(lambda x: ops.log_softmax(x, 1), backend, rows)).all()
    half = Tensor(np.array([[-np.inf, 1.0, 1.0]], dtype))
    np.testing.assert_array_equal(run(lambda x: ops.softmax(x, 1), backend, half), [[0, 0.5, 0.5]])
