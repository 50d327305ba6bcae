"""`mindspore.numpy` against NumPy, and `mindspore.mint`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor
from graphls.compat.mint import functional as mint_functional
from graphls.compat.mint import functions as mint
from graphls.compat.mint import linalg as mint_linalg
from graphls.compat.mint import special as mint_special
from graphls.compat.numpy import arrays as numpy_arrays
from graphls.compat.numpy import functions as mnp
from graphls.compat.numpy import math as numpy_math
from graphls.ops.record import ALSO
from tests.compat import test_numpy

OF_OTHER_MODULES = {*numpy_arrays.__all__, *numpy_math.__all__}
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
    "logical_xor": (A > 0, B > 0), "matmul": (A, B.T), "matrix_power": (A @ A.T, 3), "max": (A,),
    "maximum": (A, B), "mean": (A, 1),
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
        function = getattr(np, name, None) or getattr(np.linalg, name)
        wanted = function(*CALLS[name]) if name != "empty" else np.zeros((2, 3))
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
    assert set(dir(mnp)) - constants == {*CALLS, *test_numpy.CALLS, "rand", "randn"} - OF_OTHER_MODULES


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


@pytest.mark.parametrize("module", [mint, mint_functional, mint_linalg, mint_special])
def test_names_of_mint_are_those_of_the_records(module: Any) -> None:
    path = module.__doc__.split("`")[1].removeprefix("mindspore.")
    for name, function in ALSO[path].items():
        assert getattr(module, name).__wrapped__ is function


def test_mint_takes_dim_as_torch_does() -> None:
    np.testing.assert_array_equal(mint.sum(Tensor(A), dim=1, keepdim=True).asnumpy(), A.sum(1, keepdims=True))
    np.testing.assert_allclose(mint.mean(Tensor(A), dim=0).asnumpy(), A.mean(0))
    np.testing.assert_allclose(mint.prod(Tensor(A), dim=0).asnumpy(), A.prod(0))


C = np.random.default_rng(5).normal(size=(2, 3, 4)).astype(np.float32)
ROWS = np.array([[0, 2, 1], [1, 1, 0]])

MINT: dict[str, tuple[Any, Any]] = {
    "cat": (lambda f: f([Tensor(A), Tensor(B)], dim=1), lambda: np.concatenate([A, B], 1)),
    "stack": (lambda f: f([Tensor(A), Tensor(B)], dim=1), lambda: np.stack([A, B], 1)),
    "split": (lambda f: f(Tensor(C), 2, dim=2)[1], lambda: C[:, :, 2:]),
    "chunk": (lambda f: f(Tensor(C), 2, dim=0)[1], lambda: C[1:]),
    "softmax": (lambda f: f(input=Tensor(A), dim=0), lambda: np.exp(A) / np.exp(A).sum(0)),
    "gather": (lambda f: f(Tensor(A), 1, Tensor(ROWS)), lambda: np.take_along_axis(A, ROWS, 1)),
    "index_select": (lambda f: f(Tensor(A), 1, Tensor([2, 0])), lambda: A[:, [2, 0]]),
    "max": (lambda f: f(Tensor(A)), lambda: A.max()),
    "min": (lambda f: f(Tensor(A), dim=1)[0], lambda: A.min(1)),
    "argmax": (lambda f: f(Tensor(A), dim=1, keepdim=True), lambda: A.argmax(1)[:, None]),
    "topk": (lambda f: f(Tensor(A), 2, dim=1)[0], lambda: -np.sort(-A, 1)[:, :2]),
    "sort": (lambda f: f(Tensor(A), dim=0)[0], lambda: np.sort(A, 0)),
    "var": (lambda f: f(Tensor(A), dim=1), lambda: A.var(1, ddof=1)),
    "std": (lambda f: f(Tensor(A), dim=1, correction=0, keepdim=True), lambda: A.std(1, keepdims=True)),
    "norm": (lambda f: f(Tensor(C)), lambda: np.sqrt((C**2).sum())),
    "logsumexp": (lambda f: f(Tensor(A), dim=1, keepdim=True), lambda: np.log(np.exp(A).sum(1, keepdims=True))),
    "cumsum": (lambda f: f(Tensor(A), dim=1), lambda: A.cumsum(1)),
    "flatten": (lambda f: f(Tensor(C), 1, 2), lambda: C.reshape(2, 12)),
    "transpose": (lambda f: f(Tensor(C), 0, 2), lambda: C.swapaxes(0, 2)),
    "t": (lambda f: f(Tensor(A)), lambda: A.T),
    "narrow": (lambda f: f(Tensor(C), 2, 1, 2), lambda: C[:, :, 1:3]),
    "sinc": (lambda f: f(Tensor(A)), lambda: np.sinc(A)),
    "clone": (lambda f: f(Tensor(A)), lambda: A),
    "scatter": (lambda f: f(Tensor(A), 1, Tensor([[0], [2]]), Tensor([[9.0], [8.0]])), lambda: np.where(
        np.arange(3) == [[0], [2]], [[9.0], [8.0]], A)),
    "meshgrid": (lambda f: f(Tensor(A[0]), Tensor(B[0]))[0], lambda: np.meshgrid(A[0], B[0], indexing="ij")[0]),
    "roll": (lambda f: f(Tensor(A), 1, dims=1), lambda: np.roll(A, 1, 1)),
    "repeat_interleave": (lambda f: f(Tensor(A), 2, dim=1), lambda: np.repeat(A, 2, 1)),
    "unsqueeze": (lambda f: f(Tensor(A), dim=0), lambda: A[None]),
    "outer": (lambda f: f(Tensor(A[0]), vec2=Tensor(B[0])), lambda: np.outer(A[0], B[0])),
    "isclose": (lambda f: f(Tensor(A), other=Tensor(A)), lambda: np.isclose(A, A)),
    "median": (lambda f: f(Tensor(A), dim=1)[0], lambda: np.median(A, 1)),
    "arange": (lambda f: f(1, 7, 2), lambda: np.arange(1, 7, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MINT)
def test_mint_computes_what_numpy_does(name: str) -> None:
    call, wanted = MINT[name]
    np.testing.assert_allclose(call(getattr(mint, name)).asnumpy(), wanted(), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", mint.__all__)
def test_every_name_of_mint_is_a_function(name: str) -> None:
    assert callable(getattr(mint, name))


@pytest.mark.usefixtures("mindspore")
def test_linalg_and_special_of_mint() -> None:
    ms: Any = importlib.import_module("mindspore")
    linalg, special = ms.mint.linalg, importlib.import_module("mindspore.mint.special")
    square = np.float32([[2.0, 1.0], [0.5, -3.0]])
    x = Tensor(square)
    np.testing.assert_allclose(linalg.inv(A=x).asnumpy(), np.linalg.inv(square), rtol=1e-6)
    np.testing.assert_allclose(linalg.vector_norm(x, 1, dim=0, keepdim=True).asnumpy(), np.abs(square).sum(0)[None])
    np.testing.assert_allclose(linalg.matrix_norm(x).item(), np.linalg.norm(square), rtol=1e-6)
    np.testing.assert_allclose(linalg.norm(x, ord=1, dim=(0, 1)).item(), np.linalg.norm(square, 1), rtol=1e-6)
    q, r = linalg.qr(x, mode="reduced")
    np.testing.assert_allclose((q @ r).asnumpy(), square, rtol=1e-6)
    assert special.__all__ == ["erfc", "exp2", "expm1", "log1p", "log_softmax", "round", "sinc"]
    np.testing.assert_allclose(special.exp2(input=x).asnumpy(), np.exp2(square), rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x, dim=0).exp().sum(0).asnumpy(), [1, 1], rtol=1e-6)


@pytest.mark.usefixtures("mindspore")
def test_layers_of_mint() -> None:
    layers: Any = importlib.import_module("mindspore.mint.nn")
    x = Tensor(np.random.default_rng(0).normal(size=(2, 4, 8, 8)).astype(np.float32))
    assert [name for name in layers.__all__ if not callable(getattr(layers, name))] == []
    linear = layers.Linear(8, 3)
    np.testing.assert_allclose(
        linear(x).asnumpy(), x.asnumpy() @ linear.weight.asnumpy().T + linear.bias.asnumpy(), rtol=1e-4, atol=1e-5
    )
    assert layers.Linear(8, 3, bias=False)(x).shape == (2, 4, 8, 3)
    assert layers.Conv2d(4, 6, 3, padding=1)(x).shape == (2, 6, 8, 8)
    assert layers.Conv2d(4, 6, (3, 5), padding=(1, 0), bias=False)(x).shape == (2, 6, 8, 4)
    assert layers.Conv2d(4, 6, 3, padding="same")(x).shape == (2, 6, 8, 8)
    assert layers.MaxPool2d(2)(x).shape == layers.AvgPool2d(2)(x).shape == (2, 4, 4, 4)
    assert layers.MaxPool2d(3, stride=2, padding=1)(x).shape == (2, 4, 4, 4)
    assert layers.Flatten()(x).shape == (2, 256)
    np.testing.assert_allclose(layers.LayerNorm(8)(x).asnumpy().mean(-1), 0, atol=1e-5)
    norm = layers.BatchNorm2d(4, momentum=0.25).set_train()
    norm(x)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), 0.25 * x.asnumpy().mean((0, 2, 3)), rtol=1e-3, atol=1e-6)
    assert layers.Embedding(5, 3)(Tensor([1, 2])).shape == (2, 3)
    assert layers.Dropout(0.5)(x).shape == x.shape
    np.testing.assert_allclose(layers.Softmax(dim=1)(x).asnumpy().sum(1), 1, rtol=1e-5)


@pytest.mark.usefixtures("mindspore")
def test_functions_of_layers_of_mint() -> None:
    F: Any = importlib.import_module("mindspore.mint.nn.functional")
    x, w = Tensor(A), Tensor(B)
    assert [name for name in F.__all__ if not callable(getattr(F, name))] == []
    np.testing.assert_allclose(F.linear(x, w, Tensor([1.0, 2.0])).asnumpy(), A @ B.T + [1, 2], rtol=1e-5)
    np.testing.assert_allclose(F.normalize(x, dim=1).asnumpy(), A / np.linalg.norm(A, axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(F.softmax(x, dim=1).asnumpy().sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(F.layer_norm(x, 3).asnumpy().mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(F.mse_loss(x, w).asnumpy(), ((A - B) ** 2).mean(), rtol=1e-5)
    assert F.dropout(x, training=False).tolist() == x.tolist()
    assert F.embedding(Tensor([1, 0]), x).tolist() == A[[1, 0]].tolist()
    wanted = np.log1p(np.exp(-A)).mean()
    np.testing.assert_allclose(F.binary_cross_entropy_with_logits(x, gl.ops.ones_like(x)).asnumpy(), wanted, rtol=1e-5)


SCHEDULES: dict[str, tuple[dict[str, Any], list[float]]] = {
    "StepLR": ({"step_size": 2, "gamma": 0.5}, [1, 1, 0.5, 0.5, 0.25]),
    "MultiStepLR": ({"milestones": [1, 3], "gamma": 0.1}, [1, 0.1, 0.1, 0.01, 0.01]),
    "ExponentialLR": ({"gamma": 0.5}, [1, 0.5, 0.25, 0.125, 0.0625]),
    "LambdaLR": ({"lr_lambda": lambda n: 1 / (n + 1)}, [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
    "LinearLR": ({"start_factor": 0.5, "total_iters": 2}, [0.5, 0.75, 1, 1, 1]),
    "ConstantLR": ({"factor": 0.5, "total_iters": 2}, [0.5, 0.5, 1, 1, 1]),
    "PolynomialLR": ({"total_iters": 4, "power": 2.0}, [1, 0.5625, 0.25, 0.0625, 0]),
    "CosineAnnealingLR": ({"T_max": 2}, [1, 0.5, 0, 0.5, 1]),
}


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_change_the_rate_of_the_next_step(name: str) -> None:
    optim: Any = importlib.import_module("mindspore.experimental.optim")
    settings, factors = SCHEDULES[name]
    weight = gl.Parameter(Tensor([0.0]), name="weight")
    optimizer = optim.SGD([weight], lr=2.0)
    schedules = importlib.import_module("mindspore.experimental.optim.lr_scheduler")
    schedule = getattr(schedules, name)(optimizer, **settings)
    found = []
    for _ in factors:
        before = float(weight.asnumpy()[0])
        optimizer((Tensor([1.0]),))
        found.append((before - float(weight.asnumpy()[0])) / 2)
        schedule.step()
    np.testing.assert_allclose(found, factors, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("mindspore")
def test_optimizers_of_mint() -> None:
    optim: Any = importlib.import_module("mindspore.mint.optim")
    for kind, own in ((optim.AdamW, gl.nn.AdamW), (optim.Adam, gl.nn.Adam)):
        found = []
        for make in (lambda p, kind=kind: kind(iter(p), lr=0.1), lambda p, own=own: own(p, 0.1)):
            weight = gl.Parameter(Tensor([1.0, 2.0]), name="weight")
            optimizer = make([weight])
            for _ in range(3):
                optimizer((Tensor([1.0, -2.0]),))
            found.append(weight.tolist())
        assert found[0] == found[1]
    with pytest.raises(ValueError, match="AdamW minimises; give it the negative loss instead of 'maximize'"):
        optim.AdamW([gl.Parameter(Tensor([1.0]), name="w")], maximize=True)
