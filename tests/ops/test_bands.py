"""Bands of diagonals against loops over elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
BANDS = [(0, 0), (1, 1), (-1, -1), (-1, 1), (-2, 0), (0, 2), (1, 2), (-2, -1), (-2, 3)]
X = np.random.default_rng(2).normal(size=(2, 3, 4)).astype(np.float32)


def longest(rows: int, columns: int, low: int, high: int) -> int:
    return max(len(np.diagonal(np.zeros((rows, columns)), d)) for d in range(low, high + 1))


def places(rows: int, columns: int, low: int, high: int, align: str) -> Any:
    """For each row of the packed form the elements of the diagonal as (place in the row, row, column)."""
    width, (above, below) = longest(rows, columns, low, high), align.split("_")
    packed = []
    for d in range(high, low - 1, -1):
        found = [(i, i + d) for i in range(rows) if 0 <= i + d < columns]
        side = below if d < 0 else above
        first = width - len(found) if side == "RIGHT" else 0
        packed.append([(first + n, *place) for n, place in enumerate(found)])
    return width, packed


def taken(x: Any, low: int, high: int, padding: float, align: str) -> Any:
    width, packed = places(*x.shape[-2:], low, high, align)
    y = np.full((*x.shape[:-2], len(packed), width), padding, x.dtype)
    for row, elements in enumerate(packed):
        for n, i, j in elements:
            y[..., row, n] = x[..., i, j]
    return y if low < high else y[..., 0, :]


def put(background: Any, values: Any, low: int, high: int, align: str) -> Any:
    y = background.copy()
    rows = values if low < high else values[..., None, :]
    for row, elements in enumerate(places(*y.shape[-2:], low, high, align)[1]):
        for n, i, j in elements:
            y[..., i, j] = rows[..., row, n]
    return y


@pytest.mark.parametrize("band", BANDS, ids=str)
def test_bands_are_taken_and_put(band: Any) -> None:
    low, high = band
    for align in ALIGNMENTS:
        k = low if low == high else band
        expected = taken(X, low, high, 9.0, align)
        agree(lambda x: ops.matrix_diag_part(x, k, 9.0, align), expected, X)  # noqa: B023
        values = np.random.default_rng(3).normal(size=expected.shape).astype(np.float32)
        agree(lambda x, v: ops.matrix_set_diag(x, v, k, align), put(X, values, low, high, align), X, values)  # noqa: B023
        filled = put(np.full_like(X, 7.0), values, low, high, align)
        agree(lambda v: ops.matrix_diag(v, k, 3, 4, 7.0, align), filled, values)  # noqa: B023


@pytest.mark.parametrize(("k", "shape"), [(0, (3, 3)), (1, (4, 4)), (-2, (5, 5))])
def test_matrices_of_one_diagonal_are_square(k: int, shape: Any) -> None:
    values = X[0, :, 0]
    agree(lambda v: ops.matrix_diag(v, k), np.diag(values, k), values)
    agree(lambda v: ops.diagflat(v, k), np.diagflat(X[:, :, 0], k), X[:, :, 0])
    agree(lambda v: ops.matrix_diag(v, k, shape[0]), np.diag(values, k)[:, : 3 + max(k, 0)], values)


def test_bands_of_tensors_halves_and_nothing() -> None:
    half, k = X.astype(np.float16), graphls.Tensor([-1, 1])
    agree(lambda x: ops.matrix_diag_part(x, k), taken(half, -1, 1, 0, "RIGHT_LEFT"), half)
    agree(lambda x: x.matrix_band_part(1, 1), np.triu(np.tril(half, 1), -1), half)
    empty = np.zeros((0, 3, 4), np.float32)
    agree(lambda x: ops.matrix_diag_part(x, (-1, 1)), np.zeros((0, 3, 3)), empty)
    agree(lambda x: ops.matrix_set_diag(x, ops.zeros((0, 3))), empty, empty)
    flat = np.zeros((0, 4), np.float32)
    agree(ops.matrix_diag_part, np.zeros(0), flat)
    agree(lambda x: ops.matrix_set_diag(x, ops.zeros(0)), flat, flat)


def test_bands_that_are_kept() -> None:
    for lower, upper in product((-1, 0, 1, 5), repeat=2):
        kept = X if upper < 0 else np.tril(X, upper)
        kept = kept if lower < 0 else np.triu(kept, -lower)
        agree(lambda x: ops.matrix_band_part(x, lower, upper), kept, X)  # noqa: B023
        bounds = np.int32(lower), np.int32(upper)
        agree(ops.matrix_band_part, kept, X, *map(np.asarray, bounds))


def test_gradients_of_bands() -> None:
    for band in BANDS[2:6]:
        values = taken(X, *band, 0.5, "LEFT_RIGHT")
        k = band if band[0] < band[1] else band[0]
        assert_slopes(lambda x: ops.matrix_diag_part(x, k, 0.0, "LEFT_RIGHT"), X)  # noqa: B023
        assert_slopes(lambda x, v: ops.matrix_set_diag(x, v, k, "LEFT_RIGHT"), X, values)  # noqa: B023
    assert_slopes(lambda v: ops.matrix_diag(v, 1), X)
    assert_slopes(lambda x: ops.matrix_band_part(x, 1, 0), X)
    assert_slopes(lambda x: ops.diagflat(x, -1), X)


WRONG: list[Any] = [
    (lambda x: ops.matrix_diag_part(x[0, 0]), ValueError, "two axes or more"),
    (lambda x: ops.matrix_diag_part(x, 4), ValueError, "no diagonals 4"),
    (lambda x: ops.matrix_diag_part(x, (1, -1)), ValueError, "two rising ones"),
    (lambda x: ops.matrix_diag_part(x, (-1, 0, 1)), ValueError, "two rising ones"),
    (lambda x: ops.matrix_diag_part(x, 0, 0, "MIDDLE"), ValueError, "not 'MIDDLE'"),
    (lambda x: ops.matrix_diag_part(x, 0.5), TypeError, "integers"),
    (lambda x: ops.matrix_set_diag(x, x[0]), ValueError, r"takes diagonals of shape \(2, 3\)"),
    (lambda x: ops.matrix_diag(x, (-1, 2)), ValueError, "takes 4 diagonals as rows"),
    (lambda x: ops.matrix_diag(x, 0, 5, 6), ValueError, "do not fit into 5 rows"),
    (lambda x: ops.matrix_band_part(x, 0.5, 1), TypeError, "integers as bounds"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function(graphls.Tensor(X))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_bands.py")
