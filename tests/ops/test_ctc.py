"""CTC against PyTorch's numbers, all alignments one by one, and MindSpore's example of greedy decoding."""

from __future__ import annotations

import json
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.slopes import assert_slopes
from tests.ops.test_images_torch import BACKENDS, wave

ROWS = json.loads(Path(__file__).with_name("ctc_torch.json").read_text())
SAMPLES = (np.array([[1, 2, 2], [3, 1, 0], [4, 0, 0]]), np.array([7, 5, 6]), np.array([3, 2, 1]))


def scores(times: int, samples: int, classes: int) -> Any:
    return wave((times, samples, classes), 1) * 2


def log_probabilities(times: int, samples: int, classes: int) -> Any:
    x = scores(times, samples, classes)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def identity_of(row: dict[str, Any]) -> str:
    return f"{row['T']}-{row['reduction']}-{row['zero_infinity']}"


@pytest.mark.parametrize("row", ROWS, ids=identity_of)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_numbers_as_pytorch(row: dict[str, Any], backend: str) -> None:
    x = scores(row["T"], len(row["il"]), row["C"])
    settings = row["blank"], row["reduction"], row["zero_infinity"]

    def loss(x: Any, *others: Any) -> Any:
        losses = ops.ctc_loss(ops.log_softmax(x, 2), *others, *settings)[0]
        weighted = ops.sum(losses * graphls.Tensor(wave(losses.shape, 9))) if row["reduction"] == "none" else losses
        return weighted, losses

    def step(*inputs: Any) -> Any:
        (_, losses), gradient = graphls.value_and_grad(loss, 0, has_aux=True)(*inputs)
        return losses, gradient

    operands = x, np.array(row["targets"]), np.array(row["il"]), np.array(row["tl"])
    losses, gradient = graphls.compile(step, *operands, backend=backend)(*operands)
    np.testing.assert_allclose(losses.asnumpy().reshape(-1), [float(n) for n in row["loss"]], rtol=1e-9)
    assert np.isfinite(gradient.asnumpy()).all()
    if row["gradient"] is not None:
        np.testing.assert_allclose((gradient.asnumpy() * wave(x.shape, 7)).sum(), row["gradient"], rtol=1e-8)


def collapsed(path: Any, blank: int) -> list[int]:
    return [label for label, _ in groupby(path) if label != blank]


def test_all_alignments_one_by_one() -> None:
    x = log_probabilities(4, 2, 3)
    targets = [[1, 2], [1, 1]]
    losses, alphas = ops.ctc_loss(x, np.array(targets), (4, 4), (2, 2), reduction="none")
    for sample in range(2):
        paths = [p for p in product(range(3), repeat=4) if collapsed(p, 0) == targets[sample]]
        total = sum(np.exp(sum(x[t, sample, label] for t, label in enumerate(p))) for p in paths)
        assert losses[sample].item() == pytest.approx(-np.log(total), rel=1e-12)
    first = alphas.asnumpy()[:, 0]
    np.testing.assert_allclose(first[:, :2], x[0][:, [0, 1]])
    assert alphas.shape == (2, 4, 5) and np.isneginf(first[:, 2:]).all()


def test_gradients_are_slopes() -> None:
    x = log_probabilities(7, 3, 5)
    for reduction in ("none", "mean"):
        assert_slopes(lambda x: ops.ctc_loss(x, *SAMPLES, reduction=reduction)[0], x)  # noqa: B023


@pytest.mark.parametrize("backend", BACKENDS)
def test_halves_and_single_precision(backend: str) -> None:
    x = log_probabilities(7, 3, 5)
    expected = ops.ctc_loss(x, *SAMPLES)[0].item()
    for dtype, rtol in ((np.float32, 1e-5), (np.float16, 2e-3)):
        step = graphls.compile(lambda x: ops.ctc_loss(x, *SAMPLES), x.astype(dtype), backend=backend)
        loss, alphas = step(x.astype(dtype))
        assert loss.asnumpy().dtype == alphas.asnumpy().dtype == dtype
        assert loss.item() == pytest.approx(expected, rel=rtol)


def test_classes_that_are_impossible_and_nans() -> None:
    x = log_probabilities(7, 3, 5)
    x[:, :, 4] = -np.inf
    losses, _ = ops.ctc_loss(x, *SAMPLES, reduction="none")
    assert np.isfinite(losses.asnumpy()[:2]).all() and np.isinf(losses.asnumpy()[2])
    gradient = ops.grad(lambda x: ops.ctc_loss(x, *SAMPLES, reduction="sum", zero_infinity=True)[0])(graphls.Tensor(x))
    assert np.isfinite(gradient.asnumpy()).all() and (gradient.asnumpy()[:, 2] == 0).all()
    x[0, 0, 0] = np.nan
    losses, _ = ops.ctc_loss(x, *SAMPLES, reduction="none", zero_infinity=True)
    assert np.isnan(losses.asnumpy()[0]) and losses.asnumpy()[2] == 0


