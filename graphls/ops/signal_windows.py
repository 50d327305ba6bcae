"""Windows for signals: weights that are small at both ends, as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.ir.checks import integer, number
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import as_dtype, float32
from graphls.ops.record import operation
from graphls.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]


def _window(name: str, length: Any, periodic: bool, dtype: Any, weights: Callable[[Array], Array]) -> Tensor:
    """The weights at so many places from 0 to 1, or where they are periodic, without the last of one place more.

    Raises GraphValueError for a negative length, GraphTypeError for a dtype that is not one of floats.
    """
    count, kind = integer(name, "window_length", length), as_dtype(dtype or float32)
    if count < 0:
        raise GraphValueError(f"{name} has a length of 0 or more, not {count}.")
    if not kind.is_float:
        raise GraphTypeError(f"{name} is made of floating point numbers, not {kind!r}.")
    if count == 1:
        return Tensor(np.ones(1), kind)
    places = np.arange(count) / (count if periodic else count - 1)
    return Tensor(weights(places), kind)


def _cosines(*factors: float) -> Callable[[Array], Array]:
    """The sum of factors * cos(2 pi k x) over k."""
    return lambda x: np.sum([factor * np.cos(2 * np.pi * k * x) for k, factor in enumerate(factors)], axis=0)


@operation(classes="BartlettWindow", settings="periodic dtype", defaults={"dtype": float32})
def bartlett_window(window_length: Any, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """Weights that rise from 0 to 1 and fall again in straight lines; float32 unless another float dtype is given.

    With `periodic` they go on at the start of the next window, else they end as they begin.
    """
    return _window("bartlett_window", window_length, periodic, dtype, lambda x: 1 - np.abs(2 * x - 1))


@operation(classes="BlackmanWindow", settings="periodic dtype", defaults={"dtype": float32})
def blackman_window(window_length: Any, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x) of places x from 0 to 1; otherwise as `bartlett_window`."""
    return _window("blackman_window", window_length, periodic, dtype, _cosines(0.42, -0.5, 0.08))


@operation(classes="HammingWindow", settings="periodic alpha beta dtype", defaults={"dtype": float32})
def hamming_window(
    window_length: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None
) -> Tensor:
    """alpha - beta cos(2 pi x) of places x from 0 to 1; otherwise as `bartlett_window`."""
    factors = number("hamming_window", "alpha", alpha), -number("hamming_window", "beta", beta)
    return _window("hamming_window", window_length, periodic, dtype, _cosines(*factors))


@operation
def hann_window(window_length: Any, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """0.5 - 0.5 cos(2 pi x) of places x from 0 to 1; otherwise as `bartlett_window`."""
    return _window("hann_window", window_length, periodic, dtype, _cosines(0.5, -0.5))


@operation
def kaiser_window(window_length: Any, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None) -> Tensor:
    """i0(beta sqrt(1 - y ** 2)) / i0(beta) of places y from -1 to 1; otherwise as `bartlett_window`."""
    width = number("kaiser_window", "beta", beta)

    def weights(x: Array) -> Array:
        return np.asarray(np.i0(width * np.sqrt(np.maximum(1 - (2 * x - 1) ** 2, 0))) / np.i0(width))

    return _window("kaiser_window", window_length, periodic, dtype, weights)
