"""Integers at the ends of their range: one rule at once and compiled, that of C and NumPy with two's complement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops

BACKENDS = ["eager", "numpy", "onnxruntime"]
DTYPES = [np.int8, np.int16, np.int32, np.int64]


def run(function: Callable[..., Any], backend: str, *arrays: Any) -> Any:
    tensors = [Tensor(a) for a in arrays]
    called = function if backend == "eager" else graphls.compile(function, *tensors, backend=backend)
    return called(*tensors).asnumpy()


def pairs(dtype: Any) -> tuple[Any, Any]:
    info = np.iinfo(dtype)
    numbers = [info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 7, info.max - 1, info.max]
    x, y = np.meshgrid(*[np.array(numbers, dtype)] * 2)
    return x.reshape(-1), y.reshape(-1)


def wrapped(value: int, dtype: Any) -> int:
    bits = np.iinfo(dtype).bits
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "floor_div": lambda a, b: a // b,
    "truncate_div": truncated,
    "mod": lambda a, b: a % b,
    "fmod": lambda a, b: a - b * truncated(a, b),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_of_every_pair_of_extremes(name: str, dtype: Any, backend: str) -> None:
    """By 0 it gives 0; the least integer by -1 is itself."""
    x, y = pairs(dtype)
    exact = [wrapped(DIVISIONS[name](int(a), int(b)), dtype) if b else 0 for a, b in zip(x, y, strict=True)]
    found = run(getattr(ops, name), backend, x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(exact, dtype))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shifts_by_any_number(dtype: Any, backend: str) -> None:
    """From the number of bits on, and below 0, every bit has left."""
    x, y = pairs(dtype)
    bits = np.iinfo(dtype).bits
    by = [int(b) if 0 <= b < bits else bits for b in y]
    left = np.array([wrapped(int(a) << b, dtype) for a, b in zip(x, by, strict=True)], dtype)
    right = np.array([int(a) >> b for a, b in zip(x, by, strict=True)], dtype)
    np.testing.assert_array_equal(run(ops.bitwise_left_shift, backend, x, y), left)
    np.testing.assert_array_equal(run(ops.bitwise_right_shift, backend, x, y), right)


@pytest.mark.parametrize("backend", BACKENDS)
def test_quotients_of_floats_towards_zero(backend: str) -> None:
    x = np.array([7.0, -7.0, 7.0, -7.0, 0.0, 1.0, -1.0, np.inf, np.nan], np.float32)
    y = np.array([2.0, 2.0, -0.0, -0.0, -0.0, 3.0, 3.0, 2.0, 1.0], np.float32)
    with np.errstate(all="ignore"):
        expected = np.trunc(x / y)
    found = run(ops.truncate_div, backend, x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[5:7]), [False, True])


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_position_of_the_largest_int64(backend: str) -> None:
    x = np.array([[2**53, 2**53 + 1, 2**53], [-(2**62), -(2**62) - 1, 2**63 - 1]], np.int64)
    np.testing.assert_array_equal(run(lambda x: ops.argmax(x, 1), backend, x), [1, 2])
    np.testing.assert_array_equal(run(lambda x: ops.argmin(x, 1), backend, x), [0, 1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_least_integer_is_its_own_negative(dtype: Any, backend: str) -> None:
    x = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    np.testing.assert_array_equal(run(ops.abs, backend, x), np.abs(x))
    np.testing.assert_array_equal(run(ops.neg, backend, x), -x)
    np.testing.assert_array_equal(run(ops.square, backend, x), x * x)
    np.testing.assert_array_equal(run(lambda x: ops.sub(x, 1), backend, x), x - dtype(1))
