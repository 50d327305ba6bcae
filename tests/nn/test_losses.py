"""Losses: values, dtypes, and labels that cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import nn

BACKENDS = ("numpy", "onnxruntime")
LOGITS = np.array([[1, 2, 3], [0, 5, -1]], np.float32)
LABELS = np.array([2, 0], np.int32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_cross_entropy(backend: str) -> None:
    for reduction, expected in (("none", [0.40760595, 5.0091743]), ("mean", 2.7083907), ("sum", 5.4167805)):
        cell = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction=reduction)
        for labels in (LABELS, LABELS.astype(np.int64)):
            found = graphls.compile(cell, LOGITS, labels, backend=backend)(LOGITS, labels)
            np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dense_cross_entropy(backend: str) -> None:
    labels = np.array([[0.1, 0.2, 0.7], [1, 0, 0]], np.float32)
    expected = -(labels * special.log_softmax(LOGITS, 1)).sum(1)
    cell = nn.SoftmaxCrossEntropyWithLogits()
    found = graphls.compile(cell, LOGITS, labels, backend=backend)(LOGITS, labels)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_squared_error(backend: str) -> None:
    labels = np.array([[1, 1, 1], [2, 2, 2]], np.float32)
    squares = (LOGITS - labels) ** 2
    for reduction, expected in (("none", squares), ("mean", squares.mean()), ("sum", squares.sum())):
        found = graphls.compile(nn.MSELoss(reduction), LOGITS, labels, backend=backend)(LOGITS, labels)
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)
    half = nn.MSELoss()(LOGITS.astype(np.float16), labels.astype(np.float16))
    assert half.dtype is graphls.float16


def test_gradient_of_sparse_cross_entropy() -> None:
    cell = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    found = graphls.grad(cell)(LOGITS, LABELS).asnumpy()
    np.testing.assert_allclose(found, (special.softmax(LOGITS, 1) - np.eye(3)[LABELS]) / 2, rtol=1e-5, atol=1e-6)


def test_with_loss_cell() -> None:
    backbone = nn.Dense(3, 2, weight_init="ones", has_bias=False)
    cell = nn.WithLossCell(backbone, nn.MSELoss())
    assert cell.backbone_network is backbone and [p.name for p in cell.get_parameters()] == ["weight"]
    np.testing.assert_allclose(cell(LOGITS, np.zeros((2, 2), np.float32)).asnumpy(), (36 + 16) / 2)
    with pytest.raises(TypeError, match="requires 2 positional"):
        cell(LOGITS)


class Own(nn.LossBase):
    """A loss that a user writes."""

    def construct(self, x: Any, weights: Any) -> Any:
        return self.get_loss(x, weights)


def test_a_loss_of_the_user() -> None:
    np.testing.assert_allclose(Own("sum")(LOGITS, LOGITS).asnumpy(), (LOGITS**2).sum())


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_are_checked_before_a_step_runs(backend: str) -> None:
    sparse = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    step = graphls.compile(sparse, LOGITS, LABELS, backend=backend)
    for wrong in (3, -1):
        with pytest.raises(ValueError, match=rf"{wrong} is not in range\(3\)"):
            step(LOGITS, np.array([0, wrong], np.int32))
    labels = np.array([[np.nan, 0, 0], [0, 0, 0]], np.float32)
    for cell in (nn.MSELoss(), nn.SoftmaxCrossEntropyWithLogits()):
        step = graphls.compile(cell, LOGITS, LOGITS, backend=backend)
        with pytest.raises(ValueError, match="1 labels are nan or infinite"):
            step(LOGITS, labels)


SPARSE = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
DENSE = nn.SoftmaxCrossEntropyWithLogits()
WRONG: list[Any] = [
    (lambda: nn.MSELoss("avg"), ValueError, r"'reduction' must be in \['mean', 'sum', 'none'\], but got 'avg'"),
    (lambda: nn.SoftmaxCrossEntropyWithLogits(sparse=1), TypeError, "'sparse' must be bool"),
    (lambda: SPARSE(LOGITS, LABELS.astype(np.float32)), TypeError, "int32 or int64"),
    (lambda: SPARSE(LOGITS, LABELS[:, None]), ValueError, r"have the shape \(2,\), not \(2, 1\)"),
    (lambda: SPARSE(LOGITS, LABELS[:1]), ValueError, r"have the shape \(2,\)"),
    (lambda: SPARSE(LOGITS[0], LABELS), ValueError, r"\(N, C\)"),
    (lambda: DENSE(LOGITS, LABELS), TypeError, "sparse=True"),
    (lambda: DENSE(LOGITS, LOGITS[:, :2]), ValueError, "must have the shape"),
    (lambda: DENSE(LOGITS, 1.0), TypeError, "takes tensors"),
    (lambda: nn.MSELoss()(LOGITS, None), TypeError, "takes tensors"),
    (lambda: nn.WithLossCell(nn.ReLU(), 3), TypeError, "'loss_fn' must be a Cell or a function, but got 3"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_losses.py")
