"""Quantiles, histograms, integers, windows and questions about tensors against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import signal, special

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(23)
X = RNG.normal(size=(2, 3, 5)).astype(np.float32)
HOLES = np.where(np.arange(30).reshape(X.shape) % 7 == 3, np.nan, X).astype(np.float32)
HOLES[0, 1] = np.nan


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_quantiles(axis: Any, keepdims: bool) -> None:
    for q in (0, 0.3, 1.0, np.float32([0.1, 0.5, 0.25, 1])):
        expected = np.quantile(X.astype(float), q, axis=axis, keepdims=keepdims)
        agree(lambda x, q=q: ops.quantile(x, q, axis, keepdims), expected, X, rtol=1e-5)
        with np.testing.suppress_warnings() as quiet:
            quiet.filter(RuntimeWarning)
            without = np.nanquantile(HOLES.astype(float), q, axis=axis, keepdims=keepdims)
        agree(lambda x, q=q: ops.nanquantile(x, q, axis, keepdims), without, HOLES, rtol=1e-5)
        assert_slopes(lambda x, q=q: ops.quantile(x, q, axis, keepdims), X)


def test_quantiles_of_other_things() -> None:
    rows = np.float32([[1, 2, np.nan], [3, 1, 2]])
    agree(lambda x: ops.quantile(x, 0.5, 1), np.float32([np.nan, 2]), rows)
    agree(lambda x: ops.quantile(x, 0.5, dim=1, keepdim=True), np.float32([[np.nan], [2]]), rows)
    agree(lambda x, q: ops.quantile(x, q), np.quantile(X, [0.5, 0.75]), X, np.float32([0.5, 0.75]), rtol=1e-5)
    for q in (np.float32([-0.5, 1, 1.5, np.nan]), np.float32(2)):
        step = graphls.compile(ops.nanquantile, X, q)
        np.testing.assert_array_equal(step(X, q).asnumpy(), np.where(q == 1, X.max(), np.float32(np.nan)))
    agree(lambda x: ops.quantile(x, 0.5), np.float32(7), np.float32(7))
    agree(lambda x: ops.quantile(x, 0.25), np.float32(1.75), np.int32([4, 1, 2, 3]))
    agree(lambda x: ops.quantile(x, np.zeros(0, np.float32)), np.zeros(0), X)
    agree(lambda x: ops.quantile(x, 0), np.float32(1), np.float32([1, np.inf, np.inf]))
    half = np.arange(5).astype(np.float16)
    agree(lambda x: ops.quantile(x, 0.1), np.float16(0.4), half, rtol=1e-3)
    assert ops.quantile(graphls.Tensor(half), 0.1).dtype is graphls.float16
    agree(ops.Quantile(dim=-1, ignore_nan=True), np.nanquantile(rows, 0.5, -1), rows, 0.5)


def test_histograms() -> None:
    x = np.float32([-1, 0, 0.5, 1, 1, 2.5, 3, 4, 9])
    for bins, low, high in ((4, 0, 4), (3, -1.0, 1.0), (5, 0, 0), (100, 0, 0), (1, 0, 4)):
        bounds = (low, high) if low != high else None
        expected = np.histogram(x, bins, bounds)[0]
        agree(lambda x, b=bins, lo=low, hi=high: ops.histc(x, b, lo, hi), expected, x)
        agree(ops.Histogram(bins, float(low), float(high)), expected, x)
    agree(lambda x: ops.histc(x, 4, 2, 2), np.histogram(x, 4, (1, 3))[0], x)
    agree(lambda x: ops.histc(x, 2, 0, 4), np.int32([1, 3]), np.int32([[1, 2], [3, 4], [9, -1]]))
    agree(lambda x: ops.histc(x, 3), np.zeros(3), np.zeros(0, np.float32))
    agree(lambda x: ops.histc(x, 3, 0, 1), np.eye(3)[1], np.float32([np.nan, 0.5]))
    agree(lambda x: ops.histc(x, 2), np.eye(2)[0], np.float32([np.inf, 1]))
    agree(lambda x: ops.HistogramFixedWidth(2)(x, [0.0, 1.0]), np.int32([1, 1]), np.float32([np.nan, 0.2, 7]))
    assert ops.histc(graphls.Tensor(x), 3).dtype is graphls.float32
    width = np.float32([0, 4])
    expected = np.histogram(np.clip(x, 0, 4), 4, (0, 4))[0]
    agree(ops.HistogramFixedWidth(4), expected, x, width)
    assert ops.HistogramFixedWidth(4)(graphls.Tensor(x), graphls.Tensor(width)).dtype is graphls.int32


INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisors_and_multiples(dtype: Any) -> None:
    x = RNG.integers(0 if dtype is np.uint8 else -60, 60, (5, 4)).astype(dtype)
    y = np.array([0, 1, 12, 35], dtype)
    x[0, 0] = 0
    agree(ops.gcd, np.gcd(x, y), x, y)
    small = (x % 11).astype(dtype), (y % 11).astype(dtype)
    agree(ops.lcm, np.lcm(*small), *small)


def test_large_divisors() -> None:
    """Two neighbours of Fibonacci's numbers take the most rounds."""
    numbers = [1, 1]
    while numbers[-1] < 2**61:
        numbers.append(numbers[-1] + numbers[-2])
    x, y = np.array([numbers[-1], 2**40 * 3]), np.array([numbers[-2], 2**35 * 9])
    agree(ops.gcd, np.gcd(x, y), x, y)
    agree(ops.Gcd(), np.zeros((0, 3)), np.zeros((0, 3), int), np.int32(4))
    agree(ops.Lcm(), np.int64(12), np.int64(4), np.int32(-6))


