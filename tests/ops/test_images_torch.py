"""Functions of images against numbers that PyTorch computed once in float64: values, positions, gradients.

A row of the file has the shapes of the operands, whose elements are `wave`, and the inner products of the result and of
its gradients with other waves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.frontend.tensors.pytree import leaves

BACKENDS = ("numpy", "onnxruntime")
ROWS = json.loads(Path(__file__).with_name("images_torch.json").read_text())


def wave(shape: Any, seed: float) -> Any:
    count = np.arange(int(np.prod(shape)))
    return np.sin((count + 1.0) ** 2 * 0.37 + seed).reshape(shape)


def options_of(row: dict[str, Any]) -> dict[str, Any]:
    """What the function takes: lists as tuples, and the mode of a convolution's padding."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in row["options"].items()}
    if row["name"] in ("conv1d", "conv2d", "conv3d"):
        options["pad_mode"] = "pad"
    return options


def identity_of(row: dict[str, Any]) -> str:
    return f"{row['name']}-{'-'.join(f'{k}={v}' for k, v in row['options'].items())}"


@pytest.mark.parametrize("row", ROWS, ids=identity_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_gradients(row: dict[str, Any], backend: str) -> None:
    options, function = options_of(row), getattr(ops, row["name"])
    inputs = [graphls.Tensor(wave(shape, i)) for i, shape in enumerate(row["shapes"])]
    indices = []

    def loss(*tensors: Any) -> Any:
        y = function(*tensors, **options)
        y, *places = y if isinstance(y, tuple) else (y,)
        assert y.shape == tuple(row["shape"])
        indices[:] = places
        return ops.sum(y * graphls.Tensor(wave(y.shape, 9)))

    def step(*tensors: Any) -> Any:
        value, gradients = graphls.value_and_grad(loss, tuple(range(len(tensors))))(*tensors)
        return value, gradients, tuple(indices)

    value, gradients, places = graphls.compile(step, *inputs, backend=backend)(*inputs)
    np.testing.assert_allclose(value.asnumpy(), row["value"], rtol=1e-9, atol=1e-9)
    for gradient, expected in zip(leaves(gradients), row["gradients"], strict=True):
        found = (gradient.asnumpy() * wave(gradient.shape, 7)).sum()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    for found in places:
        assert found.asnumpy().reshape(-1).tolist() == row["indices"]


@pytest.mark.parametrize("row", ROWS[::4], ids=identity_of)
def test_half_precision_agrees_between_backends(row: dict[str, Any]) -> None:
    options, function = options_of(row), getattr(ops, row["name"])
    inputs = [graphls.Tensor(wave(shape, i).astype(np.float16)) for i, shape in enumerate(row["shapes"])]

    def step(*tensors: Any) -> Any:
        y = function(*tensors, **options)
        return y[0] if isinstance(y, tuple) else y

    first, second = (graphls.compile(step, *inputs, backend=b)(*inputs) for b in BACKENDS)
    assert first.dtype is second.dtype is graphls.float16
    wide = step(*(t.astype(graphls.float64) for t in inputs)).asnumpy()
    for found in (first, second):
        np.testing.assert_allclose(found.asnumpy(), wide, rtol=5e-3, atol=1e-2)
