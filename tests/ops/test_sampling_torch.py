"""Sampled images and layers as functions against numbers that PyTorch computed once in float64.

The rows are those of `test_images_torch.py`, with a factor for each operand.
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
from tests.ops.test_images_torch import BACKENDS, identity_of, options_of, wave

ROWS = json.loads(Path(__file__).with_name("sampling_torch.json").read_text())


def operands(row: dict[str, Any]) -> list[Any]:
    return [wave(shape, i) * row["scales"][i] for i, shape in enumerate(row["shapes"])]


@pytest.mark.parametrize("row", ROWS, ids=identity_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_gradients(row: dict[str, Any], backend: str) -> None:
    options, function, inputs = options_of(row), getattr(ops, row["name"]), operands(row)

    def loss(*tensors: Any) -> Any:
        y = function(*tensors, **options)
        assert y.shape == tuple(row["shape"])
        return ops.sum(y * graphls.Tensor(wave(y.shape, 9)))

    def step(*tensors: Any) -> Any:
        return graphls.value_and_grad(loss, tuple(range(len(tensors))))(*tensors)

    value, gradients = graphls.compile(step, *inputs, backend=backend)(*inputs)
    np.testing.assert_allclose(value.asnumpy(), row["value"], rtol=1e-9, atol=1e-9)
    for gradient, expected in zip(leaves(gradients), row["gradients"], strict=True):
        found = (gradient.asnumpy() * wave(gradient.shape, 7)).sum()
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("row", ROWS[::3], ids=identity_of)
def test_half_precision_agrees_between_backends(row: dict[str, Any]) -> None:
    options, function = options_of(row), getattr(ops, row["name"])
    inputs = [a.astype(np.float16) for a in operands(row)]
    first, second = (
        graphls.compile(lambda *t: function(*t, **options), *inputs, backend=b)(*inputs) for b in BACKENDS
    )
    assert first.dtype is second.dtype is graphls.float16
    wide = function(*(graphls.Tensor(a.astype(np.float64)) for a in inputs), **options).asnumpy()
    for found in (first, second):
        np.testing.assert_allclose(found.asnumpy(), wide, rtol=5e-3, atol=1e-2)
