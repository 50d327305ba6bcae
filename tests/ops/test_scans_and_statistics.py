"""Reductions, norms and running values against NumPy, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
HOLES = np.where(np.arange(24).reshape(X.shape) % 5 == 2, np.nan, X).astype(np.float32)
EMPTY = np.zeros((0, 3), np.float32)
AXES: list[Any] = [None, 0, -1, (0, 2), (1, -1)]


def keep(axis: Any, keepdims: bool) -> dict[str, Any]:
    return {"axis": axis, "keepdims": keepdims}


REDUCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "logsumexp": (special.logsumexp, X),
    "nansum": (np.nansum, HOLES),
    "nanmean": (np.nanmean, HOLES),
    "count_nonzero": (np.count_nonzero, np.trunc(X)),
    "reduce_max": (np.max, X),
    "reduce_min": (np.min, X),
    "amax": (np.max, X),
    "amin": (np.min, X),
}
SMOOTH = ["logsumexp", "nansum", "nanmean", "amax", "amin"]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    reference, x = REDUCTIONS[name]
    expected = reference(x.astype(np.float64), **keep(axis, keepdims))
    agree(lambda x: getattr(ops, name)(x, **keep(axis, keepdims)), expected, x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("axis", AXES[:4])
def test_gradients_of_reductions(name: str, axis: Any) -> None:
    assert_slopes(lambda x: getattr(ops, name)(x, axis), X)


def test_pairs_of_reductions() -> None:
    for axis in AXES:
        agree(lambda x: ops.var_mean(x, axis, 1), (X.var(axis, ddof=1), X.mean(axis)), X, rtol=1e-5, atol=1e-6)  # noqa: B023
        agree(lambda x: ops.std_mean(x, axis, keepdims=True), (X.std(axis, keepdims=True), X.mean(axis, keepdims=True)), X, rtol=1e-5, atol=1e-6)  # noqa: B023, E501
        agree(lambda x: ops.aminmax(x, axis=axis), (X.min(axis), X.max(axis)), X)  # noqa: B023
    agree(ops.aminmax, (X.min(0), X.max(0)), X)
    assert_slopes(lambda x: ops.std_mean(x, 1, 1), X)


def test_extremes_with_positions() -> None:
    """Ops.max gives values and positions, as MindSpore's does; amax and the method give values."""
    for name in ("max", "min"):
        extreme, position = getattr(np, name), getattr(np, f"arg{name}")
        for axis in (0, 1, -1):
            for keepdims in (False, True):
                expected = (extreme(X, axis, keepdims=keepdims), position(X, axis, keepdims=keepdims))
                agree(lambda x, n=name, a=axis, k=keepdims: getattr(ops, n)(x, a, k), expected, X)
                agree(lambda x, n=name, a=axis, k=keepdims: getattr(x, n)(a, k), expected[0], X)
        agree(getattr(ops, name), (extreme(X), position(X)), X)
        agree(lambda x, n=name: getattr(x, n)(1, return_indices=True), (extreme(X, 1), position(X, 1)), X)
        assert_slopes(lambda x, n=name: getattr(ops, n)(x, 1)[0], X)
    agree(lambda x: ops.max(x, 1, initial=0.25)[0], X.max(1, initial=0.25), X)
    agree(lambda x: ops.amin(x, initial=-0.25, where=x > 0), np.float32(-0.25), X)
    mask = X > 0
    agree(lambda x, m: ops.amax(x, 2, initial=-9.0, where=m), X.max(2, initial=-9, where=mask), X, mask)


def test_maxima_keep_nans() -> None:
    x = np.float32([[1, np.nan, 2], [3, 4, 5]])
    agree(lambda x: ops.max(x, 1)[0], x.max(1), x)


@pytest.mark.parametrize(
    "options", [{"axis": 1, "keepdims": True}, {"dim": 1, "keepdim": True}, {"axis": 1, "keep_dims": True}], ids=str
)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "var", "amax", "amin", "logsumexp", "argmax", "nansum"])
def test_every_spelling_of_axes(name: str, options: dict[str, Any]) -> None:
    expected = getattr(ops, name)(graphls.Tensor(X), 1, keepdims=True).asnumpy()
    agree(lambda x: getattr(ops, name)(x, **options), expected, X)
    agree(lambda x: getattr(x, name)(**options), expected, X)


