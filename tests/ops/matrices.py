"""Matrices to test with, and gradients of both orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphls
from graphls import ops
from graphls.frontend.tensors.pytree import leaves
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(3)


def draw(*shape: int) -> Any:
    """Numbers whose square matrices need pivots: their diagonals are small."""
    x = RNG.normal(size=shape)
    if len(shape) > 1 and shape[-1] == shape[-2] > 1:
        x = x + 3 * np.eye(shape[-1])[::-1]
    return x


def positive(*shape: int) -> Any:
    x = draw(*shape)
    return x @ x.swapaxes(-1, -2) + np.eye(shape[-1])


def assert_both_slopes(function: Callable[..., Any], *arrays: Any) -> None:
    """Check the gradient of a function, and the gradient of that gradient."""
    assert_slopes(function, *arrays)
    places = tuple(range(len(arrays)))

    def total(*tensors: Any) -> Any:
        return sum(ops.sum(ops.sin(result)) for result in leaves(function(*tensors)))

    assert_slopes(lambda *tensors: graphls.grad(total, places)(*tensors), *arrays)
