"""Choices by a condition give the same bits as NumPy, and masks of attention are kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.onednn.test_program import kinds, trained

CAUSAL = np.triu(np.ones((7, 7), bool), 1)
MASKS = {
    "causal": CAUSAL, "with leading axes": CAUSAL[None, None], "one row": np.arange(7) > 3,
    "whole": np.random.default_rng(0).random((2, 3, 7, 7)) > 0.5,
    "by image": np.random.default_rng(0).random((2, 1, 1, 7)) > 0.5,
    "by row": np.random.default_rng(0).random((7, 1)) > 0.5, "scalar": np.array(True), "none": np.zeros((7, 7), bool),
}  # fmt: skip
KERNELS = {"causal", "with leading axes", "one row", "whole", "none"}


def data() -> np.ndarray:
    x = np.random.default_rng(1).normal(size=(2, 3, 7, 7)).astype(np.float32)
    x[0, 0] = np.nan
    x[0, 1], x[0, 2], x[1, 0] = np.inf, -np.inf, -0.0
    x[1, 1, :, 3] = 1e-42
    return x


def assert_same_bits(result: Any, expected: np.ndarray) -> None:
    assert (result.asnumpy().view(np.uint32) == np.ascontiguousarray(expected).view(np.uint32)).all()


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("number", [-np.inf, 0.0, -3.4e38, 1.5, np.nan])
@pytest.mark.parametrize("is_second", [False, True])
def test_a_mask_gives_the_bits_of_numpy(name: str, number: float, is_second: bool) -> None:
    x, mask, number = data(), MASKS[name], np.float32(number)

    def masked(x: Any) -> Any:
        return ops.where(graphls.Tensor(mask), x, number) if is_second else ops.where(graphls.Tensor(mask), number, x)

    step = graphls.compile(masked, x, engine="onednn")
    assert_same_bits(step(x), np.where(mask, x, number) if is_second else np.where(mask, number, x))
    if mask.size > 1 and name != "none" and number == number:  # nan is no number of a pattern
        assert kinds(step)["selection"] == (name in KERNELS)


def test_masks_that_are_computed_and_values_that_broadcast() -> None:
    x, y = data(), np.linspace(-1, 1, 7).astype(np.float32)
    step = graphls.compile(lambda x, y, m: ops.where(m, x, y), x, y, MASKS["by image"], engine="onednn")
    assert_same_bits(step(x, y, MASKS["by image"]), np.where(MASKS["by image"], x, y))
    assert [s.engine for s in step.plan.segments] == ["onednn"] and kinds(step)["where"] == 1


def test_a_mask_is_there_once() -> None:
    x = data()
    mask = graphls.Tensor(CAUSAL)

    def twice(x: Any) -> Any:
        return ops.where(mask, float("-inf"), ops.tanh(ops.where(mask, 0.0, x)))

    step = graphls.compile(twice, x, engine="onednn")
    (part,) = step._session.first
    assert kinds(step)["selection"] == 2 and len(part.program.arrays) == 2
    with np.errstate(invalid="ignore"):
        expected = np.where(CAUSAL, -np.inf, np.tanh(np.where(CAUSAL, 0, x)))
    np.testing.assert_allclose(step(x).asnumpy(), expected, rtol=1e-6)


class Attention(nn.Cell):
    """Causal attention with one head, in which keys that are padding have no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Dense(12, 12), nn.Dense(12, 12), nn.Dense(12, 12)

    def construct(self, x: Any) -> Any:
        scores = ops.matmul(self.query(x), ops.transpose(self.key(x), (0, 2, 1))) / 12**0.5
        scores = ops.where(graphls.Tensor(CAUSAL), float("-inf"), scores)
        padding = ops.expand_dims(x[:, :, 0] > 1.5, 1)
        return ops.matmul(ops.softmax(ops.where(padding, -1e9, scores), -1), self.value(x))


def test_attention_with_masks_trains_as_on_onnx_runtime() -> None:
    losses = {}
    x = np.random.default_rng(1).normal(size=(3, 7, 12)).astype(np.float32)
    for engine in ("onednn", "onnxruntime"):
        graphls.set_seed(1)
        step = trained(Attention(), x, engine)
        losses[engine] = [float(step(x, np.zeros((3, 7, 12), np.float32)).asnumpy()) for _ in range(20)]
        if engine == "onednn":
            assert kinds(step)["selection"] == 2 and kinds(step)["softmax"] == kinds(step)["softmax, gradient"] == 1
    np.testing.assert_allclose(losses["onednn"], losses["onnxruntime"], rtol=1e-5)
