"""Functions of `graphls.ops` against NumPy, at once and traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import graphls
from graphls import ops
from tests.ops.agree import agree

RNG = np.random.default_rng(7)
X = RNG.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
Y = RNG.uniform(0.5, 2, (3, 4)).astype(np.float32)
P = RNG.uniform(0.2, 3, (3, 4)).astype(np.float32)
I = RNG.integers(-9, 9, (3, 4)).astype(np.int32)  # noqa: E741
J = RNG.integers(1, 5, (4,)).astype(np.int32)
B = RNG.uniform(size=(3, 4)) < 0.5
C = RNG.uniform(size=(4,)) < 0.5

PAIRS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floor_div": np.floor_divide,
    "mod": np.mod, "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
}  # fmt: skip
ANY: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp, "square": np.square, "tanh": np.tanh,
    "sigmoid": special.expit, "erf": special.erf, "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "expm1": np.expm1, "relu": lambda x: np.maximum(x, 0), "isfinite": np.isfinite, "isnan": np.isnan,
    "isinf": np.isinf, "silu": lambda x: x * special.expit(x), "identity": lambda x: x, "stop_gradient": lambda x: x,
    "zeros_like": np.zeros_like, "ones_like": np.ones_like,
}  # fmt: skip
POSITIVE: dict[str, Any] = {
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": np.reciprocal,
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str) -> None:
    agree(getattr(ops, name), PAIRS[name](X, Y), X, Y, rtol=1e-5)
    if name != "div":
        agree(getattr(ops, name), PAIRS[name](I, J), I, J)


@pytest.mark.parametrize("name", ANY)
def test_functions_of_any_number(name: str) -> None:
    agree(getattr(ops, name), ANY[name](X), X, rtol=1e-5)


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_positive_numbers(name: str) -> None:
    agree(getattr(ops, name), POSITIVE[name](P), P, rtol=1e-5)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic(name: str) -> None:
    agree(getattr(ops, name), getattr(np, name)(B, C), B, C)
    agree(getattr(ops, name), getattr(np, name)(I, C), I, C)


def test_powers() -> None:
    agree(ops.pow, P**Y, P, Y, rtol=1e-5)
    agree(lambda x: x**2, X**2, X)
    agree(lambda x: x**3, I**3, I)
    agree(lambda x: 2.0**x, 2.0**X, X, rtol=1e-5)


def test_special_functions() -> None:
    agree(ops.gelu, X * special.ndtr(X), X, rtol=1e-5)
    inner = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    agree(lambda x: ops.gelu(x, "tanh"), 0.5 * X * (1 + np.tanh(inner)), X, rtol=1e-5)
    agree(lambda x: ops.softmax(x, 1), special.softmax(X, 1), X)
    agree(ops.log_softmax, special.log_softmax(X, -1), X, rtol=1e-5)
    agree(lambda x: ops.clip_by_value(x, -1, 0.5), np.clip(X, -1, 0.5), X)
    agree(lambda x: ops.clip(x, max=0.5), np.minimum(X, 0.5), X)


def test_selection_and_casts() -> None:
    agree(ops.where, np.where(B, X, Y), B, X, Y)
    agree(lambda c, x: ops.where(c, x, 0), np.where(B, X, 0), B, X)
    agree(lambda x: ops.cast(x, graphls.int32), X.astype(np.int32), X)
    agree(lambda x: x.astype("float16"), X.astype(np.float16), X)
    agree(ops.logical_not, ~B, B)


AXES: list[Any] = [None, 0, -1, (0, 2), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_reductions(axis: Any, keepdims: bool) -> None:
    of = None if axis == () else axis
    for name in ("sum", "mean", "amax", "amin", "prod", "var", "std"):
        expected = getattr(np, name)(X, axis=of, keepdims=keepdims)
        function = getattr(ops, name)
        agree(lambda x, f=function: f(x, axis, keepdims=keepdims), expected, X, rtol=1e-5, atol=1e-5)
    for name in ("any", "all"):
        expected = getattr(np, name)(X > 0, axis=of, keepdims=keepdims)
        function = getattr(ops, name)
        agree(lambda x, f=function: f(x > 0, axis, keepdims=keepdims), expected, X)


def test_other_reductions() -> None:
    agree(ops.argmax, np.argmax(X), X)
    agree(lambda x: ops.argmin(x, -2, keepdims=True), np.argmin(X, -2, keepdims=True), X)
    agree(lambda x: ops.var(x, 1, ddof=1), np.var(X, 1, ddof=1), X, rtol=1e-5)
    agree(ops.sum, np.sum(B), B)
    agree(ops.mean, np.mean(I), I)
    agree(ops.any, np.any(I), I)


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)),
     ((5, 1, 2, 3), (4, 3, 2))],
)  # fmt: skip
def test_matrix_products(a: Any, b: Any) -> None:
    x, y = RNG.normal(size=a).astype(np.float32), RNG.normal(size=b).astype(np.float32)
    agree(ops.matmul, np.matmul(x, y), x, y, rtol=1e-5)
    agree(lambda x, y: x @ y, np.matmul(x, y), x, y, rtol=1e-5)


SHAPED: list[Any] = [
    (lambda x: ops.reshape(x, (4, -1)), X.reshape(4, -1)),
    (lambda x: x.reshape(6, 4), X.reshape(6, 4)),
    (lambda x: x.view(-1), X.reshape(-1)),
    (lambda x: ops.transpose(x, (2, 0, 1)), X.transpose(2, 0, 1)),
    (lambda x: x.transpose(), X.transpose()),
    (lambda x: x.T, X.T),
    (lambda x: ops.swapaxes(x, 0, -1), X.swapaxes(0, -1)),
    (lambda x: ops.expand_dims(x, -1), X[..., None]),
    (lambda x: ops.expand_dims(x, 1), X[:, None]),
    (lambda x: ops.squeeze(x[None, :, None]), X),
    (lambda x: ops.squeeze(x[None], 0), X),
    (lambda x: ops.flatten(x), X.reshape(2, 12)),
    (lambda x: ops.flatten(x, start_dim=0), X.reshape(-1)),
    (lambda x: ops.flatten(x[0, 0]), X[0, 0]),
    (lambda x: ops.broadcast_to(x[:, :1], (5, -1, 3, 4)), np.broadcast_to(X[:, :1], (5, 2, 3, 4))),
    (lambda x: ops.concat((x, x * 2), 1), np.concatenate((X, X * 2), 1)),
    (lambda x: ops.cat([x, 2 * x]), np.concatenate((X, 2 * X))),
    (lambda x: ops.stack((x, x + 1), -1), np.stack((X, X + 1), -1)),
    (lambda x: ops.split(x, 2, -1), tuple(np.split(X, 2, -1))),
    (lambda x: ops.split(x, (1, 2), 1), tuple(np.split(X, [1], 1))),
    (lambda x: ops.split(x, 3, 2)[1], X[..., 3:]),
    (lambda x: ops.gather(x, graphls.Tensor([1, 0, 1]), 0), X[[1, 0, 1]]),
    (lambda x: ops.gather_elements(x, 2, ops.argmax(x, 2, keepdims=True)), X.max(2, keepdims=True)),
]


@pytest.mark.parametrize("number", range(len(SHAPED)))
def test_shapes(number: int) -> None:
    function, expected = SHAPED[number]
    agree(function, expected, X)


def test_new_tensors() -> None:
    agree(lambda x: x + ops.zeros((3, 4)) + ops.ones((2, 1, 1)), X + 1, X)
    agree(lambda x: x * ops.full((4,), 2.5), X * 2.5, X)
    agree(lambda x: ops.fill(graphls.float16, (2, 2), x.sum()), np.full((2, 2), X.sum()), X, rtol=1e-3)
    agree(lambda x: ops.full_like(x, 3, dtype=graphls.int32), np.full(X.shape, 3), X)
    agree(lambda x: x + ops.arange(4), X + np.arange(4), X)
    agree(lambda i: ops.one_hot(i, 4), np.eye(4)[[1, 3]], np.array([1, 3]))
    agree(lambda i: ops.one_hot(i, 4, 2.0, -1.0, 0), 3 * np.eye(4)[[1, 3]].T - 1, np.array([1, 3]))
    assert ops.arange(1, 3, 0.5).asnumpy().tolist() == [1, 1.5, 2, 2.5]
    assert ops.zeros(3).dtype is graphls.float32 and ops.arange(3).dtype is graphls.int64


def test_a_large_fill_in_a_trace_is_no_large_constant() -> None:
    traced = graphls.trace_graph(lambda x: x + ops.ones((300, 300)) * ops.full((300, 1), 2.0), np.float32(1))
    sizes = [n.outputs[0].type.size for n in traced.graph.nodes if n.primitive.name == "constant"]
    assert sizes and max(sizes) == 1


def test_promotion() -> None:
    half, single = graphls.Tensor(np.ones(3, np.float16)), graphls.Tensor(2.0)
    assert (half * single).dtype is graphls.float16
    assert (graphls.Tensor([1]) + 1.0).dtype is graphls.float32
    assert (graphls.Tensor([1]) / 2).dtype is graphls.float32
    assert (graphls.Tensor([1], graphls.int32) + 1).dtype is graphls.int32
    assert (graphls.Tensor([True]) + True).dtype is graphls.int32
    assert ops.exp(1).dtype is graphls.float32


def test_dropout() -> None:
    x = np.ones((64, 64), np.float32)
    for found in (ops.dropout(x, 0.25), graphls.compile(lambda x: ops.dropout(x, 0.25), x)(x)):
        values = found.asnumpy()
        np.testing.assert_allclose(np.unique(values), [0, 1 / 0.75], rtol=1e-6)
        assert abs((values == 0).mean() - 0.25) < 0.03
    np.testing.assert_array_equal(ops.dropout(x, 0.25, training=False).asnumpy(), x)
    np.testing.assert_array_equal(ops.dropout(x, 1.0).asnumpy(), 0 * x)
    same = [ops.dropout(x, 0.5, seed=3).asnumpy() for _ in range(2)]
    np.testing.assert_array_equal(*same)
    infinite = np.full((50, 50), np.inf, np.float32)
    assert not np.isnan(ops.dropout(infinite, 0.5).asnumpy()).any()


def test_parameters_are_read_and_written() -> None:
    p = graphls.Parameter(np.ones(3, np.float32), name="p")

    def step(x: Any) -> Any:
        before = p * 1
        ops.assign_add(p, x)
        middle = ops.assign_sub(p, 0.5)
        return before, middle, ops.assign(p, p * 2)

    def expected() -> list[list[float]]:
        start = p.asnumpy()
        return [start.tolist(), (start + 0.5).tolist(), (start * 2 + 1).tolist()]

    x = np.ones(3, np.float32)
    for run in (step, *(graphls.compile(step, x, backend=b) for b in ("numpy", "onnxruntime"))):
        wanted = expected()
        assert [t.asnumpy().tolist() for t in run(x)] == wanted
        assert p.asnumpy().tolist() == wanted[2]


def test_depend_outside_of_a_trace_gives_its_value() -> None:
    x = graphls.Tensor(1.0)
    assert ops.depend(x, None) is x
    with pytest.raises(TypeError):
        ops.depend(x)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ops.depend(x, x, x)  # type: ignore[call-arg]