def test_targets_without_labels() -> None:
    x = log_probabilities(3, 2, 4)
    losses, alphas = ops.ctc_loss(x, np.zeros((2, 0), np.int64), (3, 2), (0, 0), reduction="none")
    np.testing.assert_allclose(losses.asnumpy(), [-x[:, 0, 0].sum(), -x[:2, 1, 0].sum()])
    assert alphas.shape == (2, 3, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cell(backend: str) -> None:
    x, (targets, times, counts) = log_probabilities(7, 3, 5), SAMPLES
    expected = ops.ctc_loss(x, *SAMPLES)[0].item()
    cell = nn.CTCLoss()
    assert graphls.compile(cell, x, *SAMPLES, backend=backend)(x, *SAMPLES).item() == pytest.approx(expected)
    joined = np.concatenate([row[:n] for row, n in zip(targets, counts, strict=True)])
    for lengths in (counts, tuple(counts.tolist())):
        assert cell(x, joined, times, lengths).item() == pytest.approx(expected)
    one = ops.ctc_loss(x[:, :1], targets[:1], times[:1], counts[:1], reduction="none")[0].item()
    for labels in (targets[0], targets[:1]):
        single = nn.CTCLoss(reduction="none")(x[:, 0], labels, graphls.Tensor(7), graphls.Tensor(3))
        assert single.shape == () and single.item() == pytest.approx(one)


def test_greedy_decoding() -> None:
    inputs = np.float32([[[0.6, 0.4, 0.2], [0.8, 0.6, 0.3]], [[0.0, 0.6, 0.0], [0.5, 0.4, 0.5]]])
    places, classes, shape, scores = ops.ctc_greedy_decoder(inputs, np.int32([2, 2]))
    assert places.tolist() == [[0, 0], [0, 1], [1, 0]] and classes.tolist() == [0, 1, 0] and shape.tolist() == [2, 2]
    np.testing.assert_allclose(scores.asnumpy(), [[-1.2], [-1.3]], rtol=1e-6)
    assert [t.dtype.long_name for t in (places, classes, shape, scores)] == ["int64"] * 3 + ["float32"]
    places, classes, shape, _ = ops.ctc_greedy_decoder(inputs, np.int32([2, 2]), False)
    assert places.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]] and classes.tolist() == [0, 1, 0, 0]


def test_greedy_decoding_is_what_collapsing_is() -> None:
    x = np.random.default_rng(1).normal(size=(9, 4, 3)).astype(np.float32)
    lengths = [9, 4, 0, 7]
    places, classes, shape, _ = ops.ctc_greedy_decoder(x, np.int32(lengths))
    expected = [collapsed(x[:n, i].argmax(1), 2) for i, n in enumerate(lengths)]
    assert shape.tolist() == [4, max(map(len, expected))]
    found = places.asnumpy()
    assert [classes.asnumpy()[found[:, 0] == i].tolist() for i in range(4)] == expected
    assert found[:, 1].tolist() == [n for row in expected for n in range(len(row))]


X = log_probabilities(7, 3, 5)
WRONG: list[Any] = [
    (lambda: ops.ctc_loss(X, SAMPLES[0] * 1.0, *SAMPLES[1:]), TypeError, "in int32 or int64"),
    (lambda: ops.ctc_loss(X, *SAMPLES, zero_infinity=1), TypeError, "'zero_infinity' must be bool"),
    (lambda: ops.ctc_loss(X[0], *SAMPLES), ValueError, r"takes log_probs \(T, N, C\)"),
    (lambda: ops.ctc_loss(X, SAMPLES[0], (7, 5), SAMPLES[2]), ValueError, r"takes log_probs \(T, N, C\)"),
    (lambda: ops.ctc_loss(X, *SAMPLES, blank=5), ValueError, "one of 5 classes, not 5"),
    (lambda: ops.ctc_loss(X, *SAMPLES, reduction="max"), ValueError, "'reduction' must be in"),
    (lambda: ops.ctc_loss(X, SAMPLES[0], (8, 5, 6), SAMPLES[2]), RuntimeError, "'input_lengths' of ctc_loss are 0"),
    (lambda: ops.ctc_loss(X, *SAMPLES[:2], (4, 2, 1)), RuntimeError, "'target_lengths' of ctc_loss are 0 to 3"),
    (lambda: ops.ctc_greedy_decoder(X[0], [7, 7, 7]), ValueError, r"takes scores \(T, N, C\)"),
    (lambda: ops.ctc_greedy_decoder(X, [7, 8, 7]), ValueError, "at most 7"),
    (lambda: ops.ctc_greedy_decoder(X, [7, 7, 7], 1), TypeError, "'merge_repeated' must be bool"),
    (lambda: nn.CTCLoss(zero_infinity=0), TypeError, "'zero_infinity' must be bool"),
    (lambda: nn.CTCLoss(reduction="max"), ValueError, "'reduction' must be in"),
    (lambda: nn.CTCLoss()(X, np.arange(5), (7, 5, 6), (3, 2, 1)), ValueError, "as many labels as"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_ctc.py")


def test_decoding_what_the_graph_computes() -> None:
    with pytest.raises(graphls.GraphlsError, match="shape of ctc_greedy_decoder is not static"):
        graphls.compile(lambda x: ops.ctc_greedy_decoder(x, [7, 7, 7]), X)
