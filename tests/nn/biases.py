"""Layers that add a bias to a product, with whole numbers for which sums are exact until they are rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphls
from graphls import nn, ops

LAYERS: dict[str, tuple[Callable[[], nn.Cell], tuple[int, ...]]] = {
    "dense": (lambda: nn.Dense(70, 9), (5, 70)),
    "dense of sequences": (lambda: nn.Dense(64, 3), (2, 4, 64)),
    "linear": (lambda: nn.Linear(31, 40), (6, 31)),
    "convolution": (lambda: nn.Conv2d(3, 4, 3, pad_mode="valid", has_bias=True), (2, 3, 6, 7)),
    "padded convolution": (lambda: nn.Conv2d(3, 4, 3, 2, pad_mode="pad", padding=1, has_bias=True), (2, 3, 8, 7)),
    "padding around all": (lambda: nn.Conv1d(90, 9, 2, 4, pad_mode="pad", padding=2, has_bias=True), (2, 90, 4)),
    "convolution in groups": (lambda: nn.Conv2d(4, 6, 3, pad_mode="valid", group=2, has_bias=True), (1, 4, 6, 6)),
}


def layer(name: str) -> tuple[nn.Cell, np.ndarray[Any, Any]]:
    """A layer in float32 and its input."""
    make, shape = LAYERS[name]
    cell, generator = make(), np.random.default_rng(len(name))
    for parameter in cell.get_parameters():
        parameter.set_data(generator.integers(-60, 61, parameter.shape).astype(np.float32))
    return cell, generator.integers(-60, 61, shape).astype(np.float32)


def sums(cell: nn.Cell, x: np.ndarray[Any, Any], dtype: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What a layer gives if it is rounded behind the bias, and if it is rounded before it, too."""
    whole = cell(x)
    bias, cell.bias = cell.bias.asnumpy(), None
    product, cell.bias = cell(x), graphls.Parameter(bias, name="bias")
    bias = bias.reshape(-1, *(1,) * (x.ndim - 2)) if isinstance(cell, (nn.Conv1d, nn.Conv2d)) else bias
    twice = ops.cast(ops.cast(ops.cast(product, dtype), graphls.float32) + bias, dtype)
    return ops.cast(whole, dtype).asnumpy(), twice.asnumpy()
