"""Functions of functions: products with Jacobians against slopes, Jacobians, derivatives, vmap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree, compared

RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
GRID = np.float32([[1, 2], [3, 4]])


def curved(x: Any, y: Any) -> Any:
    return ops.tanh(x * y) @ ops.softmax(y.T, 0), ops.cumsum(ops.exp(x), 1)


def slope(function: Any, points: Any, directions: Any, step: float = 1e-6) -> list[Any]:
    """What the outputs change by along directions, by differences."""

    def at(h: float) -> Any:
        return function(*(graphls.Tensor(p + h * d) for p, d in zip(points, directions, strict=True)))

    return [(a.asnumpy() - b.asnumpy()) / (2 * step) for a, b in zip(at(step), at(-step), strict=True)]


@pytest.mark.parametrize("backend", ["at once", *BACKENDS])
def test_products_with_vectors_are_slopes(backend: str) -> None:
    v = RNG.normal(size=X.shape), RNG.normal(size=Y.shape)

    def both(x: Any, y: Any, a: Any, b: Any) -> Any:
        return ops.jvp(curved, (x, y), (a, b))

    step = both if backend == "at once" else graphls.compile(both, X, Y, *v, backend=backend)
    outputs, tangents = step(*map(graphls.Tensor, (X, Y, *v)))
    compared(outputs, tuple(t.asnumpy() for t in curved(*map(graphls.Tensor, (X, Y)))), 1e-9, 1e-9)
    compared(tangents, tuple(slope(curved, (X, Y), v)), 1e-7, 1e-7)


@pytest.mark.parametrize("backend", ["at once", *BACKENDS])
def test_both_products_are_adjoint(backend: str) -> None:
    v = RNG.normal(size=X.shape), RNG.normal(size=Y.shape)
    u = RNG.normal(size=(2, 2)), RNG.normal(size=(2, 3))

    def pulled(x: Any, y: Any, a: Any, b: Any) -> Any:
        outputs, function = ops.vjp(curved, x, y)
        return outputs, function(a, b)

    step = pulled if backend == "at once" else graphls.compile(pulled, X, Y, *u, backend=backend)
    outputs, gradients = step(*map(graphls.Tensor, (X, Y, *u)))
    compared(outputs, tuple(t.asnumpy() for t in curved(*map(graphls.Tensor, (X, Y)))), 1e-9, 1e-9)
    left = sum((g.asnumpy() * d).sum() for g, d in zip(gradients, v, strict=True))
    right = sum((t * w).sum() for t, w in zip(slope(curved, (X, Y), v), u, strict=True))
    assert left == pytest.approx(right, rel=1e-7)


class Net(nn.Cell):
    """Images through what has kinks, statistics and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        weight = graphls.Tensor(RNG.normal(size=(2, 1, 3, 3)).astype(np.float32))
        self.convolution = nn.Conv2d(1, 2, 3, weight_init=weight)
        self.norm = nn.BatchNorm2d(2)
        self.pool = nn.MaxPool2d(2, 2)
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x: Any) -> Any:
        return self.drop(self.pool(ops.relu(self.norm(self.convolution(x)))))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_forward_gives_outputs_and_tangents(backend: str) -> None:
    """Moving averages are written once, and the mask of what is dropped is the same in both."""
    net = Net().set_train()
    x, v = (RNG.normal(size=(2, 1, 4, 4)).astype(np.float32) for _ in range(2))
    outputs, tangents = graphls.compile(lambda x, v: ops.jvp(net, x, v), x, v, backend=backend)(x, v)
    dropped = outputs.asnumpy() == 0
    assert dropped.any() and (tangents.asnumpy()[dropped] == 0).all() and (tangents.asnumpy() != 0).any()
    once = net.convolution(graphls.Tensor(x)).asnumpy().mean((0, 2, 3)) * 0.1
    np.testing.assert_allclose(net.norm.moving_mean.asnumpy(), once, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tangents_of_a_network_are_slopes(backend: str) -> None:
    net = Net().set_train(False)
    x, v = (RNG.normal(size=(2, 1, 4, 4)) for _ in range(2))
    single = [a.astype(np.float32) for a in (x, v)]
    _, tangents = graphls.compile(lambda x, v: ops.jvp(net, x, v), *single, backend=backend)(*single)
    (expected,) = slope(lambda x: (net(ops.cast(x, graphls.float32)),), (x,), (v,), 1e-3)
    np.testing.assert_allclose(tangents.asnumpy(), expected, rtol=2e-2, atol=2e-3)


def test_weights_and_other_outputs() -> None:
    w = graphls.Parameter(np.float32([1, 2, 3]), name="w")

    def function(x: Any) -> Any:
        return x * w, x + 1, x - 1

    x, v = graphls.Tensor(np.ones(3, np.float32)), graphls.Tensor(np.float32([1, 0, 2]))
    output, pulled, rest = ops.vjp(function, x, weights=w, has_aux=True)
    assert output.tolist() == [1, 2, 3] and [t.tolist() for t in rest] == [[2, 2, 2], [0, 0, 0]]
    assert [[t.tolist() for t in nest] for nest in pulled(v)] == [[[1, 0, 6]], [[1, 0, 2]]]
    output, tangent, rest = ops.jvp(function, x, v, has_aux=True)
    assert (output.tolist(), tangent.tolist()) == ([1, 2, 3], [1, 0, 6]) and len(rest) == 2
    assert ops.jvp(lambda x: (x * w, x + 1), x, v, has_aux=True)[2].tolist() == [2, 2, 2]
    integers = ops.jvp(lambda x: (x, ops.argmax(x, 0)), x, v)[1]
    assert integers[0].tolist() == [1, 0, 2] and integers[1].tolist() == 0


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians(name: str) -> None:
    jacobian = getattr(ops, name)
    n = np.arange(2)
    expected = np.zeros((2, 2, 2, 2))
    expected[n[:, None], n, n[:, None], n] = 2 * GRID
    agree(lambda x: jacobian(lambda x: x**2)(x), expected, GRID)
    agree(lambda x: jacobian(lambda x: (x**2, x.sum()), has_aux=True)(x), (expected, GRID.sum()), GRID)
    agree(lambda x: jacobian(lambda x, s: (x**2, x.sum()), (0, -1))(x, x), (
        (expected, np.zeros((2, 2, 2, 2))), (np.ones((2, 2)), np.zeros((2, 2))),
    ), GRID)  # fmt: skip
    units = [np.eye(6)[i].reshape(2, 3) for i in range(6)]
    columns = [slope(lambda x: curved(x, graphls.Tensor(Y)), (X,), (unit,)) for unit in units]
    dense = tuple(np.stack([c[i] for c in columns], -1).reshape(*columns[0][i].shape, 2, 3) for i in range(2))
    agree(lambda x, y: tuple(jacobian(curved)(x, y)), dense, X, Y, rtol=1e-6, atol=1e-7)


def test_hessians_are_jacobians_of_gradients() -> None:
    w = RNG.normal(size=(3, 3))

    def form(x: Any) -> Any:
        return ops.sum(x @ graphls.Tensor(w) * x)

    for outer in (ops.jacrev, ops.jacfwd):
        agree(lambda x: outer(ops.grad(form))(x), w + w.T, X[0], rtol=1e-9)  # noqa: B023


def test_derivatives_of_any_order() -> None:
    """The numbers are those of MindSpore's documents."""
    agree(
        lambda x: ops.derivative(lambda x: ops.exp(ops.sin(x)), x, 3),
        (np.array([[2.319777, 2.4825778], [1.1515628, 0.4691642]]),
         np.array([[-4.0515366, 3.6724353], [0.5053504, -0.52061415]])),
        GRID, rtol=1e-5,
    )  # fmt: skip
    agree(lambda x, y: ops.derivative(lambda x, y: x * y * y, (x, y), 2)[1], 2 * GRID + 4 * GRID, GRID, GRID)
    assert ops.derivative(lambda x: x * x, graphls.Tensor([1, 2]), 1)[1].tolist() == [2, 4]


@pytest.mark.parametrize("return_weights", [False, True])
def test_gradients_by_name(return_weights: bool) -> None:
    w = graphls.Parameter(np.float32([2, 3]), name="w")
    x = graphls.Tensor(np.float32([5, 7]))

    def function(x: Any, y: Any) -> Any:
        return x * w + y

    both = ops.grad(function, (0, 1), w if not return_weights else [w], return_ids=True)(x, x)
    assert ops.get_grad(both, 0).tolist() == [2, 3] and ops.get_grad(both, 1).tolist() == [1, 1]
    assert ops.get_grad(both, w).tolist() == [5, 7]
    assert ops.get_grad(ops.value_and_grad(function, 1, return_ids=True)(x, x)[1], 1).tolist() == [1, 1]
    for backend in BACKENDS:
        step = graphls.compile(lambda x: ops.grad(function, 0, w, return_ids=True)(x, x)[1][1], x, backend=backend)
        assert step(x).tolist() == [5, 7]
    with pytest.raises(RuntimeError, match="no gradient by 2"):
        ops.get_grad(both, 2)
    with pytest.raises(TypeError, match="by a position or a Parameter"):
        ops.get_grad(both, "w")


BATCH = RNG.normal(size=(4, 2, 3)).astype(np.float32)


def test_functions_of_one_sample() -> None:
    def one(x: Any, w: Any) -> Any:
        return ops.softmax(x @ w, -1), ops.max(x)[0]

    w = BATCH[0].T
    scores = BATCH @ w
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    agree(lambda x, w: ops.vmap(one, (0, None))(x, w), (shares, BATCH.max((1, 2))), BATCH, w, rtol=1e-5)
    agree(lambda x, w: ops.vmap(one, (0, None), (-1, 0))(x, w)[0], np.moveaxis(shares, 0, -1), BATCH, w, rtol=1e-5)
    agree(lambda x: ops.vmap(lambda x, y: (x + y, y), -1, (1, 0))(x, x), (np.moveaxis(2 * BATCH, 2, 1), np.moveaxis(BATCH, 2, 0)), BATCH)  # noqa: E501
    agree(lambda x: ops.vmap(lambda x: (x, x), 1, (0, None))(x)[1], BATCH[:, 0], BATCH)
    agree(lambda x: ops.vmap(lambda nest: nest[0] * nest["a"])({0: x, "a": x}), BATCH**2, BATCH)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap_of_a_function_that_takes_tensors_apart(axis: int) -> None:
    rows = [np.take(BATCH, i, axis + 1 if axis >= 0 else axis) for i in range(BATCH.shape[1:][axis])]
    agree(lambda x: ops.vmap(lambda x: ops.unbind(x, axis))(x), tuple(rows), BATCH)


def test_vmap_among_other_functions() -> None:
    def cubes(row: Any) -> Any:
        return ops.sum(row**3)

    agree(lambda x: ops.vmap(ops.vmap(ops.grad(cubes)))(x), 3 * BATCH**2, BATCH, rtol=1e-5)
    agree(lambda x: ops.grad(lambda x: ops.sum(ops.vmap(cubes)(x)))(x), 3 * BATCH**2, BATCH, rtol=1e-5)
    net = nn.Dense(3, 2)
    agree(lambda x: ops.vmap(net)(x), net(graphls.Tensor(BATCH)).asnumpy(), BATCH, rtol=1e-5)
    tangents = ops.vmap(lambda v: ops.jvp(ops.sin, graphls.Tensor(BATCH[0]), v)[1])
    agree(tangents, np.cos(BATCH[0]) * BATCH, BATCH, rtol=1e-5)


T = graphls.Tensor(GRID)
WRONG: list[Any] = [
    (lambda: ops.vjp(3, T), TypeError, "vjp takes a cell or a function"),
    (lambda: ops.vjp(ops.exp), TypeError, "vjp takes one tensor or more"),
    (lambda: ops.vjp(ops.exp, T, weights=T), TypeError, "a Parameter or a tuple"),
    (lambda: ops.jvp(ops.exp, T, "v"), TypeError, "jvp takes one tensor or more"),
    (lambda: ops.jvp(ops.exp, T, T[0]), ValueError, "in the shapes of the inputs"),
    (lambda: ops.jvp(ops.exp, T, (T, T)), ValueError, "in the shapes of the inputs"),
    (lambda: ops.derivative(ops.exp, T, 0), ValueError, "'order' must be at least 1"),
    (lambda: ops.derivative(ops.exp, T, 1.5), TypeError, "'order' must be int"),
    (lambda: ops.jacrev(3), TypeError, "jacrev takes a cell or a function"),
    (lambda: ops.jacrev(ops.exp, "0"), TypeError, "an integer or a tuple"),
    (lambda: ops.jacfwd(ops.exp, 1)(T), TypeError, "is out of range for the 1 inputs"),
    (lambda: ops.vmap(3), TypeError, "vmap takes a cell or a function"),
    (lambda: ops.vmap(ops.exp, "x"), RuntimeError, "integers and None"),
    (lambda: ops.vmap(ops.exp, None), RuntimeError, "is an axis"),
    (lambda: ops.vmap(ops.exp, (0, 1))(T), RuntimeError, "'in_axes' of vmap are 1 here"),
    (lambda: ops.vmap(ops.exp, 2)(T), RuntimeError, "no axis 2"),
    (lambda: ops.vmap(ops.add)(T, graphls.Tensor([1, 2, 3])), RuntimeError, "not 2 and 3"),
    (lambda: ops.vmap(ops.exp, 0, 2)(T), RuntimeError, "no axis 2 for the results"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_functionals.py")
