"""Gradients far out, at tiny numbers, in 16 bits and of ties, and second derivatives at special points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.frontend.tensors.pytree import leaves
from tests.ops.agree import BACKENDS
from tests.ops.slopes import assert_slopes

Array = np.ndarray[Any, Any]


def gradients(function: Callable[..., Any], *arrays: Array, backend: str = "numpy") -> list[Array]:
    """The gradients of the sum of a function's results, as float64."""
    positions = tuple(range(len(arrays)))

    def step(*tensors: Any) -> Any:
        return ops.grad(lambda *x: ops.sum(function(*x)), positions)(*tensors)

    found = graphls.compile(step, *arrays, backend=backend)(*arrays)
    return [t.asnumpy().astype(np.float64) for t in leaves(found)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_slopes_of_large_and_small_numbers_neither_overflow_nor_vanish(dtype: str, backend: str) -> None:
    far = [1.0, 300.0, 6e4] if dtype == "float16" else [1.0, 1e15, 1e20]
    near = [1e-2, 1e-3] if dtype == "float16" else [1e-15, 1e-25]
    x = np.array(far, dtype)
    rtol = 1e-2 if dtype == "float16" else 1e-5
    (slope,) = gradients(ops.asinh, np.concatenate([x, -x]), backend=backend)
    exact = 1 / np.hypot(x.astype(np.float64), 1)
    np.testing.assert_allclose(slope, [*exact, *exact], rtol=rtol)
    size = np.array([*near, *far], dtype)
    wide = size.astype(np.float64)
    by_height, by_width = gradients(ops.atan2, size, size, backend=backend)
    np.testing.assert_allclose(by_height, 0.5 / wide, rtol=rtol)
    np.testing.assert_allclose(by_width, -0.5 / wide, rtol=rtol)


BESIDE_ZERO: Any = [
    (ops.sinc, [1e-3, 1e-7, 1e-40], None, [-3.289865e-3, -3.289868e-7, -3.289868e-40], None),
    (ops.sinc, [0.31, 0.32], None, [-0.9263483, -0.9501304], None),
    (ops.atan2, [0.0, 1e-45], [1e-40, 1e-40], [np.inf, np.inf], [0.0, -1.4013e35]),
    (ops.pow, [1e-40, -1e-40, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-92.10341, np.nan, 0.0]),
    (ops.hypot, [1e-45, 1e-45], [0.0, 1e-45], [1.0, math.sqrt(0.5)], [0.0, math.sqrt(0.5)]),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(BESIDE_ZERO)))
def test_slopes_of_the_smallest_numbers_are_those_of_float64(number: int, backend: str) -> None:
    function, x, y, by_x, by_y = BESIDE_ZERO[number]
    arrays = [np.array(a, np.float32) for a in (x, y) if a is not None]
    found = gradients(function, *arrays, backend=backend)
    for slope, expected in zip(found, (by_x, by_y), strict=False):
        np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-44)


