"""Losses as cells: each is its function, MindSpore's documented numbers, labels that cannot be used, wrong settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree

RNG = np.random.default_rng(3)
X, Y, Z = (RNG.normal(size=(4, 3)).astype(np.float32) for _ in range(3))
P, Q, SIGNS = special.expit(X), special.expit(Y), np.sign(Y)
CLASSES, WEIGHTS = np.array([2, 0, 1, 2], np.int32), graphls.Tensor([0.5, 2, 1.5])
SETS, PAIRS = np.array([[2, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 2, 0]], np.int32), np.array([1, -1, -1, 1], np.float32)

CELLS: list[tuple[nn.Cell, Any, tuple[Any, ...]]] = [
    (nn.MSELoss("sum"), ops.mse_loss(X, Y, "sum"), (X, Y)),
    (nn.L1Loss(), ops.l1_loss(X, Y), (X, Y)),
    (nn.MAELoss("none"), ops.l1_loss(X, Y, "none"), (X, Y)),
    (nn.RMSELoss(), np.sqrt(((X - Y) ** 2).mean()), (X, Y)),
    (nn.SmoothL1Loss(0.7), ops.smooth_l1_loss(X, Y, 0.7), (X, Y)),
    (nn.HuberLoss("sum", 0.7), ops.huber_loss(X, Y, "sum", 0.7), (X, Y)),
    (nn.BCELoss(WEIGHTS), ops.binary_cross_entropy(P, Q, WEIGHTS), (P, Q)),
    (nn.BCEWithLogitsLoss("sum", WEIGHTS), ops.binary_cross_entropy_with_logits(X, Q, WEIGHTS, None, "sum"), (X, Q)),
    (
        nn.BCEWithLogitsLoss(pos_weight=WEIGHTS),
        ops.binary_cross_entropy_with_logits(X, Q, pos_weight=WEIGHTS),
        (X, Q),
    ),
    (nn.KLDivLoss("batchmean"), ops.kl_div(X, Q, "batchmean"), (X, Q)),
    (nn.SoftMarginLoss(), ops.soft_margin_loss(X, SIGNS), (X, SIGNS)),
    (nn.HingeEmbeddingLoss(2.0), ops.hinge_embedding_loss(X, SIGNS, 2.0), (X, SIGNS)),
    (nn.MarginRankingLoss(0.2, "sum"), ops.margin_ranking_loss(X, Y, SIGNS, 0.2, "sum"), (X, Y, SIGNS)),
    (nn.GaussianNLLLoss(full=True, eps=0.5), ops.gaussian_nll_loss(X, Y, P, True, 0.5), (X, Y, P)),
    (nn.PoissonNLLLoss(False, True), ops.poisson_nll_loss(P, Q, False, True), (P, Q)),
    (
        nn.CrossEntropyLoss(WEIGHTS, 2, "none", 0.1),
        ops.cross_entropy(X, CLASSES, WEIGHTS, 2, "none", 0.1),
        (X, CLASSES),
    ),
    (nn.CrossEntropyLoss(label_smoothing=0.1), ops.cross_entropy(X, Q, label_smoothing=0.1), (X, Q)),
    (nn.NLLLoss(WEIGHTS), ops.nll_loss(X, CLASSES, WEIGHTS), (X, CLASSES)),
    (nn.MultiMarginLoss(2, 0.5, weight=WEIGHTS), ops.multi_margin_loss(X, CLASSES, 2, 0.5, WEIGHTS), (X, CLASSES)),
    (nn.MultilabelMarginLoss("sum"), ops.multilabel_margin_loss(X, SETS, "sum"), (X, SETS)),
    (nn.MultiLabelSoftMarginLoss(WEIGHTS), ops.multilabel_soft_margin_loss(X, Q, WEIGHTS), (X, Q)),
    (nn.CosineEmbeddingLoss(0.1), ops.cosine_embedding_loss(X, Y, PAIRS, 0.1), (X, Y, PAIRS)),
    (nn.TripletMarginLoss(3, True, margin=0.5), ops.triplet_margin_loss(X, Y, Z, 0.5, 3, swap=True), (X, Y, Z)),
    (nn.TripletMarginLoss(), ops.triplet_margin_loss(X, Y, Z, 2.5), (X, Y, Z, np.array(2.5, np.float32))),
    (nn.TripletMarginLoss(), ops.triplet_margin_loss(X, Y, Z, 2.5), (X, Y, Z, np.array([2.5], np.float32))),
]


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_cell_is_its_function(number: int) -> None:
    cell, expected, inputs = CELLS[number]
    agree(cell, np.asarray(expected), *inputs, rtol=1e-5)


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_labels_are_checked_before_a_step_runs(number: int) -> None:
    cell, _, inputs = CELLS[number]
    step = graphls.compile(cell, *inputs)
    wrong = [np.array(i) for i in inputs]
    labels = wrong[1 if len(inputs) == 2 or isinstance(cell, nn.GaussianNLLLoss) else 2]
    if labels.dtype == np.float32 and not isinstance(cell, nn.TripletMarginLoss):
        labels.flat[0] = np.inf
        message = "1 labels are nan or infinite"
    elif labels.dtype == np.int32:
        labels.flat[0] = 3
        message = r"3 is not in range\(3\)"
    else:
        pytest.skip("it has no labels")
    with pytest.raises(ValueError, match=message):
        step(*wrong)


def test_documented_numbers() -> None:
    """The examples of MindSpore's documentation."""
    scores = np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], np.float32)
    agree(nn.DiceLoss(), np.float32(0.38596618), scores, np.array([[0, 1], [1, 0], [0, 1]], np.float32))
    scores = np.array([[0.2, 0.5, 0.7], [0.3, 0.1, 0.5], [0.9, 0.6, 0.3]], np.float32)
    labels = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]], np.float32)
    agree(nn.MultiClassDiceLoss(), np.float32(0.54958105), scores, labels)
    scores = np.array([[0.8, 1.4], [0.5, 0.9], [1.2, 0.9]], np.float32)
    focal = nn.FocalLoss(weight=graphls.Tensor([1.0, 2.0]), gamma=2.0)
    agree(focal, np.float32(0.12516622), scores, np.array([[1], [1], [0]], np.int32))


