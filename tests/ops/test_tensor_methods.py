"""Methods and operators of tensors: the functions they stand for, at once and traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ops.record import METHODS as NAMES
from tests.ops.agree import agree

RNG = np.random.default_rng(3)
X = RNG.uniform(0.2, 0.9, (2, 3)).astype(np.float32)
Y = RNG.uniform(0.2, 0.9, (2, 3)).astype(np.float32)
I, J = np.int32([[7, -7, 3]]), np.int32([[2, 2, -1]])  # noqa: E741
B, C = np.array([True, False, True]), np.array([True, True, False])

METHODS: list[tuple[Callable[..., Any], Any]] = [
    (lambda x: x.sum(), X.sum()),
    (lambda x: x.mean(1), X.mean(1)),
    (lambda x: x.mean(axis=1, keep_dims=True), X.mean(1, keepdims=True)),
    (lambda x: x.max(), X.max()),
    (lambda x: x.min(axis=0), X.min(0)),
    (lambda x: x.ptp(1), np.ptp(X, 1)),
    (lambda x: x.argmax(1), X.argmax(1)),
    (lambda x: x.var(0), X.var(0)),
    (lambda x: x.cumsum(1), X.cumsum(1)),
    (lambda x: x.reshape(3, 2), X.reshape(3, 2)),
    (lambda x: x.reshape((3, -1)), X.reshape(3, 2)),
    (lambda x: x.view(6), X.reshape(6)),
    (lambda x: x.ravel(), X.reshape(6)),
    (lambda x: x.flatten(), X.reshape(6)),
    (lambda x: x[None].flatten(start_dim=1), X.reshape(1, 6)),
    (lambda x: x.repeat(2, 0), np.repeat(X, 2, 0)),
    (lambda x: x.repeat(2), np.repeat(X, 2)),
    (lambda x: x.repeat(3, axis=1), np.repeat(X, 3, 1)),
    (lambda x: x.repeat((2, 1)), np.tile(X, (2, 1))),
    (lambda x: x.itemset(1, 2, 9.0)[1, 2], 9.0),
    (lambda x: x.itemset(4, 9.0)[1, 1], 9.0),
    (lambda x: x.select(1, 0), X[:, 0]),
    (lambda x: x.resize(2, 2), X.ravel()[:4].reshape(2, 2)),
    (lambda x: x.resize((2, 4)), np.append(X.ravel(), [0, 0]).reshape(2, 4)),
    (lambda x: x.masked_scatter(x > 0.5, x + 1), np.place(Z := X.copy(), X > 0.5, (X + 1).ravel()) or Z),
    (lambda x: x.fill_diagonal(5.0), X * (1 - np.eye(2, 3)) + 5 * np.eye(2, 3)),
    (lambda x: x.index_put((ops.arange(2),) * 2, ops.ones(2), True), X + np.eye(2, 3)),
    (lambda x: (x > 0.5).astype("int32").choose([x, x + 1]), np.where(X > 0.5, X + 1, X)),
    (lambda x: ops.sort(x[0])[0].searchsorted(x[1]), np.searchsorted(np.sort(X[0]), X[1])),
    (lambda x: x[None].H, X.T[None]),
    (lambda x: x.T, X.T),
    (lambda x: x[None].mT, X.T[None]),
    (lambda x: x.transpose(1, 0), X.T),
    (lambda x: x.permute(1, 0), X.T),
    (lambda x: x.clip(0.3, 0.5), X.clip(0.3, 0.5)),
    (lambda x: x.clamp(max=0.5), X.clip(None, 0.5)),
    (lambda x: x.pow(2), X**2),
    (lambda x: x.exp().log().sqrt(), np.sqrt(X)),
    (lambda x: x.tan().atan(), X),
    (lambda x: x.erfc() + x.erf(), np.ones_like(X)),
    (lambda x: x.log2() + x.log10(), np.log2(X) + np.log10(X)),
    (lambda x: x.addcmul(x, x, 2), X + 2 * X * X),
    (lambda x: x.lerp(x + 1, 0.5), X + 0.5),
    (lambda x: x.hypot(x), np.hypot(X, X)),
    (lambda x: x.isclose(x + 1e-9), np.ones(X.shape, bool)),
    (lambda x: x.expand_as(x[None].broadcast_to((4, 2, 3))), np.broadcast_to(X, (4, 2, 3))),
    (lambda x: x.view_as(x.T), X.reshape(3, 2)),
    (lambda x: x.reshape_as(x.T), X.reshape(3, 2)),
    (lambda x: x.where(x > 0.5, 0), np.where(X > 0.5, X, 0)),
    (lambda x: x.fill(3), np.full(X.shape, 3)),
    (lambda x: x.half().float(), X.astype(np.float16)),
    (lambda x: (x * 9).int(), (X * 9).astype(np.int32)),
    (lambda x: x.type_as(x > 0), np.ones(X.shape, bool)),
    (lambda x: x.matmul(x.T), X @ X.T),
    (lambda x: x.mm(x.T), X @ X.T),
    (lambda x: x[0].dot(x[1]), X[0] @ X[1]),
    (lambda x: x[0].outer(x[1]), np.outer(X[0], X[1])),
    (lambda x: x.mv(x[0]), X @ X[0]),
    (lambda x: x.norm(dim=1), np.linalg.norm(X, axis=1)),
    (lambda x: x.logsumexp(1), np.log(np.exp(X).sum(1))),
    (lambda x: x.diff(), np.diff(X)),
    (lambda x: x.all(1), X.all(1)),
    (lambda x: x.contiguous(), X),
    (lambda x: x.gather(graphls.Tensor([1]), 1), X[:, [1]]),
    (lambda x: x * x.numel() + x.dim() + x.nelement() * x.ndimension(), X * 6 + 2 + 12),
]


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_methods(number: int) -> None:
    function, expected = METHODS[number]
    agree(function, expected, X, rtol=1e-3 if number == 33 else 1e-5, atol=1e-4)


def test_index_put_adds_each_time_that_an_index_comes() -> None:
    rows, values = np.array([0, 0, 1]), np.arange(9, dtype=np.float32).reshape(3, 3)
    added = X.copy()
    np.add.at(added, rows, values)
    agree(lambda x, v: x.index_put((rows,), v, accumulate=True), added, X, values)
    at, wanted = (rows, np.array([2, 2, 0])), X + np.array([[0, 0, 2], [1, 0, 0]], np.float32)
    agree(lambda x: x.index_put(at, 1.0, accumulate=True), wanted, X)
    agree(lambda x: x.index_put((1, 2), 1.0, accumulate=True), X + np.eye(6)[5].reshape(2, 3), X)
    changed = graphls.Tensor(X.copy())
    assert changed.index_put_((graphls.Tensor(rows),), graphls.Tensor(values), True) is changed
    np.testing.assert_allclose(changed.asnumpy(), added, rtol=1e-6)


def test_gradients_of_index_put_are_those_of_pytorch() -> None:
    x, v = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([[10, 20], [30, 40], [50, 60]], np.float32)
    slopes = graphls.grad(lambda x, v: (x.index_put((graphls.Tensor([0, 0, 2]),), v, True) ** 2).sum(), (0, 1))(x, v)
    assert slopes[0].tolist() == [[82, 124], [6, 8], [110, 132]]
    assert slopes[1].tolist() == [[82, 124], [82, 124], [110, 132]]


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARE = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
BITS = [operator.and_, operator.or_, operator.xor]


@pytest.mark.parametrize("function", BINARY + COMPARE, ids=lambda f: f.__name__)
def test_operators_of_numbers(function: Any) -> None:
    agree(function, function(X, Y), X, Y, rtol=1e-5)
    agree(lambda x: function(x, 0.5), function(X, np.float32(0.5)), X, rtol=1e-5)
    agree(lambda x: function(2.0, x), function(np.float32(2), X), X, rtol=1e-5)
    if function is not operator.pow:
        agree(function, function(I, J), I, J, rtol=1e-6)


def test_operators_of_one_tensor_and_of_matrices() -> None:
    agree(lambda x: -x, -X, X)
    agree(lambda x: +x, X, X)
    agree(lambda x: abs(x - 0.5), np.abs(X - 0.5), X)
    agree(lambda x: x @ x.T, X @ X.T, X, rtol=1e-5)
    agree(lambda b: ~b, ~B, B)


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_operators_of_bits(function: Any) -> None:
    """Of integers the bits, of bools logic."""
    agree(function, function(I, J), I, J)
    agree(function, function(B, C), B, C)
    agree(lambda i: function(i, 6), function(I, 6), I)
    agree(lambda i: function(6, i), function(6, I), I)


def test_shifts() -> None:
    agree(lambda i: i << 3, I << 3, I)
    agree(lambda i: i >> 1, I >> 1, I)
    agree(lambda i: 1 << abs(i), 1 << np.abs(I), I)


def test_numbers_of_tensors() -> None:
    x = graphls.Tensor(np.float32([2.5]))
    assert (x.item(), float(x), int(x), bool(x)) == (2.5, 2.5, 2, True)
    assert (x.itemsize, x.nbytes, graphls.Tensor(X).nbytes) == (4, 4, 24)
    assert x.numpy() is not None and x.is_floating_point() and not x.int().is_floating_point()
    assert graphls.Tensor(X).max(return_indices=True)[1].item() == X.argmax()


def test_a_function_becomes_a_method_by_its_first_parameter() -> None:
    assert NAMES["cumsum"] is ops.cumsum and NAMES["acos"] is ops.acos
    assert not {"zeros", "stack", "einsum", "grad", "arange"} & {*NAMES}


MINDSPORE = """
abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin aminmax any
approximate_equal arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin asin asinh astype atan atan2
atanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm bool
broadcast_to ceil clamp clip copy copysign cos cosh count_nonzero cross cummax cummin cumprod cumsum deg2rad diff div
divide dot double eq equal erf erfc erfinv exp expand_as expand_dims expm1 fill flatten float float_power floor
floor_divide fmax fmin fmod frac gather ge ger greater greater_equal gt half heaviside hypot inner int inv invert
isclose isfinite isinf isnan isneginf isposinf item itemsize kron ldexp le lerp less less_equal log log10 log1p log2
logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logsumexp long lt matmul matrix_power
max maximum mean min minimum mm mT mul multiply nan_to_num nanmean nansum nbytes ndimension ne neg negative nelement
norm not_equal numel numpy outer permute positive pow prod ptp rad2deg ravel reciprocal remainder reshape reshape_as
round rsqrt sgn short sigmoid sign signbit sin sinc sinh softmax split sqrt square squeeze std sub subtract sum
swapaxes tan tanh to tolist trace transpose true_divide trunc type_as unsqueeze var view view_as where xdivy xlogy
"""


def test_the_words_of_mindspore_are_found() -> None:
    tensor = graphls.Tensor(X)
    assert [name for name in MINDSPORE.split() if not hasattr(tensor, name)] == []


def test_methods_work_on_parameters_of_a_cell() -> None:
    class Scaled(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = graphls.Parameter(X)

        def construct(self, x: Any) -> Any:
            return self.weight.tan().mm(x) + self.weight.norm()

    expected = np.tan(X) @ Y.T + np.linalg.norm(X)
    for backend in ("numpy", "onnxruntime"):
        step = graphls.compile(Scaled(), np.ascontiguousarray(Y.T), backend=backend)
        np.testing.assert_allclose(step(Y.T).asnumpy(), expected, rtol=1e-5)


WRONG: list[Any] = [
    (lambda: graphls.Tensor(X).cumsums(0), AttributeError, "no 'cumsums'; did you mean 'cumsum'"),
    (lambda: graphls.Tensor(X) & 1, TypeError, "bitwise_and takes integers, not f32"),
    (lambda: graphls.Tensor(X) << 1, TypeError, r"bitwise_left_shift takes integers, not f32\[2,3\]"),
    (lambda: +graphls.Tensor(B), TypeError, r"positive takes numbers, not bool\[3\]"),
    (lambda: ops.invert(graphls.Tensor(X)), TypeError, "invert takes integers"),
    (lambda: graphls.Tensor(X[0]).mT, ValueError, "no axis -2"),
    (lambda: ops.div(X, 2, rounding_mode="up"), ValueError, "'floor' or 'trunc', not 'up'"),
    (lambda: ops.div(X, 2, rounding_mode=[]), ValueError, r"'floor' or 'trunc', not \[\]"),
    (lambda: ops.round(X, decimals="a"), TypeError, "'decimals' must be int"),
    (lambda: ops.logit(X, "a"), TypeError, "'eps' of logit is a number, not 'a'"),
    (lambda: graphls.Tensor([1], "uint8") * -7, ValueError, "The number -7 does not fit uint8; cast the tensor first"),
    (lambda: ops.bias_add(X, X[0, :2]), ValueError, r"not f32\[2\] for f32\[2,3\]"),
    (lambda: ops.tan("a"), TypeError, "made of numbers"),
    (lambda: ops.polygamma(-1, X), ValueError, "'n' must be at least 0"),
    (lambda: ops.mvlgamma(X, 0), ValueError, "'p' must be at least 1"),
    (lambda: ops.hypot(X, "a"), TypeError, "neither a tensor nor a number"),
    (lambda: ops.hypot(X, Y[:, :2]), ValueError, "broadcast"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_tensor_methods.py")


def test_numbers_keep_their_digits_in_float64() -> None:
    assert graphls.Tensor(0.1, graphls.float64).item() == 0.1
    assert graphls.Tensor([1e300, 1], graphls.float64).tolist() == [1e300, 1]
    assert graphls.Tensor(0.1).dtype is graphls.float32


def test_a_large_whole_number_is_a_number() -> None:
    assert float(graphls.Tensor(2**126, graphls.float32)) == 2.0**126
    assert graphls.Tensor(2**63 - 1).dtype == graphls.int64


def test_what_a_tensor_says_of_its_memory_and_elements() -> None:
    x = graphls.Tensor(X)
    assert (x.strides, x.stride(), x.is_contiguous(), x.has_init) == (X.strides, [3, 1], True, False)
    assert X[1, 2] in x and 7.0 not in x
    assert x.assign_value(np.zeros((2, 3))) is x and not x.any()


def test_a_parameter_takes_another_dtype_and_what_was_compiled_is_compiled_again() -> None:
    net = nn.Dense(3, 2, has_bias=False)
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    step = graphls.compile(nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train(), X, Y[:, :2])
    step(X, Y[:, :2]), net(X)
    assert net.weight.set_dtype(graphls.float16) is graphls.float16 and net.weight.asnumpy().dtype == np.float16
    net.weight.set_data(np.zeros((2, 3)))
    assert not net(X).any() and repr(net.weight).startswith("Parameter (name=weight, shape=(2, 3), dtype=Float16")
    losses = [float(step(X, Y[:, :2])) for _ in range(3)]
    assert losses == sorted(losses, reverse=True) and net.weight.asnumpy().dtype == np.float16 and net(X).any()
