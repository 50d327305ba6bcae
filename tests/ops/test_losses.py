"""Losses as functions: PyTorch's numbers, gradients, 16 bits, nothing at all, wrong uses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from tests.ops.agree import BACKENDS

X = 3 * np.sin(np.arange(12.0)).reshape(4, 3)
Y = 2 * np.cos(1.7 * np.arange(12.0)).reshape(4, 3)
Z = np.sin(2.3 * np.arange(12.0)).reshape(4, 3)
P, Q, SIGNS = 1 / (1 + np.exp(-X)), 1 / (1 + np.exp(-Y)), np.sign(Y)
SPREAD = np.exp(Y) / np.exp(Y).sum(1, keepdims=True)
CLASSES, SOME, WEIGHTS = np.array([2, 0, 1, 2]), np.array([2, -100, 1, 2]), np.array([0.5, 2, 1.5])
PIXELS, PIXEL_CLASSES = np.stack([X, Z], -1), np.array([[2, 0], [1, 1], [0, 2], [2, 1]])
SETS = np.array([[2, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 2, 0]])
PAIRS, POSITIVE = np.array([1.0, -1, -1, 1]), np.array([0.5, 3, 1])

Loss = Callable[[Any, str], Any]
LOSSES: dict[str, tuple[Any, Loss]] = {
    "mse_loss": (X, lambda x, r: ops.mse_loss(x, Y, r)),
    "l1_loss": (X, lambda x, r: ops.l1_loss(x, Y, r)),
    "smooth_l1_loss": (X, lambda x, r: ops.smooth_l1_loss(x, Y, 1.7, r)),
    "huber_loss": (X, lambda x, r: ops.huber_loss(x, Y, r, 1.3)),
    "binary_cross_entropy": (P, lambda x, r: ops.binary_cross_entropy(x, Q, Q + 0.1, r)),
    "binary_cross_entropy_with_logits": (
        X,
        lambda x, r: ops.binary_cross_entropy_with_logits(x, Q, Q + 0.1, POSITIVE, r),
    ),
    "kl_div": (X, lambda x, r: ops.kl_div(x, SPREAD, r)),
    "soft_margin_loss": (X, lambda x, r: ops.soft_margin_loss(x, SIGNS, r)),
    "hinge_embedding_loss": (X, lambda x, r: ops.hinge_embedding_loss(x, SIGNS, 1.5, r)),
    "margin_ranking_loss": (X, lambda x, r: ops.margin_ranking_loss(x, Y, SIGNS, 0.3, r)),
    "gaussian_nll_loss": (X, lambda x, r: ops.gaussian_nll_loss(x, Y, Q + 0.1, True, reduction=r)),
    "poisson_nll_loss": (X, lambda x, r: ops.poisson_nll_loss(x, 2 * Q, full=True, reduction=r)),
    "poisson_nll_loss of rates": (P, lambda x, r: ops.poisson_nll_loss(x, 2 * Q, log_input=False, reduction=r)),
    "cross_entropy": (X, lambda x, r: ops.cross_entropy(x, CLASSES, reduction=r)),
    "cross_entropy with all": (
        X,
        lambda x, r: ops.cross_entropy(x, SOME, WEIGHTS, reduction=r, label_smoothing=0.2),
    ),
    "cross_entropy of pixels": (PIXELS, lambda x, r: ops.cross_entropy(x, PIXEL_CLASSES, WEIGHTS, 1, r)),
    "cross_entropy of probabilities": (
        X,
        lambda x, r: ops.cross_entropy(x, SPREAD, WEIGHTS, reduction=r, label_smoothing=0.1),
    ),
    "cross_entropy of one sample": (X[0], lambda x, r: ops.cross_entropy(x, np.array(1), reduction=r)),
    "nll_loss": (X, lambda x, r: ops.nll_loss(x, SOME, WEIGHTS, reduction=r)),
    "multi_margin_loss": (X, lambda x, r: ops.multi_margin_loss(x, CLASSES, 2, 0.7, WEIGHTS, r)),
    "multilabel_margin_loss": (X, lambda x, r: ops.multilabel_margin_loss(x, SETS, r)),
    "multilabel_soft_margin_loss": (X, lambda x, r: ops.multilabel_soft_margin_loss(x, Q, WEIGHTS, r)),
    "cosine_embedding_loss": (X, lambda x, r: ops.cosine_embedding_loss(x, Y, PAIRS, -0.6, r)),
    "triplet_margin_loss": (X, lambda x, r: ops.triplet_margin_loss(x, Y, Z, 2.0, swap=True, reduction=r)),
    "triplet_margin_loss of another norm": (X, lambda x, r: ops.triplet_margin_loss(x, Y, Z, p=3, reduction=r)),
}

# As PyTorch 2 computes in float64: the mean, the sum, all losses `weighted` and the gradient of the mean `weighted`.
NUMBERS = {
    "mse_loss": (7.67723561, 92.1268273, 137.959988, -1.72067715),
    "l1_loss": (2.29362561, 27.5235073, 38.2097737, -0.0833959429),
    "smooth_l1_loss": (1.57052087, 18.8462504, 26.7091983, -0.122267928),
    "huber_loss": (2.23251883, 26.7902259, 37.7029825, -0.198110075),
    "binary_cross_entropy": (0.774212213, 9.29054655, 14.8014973, -4.80780151),
    "binary_cross_entropy_with_logits": (1.12522836, 13.5027403, 19.1489935, -0.384854499),
    "kl_div": (-0.0305585813, -0.366702975, 4.01137111, -0.470391569),
    "soft_margin_loss": (1.18928693, 14.2714432, 18.2131188, -0.100106447),
    "hinge_embedding_loss": (0.850228638, 10.2027437, 12.8319144, 0.0684009517),
    "margin_ranking_loss": (2.06879464, 24.8255357, 32.1170453, -0.0540946657),
    "gaussian_nll_loss": (9.51256101, 114.150732, 132.612437, 1.10163434),
    "poisson_nll_loss": (5.30952718, 63.7143262, 77.251786, 3.929739),
    "poisson_nll_loss of rates": (1.75898911, 21.1078693, 33.9056758, -12.5742152),
    "cross_entropy": (1.59093569, 6.36374275, 16.7740415, -0.201014725),
    "cross_entropy with all": (1.90140065, 9.50700326, 24.2735919, -0.200243533),
    "cross_entropy of pixels": (2.32549305, 12.7902118, 23.7917389, -0.357411078),
    "cross_entropy of probabilities": (3.40821438, 13.6328575, 25.9927327, -0.331325084),
    "cross_entropy of one sample": (0.83541257, 0.83541257, 0.104426571, 1.23206386),
    "nll_loss": (-0.706760417, -3.53380208, 8.41624914, -1.69455297),
    "multi_margin_loss": (4.09129424, 16.365177, 51.4005082, -1.43492745),
    "multilabel_margin_loss": (0.0991796113, 0.396718445, 0.109120974, 0.00957926371),
    "multilabel_soft_margin_loss": (1.76362377, 7.05449508, 9.65980112, -0.371933655),
    "cosine_embedding_loss": (1.33270955, 5.33083819, 8.67387637, 0.104606509),
    "triplet_margin_loss": (3.87442884, 15.4977154, 20.284216, 0.821639033),
    "triplet_margin_loss of another norm": (1.90898875, 7.63595498, 12.280283, 0.334633469),
}


def weighted(x: Any) -> Any:
    """The sum of elements with weights from 0.125 to 3.375."""
    flat = ops.reshape(x, (-1,))
    return ops.sum(ops.mul(flat, np.linspace(0.5, 1.5, flat.size) ** 3))


def every(loss: Loss) -> Callable[[Any], Any]:
    """What NUMBERS has of a loss."""

    def measured(x: Any) -> Any:
        gradient = graphls.grad(lambda x: loss(x, "mean"))(x)
        return loss(x, "mean"), loss(x, "sum"), weighted(loss(x, "none")), weighted(gradient)

    return measured


@pytest.mark.parametrize("name", LOSSES)
def test_the_numbers_of_pytorch(name: str) -> None:
    x, loss = LOSSES[name]
    for dtype, rtol in ((np.float64, 1e-6), (np.float32, 2e-5)):
        given = x.astype(dtype)
        steps = [graphls.compile(every(loss), given, backend=b) for b in BACKENDS]
        for found in (f(Tensor(given)) for f in (every(loss), *steps)):
            np.testing.assert_allclose([float(f) for f in found], NUMBERS[name], rtol=rtol, atol=2e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    x, loss = LOSSES[name]
    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    value = graphls.compile(lambda x: weighted(loss(x, "none")), x, backend="numpy")
    slope = graphls.compile(lambda x: graphls.grad(lambda x: weighted(loss(x, "none")))(x), x, backend="numpy")
    expected = (value(x + 1e-6 * direction).item() - value(x - 1e-6 * direction).item()) / 2e-6
    assert (slope(x).asnumpy() * direction).sum() == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_16_bit_losses_are_rounded_once(name: str, backend: str) -> None:
    x, loss = LOSSES[name]
    for dtype in (graphls.float16, graphls.bfloat16):
        half = Tensor(x, dtype)
        both = partial(_rounded, loss, dtype)
        found, expected = (graphls.compile(both, x, backend=backend)(x) for x in (half, half.astype("float32")))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def _rounded(loss: Loss, dtype: Any, x: Any) -> Any:
    return tuple(ops.cast(loss(x, reduction), dtype) for reduction in ("mean", "none"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_float16_does_not_overflow_on_the_way(backend: str) -> None:
    """A hundred thousand pixels, and one difference of 1000 among a thousand: sums leave float16, means do not."""
    scores, labels = np.zeros((1, 2, 100_000), np.float16), np.zeros((1, 100_000), np.int32)
    found = graphls.compile(lambda x, y: ops.cross_entropy(x, y), scores, labels, backend=backend)(scores, labels)
    assert found.dtype is graphls.float16 and found.item() == np.float16(np.log(2))
    x, y = np.zeros(1000, np.float16), np.zeros(1000, np.float16)
    x[0] = 1000
    loss = graphls.compile(lambda x, y: graphls.value_and_grad(ops.mse_loss)(x, y), x, y, backend=backend)
    value, gradient = loss(x, y)
    assert value.item() == 1000 and gradient.asnumpy().tolist() == [2] + [0] * 999


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_gradient_of_a_square_has_room_for_a_loss_scale(backend: str) -> None:
    """As in MindSpore g (2 x): 40000 is a float16, and twice that is none."""
    x, g = np.full(3, 0.25, np.float16), np.full(3, 40000, np.float16)
    step = graphls.compile(lambda x, g: ops.vjp(ops.square, x)[1](g), x, g, backend=backend)
    (slope,) = step(x, g)
    assert slope.asnumpy().tolist() == [20000] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_logits_are_exact(backend: str) -> None:
    x = np.array([-6e4, -100, 0, 100, 6e4], np.float32)
    for label, expected in ((0.0, np.logaddexp(0, x)), (1.0, np.logaddexp(0, -x))):
        loss = partial(_with_logits, label)
        found, slope = graphls.compile(lambda x, f=loss: (f(x), graphls.grad(f)(x)), x, backend=backend)(x)
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(slope.asnumpy(), np.array([0, 0, 0.5, 1, 1]) - label, atol=1e-6)
    sure = np.array([0.0, 1.0], np.float32)
    assert ops.binary_cross_entropy(sure, sure).item() == 0
    assert ops.binary_cross_entropy(sure, 1 - sure).item() == pytest.approx(-np.log(1e-12), rel=1e-5)


def _with_logits(label: float, x: Any) -> Any:
    return ops.binary_cross_entropy_with_logits(x, ops.full_like(x, label), reduction="none")


NONE, NO_CLASSES = np.zeros((0, 3), np.float32), np.zeros(0, np.int32)
NOTHING: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("cross_entropy", "nll_loss", "multi_margin_loss"), (NONE, NO_CLASSES)),
    **dict.fromkeys(("margin_ranking_loss", "gaussian_nll_loss", "triplet_margin_loss"), (NONE, NONE, NONE)),
    "cosine_embedding_loss": (NONE, NONE, NONE[:, 0]),
    "multilabel_margin_loss": (NONE, NONE.astype(np.int32)),
}


@pytest.mark.parametrize("name", sorted({name.split()[0] for name in LOSSES}))
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_mean_of_nothing_is_nan(name: str, backend: str) -> None:
    function, inputs = getattr(ops, name), NOTHING.get(name, (NONE, NONE))
    all_three = lambda: tuple(function(*inputs, reduction=r) for r in ("mean", "sum", "none"))  # noqa: E731
    for mean, total, each in (all_three(), graphls.compile(all_three, backend=backend)()):
        assert np.isnan(mean.item()) and total.item() == 0 and each.size == 0
    traced = graphls.compile(lambda *a: function(*a, reduction="mean"), *inputs, backend=backend)
    assert np.isnan(traced(*inputs).item())


def test_labels_that_do_not_count() -> None:
    none = np.full(4, -100)
    assert np.isnan(ops.cross_entropy(X, none).item()) and ops.cross_entropy(X, none, reduction="sum").item() == 0
    infinite = np.where(np.arange(3) == 0, -np.inf, np.log(0.5)) + np.zeros((4, 1))
    assert ops.nll_loss(infinite, SOME).item() == pytest.approx(-np.log(0.5))
    step = graphls.compile(lambda x, y: ops.cross_entropy(x, y), X, SOME)
    step(X, SOME)
    with pytest.raises(ValueError, match=r"101 is not in range\(3\)"):
        step(X, SOME + 99)


def test_batchmean() -> None:
    found = ops.kl_div(X, SPREAD, "batchmean").item()
    assert found == pytest.approx(ops.kl_div(X, SPREAD, "sum").item() / 4)
    zeros = np.where(SPREAD > 0.4, SPREAD, 0)
    assert np.isfinite(graphls.grad(lambda y: ops.kl_div(X, y))(zeros).asnumpy()).all()


WRONG: list[Any] = [
    (lambda: ops.mse_loss(X, None), TypeError, "mse_loss takes tensors"),
    (lambda: ops.mse_loss(X, Y[:, :2]), ValueError, "broadcast"),
    (lambda: ops.l1_loss(X, Y, "avg"), ValueError, "'reduction' must be in"),
    (lambda: ops.cross_entropy(X, CLASSES, reduction=None), ValueError, "'reduction' must be in"),
    (lambda: ops.cross_entropy(X, CLASSES[:2]), ValueError, r"the shape \(4,\) here, not \(2,\)"),
    (lambda: ops.cross_entropy(X, Y[:, :2]), ValueError, "in the shape of the predictions"),
    (lambda: ops.cross_entropy(X, CLASSES.astype(np.uint8)), TypeError, "int32 or int64 labels"),
    (lambda: ops.cross_entropy(X, CLASSES + 1), ValueError, r"3 is not in range\(3\)"),
    (lambda: ops.cross_entropy(X, CLASSES, WEIGHTS[:2]), ValueError, r"has the shape \(3,\), not \(2,\)"),
    (lambda: ops.cross_entropy(X, CLASSES, 3), TypeError, "weight of cross_entropy takes tensors"),
    (lambda: ops.cross_entropy(X, CLASSES, ignore_index=1.5), TypeError, "'ignore_index' must be int"),
    (lambda: ops.cross_entropy(X, CLASSES, label_smoothing=1.5), ValueError, "at least 0 and at most 1"),
    (lambda: ops.cross_entropy(np.float32(1), CLASSES), ValueError, r"\(N, C\)"),
    (lambda: ops.nll_loss(X, CLASSES, label_smoothing="a"), TypeError, "the type of 'label_smoothing' should be"),
    (lambda: ops.smooth_l1_loss(X, Y, 0.0), ValueError, "'beta' must be greater than 0"),
    (lambda: ops.huber_loss(X, Y, delta=-1), ValueError, "'delta' must be greater than 0"),
    (lambda: ops.binary_cross_entropy(P, Q[:2]), ValueError, "in the shape of the predictions"),
    (lambda: ops.kl_div(X, Y, "batch"), ValueError, "'batchmean'"),
    (lambda: ops.multi_margin_loss(X, CLASSES, 3), ValueError, "'p' must be 1 or 2"),
    (lambda: ops.multi_margin_loss(X[0], CLASSES), ValueError, r"\(N, C\)"),
    (lambda: ops.multilabel_margin_loss(PIXELS, CLASSES), ValueError, r"\(C,\)"),
    (lambda: ops.cosine_embedding_loss(X, Y, PAIRS[:2]), ValueError, "does not fit a target"),
    (lambda: ops.cosine_embedding_loss(X, Y, PAIRS, 2), ValueError, "at least -1 and at most 1"),
    (lambda: ops.triplet_margin_loss(X, Y, Z, p=0.5), ValueError, "'p' must be at least 1"),
    (lambda: ops.triplet_margin_loss(X, Y, Z, eps=0), ValueError, "'eps' must be greater than 0"),
    (lambda: ops.margin_ranking_loss(X, Y, SIGNS, "a"), TypeError, "the type of 'margin' should be 'float'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_losses.py")
