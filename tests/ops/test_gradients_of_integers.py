"""Gradients of and by integers, as MindSpore 2.10 gives them on its CPU (measured), and weights that nobody names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops
from graphls.ir.build import Builder
from graphls.ir.errors import GraphTypeError
from graphls.ir.graph import Graph, Value
from graphls.ir.interpret import interpret
from graphls.ir.registry import operations
from graphls.ir.types import bool_, float64, int32
from graphls.primitives.primitive import Sample

BACKENDS = ["numpy", "onnxruntime"]
X = np.array([2, 3], np.int32)
F = np.array([2.0, 3.0], np.float32)


def branches(x: Any) -> Any:
    """Nested conditions on integers, one of them not taken."""
    if x[0] > 1:
        x = x * x if ops.sum(x) > 100 else x * x * x
    return x + 1


def counted(x: Any) -> Any:
    return ops.while_loop(lambda s: s[1] < s[0][0], lambda s: (s[0] + x, s[1] + 3), (x * x, 0))[0]


def flagged(x: Any) -> Any:
    """A bool and an integer beside what has a gradient, both made of it."""

    def body(state: Any) -> Any:
        v, go, n = state
        return v * x, ops.cast(go, np.int32) * n > 0, n - ops.cast(go, np.int32)

    return ops.while_loop(lambda s: s[1], body, (x, x[0] > 0, x[1]))[0]


CASES: list[tuple[Callable[..., Any], list[int]]] = [
    (lambda x: x * x, [4, 6]),
    (lambda x: x * 3, [3, 3]),
    (lambda x: x**3, [12, 27]),
    (lambda x: x // 2, [0, 0]),
    (lambda x: ops.sum(x * x * x), [12, 27]),
    (lambda x: ops.cast(x, np.float32) * x, [4, 6]),
    (lambda x: (x * x, ops.cast(x, np.float32) * 2), [6, 8]),
    (lambda x: ops.grad(lambda y: y * y * y)(x), [12, 18]),
    (branches, [12, 27]),
    (counted, [8, 10]),
    (flagged, [80, 405]),
    (lambda x: x > 2, [0, 0]),
    (lambda x: 3, [0, 0]),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_integers_are_differentiated_by_the_rules_for_numbers(number: int, backend: str) -> None:
    f, wanted = CASES[number]
    found = graphls.compile(lambda x: ops.grad(f)(x), X, backend=backend)(X)
    assert found.dtype is int32 and found.asnumpy().tolist() == wanted
    assert graphls.grad(f)(Tensor(X)).asnumpy().tolist() == wanted


def test_indices_have_no_gradient_and_cost_nothing() -> None:
    """The backward of the network is there once, for the weights."""
    embedding, dense = nn.Embedding(10, 4), nn.Dense(4, 3)

    def loss(ids: Any, labels: Any) -> Any:
        rows = embedding(ids)
        total = ops.scan(lambda c, row: (ops.tanh(c + row), None), rows[0], rows)[0]
        return ops.cross_entropy(dense(total), labels)

    ids, labels = np.zeros((5, 2), np.int32), np.zeros(2, np.int32)
    weights = [*embedding.trainable_params(), *dense.trainable_params()]
    take = ops.GradOperation(get_all=True, get_by_list=True)(loss, weights)
    step = graphls.compile(lambda *a: take(*a), ids, labels, backend="numpy", passes="gradient")
    assert [n.primitive.name for n in step.graph.nodes].count("scan") == 2
    by_input, by_weight = step(ids, labels)
    assert not any(g.asnumpy().any() for g in by_input) and all(g.asnumpy().any() for g in by_weight)


def test_equal_integers_share_a_gradient_and_lose_its_rest() -> None:
    a, b, seed = (Tensor(np.array(v, np.int32)) for v in ([2, 3, 1], [2, 1, 5], [5, 7, 9]))
    take = ops.GradOperation(get_all=True, sens_param=True)
    found = [[g.asnumpy().tolist() for g in take(f)(a, b, seed)] for f in (ops.maximum, ops.minimum)]
    assert found == [[[2, 7, 0], [2, 0, 9]], [[2, 0, 9], [2, 7, 0]]]
    assert graphls.grad(lambda x: ops.max(x)[0])(a).asnumpy().tolist() == [0, 1, 0]


def test_the_type_of_a_gradient_is_that_of_its_input() -> None:
    for dtype, of, wanted in ((np.int8, 100, -56), (np.int64, 5, 10), (np.uint8, 200, 144), (np.float16, 3.0, 6.0)):
        x = np.array([of], dtype)
        found = graphls.grad(lambda x: x * x)(Tensor(x))
        assert found.asnumpy().dtype == dtype and found.asnumpy().tolist() == [wanted]
    by_integer, by_float = graphls.grad(lambda x, y: x * y, (0, 1))(Tensor(X), Tensor(F))
    assert by_integer.asnumpy().tolist() == [2, 3] and by_integer.dtype is int32
    assert by_float.asnumpy().tolist() == [2.0, 3.0] and by_float.dtype is graphls.float32


def test_nothing_flows_from_floats_through_integers() -> None:
    """MindSpore's gradient goes through a cast to an integer as if it were none: 4 and 6 for the first of these."""
    for f, wanted in (
        (lambda x: ops.cast(x * x, np.int32), [0.0, 0.0]),
        (lambda x: (x * x, ops.cast(x, np.int32)), [4.0, 6.0]),
        (lambda x: x * ops.cast(ops.cast(x, np.int32), np.float32), [2.0, 3.0]),
        (lambda x: x > 2, [0.0, 0.0]),
        (ops.argmax, [0.0, 0.0]),
        (lambda x: 3, [0.0, 0.0]),
        (lambda x: Tensor(3.0), [0.0, 0.0]),
    ):
        assert graphls.grad(f)(Tensor(F)).asnumpy().tolist() == wanted
    truth = Tensor(np.array([True, False]))
    for f in (ops.logical_not, lambda x: ops.cast(x, np.float32) * 3):
        found = graphls.grad(f)(truth)
        assert found.dtype is bool_ and found.asnumpy().tolist() == [False, False]


