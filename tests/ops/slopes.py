"""The gradient of a function of tensors is its slope, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.frontend.tensors.pytree import leaves


def assert_slopes(function: Callable[..., Any], *arrays: Any, step: float = 1e-5) -> None:
    """Check the gradients by all float arrays, of a random weighted sum of the float results, in random directions."""
    random = np.random.default_rng(1)
    inputs = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in map(np.asarray, arrays)]
    made = [t for t in leaves(function(*map(graphls.Tensor, inputs))) if t.dtype.is_float]
    weights = [random.normal(size=t.shape) for t in made]
    positions = tuple(i for i, a in enumerate(inputs) if a.dtype.kind == "f")

    def total(*tensors: Any) -> Any:
        results = [t for t in leaves(function(*tensors)) if t.dtype.is_float]
        return sum(ops.sum(ops.mul(r, graphls.Tensor(w))) for r, w in zip(results, weights, strict=True))

    both = graphls.compile(lambda *tensors: ops.value_and_grad(total, positions)(*tensors), *inputs, backend="numpy")
    value, slopes = both(*inputs)
    gradients = leaves(slopes)
    expected = sum(float(np.sum(t.asnumpy() * w)) for t, w in zip(made, weights, strict=True))
    np.testing.assert_allclose(float(value), expected, rtol=1e-6, atol=1e-9)
    for _ in range(2):
        directions = [random.normal(size=a.shape) if a.dtype.kind == "f" else None for a in inputs]
        pairs = list(zip(inputs, directions, strict=True))
        moved = [[a if d is None else a + h * d for a, d in pairs] for h in (step, -step)]
        high, low = (float(both(*point)[0]) for point in moved)
        slope = sum(float(np.sum(g.asnumpy() * directions[i])) for g, i in zip(gradients, positions, strict=True))
        assert slope == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-6)
