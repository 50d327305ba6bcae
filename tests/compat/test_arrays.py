"""`mindspore.numpy` against NumPy, and `mindspore.mint`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor
from graphls.compat import mint
from graphls.compat import numpy as mnp

A = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -1.0]], np.float32)
B = np.array([[2.0, 1.0, 0.5], [3.0, -4.0, 2.0]], np.float32)
POSITIVE = np.abs(B)
N = np.array([[1, 2, 3], [4, 5, 6]])

CALLS: dict[str, tuple[Any, ...]] = {
    "abs": (A,), "absolute": (A,), "add": (A, B), "amax": (A, 1), "amin": (A, 0), "arange": (2, 9, 3),
    "arccos": (A / 5,), "arccosh": (POSITIVE + 1,), "arcsin": (A / 5,), "arcsinh": (A,), "arctan": (A,),
    "arctan2": (A, B), "arctanh": (A / 5,), "argmax": (A, 1), "argmin": (A,), "array": ([[1.0, 2.0]],),
    "array_split": (A, 2, 1), "asarray": (A,), "atleast_1d": (np.float32(3),), "atleast_2d": (A[0],),
    "atleast_3d": (A,), "bitwise_and": (N, 3), "bitwise_or": (N, 3), "bitwise_xor": (N, 3),
    "broadcast_to": (A[0], (4, 3)), "ceil": (A,), "clip": (A, -1.0, 2.0), "concatenate": ((A, B), 1), "cos": (A,),
    "cosh": (A,), "cumprod": (A, 1), "cumsum": (A,), "deg2rad": (A,), "diag": (A[0],), "diff": (A,), "divide": (A, B),
    "dot": (A[0], B[0]), "equal": (A, B), "exp": (A,), "exp2": (A,), "expand_dims": (A, 1), "expm1": (A,),
    "eye": (3, 4, 1), "flip": (A, 1), "fliplr": (A,), "flipud": (A,), "floor": (A,), "floor_divide": (A, B),
    "full": ((2, 3), 7.0), "full_like": (A, 3), "greater": (A, B), "greater_equal": (A, B), "heaviside": (A, 0.5),
    "hstack": ((A, B),), "hypot": (A, B), "identity": (3,), "inner": (A, B), "isfinite": (A * np.float32(np.inf),),
    "isinf": (A,), "isnan": (A,), "kron": (A, B), "less": (A, B), "less_equal": (A, B), "linspace": (0.0, 1.0, 5),
    "log": (POSITIVE,), "log10": (POSITIVE,), "log1p": (POSITIVE,), "log2": (POSITIVE,), "logaddexp": (A, B),
    "logaddexp2": (A, B), "logical_and": (A > 0, B > 0), "logical_not": (A > 0,), "logical_or": (A > 0, B > 0),
    "logical_xor": (A > 0, B > 0), "matmul": (A, B.T), "max": (A,), "maximum": (A, B), "mean": (A, 1),
    "meshgrid": (A[0], B[0]), "min": (A, 1), "minimum": (A, B), "mod": (A, B), "moveaxis": (A, 0, 1),
    "multiply": (A, B), "negative": (A,), "not_equal": (A, B), "ones": ((2, 3),), "ones_like": (A,),
    "outer": (A[0], B[0]), "power": (POSITIVE, A), "prod": (A, 1), "rad2deg": (A,), "ravel": (A,), "reciprocal": (B,),
    "remainder": (A, B), "repeat": (A, 2, 1), "reshape": (A, (3, 2)), "roll": (A, 1, 1), "rot90": (A,), "shape": (A,),
    "sign": (A,), "sin": (A,), "sinh": (A,), "size": (A,), "split": (A, 3, 1), "sqrt": (POSITIVE,), "square": (A,),
    "squeeze": (A[:1], 0), "stack": ((A, B), 1), "std": (A, 1), "subtract": (A, B), "sum": (A, 0),
    "swapaxes": (A, 0, 1), "tan": (A,), "tanh": (A,), "tensordot": (A, B.T, 1), "tile": (A, (2, 1)), "trace": (A,),
    "transpose": (A, (1, 0)), "tril": (A,), "triu": (A,), "true_divide": (A, B), "trunc": (A,), "var": (A, 1),
    "vstack": ((A, B),), "where": (A > 0, A, B), "zeros": ((2, 3),), "zeros_like": (A,), "empty": ((2, 3),),
}  # fmt: skip


def tensors(item: Any) -> Any:
    """Arrays as tensors, also in tuples."""
    if isinstance(item, tuple):
        return tuple(map(tensors, item))
    return Tensor(item) if isinstance(item, (np.ndarray, np.generic)) else item


@pytest.mark.parametrize("name", CALLS)
def test_functions_give_what_numpy_gives(name: str) -> None:
    found = getattr(mnp, name)(*map(tensors, CALLS[name]))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(*CALLS[name]) if name != "empty" else np.zeros((2, 3))
    if name in ("shape", "size"):
        assert found == wanted
        return
    assert isinstance(found, (tuple, list)) == isinstance(wanted, (tuple, list))
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, (tuple, list)) else [(found, wanted)]
    for tensor, array in pairs:
        assert isinstance(tensor, Tensor)
        assert tensor.shape == array.shape
        np.testing.assert_allclose(tensor.asnumpy(), array, rtol=1e-5, atol=1e-6)


def test_every_function_is_among_the_calls() -> None:
    constants = {"pi", "e", "inf", "nan", "newaxis"}
    assert set(dir(mnp)) - constants == set(CALLS)


@pytest.mark.usefixtures("mindspore")
def test_constants_dtypes_and_arguments_by_name() -> None:
    module = importlib.import_module("mindspore.numpy")
    assert (module.pi, module.newaxis, module.float16) == (np.pi, None, gl.float16)
    assert module.zeros((2,), dtype=module.int32).dtype is gl.int32
    assert module.array(A, ndmin=3).shape == (1, 2, 3)
    assert module.asarray([1, 2], module.float16).dtype is gl.float16
    assert module.arange(3).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(module.repeat(Tensor(N), 2).asnumpy(), np.repeat(N, 2))
    np.testing.assert_array_equal(module.sum(Tensor(N), axis=1, keepdims=True).asnumpy(), N.sum(1, keepdims=True))


def test_an_array_is_a_copy() -> None:
    data = A.copy()
    tensor = mnp.array(data)
    data[:] = 0
    np.testing.assert_array_equal(tensor.asnumpy(), A)


@pytest.mark.parametrize("name", mint.__all__)
def test_mint_is_there(name: str) -> None:
    assert getattr(mint, name) is getattr(gl.ops, name)


def test_mint_takes_dim_as_torch_does() -> None:
    np.testing.assert_array_equal(mint.sum(Tensor(A), dim=1, keepdim=True).asnumpy(), A.sum(1, keepdims=True))
    np.testing.assert_allclose(mint.mean(Tensor(A), dim=0).asnumpy(), A.mean(0))
    np.testing.assert_allclose(mint.prod(Tensor(A), dim=0).asnumpy(), A.prod(0))