@pytest.mark.parametrize("dtype", [*INTEGERS, np.uint16, np.uint32, np.uint64])
def test_counted_bits(dtype: Any) -> None:
    bounds, bits = np.iinfo(dtype), 8 * np.dtype(dtype).itemsize
    x = np.array([0, 1, 5, bounds.max, bounds.max // 3, bounds.min, bounds.min // 3], dtype)
    expected = np.array([bin(int(v) % 2**bits).count("1") for v in x])
    agree(ops.population_count, expected, x)
    assert ops.PopulationCount()(graphls.Tensor(x)).dtype is graphls.uint8


WINDOWS: dict[str, Any] = {
    "hann": ("hann", {}),
    "hamming": ("hamming", {}),
    "bartlett": ("bartlett", {}),
    "blackman": ("blackman", {}),
    "kaiser": (("kaiser", 12.0), {}),
    "kaiser ": (("kaiser", 3.0), {"beta": 3.0}),
    "hamming ": (("general_hamming", 0.6), {"alpha": 0.6, "beta": 0.4}),
}


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, periodic: bool) -> None:
    kind, options = WINDOWS[name]
    function = getattr(ops, f"{name.strip()}_window")
    for count in (0, 1, 2, 7, 8):
        expected = signal.get_window(kind, count, fftbins=periodic) if count else np.zeros(0)
        found = function(count, periodic, dtype=graphls.float64, **options)
        np.testing.assert_allclose(found.asnumpy(), expected, atol=1e-12)
    assert function(4).dtype is graphls.float32
    agree(lambda x: x * function(4, periodic, **options), signal.get_window(kind, 4, fftbins=periodic), np.ones(4))


def test_windows_as_operators() -> None:
    count = graphls.Tensor(5)
    for name in ("Bartlett", "Blackman", "Hamming"):
        found = getattr(ops, f"{name}Window")(periodic=False, dtype=graphls.float64)(count)
        np.testing.assert_allclose(found.asnumpy(), signal.get_window(name.lower(), 5, False), atol=1e-12)


def test_questions() -> None:
    x, counts = graphls.Tensor(X), graphls.Tensor([1, 2])
    assert ops.is_tensor(x) and ops.is_tensor(graphls.Parameter(x, name="p")) and not ops.is_tensor(X)
    assert ops.is_floating_point(x) is True and ops.is_floating_point(counts) is False and x.is_floating_point()
    assert ops.is_complex(x) is False and ops.numel(x) == 30 == x.numel()
    agree(ops.isreal, np.ones(X.shape, bool), X)
    for value in (0.0, -2.0, np.nan, True, 0):
        agree(ops.is_nonzero, np.bool_(value != 0), np.array([[value]]))
    agree(lambda x: x * 2 if ops.is_nonzero(x) else x - 1, np.float32([6]), np.float32([3]))
    for dtype in (np.float16, np.float32, np.float64):
        agree(ops.eps, np.full(3, np.finfo(dtype).eps), np.ones(3, dtype))
    agree(ops.Eps(), np.full(3, 2**-23), np.ones(3, np.float32))
    assert float(ops.eps(graphls.Tensor(1.0, graphls.bfloat16))) == 2**-7


def test_other_names() -> None:
    x, y = np.float32([4, -3, 2]), np.float32([2, 2, 3])
    for name, expected in {
        "add": x + y, "sub": x - y, "mul": x * y, "muls": x * y, "div": x / y, "floordiv": x // y, "mod": x % y,
        "pow": x**y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y,
    }.items():  # fmt: skip
        agree(getattr(ops, f"tensor_{name}"), expected, x, y)
    agree(ops.tensor_exp, np.exp(x), x)
    agree(ops.tensor_expm1, np.expm1(x), x)
    agree(ops.floordiv, x // y, x, y)
    agree(ops.floormod, x % y, x, y)
    agree(ops.pows, x**y, x, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_choices_with_a_gradient(backend: str) -> None:
    """The largest is each category as often as the softmax says."""
    graphls.set_seed(3)
    logits = np.tile(np.float32([0.0, 1.0, -1.0, 0.5]), (4000, 1))
    hard = graphls.compile(lambda x: ops.gumbel_softmax(x, 0.5, hard=True), logits, backend=backend)(logits).asnumpy()
    assert set(np.unique(hard.round(6))) == {0, 1} and (hard.sum(1).round(5) == 1).all()
    np.testing.assert_allclose(hard.mean(0), special.softmax(logits[0]), atol=0.03)
    soft = graphls.compile(lambda x: ops.gumbel_softmax(x.T, 2.0, dim=0), logits, backend=backend)(logits).asnumpy()
    np.testing.assert_allclose(soft.sum(0), 1, rtol=1e-5)
    assert len(np.unique(soft)) > 10000


def test_the_gradient_of_a_hard_choice_is_that_of_the_soft_one() -> None:
    logits = graphls.Tensor(np.float32([[0.0, 1.0, -1.0]]))
    weights = graphls.Tensor(np.float32([[1.0, 2.0, 4.0]]))
    found = []
    for hard in (False, True):
        graphls.set_seed(5)
        step = graphls.compile(
            lambda x: graphls.grad(lambda x: ops.sum(ops.gumbel_softmax(x, 1.0, hard) * weights))(x),  # noqa: B023
            logits, backend="numpy",
        )  # fmt: skip
        found.append(step(logits).asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-5)
    assert np.abs(found[0]).min() > 0


def tridiagonal(above: Any, main: Any, below: Any) -> Any:
    return np.diag(main) + np.diag(above[:-1], 1) + np.diag(below[1:], -1)


def test_other_operators() -> None:
    x = RNG.normal(size=(3, 4))
    running = np.logaddexp.accumulate(x, 1)
    agree(lambda x: ops.CumulativeLogsumexp()(x, 1), running, x)
    shifted = np.concatenate([np.full((3, 1), -np.finfo(np.float64).max), running[:, :-1]], 1)
    agree(lambda x: ops.CumulativeLogsumexp(exclusive=True)(x, 1), shifted, x)
    backwards = np.logaddexp.accumulate(x[:, ::-1], 1)[:, ::-1]
    agree(lambda x: ops.CumulativeLogsumexp(reverse=True)(x, -1), backwards, x)
    agree(lambda x: ops.EuclideanNorm(True)(x, (0, 1)), np.linalg.norm(x, keepdims=True), x)
    agree(ops.Mvlgamma(2), special.multigammaln(np.abs(x) + 1, 2), np.abs(x) + 1)
    agree(lambda x: ops.Polygamma()(1, x), special.polygamma(1, np.abs(x) + 1), np.abs(x) + 1)
    agree(lambda x: ops.NthElement()(x, 1), np.sort(x)[:, 1], x)
    agree(lambda x: ops.NthElement(reverse=True)(x, 1), np.sort(x)[:, -2], x)
    assert ops.InvertPermutation()((2, 0, 1)) == (1, 2, 0) and ops.InvertPermutation()(()) == ()
    agree(lambda x: ops.InplaceUpdateV2()(x, (1,), np.zeros((1, 4))), x * [[1], [0], [1]], x)
    diagonals = [RNG.normal(size=(1, 3)) for _ in range(3)]
    agree(ops.TridiagonalMatMul(), tridiagonal(*(d[0] for d in diagonals)) @ x, *diagonals, x)
    assert_slopes(lambda *t: ops.TridiagonalMatMul()(*t), *diagonals, x)
    agree(ops.TridiagonalMatMul(), np.zeros((2, 0, 4)), *[np.zeros((2, 1, 0))] * 3, np.zeros((2, 0, 4)))
    agree(ops.MatrixInverse(adjoint=True), np.linalg.inv(x[:, :3]).T, x[:, :3].copy())
    agree(ops.Qr(full_matrices=True), tuple(np.linalg.qr(x.T, "complete")), x.T.copy())


F, V, N = np.ones((2, 3), np.float32), np.ones(3, np.float32), np.int32([1, 2])
WRONG: list[Any] = [
    (lambda: ops.quantile(F, 1.5), ValueError, "from 0 to 1 or a vector of such, not 1.5"),
    (lambda: ops.quantile(F, F), ValueError, "from 0 to 1 or a vector"),
    (lambda: ops.quantile(F, math.nan), ValueError, "from 0 to 1 or a vector"),
    (lambda: ops.quantile(F[:0], 0.5), ValueError, "quantile over no elements"),
    (lambda: ops.nanquantile(F, 0.5, 2), ValueError, "no axis 2"),
    (lambda: ops.histc(V, 0), ValueError, "histc takes 1 part or more"),
    (lambda: ops.histc(V, 3, 2, 1), ValueError, "a 'min' up to its 'max', not 2.0 and 1.0"),
    (lambda: ops.histc(V, 2.5), TypeError, "'bins' must be int"),
    (lambda: ops.HistogramFixedWidth(3)(V, V), ValueError, "takes two bounds"),
    (lambda: ops.gcd(V, N), TypeError, r"gcd takes integers, not f32\[3\]"),
    (lambda: ops.lcm(True, False), TypeError, "lcm takes integers"),
    (lambda: ops.gcd(N, np.int32([1, 2, 3])), ValueError, "broadcast"),
    (lambda: ops.population_count(V), TypeError, "population_count takes integers"),
    (lambda: ops.hann_window(-1), ValueError, "length of 0 or more, not -1"),
    (lambda: ops.hann_window(2.5), TypeError, "'window_length' must be int"),
    (lambda: ops.hann_window(3, dtype=graphls.int32), TypeError, "floating point numbers"),
    (lambda: ops.kaiser_window(3, True, "a"), TypeError, "the type of 'beta' should be 'float'"),
    (lambda: ops.is_nonzero(V), ValueError, r"is_nonzero takes a tensor of one element, not f32\[3\]"),
    (lambda: ops.eps(N), TypeError, "eps takes floating point numbers"),
    (lambda: ops.gumbel_softmax(V, 0.0), ValueError, "'tau' must be greater than 0"),
    (lambda: ops.NthElement()(F, 3), ValueError, "NthElement has no element 3"),
    (lambda: ops.InvertPermutation()((0, 0)), ValueError, r"\(0, 0\) is not a permutation"),
    (lambda: ops.TridiagonalMatMul()(V, V, V, F), ValueError, r"diagonals of shape \(1, 2\), not f32\[3\]"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_quantiles_and_integers.py")
