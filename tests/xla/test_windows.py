"""Convolutions of groups in XLA, as CPUs and as other devices run them, and pooling of equal and special numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.ir.registry import operations
from graphls.primitives import convolution_in_xla
from graphls.primitives.windows import Geometry

jax = pytest.importorskip("jax")

PRIMITIVES: dict[str, Any] = {p.name: p for p in operations()}
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 7), (8, 1, 3), {"strides": (2,), "pads": (2, 0), "groups": 4}),
    ((2, 6, 7, 9), (4, 3, 2, 2), {"strides": (2, 3), "pads": (0, 1, 3, 0), "dilations": (2, 1), "groups": 2}),
    ((2, 4, 5, 4, 6), (4, 2, 2, 1, 2), {"strides": (3, 1, 2), "pads": (1, 0, 2, 0, 0, 0), "groups": 2}),
]


def by_operator(jax: Any, is_few: bool, by_products: Any, by_operator: Any, *arrays: Any) -> Any:
    return by_operator(*arrays)


@pytest.mark.parametrize("form", ["on this device", "elsewhere"])
def test_convolutions_of_groups_are_those_of_numpy(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "elsewhere":
        monkeypatch.setattr(convolution_in_xla, "_best", by_operator)
    random, calls = np.random.default_rng(0), []
    for image, kernels, attrs in CASES:
        counts = Geometry.over(kernels[2:], **attrs).counts(image, kernels[2:])
        shapes = image, kernels, (image[0], kernels[0], *counts)
        x, w, g = (random.normal(size=shape).astype(np.float32) for shape in shapes)
        calls.append(("convolution", (x, w), attrs))
        calls.append(("convolution_input_gradient", (g, w), {**attrs, "shape": image}))
        calls.append(("convolution_weight_gradient", (x, g), {**attrs, "shape": kernels}))
    program = jax.jit(lambda every: [PRIMITIVES[c[0]].xla(jax, *a, **c[2]) for c, a in zip(calls, every, strict=True)])
    for (name, arrays, attrs), result in zip(calls, program([c[1] for c in calls]), strict=True):
        expected = PRIMITIVES[name].numpy(*(a.astype(np.float64) for a in arrays), **attrs)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel": (3, 2), "strides": (1, 2), "pads": (1, 1, 2, 0)},
        {"kernel": (2, 2), "strides": (2, 1), "dilations": (2, 3), "pads": (0, 2, 1, 1)},
    ],
)
def test_the_first_of_equal_numbers_wins_and_nan_before_the_largest(attrs: dict[str, Any]) -> None:
    """Positions are compared where a window has more than -inf: there they are unspecified, but in range."""
    numbers = np.array([0, 1, 1, -1, np.nan, np.inf, -np.inf, -0.0], np.float32)
    x = numbers[np.random.default_rng(0).integers(0, len(numbers), (3, 2, 7, 8))]
    with jax.enable_x64(True):
        y, first = map(np.asarray, jax.jit(lambda x: PRIMITIVES["max_pool"].xla(jax, x, **attrs))(x))
    expected, positions = PRIMITIVES["max_pool"].numpy(x, **attrs)
    np.testing.assert_array_equal(y, expected)
    assert first.dtype == positions.dtype and first.min() >= 0 and first.max() < x.size
    is_specified = expected != -np.inf
    np.testing.assert_array_equal(first[is_specified], positions[is_specified])