def test_sums_in_other_dtypes() -> None:
    half = np.full(3000, 1.0, np.float16)
    agree(lambda x: ops.sum(x, dtype=graphls.float32), np.float32(3000), half)
    agree(lambda x: ops.prod(x, 0, dtype=graphls.float64), np.float64(1), half)
    agree(lambda x: ops.mean(x, dtype=graphls.float32), np.float32(1), half)
    agree(lambda x: ops.cumsum(x > 0, 0), np.arange(1, 3001), half)
    assert ops.cumsum(graphls.Tensor([True]), 0).dtype is graphls.int64
    assert ops.nansum(graphls.Tensor([True]), 0).dtype is graphls.int64


def test_sums_of_exponentials_far_out() -> None:
    x = np.float32([[1000, 1000, -1000], [-np.inf, 0, 1], [-np.inf, -np.inf, -np.inf], [np.inf, 0, 1]])
    agree(lambda x: ops.logsumexp(x, 1), special.logsumexp(x.astype(np.float64), 1), x, rtol=1e-6)
    half = np.full((1, 40), 10.0, np.float16)
    agree(lambda x: ops.logsumexp(x, -1), special.logsumexp(half.astype(np.float64), 1), half, rtol=1e-3)
    agree(lambda x: ops.logsumexp(x, 0), np.full(3, -np.inf), EMPTY)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_medians(axis: int, keepdims: bool) -> None:
    for x in (X, (X * 9).astype(np.int32)):
        size = x.shape[axis]
        values = np.sort(x, axis).take([(size - 1) // 2], axis)
        values = values if keepdims else values.squeeze(axis)
        agree(lambda x: ops.median(x, axis, keepdims)[0], values, x)
        agree(lambda x: ops.nanmedian(x, axis, keepdims)[0], values, x)
        positions = ops.median(graphls.Tensor(x), axis, True)[1].asnumpy()
        np.testing.assert_array_equal(np.take_along_axis(x, positions, axis).reshape(values.shape), values)
    assert_slopes(lambda x: ops.median(x, axis), X)
    assert_slopes(lambda x: ops.nanmedian(x, axis), X)


def test_medians_of_everything_and_of_nans() -> None:
    agree(lambda x: ops.median(x, None)[0], np.sort(X.reshape(-1))[11], X)
    rows = np.float32([[3, np.nan, 1, 2], [np.nan] * 4, [4, 3, 2, 1]])
    agree(lambda x: ops.median(x)[0], np.float32([np.nan, np.nan, 2]), rows)
    agree(lambda x: ops.nanmedian(x)[0], np.float32([2, np.nan, 2]), rows)
    agree(lambda x: ops.median(x, 1)[1], np.array([2, 1]), np.int64([[1, 5, 3], [2, 2, 2]]))


def matrix_norms() -> list[Any]:
    return [(ord, axis) for ord in ("fro", 1, -1, np.inf, -np.inf) for axis in ((0, 1), (-1, 0), (1, 2))]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("ord", "axis"), matrix_norms(), ids=str)
def test_norms_of_matrices(ord: Any, axis: Any, keepdims: bool) -> None:
    expected = np.linalg.norm(X, ord, axis, keepdims)
    agree(lambda x: ops.norm(x, ord, axis, keepdims), expected, X, rtol=1e-5)
    agree(lambda x: ops.matrix_norm(x, ord, axis, keepdims), expected, X, rtol=1e-5)


@pytest.mark.parametrize("ord", [None, 0, 0.5, 1, 2, 3, -1, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [0, -1])
def test_norms_of_vectors(ord: Any, axis: int) -> None:
    agree(lambda x: ops.norm(x, ord, dim=axis, keepdim=True), np.linalg.norm(X, ord, axis, True), X, rtol=1e-4)
    if ord != 0:
        assert_slopes(lambda x: ops.norm(x, ord, axis), X)


def test_norms_of_everything() -> None:
    agree(ops.norm, np.linalg.norm(X.reshape(-1)), X, rtol=1e-5)
    agree(lambda x: ops.norm(x, 1), np.linalg.norm(X[0], 1), X[0], rtol=1e-5)
    agree(lambda x: x.norm(), np.linalg.norm(X[0]), X[0], rtol=1e-5)
    agree(lambda x: ops.dist(x, x * x, 3), np.sum(np.abs(X - X * X) ** 3) ** (1 / 3), X, rtol=1e-5)
    agree(lambda x: ops.vector_norm(x, 3, (0, 2)), (np.abs(X) ** 3).sum((0, 2)) ** (1 / 3), X, rtol=1e-5)
    wide = ops.norm(graphls.Tensor(np.full(4, 300.0, np.float16)))
    assert wide.dtype is graphls.float16 and float(wide) == 600.0, "squares beyond float16 are no overflow"


def test_norms_of_zeros_have_gradients() -> None:
    for ord in (0.5, 1, 2, 3):
        found = ops.grad(lambda x: ops.norm(x, ord))(graphls.Tensor(np.zeros(3, np.float32)))  # noqa: B023
        np.testing.assert_array_equal(found.asnumpy(), np.zeros(3))


def test_normalisation() -> None:
    root = np.sqrt(np.maximum((X**2).sum(1, keepdims=True), 0.5))
    agree(lambda x: ops.l2_normalize(x, 1, 0.5), X / root, X, rtol=1e-5)
    agree(lambda x: ops.L2Normalize(axis=1, epsilon=0.5)(x), X / root, X, rtol=1e-5)
    assert_slopes(lambda x: ops.l2_normalize(x, 1), X)


def test_differences_and_integrals() -> None:
    first, last = X[:, :1], X[:, 1:]
    agree(ops.diff, np.diff(X), X)
    agree(lambda x: ops.diff(x, 2, 1), np.diff(X, 2, 1), X, atol=1e-5)
    agree(lambda x: ops.diff(x, 0), X, X)
    agree(lambda x: ops.diff(x, 5, 0), np.diff(X, 5, 0), X)
    agree(lambda a, b, c: ops.diff(a, 1, 1, b, c), np.diff(X, 1, 1, first, last), X, first, last)
    trapezoid = getattr(np, "trapezoid", None) or np.trapz  # type: ignore[attr-defined]
    places = np.float32([0, 0.5, 2, 2.5])
    agree(ops.trapz, trapezoid(X), X, atol=1e-5)
    agree(lambda y: ops.trapz(y, dx=0.5, dim=1), trapezoid(X, dx=0.5, axis=1), X, atol=1e-5)
    agree(ops.trapz, trapezoid(X, places), X, places, atol=1e-5)
    agree(lambda y, x: ops.trapz(y, x, dim=0), trapezoid(X, X * 2, axis=0), X, X * 2, atol=1e-5)
    assert_slopes(ops.trapz, X, places)
    assert_slopes(lambda x: ops.diff(x, 2), X)


SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "logcumsumexp": np.logaddexp.accumulate,
}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", SCANS)
def test_running_values(name: str, size: int, axis: int) -> None:
    x = np.moveaxis(RNG.normal(size=(size, 2, 3)), 0, axis).astype(np.float32)
    agree(lambda x: getattr(ops, name)(x, axis), SCANS[name](x.astype(np.float64), axis), x, rtol=1e-5, atol=1e-5)
    assert_slopes(lambda x: getattr(ops, name)(x, axis), x)


def test_running_products_of_zeros_have_gradients() -> None:
    assert_slopes(lambda x: ops.cumprod(x, 0), np.array([2.0, 0.0, 3.0, 0.0, 5.0]))
    assert_slopes(ops.prod, np.array([2.0, 0.0, 3.0]))
    assert_slopes(ops.prod, np.array([2.0, 0.0, 0.0]))


def test_running_sums_in_other_ways() -> None:
    x = np.arange(1, 6)
    agree(lambda x: ops.cumsum(x, 0, reverse=True), np.array([15, 14, 12, 9, 5]), x)
    agree(lambda x: ops.CumSum(exclusive=True)(x, 0), np.array([0, 1, 3, 6, 10]), x)
    agree(lambda x: ops.CumSum(True, True)(x, 0), np.array([14, 12, 9, 5, 0]), x)
    agree(lambda x: ops.cumprod(x, 0), np.cumprod(x), x)
    agree(lambda x: ops.CumProd(exclusive=True)(x, 0), np.array([1, 1, 2, 6, 24]), x)
    agree(lambda x: ops.CumProd(reverse=True)(x, 0), np.array([120, 120, 60, 20, 5]), x)
    agree(lambda x: ops.CumProd(True, True)(x, 0), np.array([120, 60, 20, 5, 1]), x)
    agree(lambda x: ops.cumprod(x, 0, exclusive=True), np.zeros(0), np.zeros(0, np.float32))
    agree(lambda x: x.cumprod(0, dtype=graphls.float32), np.cumprod(x), x)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes(name: str, axis: int) -> None:
    """The numbers are few, so that there are ties, of which the last is the position."""
    for x in (RNG.integers(0, 4, (6, 5)), RNG.integers(0, 4, (1, 5)), RNG.normal(size=(6, 5)).astype(np.float32)):
        values = (np.maximum if name == "cummax" else np.minimum).accumulate(x, axis)
        places = np.expand_dims(np.arange(x.shape[axis]), 1 - axis)
        positions = np.maximum.accumulate(np.where(x == values, places, 0), axis)
        agree(lambda x: getattr(ops, name)(x, axis), (values, positions), x)
    assert_slopes(lambda x: getattr(ops, name)(x, axis), RNG.normal(size=(6, 5)))


def test_running_extremes_keep_nans() -> None:
    x = np.float32([1, 3, np.nan, 2, np.nan, 9])
    expected = (np.maximum.accumulate(x), np.array([0, 1, 2, 2, 4, 4]))
    agree(lambda x: ops.cummax(x, 0), expected, x)
    agree(lambda x: ops.cummin(x, 0)[0], np.minimum.accumulate(x), x)


WRONG: list[Any] = [
    (lambda x: ops.max(x, (0, 1)), TypeError, r"max takes one axis, not \(0, 1\); use amax"),
    (lambda x: ops.max(x, 3), ValueError, "no axis 3"),
    (lambda x: ops.amax(x, where=x > 0), ValueError, "'where' only with an 'initial'"),
    (lambda x: ops.amax(EMPTY, 0), ValueError, "max over no elements"),
    (lambda x: ops.sum(x, axes=1), TypeError, "sum takes x, axis, keepdims, dtype: got an unexpected .* 'axes'"),
    (lambda x: ops.sum(x, 0, dim=1), TypeError, "multiple values for argument 'axis'"),
    (lambda x: ops.sum(x, dim=1, axis=1), TypeError, "one argument has two names"),
    (lambda x: ops.var_mean(x, 0, 5), ValueError, "no ddof of 5"),
    (lambda x: ops.std(x, 0, 0.5), TypeError, "ddof of a variance is an integer, not 0.5"),
    (lambda x: ops.cumsum(x, 3), ValueError, "no axis 3"),
    (lambda x: ops.cumsum(x, "a"), TypeError, "axis is an integer"),
    (lambda x: ops.cumprod(x, 3), ValueError, "no axis 3"),
    (lambda x: ops.cummax(x, -4), ValueError, "no axis -4"),
    (lambda x: ops.logcumsumexp(x, None), TypeError, "axis is an integer"),
    (lambda x: ops.diff(x, -1), ValueError, "'n' must be at least 0"),
    (lambda x: ops.trapz(x, x[0, 0, :2]), ValueError, "one position for each element along axis 2"),
    (lambda x: ops.median(EMPTY, 0), ValueError, "median over no elements"),
    (lambda x: ops.median(x, 3), ValueError, "no axis 3"),
    (lambda x: ops.norm(x, 1), ValueError, "takes one axis or two, not 3"),
    (lambda x: ops.norm(x, "nuc", (0, 1)), ValueError, "'fro', 1, -1, inf or -inf, not 'nuc'"),
    (lambda x: ops.norm(x, "fro", 1), TypeError, "type of 'ord'"),
    (lambda x: ops.matrix_norm(x, 1, (1, 1)), ValueError, "one along two axes"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function(graphls.Tensor(X))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_scans_and_statistics.py")
