"""MindSpore's flash_attention_score against its formula in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graphls import Tensor, ops

DRAW = np.random.default_rng(3)
Q, K, V = (DRAW.normal(size=(2, n, s, 4)).astype(np.float32) for n, s in ((4, 3), (2, 5), (2, 5)))
SHIFT = DRAW.normal(size=(1, 4, 3, 5)).astype(np.float32)
HIDDEN = DRAW.random((2, 1, 3, 5)) > 0.6
HIDDEN[..., 0] = False
FAR = np.arange(5)[None] - np.arange(3)[:, None]
"""How far a key is behind a query."""


def expected(hidden: Any = False, shift: Any = 0.0) -> Any:
    scores = 0.5 * np.einsum("bnqd,bnkd->bnqk", Q, K.repeat(2, 1)) + shift
    weights = np.exp(np.where(hidden, -math.inf, scores))
    return np.einsum("bnqk,bnkd->bnqd", weights / weights.sum(-1, keepdims=True), V.repeat(2, 1))


CASES: list[Any] = [
    ({}, expected()),
    ({"attn_mask": HIDDEN.astype(np.uint8)}, expected(HIDDEN)),
    ({"real_shift": SHIFT, "sparse_mode": 1}, expected(shift=SHIFT)),
    ({"real_shift": SHIFT, "attn_mask": HIDDEN}, expected(HIDDEN, SHIFT)),
    ({"pre_tokens": 1, "next_tokens": 2}, expected((FAR < -1) | (FAR > 2))),
    ({"sparse_mode": 2, "attn_mask": np.ones((8, 8), bool)}, expected(FAR > 0)),
    ({"sparse_mode": 3}, expected(FAR > 2)),
    ({"sparse_mode": 4, "pre_tokens": 1, "next_tokens": 0}, expected((FAR > 2) | (FAR < 1))),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_masks_shifts_and_modes(number: int) -> None:
    settings, wanted = CASES[number]
    given = {name: Tensor(v) if isinstance(v, np.ndarray) else v for name, v in settings.items()}
    arrays = map(Tensor, (Q, K, V))
    y = ops.flash_attention_score(*arrays, 4, scalar_value=0.5, input_layout="BNSD", **given)
    np.testing.assert_allclose(y.asnumpy(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("layout", "axes"), [("BSND", (0, 2, 1, 3)), ("BSH", (0, 2, 1, 3)), ("SBH", (2, 0, 1, 3))])
def test_layouts(layout: str, axes: tuple[int, ...]) -> None:
    def laid(x: Any) -> Any:
        x = x.transpose(axes)
        return x.reshape(*x.shape[:2], -1) if "H" in layout else x

    arrays = (Tensor(laid(x)) for x in (Q, K, V))
    y = ops.flash_attention_score(*arrays, 4, scalar_value=0.5, input_layout=layout)
    np.testing.assert_allclose(y.asnumpy(), laid(expected()), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"input_layout": "TND"}, "takes the layouts BNSD, BSND, BSH, SBH and sparse modes 0 to 4, not 'TND'"),
        ({"sparse_mode": 5}, "sparse modes 0 to 4, not 'BNSD' and 5"),
        ({"prefix": [1]}, r"flash_attention_score \('prefix'\); give attn_mask"),
        ({"head_num": 3}, "cannot be 3"),
        ({"input_layout": "BSH"}, "has 3 axes"),
    ],
)
def test_what_does_not_fit(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ops.flash_attention_score(*map(Tensor, (Q, K, V)), **{"head_num": 4, "input_layout": "BNSD", **settings})
