"""The rest of `mindspore.numpy` against NumPy, and its gradients."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor

pytestmark = pytest.mark.usefixtures("mindspore")

A = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -1.0]], np.float32)
B = np.array([[2.0, 1.0, 0.5], [3.0, -4.0, 2.0]], np.float32)
GAPS = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 5.0]], np.float32)
N = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
V, W = A.ravel(), np.array([0.5, 2.0, -1.0], np.float32)

CALLS: dict[str, list[tuple[Any, ...]]] = {
    "append": [(A, B), (A, B, 1)], "argwhere": [(A > 0,)], "array_equal": [(A, A), (A, B), (A, V)],
    "array_equiv": [(A, A), (A[0], A), (A, V[:4])], "array_str": [(N,)],
    "average": [(A,), (A, 1), (A, 0, np.abs(B)), (A, 1, np.abs(W)), (A, 1, np.abs(W), True)],
    "bartlett": [(5,)], "bincount": [(N.ravel(),)], "bitwise_not": [(N,)], "blackman": [(5,)],
    "broadcast_arrays": [(A, A[0])], "cbrt": [(A,)], "choose": [(N % 2, (A, B))], "column_stack": [((A, B),)],
    "convolve": [(V, W), (W, V, "same"), (V, W, "valid"), (V, W[:2], "same")], "copysign": [(A, B)],
    "corrcoef": [(A,), (A, B), (A, None, False)], "correlate": [(V, W), (V, W, "full"), (W, V, "same")],
    "count_nonzero": [(N % 2, 1)], "cov": [(A,), (A, B), (A, None, False, True)], "cross": [(A, B)],
    "diag_indices": [(3,)], "diagflat": [(A[0], 1)], "diagonal": [(A, 1)],
    "digitize": [(A, np.array([-1.0, 0.0, 2.0]))],
    "divmod": [(A, B)], "dsplit": [(N.reshape(1, 2, 3), 3)], "dstack": [((A, B),)], "ediff1d": [(A,), (A, W, W)],
    "fabs": [(A,)], "fix": [(A,)], "float_power": [(np.abs(A), B)], "fmod": [(A, B)], "gcd": [(N, 4)],
    "geomspace": [(1.0, 100.0, 5)], "gradient": [(V,), (V, 0.5), (np.outer(V, V),)], "hamming": [(5,)],
    "hanning": [(5,)], "histogram": [(A, 4)], "histogram2d": [(V, V[::-1].copy(), 3)],
    "histogram_bin_edges": [(A, 4)], "histogramdd": [(np.stack([V, V[::-1]], 1), 2)], "hsplit": [(A, 3)],
    "in1d": [(N, N[0])], "indices": [((2, 3),)], "interp": [(V, np.arange(3, dtype=np.float32), W)],
    "intersect1d": [(N, N[1])], "invert": [(N,)], "isclose": [(A, A + np.float32(1e-6))], "isin": [(N, N[0])],
    "isneginf": [(A,)], "isposinf": [(A,)], "isscalar": [(3,), (A,)], "ix_": [((0, 1), (2, 0))], "lcm": [(N, 4)],
    "logspace": [(0.0, 2.0, 5)], "nancumsum": [(GAPS,), (GAPS, 1)], "nanmax": [(GAPS,), (GAPS, 1)],
    "nanmean": [(GAPS, 0)], "nanmin": [(GAPS, 0)], "nanstd": [(GAPS,), (GAPS, 1)], "nansum": [(GAPS, 1)],
    "nanvar": [(GAPS, 1)], "pad": [(A, 1), (A, ((1, 0), (0, 2))), (A, ((1, 1), (2, 2)), "reflect"), (A, 2, "edge")],
    "polyadd": [(W, V)], "polyder": [(V,), (V, 2)], "polyint": [(V,), (V, 2)], "polymul": [(V, W)],
    "polysub": [(V, W)], "polyval": [(W, A)], "positive": [(A,)], "ptp": [(A,), (A, 1)], "radians": [(A,)],
    "ravel_multi_index": [((N, N * 2 % 5), (7, 5))], "rint": [(A,)], "rollaxis": [(A, 1), (N.reshape(1, 2, 3), 0, 3)],
    "searchsorted": [(np.sort(V), A), (np.sort(V), A, "right")], "select": [([A > 2, A > 0], [A, B], 9.0)],
    "setdiff1d": [(N, N[1])], "signbit": [(A,)], "take": [(A, N % 6), (A, np.array([2, 0]), 1)],
    "take_along_axis": [(A, N % 3, 1)], "trapz": [(A,), (V, np.arange(6.0, dtype=np.float32)), (A, None, 0.5, 0)],
    "tri": [(3, 4, 1)], "tril_indices": [(3,)], "tril_indices_from": [(A,)], "triu_indices": [(3, 1)],
    "triu_indices_from": [(A,)], "unique": [(N % 3,), (N % 3, False, True)], "unravel_index": [(N, (4, 5))],
    "unwrap": [(V * 3,)], "vander": [(W,), (W, 2)], "vsplit": [(A, 2)],
    "apply_along_axis": [(lambda x: x.sum() * 2, 1, A), (lambda x: x * 2, 0, A)],
    "apply_over_axes": [(lambda x, axis: x.sum(axis), A, (0, 1))], "piecewise": [(A, [A < 0, A > 2], [-1.0, 7.0])],
    "norm": [(A,)],
}  # fmt: skip
NUMPY: dict[str, Any] = {
    "norm": np.linalg.norm, "in1d": np.isin, "trapz": getattr(np, "trapezoid", None) or np.trapz, "fix": np.trunc
}  # fmt: skip


def tensors(item: Any) -> Any:
    if isinstance(item, (list, tuple)):
        return type(item)(map(tensors, item))
    return Tensor(item) if isinstance(item, np.ndarray) else item


def leaves(item: Any) -> list[Any]:
    if isinstance(item, (list, tuple)):
        return [leaf for each in item for leaf in leaves(each)]
    return [item.asnumpy() if isinstance(item, Tensor) else item]


@pytest.mark.parametrize("name", CALLS)
def test_a_function_gives_what_numpy_gives(name: str) -> None:
    function = getattr(importlib.import_module("mindspore.numpy"), name)
    for arguments in CALLS[name]:
        found = leaves(function(*tensors(arguments)))
        wanted = leaves(NUMPY.get(name, getattr(np, name, None))(*arguments))
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            if isinstance(other, str):
                assert one == other
            else:
                np.testing.assert_allclose(one, other.ravel() if name == "in1d" else other, 1e-5, 1e-5)
                assert np.shape(one) == np.shape(other) or name == "in1d"
                assert getattr(one, "dtype", None) not in (np.float64, np.dtype("O"))


def test_grids_dtypes_and_random_numbers() -> None:
    mnp: Any = importlib.import_module("mindspore.numpy")
    np.testing.assert_array_equal(mnp.mgrid[0:2, 0:3][1].asnumpy(), np.mgrid[0:2, 0:3][1])
    assert [each.shape for each in mnp.ogrid[0:2, 0:3]] == [(2, 1), (1, 3)]
    assert mnp.promote_types(gl.float32, gl.int32) == gl.float64
    assert mnp.result_type(Tensor(N), gl.float16) == gl.float64
    drawn = mnp.randint(3, 5, (4,)).asnumpy()
    assert drawn.shape == (4,) and set(drawn) <= {3, 4} and mnp.rand(2, 3).shape == (2, 3)
    assert mnp.asfarray([1, 2]).dtype == gl.float32 and mnp.empty_like(Tensor(A)).shape == A.shape


def test_they_are_part_of_graphs_and_have_gradients() -> None:
    mnp: Any = importlib.import_module("mindspore.numpy")

    def total(x: Any) -> Any:
        return (mnp.average(x) + mnp.ptp(x) + mnp.polyval(x[0], 2.0) + mnp.convolve(x[0], x[1]).sum()).sum()

    expected = np.full(A.shape, 1 / 6) + (A.max() == A) - 1.0 * (A.min() == A)
    expected += np.stack([np.array([4.0, 2.0, 1.0]) + A[1].sum(), np.full(3, A[0].sum())])
    found = gl.compile(gl.grad(total), A)(A).asnumpy()
    np.testing.assert_allclose(found, expected, 1e-5)


def test_names_and_results_of_another_dtype() -> None:
    module: Any = importlib.import_module("mindspore.numpy")
    x = Tensor(A)
    assert module.add(x, x, dtype=gl.int32).dtype is gl.int32
    assert module.equal(x, x, dtype=gl.float16).dtype is gl.float16
    for found, wanted in (
        (module.triu(x, k=1), np.triu(A, k=1)),
        (module.flip(x, axis=1), np.flip(A, axis=1)),
        (module.roll(x, 1, axis=0), np.roll(A, 1, axis=0)),
        (module.transpose(x, axes=(1, 0)), A.T),
        (module.transpose(x), A.T),
    ):
        np.testing.assert_array_equal(found.asnumpy(), wanted)
    with pytest.raises(TypeError, match="sin does not take these arguments"):
        module.sin(x, none_such=1)
