"""`tensor[index]` against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from tests.ops.agree import agree

X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
PICK = np.array([[2, 0], [1, -1]])
INDICES: list[Any] = [
    0, -1, (1, 2), (1, 2, 3, 4), slice(None), slice(1, None), (slice(None), slice(0, 3, 2)), slice(5, 9), ...,
    (..., 0), (0, ..., -1), None, (None, 0, None), (slice(None), None, 1, ..., slice(-2, None)), (), [1, 0, 1],
    PICK % 2,
    (slice(None), PICK), (0, PICK), (slice(None), 1, [3, 0]), (..., PICK), (None, slice(None), PICK, ..., None),
    np.array(1), (slice(None), []), True, slice(None, None, -1), (..., slice(2, 0, -1), slice(9, None, -2)),
    (slice(None), slice(1, 1, -1)), X > 30, (slice(None), X[0, :, 0, 0] > 10, 0), ([0, 1], X[0, :, 0, 0] < 30),
    (slice(None), PICK, PICK), (0, slice(None), PICK), (PICK % 2, slice(None), slice(None, None, 2), PICK),
    (PICK % 2, None, PICK), (slice(None), range(2), (1, 0)), (np.array([1]), PICK % 2, slice(1, None), 2),
    np.uint8([1, 0]), (np.array(1), slice(None), np.int64(2)), ([], slice(None), []), np.zeros(2, bool),
    np.array(True), (0, np.array(True)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_indices(number: int) -> None:
    index = INDICES[number]
    if isinstance(index, tuple):
        expected = X[tuple(np.asarray(i, np.int64) if isinstance(i, list) else i for i in index)]
    else:
        expected = X[index]
    agree(lambda x: x[index], expected, X)


def test_an_index_that_is_computed() -> None:
    agree(lambda x, i: x[:, i], X[:, PICK], X, PICK)
    agree(lambda x, i: x[i], X[1], X, np.array(1, np.int32))


def test_iteration() -> None:
    agree(lambda x: tuple(x), tuple(X), X)
    agree(lambda x: tuple(x[:, 0]), tuple(X[:, 0]), X)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (2, IndexError, "out of range"),
        ((0, 0, 0, 0, 0), IndexError, "4 axes"),
        ((..., ...), IndexError, "Ellipsis"),
        (slice(None, None, 0), ValueError, "step is 0"),
        (slice(0.5, None), TypeError, "slice"),
        (np.array([True, False, True]), IndexError, r"mask of shape \(3,\) does not fit axes of sizes \(2,\)"),
        (np.array([0.5]), TypeError, "integers or bools"),
        (False, IndexError, "True, for a new axis"),
        (np.array(False), IndexError, "True, for a new axis"),
        ("a", TypeError, "integers"),
        ((slice(None), PICK, [0, 1, 2]), IndexError, "do not broadcast"),
        ((0, slice(None), [9]), IndexError, "9 is out of range for an axis of size 4"),
        ([[1, 2], [3]], ValueError, "same length"),
        ([7], IndexError, r"The index 7 is out of range for an axis of size 2"),
        ((slice(None), [0, -4]), IndexError, r"-4 is out of range"),
    ],
)
def test_wrong_indices(index: Any, error: Any, message: str) -> None:
    x = graphls.Tensor(X)
    with pytest.raises(error, match=message) as caught:
        x[index]
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_indexing.py")