def focal(x: Any, labels: Any, gamma: float) -> Any:
    """The loss of each class, in NumPy."""
    p = special.softmax(x, 1)
    return -labels * (1 - p) ** gamma * np.log(p)


def test_focal_loss_of_images_and_probabilities() -> None:
    x = RNG.normal(size=(2, 3, 2, 2)).astype(np.float32)
    numbers = RNG.integers(0, 3, (2, 1, 2, 2)).astype(np.int32)
    named = np.moveaxis(np.eye(3)[numbers[:, 0]], -1, 1)
    each = focal(x, named, 1.5)
    agree(nn.FocalLoss(gamma=1.5, reduction="none"), each.sum(1).mean((1, 2)), x, numbers, rtol=1e-5)
    agree(nn.FocalLoss(gamma=0), focal(x, named, 0).sum(1).mean(), x, numbers, rtol=1e-5)
    soft = special.softmax(RNG.normal(size=x.shape), 1).astype(np.float32)
    agree(nn.FocalLoss(reduction="none"), focal(x, soft, 2).mean((2, 3)), x, soft, rtol=1e-5)


@pytest.mark.parametrize("gamma", [0, 0.5, 1, 2])
def test_focal_loss_of_a_sure_prediction_has_a_gradient(gamma: float) -> None:
    x, labels = np.array([[200, 0], [0, 200]], np.float32), np.array([[0], [0]], np.int32)
    slope = graphls.grad(nn.FocalLoss(gamma=gamma))(x, labels).asnumpy()
    np.testing.assert_allclose(slope, [[0, 0], [-0.5, 0.5]], atol=1e-6)


