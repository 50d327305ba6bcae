"""Attention against what PyTorch 2.13 computed once, of draws that are made anew here."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops

# By torch.nn.functional.scaled_dot_product_attention: its results, and the gradients of the sum of their squares.
EXPECTED: dict[str, Any] = json.loads(Path(__file__).with_name("attention_torch.json").read_text(encoding="utf-8"))

DRAW = np.random.RandomState(7)
SHAPES = [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2), (2, 4, 3, 4)]
Q, K, V, FOUR = (DRAW.randn(*shape).round(2).astype(np.float32) for shape in SHAPES)
BOOLS = DRAW.rand(3, 5) > 0.4
BOOLS[1] = False  # a query that sees no key
FLOATS = DRAW.randn(2, 1, 3, 5).round(2).astype(np.float32)
FLOATS[0, 0, 2] = -math.inf

CASES: dict[str, dict[str, Any]] = {
    "plain": {}, "causal": {"is_causal": True}, "bools": {"attn_mask": BOOLS}, "floats": {"attn_mask": FLOATS},
    "scale": {"scale": 0.3},
}  # fmt: skip


class Attention(nn.Cell):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.settings = {name: Tensor(v) if isinstance(v, np.ndarray) else v for name, v in settings.items()}

    def construct(self, q: Any, k: Any, v: Any) -> Any:
        return ops.scaled_dot_product_attention(q, k, v, **self.settings)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", CASES)
def test_the_numbers_and_slopes_of_pytorch(name: str, backend: str) -> None:
    cell = Attention(CASES[name])

    def loss(q: Any, k: Any, v: Any) -> Any:
        y = cell(q, k, v)
        return ops.sum(y * y), y

    step = graphls.compile(graphls.value_and_grad(loss, has_aux=True), Q, K, V, backend=backend)
    (_, y), slope = step(Q, K, V)
    for found, expected in zip((y, slope), EXPECTED[name], strict=True):
        np.testing.assert_allclose(np.ravel(found.asnumpy()), expected, rtol=2e-5, atol=2e-6)


def test_heads_in_groups() -> None:
    y = ops.scaled_dot_product_attention(Tensor(FOUR), Tensor(K), Tensor(V), None, 0.0, True, enable_gqa=True)
    assert y.shape == (2, 4, 3, 2)
    np.testing.assert_allclose(np.ravel(y.asnumpy()), EXPECTED["groups"][0], rtol=2e-5, atol=2e-6)


def test_half_floats_and_axes_that_broadcast() -> None:
    half = ops.scaled_dot_product_attention(*(Tensor(a.astype(np.float16)) for a in (Q, K, V)), is_causal=True)
    assert half.dtype is graphls.float16
    np.testing.assert_allclose(np.ravel(half.asnumpy()), EXPECTED["causal"][0], atol=4e-3)
    y = ops.scaled_dot_product_attention(Tensor(Q), Tensor(K[0, 0]), Tensor(V[0, 0]))
    np.testing.assert_allclose(y.asnumpy()[0, 0], np.reshape(EXPECTED["plain"][0], y.shape)[0, 0], rtol=2e-5)


def test_dropout_drops_weights() -> None:
    graphls.set_seed(1)
    one = Tensor(np.ones((1, 64, 1), np.float32))
    y = ops.scaled_dot_product_attention(one, one, one, dropout_p=0.25).asnumpy()
    kept = y * 64 * 0.75  # of 64 weights, those that are left
    np.testing.assert_allclose(kept, kept.round(), atol=1e-3)
    assert kept.min() < 64 and 0.9 < y.mean() < 1.1


@pytest.mark.parametrize(
    ("arrays", "settings", "error", "text"),
    [
        ((Q, K, V), {"attn_mask": BOOLS, "is_causal": True}, ValueError, "an attn_mask or is_causal, not both"),
        ((Q, K, V), {"attn_mask": np.ones((3, 5), np.int32)}, TypeError, "holds bools, or floats that are added"),
        ((Q, K, V), {"attn_mask": np.ones((4, 5), bool)}, ValueError, r"of shape \(4, 5\) does not broadcast"),
        ((Q, K[..., :3], V), {}, ValueError, "keys of the size of queries"),
        ((Q, K, V[..., :2, :]), {}, ValueError, "a value for each key"),
        ((Q[0, 0, 0], K, V), {}, ValueError, "of rank 2 or more"),
        ((FOUR[:, :3], K, V), {"enable_gqa": True}, ValueError, "must be a multiple"),
        ((Q, K, V), {"dropout_p": 1.5}, ValueError, "dropout_p"),
        ((Q, K, V), {"scale": "1"}, TypeError, "scale"),
    ],
)
def test_what_does_not_fit(arrays: Any, settings: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {name: Tensor(v) if isinstance(v, np.ndarray) else v for name, v in settings.items()}
    with pytest.raises(error, match=text):
        ops.scaled_dot_product_attention(*map(Tensor, arrays), **given)