def test_sensitivities_are_given_for_all_outputs_or_for_the_floats() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * x, y * y, x > 2

    take = ops.GradOperation(get_all=True, sens_param=True)(f)
    seeds = Tensor(np.array([5, 7], np.int32)), Tensor(F), Tensor(np.array([True, True]))
    for given in (seeds, seeds[:2]):
        by_x, by_y = take(Tensor(X), Tensor(F), given)
        assert by_x.asnumpy().tolist() == [20, 42] and by_y.asnumpy().tolist() == [8.0, 18.0]
    by_x, by_y = take(Tensor(X), Tensor(F), (seeds[1],))
    assert by_x.asnumpy().tolist() == [0, 0] and by_y.asnumpy().tolist() == [8.0, 18.0]


def test_value_vjp_jvp_and_jacobians_of_integers() -> None:
    value, found = graphls.value_and_grad(lambda x: x * x)(Tensor(X))
    assert value.asnumpy().tolist() == [4, 9] and found.asnumpy().tolist() == [4, 6]
    assert ops.vjp(lambda x: x * x, Tensor(X))[1](Tensor(X))[0].asnumpy().tolist() == [8, 18]
    value, moved = ops.jvp(lambda x: x * x, Tensor(X), Tensor(X))
    assert value.asnumpy().tolist() == [4, 9] and moved.asnumpy().tolist() == [0, 0]
    for jacobian in (ops.jacrev, ops.jacfwd):
        with pytest.raises(GraphTypeError, match="A Jacobian takes float outputs"):
            jacobian(lambda x: ops.cast(x, np.int32))(Tensor(F))


def gradients(primitive: Any, sample: Sample, dtype: Any) -> Graph | None:
    """The graph of the gradient rule of a primitive on numbers of a dtype; None where there is none for them."""
    types = [t.with_dtype(dtype) if t.dtype.is_float else t for t in sample.types]
    values = [Value(f"v{i}", t) for i, t in enumerate(types)]
    e = Builder()
    outputs = e.emit(primitive, values, sample.attrs)
    seed = Value("seed", outputs[0].type)
    found = primitive.vjp(e, seed, *values, *outputs, **sample.attrs)
    kept = [g for g in (found if isinstance(found, tuple) else (found,)) if g is not None]
    return Graph("rule", (*values, seed), (), tuple(e.nodes), (), tuple(kept)) if kept else None


WHOLE = sorted(p.name for p in operations() if p.integer_gradient == "whole" and p.name != "cast")


@pytest.mark.parametrize("name", WHOLE)
def test_rules_for_integers_are_those_for_floats(name: str) -> None:
    """Every rule of the list gives on integers, in their dtype, what it gives on the same numbers as floats."""
    (primitive,) = (p for p in operations() if p.name == name)
    generator, tried = np.random.default_rng(0), 0
    for sample in primitive.samples:  # type: ignore[attr-defined]
        graphs = [gradients(primitive, sample, dtype) for dtype in (int32, float64)]
        if graphs[0] is None or graphs[1] is None or 0 in graphs[0].inputs[0].type.shape:
            continue
        numbers = [generator.integers(1, 3, v.type.shape) for v in graphs[0].inputs]
        try:
            results = [
                interpret(g, [a.astype(v.type.dtype.numpy) for a, v in zip(numbers, g.inputs, strict=True)])[0]
                for g in graphs
                if g is not None
            ]
        except (IndexError, ValueError):  # numbers that are no indices or labels here
            continue
        for found, wanted in zip(*results, strict=True):
            np.testing.assert_array_equal(found, np.trunc(wanted))
            tried += 1
    assert tried


class Scaled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(F, name="weight")
        self.frozen = graphls.Parameter(F * 2, name="frozen", requires_grad=False)

    def construct(self, x: Any) -> Any:
        return self.weight * x * self.frozen


def test_get_by_list_without_weights_takes_the_trainable_ones() -> None:
    cell = Scaled()
    (found,) = ops.GradOperation(get_by_list=True)(cell, None)(Tensor(F))
    np.testing.assert_array_equal(found.asnumpy(), F * F * 2)
    by_input, by_weight = ops.GradOperation(get_all=True, get_by_list=True)(cell)(Tensor(F))
    assert len(by_input) == len(by_weight) == 1
    (found,) = ops.GradOperation(get_by_list=True)(cell.construct)(Tensor(F))
    np.testing.assert_array_equal(found.asnumpy(), F * F * 2)
    with pytest.raises(GraphTypeError, match="give the weights of"):
        ops.GradOperation(get_by_list=True)(lambda x: cell(x))
