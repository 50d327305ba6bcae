"""Values and gradients at zeros, ties, infinities, nan and borders, against measured numbers of PyTorch and JAX.

`special_points.json` has the calls and what PyTorch 2.13 and JAX 0.10 gave in float64, for the sensitivities of
`weights`. Expected is PyTorch's number, or JAX's where PyTorch lacks the function. `DIFFERENT` has what is other here,
for the reasons that docs/differences.md gives.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from graphls.frontend.tensors.pytree import leaves
from tests.ops.agree import BACKENDS

TABLE = json.loads(Path(__file__).with_name("special_points.json").read_text())
ROWS = {row["name"]: row for row in TABLE["rows"]}
DTYPE = np.dtype("float32")

NAN, INF = math.nan, math.inf
DIFFERENT: dict[str, dict[str, Any]] = {
    # Equal numbers: others of them get the gradient ("moved"), or both infinities of a pair get half.
    **{key: {"x": "moved"} for key in ("topk 0", "topk 1", "kthvalue 1", "median all")},
    **{key: {"x": (0.5, 0.875), "y": (0.5, 0.875)} for key in ("logaddexp", "logaddexp2")},
    "logcumsumexp 0": {"x": (2.25, 3.25)},
    "logcumsumexp 1": {"x": (4.625, 1.875, 2.8125, 1.4375, 0.8125, 0.4375)},
    # Roots, and norms of what holds nan.
    "hypot": {"value": (NAN,), "x": (0.0,), "y": (0.0,)},
    **{key: {"x": (0.0,)} for key in ("norm 0.5 0", "norm -1 0")},
    **{key: {"x": (NAN,)} for key in ("norm 1 0", "norm 1 1", "renorm")},
    **{key: {"x": "jax"} for key in ("norm inf 0", "norm inf 1", "norm -inf 0", "norm -inf 1")},
    # Slopes at nan, and of products and extremes of what holds nan.
    "sign": {"value": "jax"},
    "abs": {"x": (NAN,)},
    "l1_loss": {"x": (NAN,), "y": (NAN,)},
    **{key: {"x": "jax"} for key in ("relu", "relu6", "elu", "elu 0.5", "selu", "celu", "celu 2")},
    "hardswish": {"value": (0.0,), "x": (NAN,)},
    "clamp tensors": {"z": "jax"},
    **{key: {"x": "jax"} for key in ("prod all", "cumprod 0", "cumprod 1")},
    "tensor_scatter_mul": {"x": (2.0,)},
    **{key: {"x": (NAN,)} for key in ("unsorted_segment_max", "unsorted_segment_min")},
    # Powers, logarithms and quotients.
    **{key: {"x": "jax"} for key in ("pow", "pow 0.0", "pow 1.5")},
    "pow 0.5": {"value": "jax", "x": "jax"},
    "xlogy": {"x": (0.0,), "y": (0.0,)},
    "kl_div": {"y": (0.0,)},
    "copysign": {"x": "jax"},
    "mod": {"y": "jax"},
    "floor_div": {"value": (INF, -INF, 0.0)},
    # Outside of the domain, and poles.
    "acosh": {"x": (NAN,)},
    "logit": {"x": "jax"},
    "digamma": {"x": "jax"},
    "polygamma 1": {"value": (INF,), "x": (NAN, INF, 0.0)},
    # Bessel functions have their limits at infinities, where PyTorch has nan.
    "bessel_i0": {"value": (INF,), "x": (INF, -INF, NAN)},
    "bessel_i1": {"value": (INF, -INF), "x": (INF, NAN)},
    "bessel_i1e": {"x": (NAN,)},
    **{key: {"value": (0.0,)} for key in ("bessel_j0", "bessel_j1", "bessel_y0")},
    "bessel_y1": {"value": (0.0, INF)},
    # Quantiles of infinities, and at nan.
    "quantile 0": {"x": "jax"},
    "quantile 1": {"value": "jax", "x": "jax"},
    "nanquantile": {"value": "jax"},
    # Losses and matrices.
    "binary_cross_entropy": {
        "value": (13.8155107, 27.6310215),
        "x": (1.0, -1.25),
        "y": (27.6310215, 34.5387764, 41.4465332, -55.2620430, -27.6310215, -34.5387764),
    },
    "soft_margin_loss": {"x": (-1.0, 1.0)},
    "det of matrices": {"x": "jax"},
}


def weights(shape: tuple[int, ...]) -> Any:
    return (1 + 0.25 * (np.arange(math.prod(shape)) % 5)).reshape(shape).astype(DTYPE)


def step_of(row: dict[str, Any], names: list[str]) -> Any:
    """A function of the points that gives the value and all gradients of one call."""
    known = {
        "ops": ops,
        "inf": math.inf,
        "stop": ops.stop_gradient,
        "T": lambda items: Tensor(np.array(items, DTYPE)),
        "I": lambda items: Tensor(np.array(items, np.int64)),
        "I32": lambda items: Tensor(np.array(items, np.int32)),
    }

    def total(*tensors: Any) -> Any:
        y = eval(row["call"], {**known, **dict(zip(names, tensors, strict=True))})
        return ops.sum(ops.mul(y, Tensor(weights(y.shape)))), y

    def step(*tensors: Any) -> Any:
        (_, y), gradients = graphls.value_and_grad(total, tuple(range(len(names))), has_aux=True)(*tensors)
        return y, *leaves(gradients)

    return step


@cache
def found(points: str, backend: str) -> dict[str, dict[str, Any]]:
    """What all calls with the same points give, as one step."""
    names = list(TABLE["points"][points])
    arrays = [np.array(items, DTYPE) for items in TABLE["points"][points].values()]
    rows = [row for row in TABLE["rows"] if row["points"] == points]
    steps = [step_of(row, names) for row in rows]
    results = graphls.compile(lambda *x: [step(*x) for step in steps], *arrays, backend=backend)(*arrays)
    parts = ["value", *names]
    return {
        row["name"]: dict(zip(parts, (t.asnumpy().reshape(-1) for t in result), strict=True))
        for row, result in zip(rows, results, strict=True)
    }


def measured(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The expected numbers, and those of JAX, each by "value" and the names of operands."""
    parts = ["value", *TABLE["points"][row["points"]]]
    given = [row[peer].get("numbers") for peer in ("torch", "jax") if peer in row]
    first, *others = [dict(zip(parts, map(as_single, numbers), strict=True)) for numbers in given if numbers]
    return first, others[0] if others else first


