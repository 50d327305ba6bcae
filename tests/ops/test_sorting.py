"""Elements in order against NumPy's stable sort: ties, every axis and dtype, gradients, infinities and nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import agree
from tests.ops.slopes import assert_slopes

SHAPES: list[Any] = [((5,), 0), ((3, 4), -1), ((3, 4), 0), ((2, 5, 3), 1), ((0, 4), 1), ((3, 0), 1), ((2, 1), -1)]
DTYPES = ["float32", "float16", "int32", "int64", "int8", "uint8", "bool"]


def numbers(shape: Any, dtype: str) -> Any:
    """Few different numbers, so that many are equal."""
    return np.random.default_rng(6).integers(0, 4, shape).astype(dtype)


def ordered(x: Any, axis: int, descending: bool) -> Any:
    key = x.astype(np.float64)
    places = np.argsort(-key if descending else key, axis, kind="stable")
    return np.take_along_axis(x, places, axis), places


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(shape: Any, axis: int, dtype: str, descending: bool) -> None:
    x = numbers(shape, dtype)
    expected = ordered(x, axis, descending)
    agree(lambda x: ops.sort(x, axis, descending), expected, x)
    agree(lambda x: ops.argsort(x, axis, descending), expected[1], x)
    values, places = ops.Sort(axis, descending)(x)
    assert values.dtype.long_name == dtype and places.dtype is graphls.int32


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_topk(k: int, largest: bool) -> None:
    for shape, axis in [((4,), None), ((2, 5), -1), ((4, 3), 0), ((0, 3), 1)]:
        x = numbers(shape, "float32")
        along = -1 if axis is None else axis
        expected = tuple(np.take(a, range(k), along) for a in ordered(x, along, largest))
        agree(lambda x, a=axis: ops.topk(x, k, a, largest, False), expected, x)
    x = numbers((2, 5), "float32")
    agree(lambda x: ops.TopK(sorted=True)(x, k), tuple(a[:, :k] for a in ordered(x, -1, True)), x)


def test_other_orders() -> None:
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    agree(ops.msort, np.sort(x, 0), x)
    agree(lambda x: ops.kthvalue(x, 2, 0), (np.sort(x, 0)[1], np.argsort(x, 0)[1]), x)
    agree(lambda x: ops.kthvalue(x, 3, keepdims=True), (np.sort(x)[:, 2:], np.argsort(x)[:, 2:]), x)


def test_gradients_flow_through_the_elements() -> None:
    x = np.random.default_rng(1).permutation(24).astype(np.float32).reshape(2, 3, 4)
    for function in (
        lambda x: ops.sort(x, 1)[0],
        lambda x: ops.topk(x, 2, 0, False)[0],
        lambda x: ops.topk(x, 3)[0],
        lambda x: ops.kthvalue(x, 2)[0],
        lambda x: ops.topk(x, 1)[0] * ops.topk(x, 2)[1],
    ):
        assert_slopes(function, x)


def test_infinities_and_nan() -> None:
    x = np.array([1, np.nan, -np.inf, np.inf, np.nan, 2], np.float32)
    for dtype in (np.float32, np.float16):
        agree(ops.sort, (x[[2, 0, 5, 1, 3, 4]].astype(dtype), np.array([2, 0, 5, 1, 3, 4])), x.astype(dtype))
        agree(lambda x: ops.topk(x, 4)[1], np.array([1, 3, 4, 5]), x.astype(dtype))


WRONG: list[Any] = [
    (lambda x: ops.topk(x, 4), ValueError, "cannot take 4 elements"),
    (lambda x: ops.topk(x, -1), ValueError, "cannot take -1 elements"),
    (lambda x: ops.topk(x, 1.0), TypeError, "'k' must be int"),
    (lambda x: ops.sort(x, 2), ValueError, "no axis 2"),
    (lambda x: ops.sort(x, 0.0), TypeError, "axis is an integer"),
    (lambda x: ops.sort(ops.sum(x), 1), ValueError, "no axis 1"),
    (lambda x: ops.kthvalue(x, 0), ValueError, "from 1 to the 3 elements"),
    (lambda x: ops.kthvalue(x, 3, 0), ValueError, "from 1 to the 2 elements"),
]


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int, is_traced: bool) -> None:
    function, error, message = WRONG[number]
    x = graphls.Tensor(np.ones((2, 3), np.float32))
    with pytest.raises(error, match=message) as caught:
        graphls.compile(function, x, backend="numpy") if is_traced else function(x)
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_sorting.py")


KEPT = ["cumsum", "cumprod", "logcumsumexp", "flip", "sum", "mean", "prod", "amax", "amin", "nansum", "logsumexp"]
WITH_POSITIONS = ["max", "min", "median", "nanmedian", "sort", "cummax", "cummin"]


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("is_traced", [False, True])
def test_a_number_has_the_axes_0_and_minus_1(axis: int, is_traced: bool) -> None:
    """As NumPy's reductions and PyTorch's functions have it; the results are numbers, too."""

    def all_results(x: graphls.Tensor) -> Any:
        yield from (getattr(ops, name)(x, axis) for name in KEPT)
        for name in WITH_POSITIONS:
            value, position = getattr(ops, name)(x, axis)
            yield value + ops.cast(position, "float32")
        yield from (ops.topk(x, 1, axis)[0], ops.kthvalue(x, 1, axis)[0], ops.squeeze(x, axis), ops.norm(x, axis=axis))
        yield from (ops.softmax(x, axis) * 2.5, ops.softmin(x, axis) * 2.5, ops.quantile(x, 0.3, axis))
        yield from (2.5 + ops.argmax(x, axis), 2.5 + ops.var(x, axis), 2.5 + ops.log_softmax(x, axis))

    def step(x: graphls.Tensor) -> Any:
        return tuple(all_results(x))

    x = graphls.Tensor(np.float32(2.5))
    found = graphls.compile(step, x, backend="numpy")(x) if is_traced else step(x)
    assert [(float(t), t.shape) for t in found] == [(2.5, ())] * 28
    with pytest.raises(ValueError, match="no axis 1"):
        ops.softmax(x, 1)