def test_multi_class_dice_loss_of_images() -> None:
    x, y = RNG.normal(size=(2, 3, 2, 2)).astype(np.float32), RNG.uniform(size=(2, 3, 2, 2)).astype(np.float32)
    p, axes = special.softmax(x, 1), (0, 2, 3)
    each = 1 - 2 * (p * y).sum(axes) / ((p**2).sum(axes) + (y**2).sum(axes) + 1e-5)
    weights = np.array([1, 2, 0.5], np.float32)
    agree(nn.MultiClassDiceLoss(), each.mean(), x, y, rtol=1e-5)
    agree(nn.MultiClassDiceLoss(graphls.Tensor(weights), 1), (each * weights)[[0, 2]].sum() / 3, x, y, rtol=1e-5)
    columns = np.stack([weights, weights**2], 1)
    agree(nn.MultiClassDiceLoss(graphls.Tensor(columns)), (each @ columns) / 3, x, y, rtol=1e-5)
    agree(nn.MultiClassDiceLoss(activation=None), nn.MultiClassDiceLoss(activation=nn.Identity())(x, y).asnumpy(), x, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_perfect_prediction_has_the_gradient_0(backend: str) -> None:
    for cell, inputs in ((nn.RMSELoss(), (X, X)), (nn.TripletMarginLoss(eps=1e-30), (X, X, X))):
        found = graphls.compile(lambda *a, c=cell: graphls.grad(c)(*a), *inputs, backend=backend)(*inputs)
        np.testing.assert_array_equal(found.asnumpy(), 0)


def test_halves_stay_halves() -> None:
    for cell, _, inputs in CELLS:
        halves = [np.asarray(i).astype(np.float16) if np.asarray(i).dtype == np.float32 else i for i in inputs]
        assert cell(*halves).dtype is graphls.float16


WRONG: list[Any] = [
    (lambda: nn.L1Loss("avg"), ValueError, r"'reduction' must be in \['mean', 'sum', 'none'\], but got 'avg'"),
    (lambda: nn.L1Loss("batchmean"), ValueError, "'reduction' must be in"),
    (lambda: nn.SmoothL1Loss(0), ValueError, "'beta' must be greater than 0"),
    (lambda: nn.HuberLoss(delta="a"), TypeError, "the type of 'delta' should be 'float'"),
    (lambda: nn.CosineEmbeddingLoss(2), ValueError, "at least -1 and at most 1"),
    (lambda: nn.TripletMarginLoss(p=0), ValueError, "'p' must be at least 1"),
    (lambda: nn.TripletMarginLoss(swap=1), TypeError, "'swap' must be bool"),
    (lambda: nn.CrossEntropyLoss(label_smoothing=2), ValueError, "at most 1"),
    (lambda: nn.CrossEntropyLoss([1.0]), TypeError, "takes tensors"),
    (lambda: nn.NLLLoss(ignore_index=True), TypeError, "'ignore_index' must be int"),
    (lambda: nn.MultiMarginLoss(3), ValueError, "'p' must be 1 or 2"),
    (lambda: nn.FocalLoss(gamma=-1), ValueError, "'gamma' must be at least 0"),
    (lambda: nn.FocalLoss()(X, CLASSES), ValueError, r"the shape \(4, 1\) here, not \(4,\)"),
    (lambda: nn.FocalLoss()(X[0], CLASSES), ValueError, r"\(N, C\)"),
    (lambda: nn.FocalLoss()(X, Y[:2]), ValueError, "shape of the predictions"),
    (lambda: nn.DiceLoss(0), ValueError, "'smooth' must be greater than 0"),
    (lambda: nn.DiceLoss()(X, Y[:2]), ValueError, "shape of the predictions"),
    (lambda: nn.MultiClassDiceLoss(3), TypeError, "takes tensors"),
    (lambda: nn.MultiClassDiceLoss(ignore_indiex=1.5), TypeError, "must be int"),
    (lambda: nn.MultiClassDiceLoss(activation="hard"), KeyError, "no activation 'hard'"),
    (lambda: nn.MultiClassDiceLoss(graphls.Tensor([1.0]))(X, Y), ValueError, r"the shape \(3,\) or \(3, n\)"),
    (lambda: nn.GaussianNLLLoss(full=1), TypeError, "'full' must be bool"),
    (lambda: nn.BCELoss()(P, None), TypeError, "takes tensors"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_loss_cells.py")
