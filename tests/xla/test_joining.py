"""Operations on each other's results overflow in XLA where they do in the interpreter: its simplifier joins none.

Infinities and nans are at the same places; numbers differ by `BOUND` of the result or of 1, as rounding errors of a
first operation grow in a second one. Where a value is below the smallest normal number, which XLA takes as 0, nothing
is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from graphls.ir import Builder, Type, Value, interpret
from graphls.ir.graph import Graph
from graphls.ir.types import float32
from graphls.runtime.xla.tracing import traced
from tests.xla.test_primitives import OPTIONS

jax = pytest.importorskip("jax")

BOUND, LEAST = 1e-3, 2.0**-126
NUMBERS = [0.0, 1.0, 0.5, 2.5, 12.0, 80.0, 150.0, 0.01, 1e20, 1e-30, 1e30, 1e37, np.inf]
X, Y = (
    each.reshape(-1) for each in np.meshgrid(*[np.array([*NUMBERS, *(-x for x in NUMBERS), np.nan], np.float32)] * 2)
)
UNARY = (
    "abs", "acosh", "asinh", "exp", "expm1", "log", "log1p", "neg", "reciprocal", "relu", "rsqrt", "sigmoid",
    "softplus", "sqrt", "square", "tanh",
)  # fmt: skip
BINARY = ("add", "mul", "div", "pow", "maximum")
FEW = ("id", "exp", "log", "reciprocal", "rsqrt", "sqrt", "square")
CONSTANTS = (3.0, 0.1, 1e30)
Build = Callable[[Any, Value, Value], Value]


def applied(e: Any, name: str, x: Value) -> Value:
    return x if name == "id" else getattr(e, name)(x)


def number(e: Any, value: float) -> Value:
    return e.constant(value=np.float32(value))


def of_one() -> Iterator[tuple[str, Build]]:
    """f(g(x))."""
    for f, g in product(UNARY, UNARY):
        yield f"{f}({g}(x))", lambda e, x, y, f=f, g=g: applied(e, f, applied(e, g, x))


def of_pairs() -> Iterator[tuple[str, Build]]:
    """b(f(x), g(x)), b(f(x), g(y)), f(b(x, y)) and f(b(x, x))."""
    for b, f, g in product(BINARY, FEW, FEW):
        yield f"{b}({f}(x), {g}(x))", lambda e, x, y, b=b, f=f, g=g: getattr(e, b)(applied(e, f, x), applied(e, g, x))
        yield f"{b}({f}(x), {g}(y))", lambda e, x, y, b=b, f=f, g=g: getattr(e, b)(applied(e, f, x), applied(e, g, y))
    for f, b in product(UNARY, BINARY):
        yield f"{f}({b}(x, y))", lambda e, x, y, f=f, b=b: applied(e, f, getattr(e, b)(x, y))
        yield f"{f}({b}(x, x))", lambda e, x, y, f=f, b=b: applied(e, f, getattr(e, b)(x, x))


def of_chains() -> Iterator[tuple[str, Build]]:
    """b(c(x, p), q), b(q, c(x, p)), b(c(x, y), y), and functions of constants."""
    for b, c in product(("sub", *BINARY), ("sub", *BINARY)):
        yield f"{b}({c}(x, y), y)", lambda e, x, y, b=b, c=c: getattr(e, b)(getattr(e, c)(x, y), y)
        for p, q in product(CONSTANTS, CONSTANTS):
            yield (
                f"{b}({c}(x, {p}), {q})",
                lambda e, x, y, b=b, c=c, p=p, q=q: getattr(e, b)(getattr(e, c)(x, number(e, p)), number(e, q)),
            )
            yield (
                f"{b}({q}, {c}({p}, x))",
                lambda e, x, y, b=b, c=c, p=p, q=q: getattr(e, b)(number(e, q), getattr(e, c)(number(e, p), x)),
            )
    for b, f, p in product(BINARY, FEW, CONSTANTS):
        yield f"{b}({p}, {f}(x))", lambda e, x, y, b=b, f=f, p=p: getattr(e, b)(number(e, p), applied(e, f, x))
        yield f"{f}({b}({p}, x))", lambda e, x, y, b=b, f=f, p=p: applied(e, f, getattr(e, b)(number(e, p), x))


def of_three() -> Iterator[tuple[str, Build]]:
    """What the simplifier looks through: moves, and what leaves a positive number as it is."""
    for names in (
        ("log", "square", "exp"), ("log", "abs", "exp"), ("sqrt", "abs", "square"), ("rsqrt", "reciprocal", "square"),
        ("log", "reciprocal", "exp"), ("log", "sqrt", "exp"), ("sqrt", "relu", "square"),
    ):  # fmt: skip
        f, g, h = names
        yield str(names), lambda e, x, y, f=f, g=g, h=h: applied(e, f, applied(e, g, applied(e, h, x)))
    for b in ("floor_div", "truncate_div"):
        yield b, lambda e, x, y, b=b: getattr(e, b)(e.div(x, number(e, 2.0**-100)), number(e, 2.0**100))
    for move, attrs in (("reshape", {"shape": (1, len(X))}), ("depend", {})):
        for f, g in (("log", "exp"), ("sqrt", "square"), ("reciprocal", "reciprocal")):
            yield f"{f}({move}({g}(x)))", lambda e, x, y, f=f, g=g, m=move, a=attrs: applied(
                e, f, getattr(e, m)(applied(e, g, x), **a)
            )


def graph_of(build: Build) -> Graph:
    """A graph whose results are those of all nodes, the last one first."""
    x, y = (Value(name, Type(float32, X.shape)) for name in "xy")
    e = Builder()
    result = build(e, x, y)
    return Graph("joined", (x, y), (), tuple(e.nodes), (), (result, *(v for node in e.nodes for v in node.outputs)))


@pytest.mark.parametrize("cases", [of_one, of_pairs, of_chains, of_three])
def test_what_overflows_between_operations_is_seen(cases: Callable[[], Iterator[tuple[str, Build]]]) -> None:
    """All in one program, each with inputs of its own, as the simplifier looks at how many nodes read a value."""
    names, builds = zip(*cases(), strict=True)
    graphs = [*map(graph_of, builds)]
    wrong = []
    for name, graph, result in zip(names, graphs, in_xla(graphs), strict=True):
        expected, *between = (each.reshape(-1) for each in interpret(graph, [X, Y])[0])
        if (text := difference(np.asarray(result).reshape(-1), expected, between)) is not None:
            wrong.append(f"{name}: {text}")
    assert not wrong, "\n".join(wrong)


def in_xla(graphs: list[Graph]) -> list[Any]:
    """The first result of each graph."""
    alone = [replace(graph, outputs=graph.outputs[:1]) for graph in graphs]

    def program(several: list[list[Any]]) -> list[Any]:
        return [traced(jax, graph, arrays)[0][0] for graph, arrays in zip(alone, several, strict=True)]

    inputs = [[X, Y]] * len(graphs)
    with jax.enable_x64(True):
        return jax.jit(program, keep_unused=True).lower(inputs).compile(OPTIONS)(inputs)


def difference(result: Any, expected: Any, between: list[Any]) -> str | None:
    """The first place where a result of XLA is another one, of those that no subnormal number leads to."""
    is_tiny = [(abs(each) > 0) & (abs(each) < LEAST) for each in between if each.size == X.size]
    with np.errstate(invalid="ignore"):
        is_close = abs(result - expected) <= BOUND * np.maximum(abs(expected), 1)
    are_same = is_close | (result == expected) | (np.isnan(result) & np.isnan(expected))
    places = np.flatnonzero(~are_same & ~np.logical_or.reduce(is_tiny))
    each = ((result[at], expected[at], X[at], Y[at]) for at in places)
    return next((f"{actual}, not {wanted}, of {x} and {y}" for actual, wanted, x, y in each), None)
