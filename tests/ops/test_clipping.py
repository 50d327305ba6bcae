"""Clipping, against what PyTorch's clip_grad_norm_ gave once, and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS, agree

F32 = np.float32
X = np.array([[3.0, -4.0], [0.5, 2.0]], F32)
Y = np.array([12.0, -1.5], F32)


def global_norm(*arrays: Any) -> float:
    return float(np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in arrays)))


@pytest.mark.parametrize("limit", [0.5, 1, 100.0])
def test_a_global_norm_is_bounded(limit: float) -> None:
    factor = limit / max(global_norm(X, Y), limit)
    agree(lambda x, y: ops.clip_by_global_norm((x, y), limit), (X * factor, Y * factor), X, Y)
    agree(lambda x, y: ops.clip_by_global_norm([x, y], clip_norm=limit), [X * factor, Y * factor], X, Y)


def test_a_global_norm_is_1_without_a_limit() -> None:
    agree(lambda x: ops.composite.clip_by_global_norm((x,)), (X / global_norm(X),), X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_halves_are_squared_in_float32_and_stay_halves(backend: str) -> None:
    x = np.full(4, 300.0, np.float16)
    (found,) = graphls.compile(lambda x: ops.clip_by_global_norm((x,)), x, backend=backend)(x)
    assert found.dtype is graphls.float16 and found.asnumpy().tolist() == [0.5] * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_norm_of_nan_clips_nothing_and_one_of_infinity_all(backend: str) -> None:
    x = np.array([1.0, np.nan], F32)
    found = graphls.compile(lambda x, y: ops.clip_by_global_norm((x, y)), x, Y, backend=backend)(x, Y)
    np.testing.assert_array_equal(found[0].asnumpy(), x)
    np.testing.assert_array_equal(found[1].asnumpy(), Y)
    x = np.array([1.0, np.inf], F32)
    found = graphls.compile(lambda x, y: ops.clip_by_global_norm((x, y)), x, Y, backend=backend)(x, Y)
    np.testing.assert_array_equal(found[0].asnumpy(), [0, np.nan])
    np.testing.assert_array_equal(found[1].asnumpy(), [0, 0])


# torch.nn.utils.clip_grad_norm_ of gradients X and Y, torch 2.13
TORCH: list[Any] = [
    (2.0, 2.0, ([[0.4529108, -0.603881], [0.0754851, 0.3019405]], [1.811643, -0.2264554])),
    (2.0, 1.0, ([[0.2608696, -0.3478261], [0.0434783, 0.173913]], [1.0434783, -0.1304348])),
    (2.0, 3.0, ([[0.4904874, -0.6539832], [0.0817479, 0.3269916]], [1.9619497, -0.2452437])),
    (2.0, np.inf, ([[0.5, -0.6666666], [0.0833333, 0.3333333]], [1.9999999, -0.25])),
    (0.25, 2.5, ([[0.0598882, -0.079851], [0.0099814, 0.0399255]], [0.2395529, -0.0299441])),
    (100.0, 2.0, ([[3.0, -4.0], [0.5, 2.0]], [12.0, -1.5])),
]


@pytest.mark.parametrize(("limit", "order", "expected"), TORCH)
def test_norms_of_any_order(limit: float, order: float, expected: Any) -> None:
    expected = tuple(np.array(e, F32) for e in expected)
    agree(lambda x, y: ops.clip_by_norm((x, y), limit, order), expected, X, Y, rtol=1e-5)


def test_one_tensor_is_clipped_alone() -> None:
    agree(lambda x: ops.clip_by_norm(x, 2.0), X * (2 / (global_norm(X) + 1e-6)), X)
    agree(lambda x: ops.clip_by_norm([x], 1000.0), [X], X)


def test_values_are_bounded() -> None:
    agree(lambda x, y: ops.clip_by_value((x, [y]), -1, 2.5), (X.clip(-1, 2.5), [Y.clip(-1, 2.5)]), X, Y)
    agree(lambda x: ops.clip_by_value(x, graphls.Tensor([0.0, -1.0])), np.maximum(X, [0, -1]), X)
    agree(lambda x: ops.clip_by_value(x, clip_value_max=1.0), np.minimum(X, 1), X)
    agree(lambda x: ops.clip_by_value(x, 2.0, -1.0), np.full_like(X, -1), X)


def test_an_infinite_norm_is_an_error_where_asked() -> None:
    with pytest.raises(RuntimeError, match=r"norm of the tensors of clip_by_norm is inf.*test_clipping"):
        ops.clip_by_norm(graphls.Tensor([np.inf]), 1.0, error_if_nonfinite=True)
    assert ops.clip_by_norm(graphls.Tensor([2.0]), 1.0, error_if_nonfinite=True).asnumpy() == pytest.approx(1)
    with pytest.raises(graphls.TraceError, match=r"A step cannot raise.*test_clipping"):
        graphls.compile(lambda x: ops.clip_by_norm(x, 1.0, error_if_nonfinite=True), X, backend="numpy")


WRONG: list[Any] = [
    (lambda x: ops.clip_by_global_norm(x), TypeError, "tuple or list of tensors, not"),
    (lambda x: ops.clip_by_global_norm(()), TypeError, "tuple or list of tensors, not"),
    (lambda x: ops.clip_by_global_norm((x, 1.0)), TypeError, "tuple or list of tensors, not"),
    (lambda x: ops.clip_by_global_norm((x,), 0), ValueError, "'clip_norm' must be greater than 0"),
    (lambda x: ops.clip_by_global_norm((x,), float("nan")), ValueError, "'clip_norm' must be greater than 0"),
    (lambda x: ops.clip_by_global_norm((x,), "1"), TypeError, "type of 'clip_norm' should be 'float'"),
    (lambda x: ops.clip_by_global_norm((x,), 1.0, 2.0), ValueError, "leave use_norm None"),
    (lambda x: ops.clip_by_norm(1.0, 1.0), TypeError, "tuple or list of tensors, not"),
    (lambda x: ops.clip_by_norm(x, -1.0), ValueError, "'max_norm' must be greater than 0"),
    (lambda x: ops.clip_by_norm(x, True), TypeError, "type of 'max_norm' should be 'float'"),
    (lambda x: ops.clip_by_norm(x, 1.0, 0), ValueError, "'norm_type' must be greater than 0"),
    (lambda x: ops.clip_by_norm(x, 1.0, "fro"), TypeError, "type of 'norm_type' should be 'float'"),
    (lambda x: ops.clip_by_value(x), ValueError, "least or a largest"),
]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, X, backend="numpy") if is_traced else function(graphls.Tensor(X))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_clipping.py")