def as_single(numbers: Any) -> Any:
    """Numbers as float32 has them; None for what a peer has no gradient of."""
    with np.errstate(over="ignore"):
        return None if numbers is None else np.array(numbers).astype(DTYPE)


def expected(name: str, part: str, got: Any) -> Any:
    """The number for each element: PyTorch's, or one that `DIFFERENT` allows."""
    peer, jax = (numbers[part] for numbers in measured(ROWS[name]))
    other = DIFFERENT.get(name, {}).get(part, ())
    if other == "moved":
        return got if same(np.sort(got), np.sort(peer)).all() or same(got.sum(), peer.sum()) else peer
    if other == "jax":
        return np.where(same(got, peer), peer, jax)
    is_known = np.any([same(got, number) for number in other], axis=0) if other else np.zeros(len(got), bool)
    return np.where(is_known, got, peer)


def same(a: Any, b: Any) -> Any:
    return np.isclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ROWS)
def test_values_and_gradients(name: str, backend: str) -> None:
    with np.errstate(all="ignore"):
        results = found(ROWS[name]["points"], backend)[name]
    for part, got in results.items():
        if measured(ROWS[name])[0][part] is not None:
            np.testing.assert_allclose(got, expected(name, part, got), rtol=1e-4, atol=1e-6, err_msg=part)