def test_the_second_derivative_of_sinc_has_no_gap() -> None:
    x = np.array([0.0, 1e-40, 1e-3, 0.318, 0.319])
    second = ops.grad(lambda u: ops.sum(ops.grad(lambda t: ops.sum(ops.sinc(t)))(u)))(graphls.Tensor(x)).asnumpy()
    near = -(math.pi**2) / 3 + (math.pi**4) * x**2 / 10 - (math.pi**6) * x**4 / 168 + (math.pi**8) * x**6 / 6480
    np.testing.assert_allclose(second, near, rtol=2e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_slopes_of_activations_far_out(backend: str) -> None:
    """They are near those of exp(x) times a polynomial: 1 for all but x * exp(x), whose slope is 1 + x."""
    x = np.array([-9.0, -15.0, -17.5, -20.0, -40.0, -80.0], np.float32)
    wide = np.exp(x.astype(np.float64))
    powers = {"sigmoid": wide, "softplus": wide, "silu": (1 + x) * wide, "mish": (1 + x) * wide}
    for name, slope in powers.items():
        np.testing.assert_allclose(gradients(getattr(ops, name), x, backend=backend)[0], slope, rtol=2e-3, err_msg=name)
    np.testing.assert_allclose(gradients(ops.logsigmoid, -x, backend=backend)[0], wide, rtol=2e-3)
    np.testing.assert_allclose(gradients(ops.logsigmoid, x, backend=backend)[0], np.ones(6), rtol=2e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_of_infinity_does_not_pass_a_bound(backend: str) -> None:
    """What loses against a bound gets 0, not 0 times infinity."""
    x = np.array([0.0, 1.0, 2.0], np.float32)
    for function in (ops.maximum, lambda x, low: ops.clamp(x, low)):
        by_x, by_bound = gradients(
            lambda x, low, chosen=function: ops.mul(chosen(x, low), math.inf), x, np.full(3, 1.5, np.float32),
            backend=backend,
        )  # fmt: skip
        np.testing.assert_array_equal(by_x, [0.0, 0.0, math.inf])
        np.testing.assert_array_equal(by_bound, [math.inf, math.inf, 0.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_largest_of_order_infinity_share(backend: str) -> None:
    x, y = np.array([[1.0, 3.0, -3.0]], np.float32), np.zeros((1, 3), np.float32)
    by_x, by_y = gradients(lambda x, y: ops.cdist(x, y, math.inf), x, y, backend=backend)
    np.testing.assert_allclose(by_x, [[0.0, 0.5, -0.5]])
    np.testing.assert_allclose(by_y, [[0.0, -0.5, 0.5]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_first_of_equal_ones_gets_the_gradient_of_each_window_that_overlaps(axes: int, backend: str) -> None:
    x = np.zeros((1, 1, *(4,) * axes), np.float32)
    (found,) = gradients(lambda x: getattr(ops, f"max_pool{axes}d")(x, 3, 1), x, backend=backend)
    expected = np.zeros_like(x)
    expected[(0, 0, *(slice(0, 2),) * axes)] = 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_with_nan_gives_the_gradient_to_its_first_nan_or_infinity(backend: str) -> None:
    x = np.array([[[1.0, math.nan, 3.0, math.nan, 2.0, 1.0, math.inf, math.nan, 0.0]]], np.float32)
    weights = graphls.Tensor(np.arange(1, 8, dtype=np.float32))
    (found,) = gradients(lambda x: ops.mul(ops.max_pool1d(x, 3, 1), weights), x, backend=backend)
    np.testing.assert_array_equal(found, [[[0, 1 + 2, 0, 3 + 4, 0, 0, 5 + 6 + 7, 0, 0]]])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_approximate_gelu_far_out(dtype: str, backend: str) -> None:
    """Its third power overflows from 7e12 on; below -5 it is x * exp(2 * u) for the argument u of the tanh."""
    far = np.array([15.0, 7e12, 1e20, 3e38, -7e12, -1e20, -3e38], dtype)
    (slope,) = gradients(lambda x: ops.gelu(x, "tanh"), far, backend=backend)
    np.testing.assert_array_equal(slope, [1, 1, 1, 1, 0, 0, 0])
    x = np.array([-5.0, -6.0, -8.0], dtype)
    wide = x.astype(np.float64)
    expected = wide * np.exp(math.sqrt(8 / math.pi) * (wide + 0.044715 * wide**3))
    found = graphls.compile(lambda x: ops.gelu(x, "tanh"), x, backend=backend)(x).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_returns_a_position_gives_the_gradient_to_it(backend: str) -> None:
    """One element of each row gets all of it, also where another one is equal, or nan."""
    x = np.array([[2.0, 5.0, 5.0, 2.0], [1.0, math.nan, 3.0, math.nan], [math.inf, 0.0, math.nan, 1.0]], np.float32)
    functions: dict[str, Callable[[Any], Any]] = {
        "max": lambda x: ops.max(x, 1),
        "min": lambda x: ops.min(x, 1),
        "median": lambda x: ops.median(x, 1),
    }
    for name, function in functions.items():
        (found,) = gradients(lambda x, chosen=function: chosen(x)[0], x, backend=backend)
        places = graphls.compile(lambda x, chosen=function: chosen(x)[1], x, backend=backend)(x).asnumpy()
        np.testing.assert_array_equal(found, np.eye(4)[places], err_msg=name)


SEGMENTS = graphls.Tensor(np.array([0, 0, 0, 1, 1, 2, 2, 2, 3]))
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.5, 2.0, -3.0]])
SECOND: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "pow at 0": (lambda x: ops.pow(x, graphls.Tensor(np.array([2.0, 3.0, 1.0, 0.0]))), (np.zeros(4),)),
    "pow by the exponent": (ops.pow, (np.array([0.5, 2.0]), np.array([0.0, -1.5]))),
    "square of a power at 0": (lambda x: ops.square(ops.pow(x, 3.0)), (np.array([0.0, -2.0]),)),
    "prod of rows": (lambda x: ops.prod(x, 1), (ZEROS,)),
    "prod of columns": (lambda x: ops.prod(x, 0), (ZEROS,)),
    "prod of all": (ops.prod, (ZEROS[2:],)),
    "cumprod": (lambda x: ops.cumprod(x, 1), (ZEROS,)),
    "unsorted_segment_prod": (
        lambda x: ops.unsorted_segment_prod(x, SEGMENTS, 4),
        (np.array([0.0, 2.0, 3.0, 0.0, 5.0, 0.0, 0.0, 3.0, 2.0]),),
    ),
    "tensor_scatter_mul": (
        lambda x, y: ops.tensor_scatter_mul(x, ops.reshape(SEGMENTS, (-1, 1)), y),
        (np.array([2.0, 0.0, -1.5, 0.0]), np.array([0.0, 2.0, 3.0, 0.0, 5.0, 0.0, 0.0, 3.0, 0.0])),
    ),
    "logaddexp": (ops.logaddexp, (np.array([1.0, -2.0, 30.0]), np.array([1.0, 3.0, -30.0]))),
    "logcumsumexp": (lambda x: ops.logcumsumexp(x, 0), (np.array([1.0, 1.0, -2.0]),)),
    "atan2": (ops.atan2, (np.array([0.0, 2.0, -3.0, 1e-1]), np.array([1.0, -2.0, 0.0, 1e-1]))),
    "asinh": (ops.asinh, (np.array([0.0, 1.0, -1.5, 50.0]),)),
    "hypot": (ops.hypot, (np.array([3.0, 0.0]), np.array([-4.0, 2.0]))),
    "std": (ops.std, (np.array([1.0, 2.0, 4.0]),)),
    "norm": (lambda x: ops.norm(x, 3, 0), (np.array([1.0, -2.0, 0.5]),)),
    "fmod": (lambda x, y: ops.square(ops.fmod(x, y)), (np.array([2.3, -2.3, 0.3]), np.array([0.9, 0.9, -1.0]))),
    "mod": (lambda x, y: ops.square(ops.mod(x, y)), (np.array([2.3, -2.3, 0.3]), np.array([0.9, 0.9, -1.0]))),
    "gelu": (lambda x: ops.gelu(x, "tanh"), (np.array([0.0, -1.0, 2.0, 13.0, -13.0]),)),
    "elu": (lambda x: ops.elu(x, 0.5), (np.array([-1.0, 2.0, -30.0]),)),
    "huber_loss": (ops.huber_loss, (np.array([0.5, 3.0]), np.array([0.0, 0.0]))),
    "median": (lambda x: ops.square(ops.median(x)[0]), (np.array([1.0, 4.0, 3.0]),)),
    "max": (lambda x: ops.square(ops.max(x, 0)[0]), (np.array([1.0, 4.0, 3.0]),)),
    "maximum": (lambda x, y: ops.square(ops.maximum(x, y)), (np.array([1.0, 4.0]), np.array([2.0, 3.0]))),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    """The gradient of a weighted sum of first derivatives is its slope."""
    function, arrays = SECOND[name]

    def first(*tensors: Any) -> Any:
        positions = tuple(range(len(tensors)))
        return ops.grad(lambda *x: ops.sum(ops.square(function(*x)) + function(*x)), positions)(*tensors)

    assert_slopes(first, *arrays)
    assert all(np.isfinite(g).all() for g in gradients(lambda *x: sum(map(ops.sum, leaves(first(*x)))), *arrays))


@pytest.mark.parametrize("name", ["std", "norm", "hypot"])
def test_second_derivatives_of_roots_at_0_are_finite(name: str) -> None:
    function: Callable[[Any], Any] = {"hypot": lambda x: ops.hypot(x, x)}.get(name, getattr(ops, name))
    (found,) = gradients(lambda x: ops.grad(lambda x: ops.sum(function(x)))(x), np.zeros(3))
    np.testing.assert_array_equal(found, np.zeros(3))


def test_the_slope_of_the_approximate_gelu_takes_eight_operations() -> None:
    """Step by step it took thirteen, one of them a choice between a bounded square's slope and 0."""
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    step = graphls.compile(ops.grad(lambda x: ops.sum(ops.gelu(x, "tanh") * x)), x)
    primitives = [n.primitive.name for n in step.graph.nodes if n.phase == "backward" and n.output.type.size == 64]
    assert "where" not in primitives and len(primitives) <= 8 + 3, primitives
