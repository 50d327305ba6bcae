"""Gradients of functions of tensors against central differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.tree import leaves

Array = np.ndarray[Any, Any]


def check_slope(function: Callable[..., Any], *arrays: Array, step: float = 1e-6, rel: float = 1e-6) -> None:
    """The gradient of a random weighted sum of the float results, along a random direction of all inputs."""
    points = [np.asarray(a, np.float64) for a in arrays]
    random = np.random.default_rng(0)
    results = [t for t in leaves(function(*map(graphls.Tensor, points))) if t.dtype.is_float]
    weights = [random.normal(size=t.shape) for t in results]
    directions = [random.normal(size=p.shape) for p in points]

    def weighted(*inputs: Any) -> Any:
        floats = [t for t in leaves(function(*inputs)) if t.dtype.is_float]
        return ops.addn([ops.sum(t * graphls.Tensor(w)) for t, w in zip(floats, weights, strict=True)])

    gradient = graphls.compile(ops.grad(weighted, tuple(range(len(points)))), *points, backend="numpy")
    found = sum(float(np.sum(g.asnumpy() * d)) for g, d in zip(gradient(*points), directions, strict=True))
    ahead, behind = (
        float(weighted(*(graphls.Tensor(p + h * d) for p, d in zip(points, directions, strict=True))))
        for h in (step, -step)
    )
    assert found == pytest.approx((ahead - behind) / (2 * step), rel=rel, abs=1e-6)
