"""`CTCLoss` against all paths, one by one, finite differences, and what MindSpore 2.10 gave."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

SCORES = np.random.default_rng(3).normal(size=(5, 2, 4)).astype(np.float32)
PLACES = np.array([[0, 0], [0, 1], [1, 0]])
VALUES, TIMES = np.array([1, 1, 2], np.int32), np.array([5, 3], np.int32)
INPUTS = SCORES, PLACES, VALUES, TIMES
SETTINGS = list(product((False, True), repeat=2))


def expected(x: Any, labels: list[list[int]], times: Any, collapse: bool, merges: bool) -> Any:
    """-log of the sum of the probabilities of all paths that say the labels."""
    x = x.astype(np.float64)
    chances, blank, losses = np.exp(x) / np.exp(x).sum(-1, keepdims=True), x.shape[2] - 1, []
    for sample, (said, time) in enumerate(zip(labels, times, strict=True)):
        wanted = [label for label, _ in groupby(said)] if collapse else said
        total = 0.0
        for path in product(range(x.shape[2]), repeat=int(time)):
            found = [label for label, _ in groupby(path)] if merges else path
            if [label for label in found if label != blank] == wanted:
                total += np.prod(chances[range(time), sample, list(path)])
        losses.append(-np.log(total) if total else np.inf)
    return np.array(losses)


@pytest.mark.parametrize(("collapse", "merges"), SETTINGS)
def test_all_paths(collapse: bool, merges: bool) -> None:
    found = ops.CTCLoss(collapse, merges)(*map(graphls.Tensor, INPUTS))[0].asnumpy()
    np.testing.assert_allclose(found, expected(SCORES, [[1, 1], [2]], TIMES, collapse, merges), rtol=1e-5)


def test_labels_that_the_graph_computes() -> None:
    operator = ops.CTCLoss(True, False)
    losses = expected(SCORES, [[1, 1], [2]], TIMES, True, False)
    agree(lambda *tensors: operator(*tensors)[0], losses, *INPUTS, rtol=1e-5)


def test_slopes() -> None:
    """Those of the loss, and those of its gradient, the second result."""
    known = tuple(map(graphls.Tensor, INPUTS[1:]))
    assert_slopes(lambda x: ops.CTCLoss()(x, *known), SCORES)


def test_mindspore() -> None:
    losses, gradients = (t.asnumpy() for t in ops.CTCLoss()(*map(graphls.Tensor, INPUTS)))
    np.testing.assert_allclose(losses, [6.8643574714660645, 3.2284326553344727], rtol=1e-6)
    np.testing.assert_allclose(
        gradients[:2, 0],
        [[0.7806044220924377, -0.1167280450463295, 0.15404553711414337, -0.8179221153259277],
         [0.013975904323160648, -0.07061034440994263, 0.0416097417473793, 0.015024087391793728]],
        rtol=1e-5, atol=2e-6,
    )  # fmt: skip
    assert not gradients[3:, 1].any()


def test_16_bit_floats_are_computed_in_float32() -> None:
    losses, gradients = ops.CTCLoss()(SCORES.astype(np.float16), *INPUTS[1:])
    assert losses.dtype is gradients.dtype is graphls.float16
    np.testing.assert_allclose(losses.asnumpy(), [6.864, 3.229], rtol=1e-3)


def test_more_labels_than_times() -> None:
    """Three labels in two times are ignored or impossible; two equal ones in two times are impossible."""
    places, values = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]), np.array([1, 0, 1, 2, 2], np.int32)
    inputs = SCORES, places, values, np.int32([2, 2])
    ignoring, strict = ops.CTCLoss(ignore_longer_outputs_than_inputs=True), ops.CTCLoss()
    step = graphls.compile(lambda *tensors: (*ignoring(*tensors), strict(*tensors)[0]), *inputs, backend="numpy")
    losses, gradients, strict_losses = step(*inputs)
    assert losses.tolist() == [0.0, np.inf] and not gradients.asnumpy().any()
    assert strict_losses.tolist() == [np.inf, np.inf]
    with pytest.raises(RuntimeError, match="sample 0 has 3 labels and 2 times"):
        strict(*map(graphls.Tensor, inputs))


def test_a_sample_without_labels_is_all_blank() -> None:
    found = ops.CTCLoss()(SCORES, np.array([[0, 0]]), np.int32([1]), TIMES)[0].asnumpy()
    np.testing.assert_allclose(found, expected(SCORES, [[1], []], TIMES, False, True), rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ((SCORES[0], PLACES, VALUES, TIMES), ValueError, r"takes x \(T, N, C\)"),
        ((SCORES, PLACES[:, :1], VALUES, TIMES), ValueError, r"indices \(L, 2\)"),
        ((SCORES, PLACES, VALUES[:2], TIMES), ValueError, r"values \(L,\)"),
        ((SCORES, PLACES, VALUES, TIMES[:1]), ValueError, r"lengths \(N,\)"),
        ((SCORES, PLACES, VALUES.astype(np.float32), TIMES), TypeError, "int32 or int64"),
        ((SCORES, PLACES, VALUES, TIMES + 1), RuntimeError, "are 0 to 5"),
    ],
)
def test_wrong_uses(inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        ops.CTCLoss()(*map(graphls.Tensor, inputs))
    assert isinstance(caught.value, graphls.GraphlsError)
    with pytest.raises(TypeError, match="'ctc_merge_repeated' must be bool"):
        ops.CTCLoss(ctc_merge_repeated=1)(*INPUTS)
