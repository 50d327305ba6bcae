"""Programs with loops whose number of rounds is not known when they are compiled, for tests of their gradients.

Each takes two arrays. Outside of a graph its loops run in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls import ops

Program = Callable[..., Any]
X = np.array([1.5, 2.0])
W = np.array([[0.9, 0.4], [-0.3, 1.1]])


def counted(x: Any, w: Any) -> Any:
    """A product with a weight in each round, and a count that has no gradient."""

    def body(state: Any) -> Any:
        v, n = state
        return ops.tanh(ops.matmul(v.reshape(1, 2), w).reshape(2)) * 1.7 + v * w[0] * 0.5, n + 1

    v, n = ops.while_loop(lambda s: s[1] < 4, body, (x, 0))
    return ops.sum(v * v) * n


def layers(x: Any, w: Any) -> Any:
    """A weight and a bias, whose gradients are sums over all rounds, taken at once behind the loop."""
    h = ops.while_loop(lambda h: ops.sum(h * h) < 60.0, lambda h: ops.tanh(ops.matmul(h, w) + x) + h * 1.3, w * w)
    return ops.sum(h * h)


def until_large(x: Any, w: Any) -> Any:
    """A number of rounds that depends on both arrays."""
    v = ops.while_loop(lambda v: ops.sum(v * v) < 50.0 + w[0, 0], lambda v: v * 1.3 + ops.sin(v * w[1]), x)
    return ops.sum(v * v * v)


def never(x: Any, w: Any) -> Any:
    v = ops.while_loop(lambda v: ops.sum(v) < 0.0, lambda v: v * w[0], x)
    return ops.sum(v * v) + ops.sum(w)


def keeps_nothing(x: Any, w: Any) -> Any:
    """The backward needs nothing of the forward but how often it ran."""
    v = ops.while_loop(lambda v: ops.sum(v) < 9.0, lambda v: v * 2, x)
    return ops.sum(v * v * w[0])


def nested(x: Any, w: Any) -> Any:
    """An inner loop whose number of rounds differs from round to round."""

    def outer(state: Any) -> Any:
        v, n = state
        v, _ = ops.while_loop(lambda t: t[1] < n, lambda t: (t[0] * w[0] + ops.sin(t[0]), t[1] + 1), (v, 0))
        return v * w[1], n + 1

    v, _ = ops.while_loop(lambda s: s[1] < 4, outer, (x, 0))
    return ops.sum(v * v * v)


def in_a_scan(x: Any, w: Any) -> Any:
    def outer(v: Any, i: Any) -> Any:
        v, _ = ops.while_loop(lambda t: t[1] < i, lambda t: (t[0] * w[0] + ops.sin(t[0]), t[1] + 1), (v, 0))
        return v * w[1], ops.sum(v)

    v, rows = ops.scan(outer, x, np.arange(4))
    return ops.sum(v * v * v) + ops.sum(rows * rows)


def around_a_scan(x: Any, w: Any) -> Any:
    def outer(state: Any) -> Any:
        v, n = state
        v, rows = ops.scan(lambda c, row: (ops.tanh(c * row) + c, c * c), v, w)
        return v * 0.7 + ops.sum(rows) * 0.1, n + 1

    return ops.sum(ops.while_loop(lambda s: s[1] < 3, outer, (x, 0))[0])


def branching(x: Any, w: Any) -> Any:
    """Loops in branches in a loop."""

    def grown(v: Any) -> Any:
        return ops.while_loop(lambda t: ops.sum(t) < 5.0, lambda t: t * t * 1.2, v)

    def body(v: Any) -> Any:
        return ops.cond(ops.sum(v) < 4.0, grown, lambda v: v * ops.exp(w[0] * 0.1) + v, v)

    v = ops.while_loop(lambda v: ops.sum(v) < 19.0, body, x)
    return ops.sum(v * v)


def bounded_by_a_tensor(x: Any, w: Any) -> Any:
    bound = ops.cast(ops.sum(x), "int32")
    return ops.sum(ops.fori_loop(0, bound, lambda i, v: v * w[0] + ops.cast(i, "float64") * x, x))


def assigned(x: Any, w: Any) -> Any:
    """Elements that are assigned in each round, at a place that the round decides."""

    def body(state: Any) -> Any:
        v, n = state
        v = v * w[0]
        v[n % 2] = ops.sin(v[0]) * v[1] + x[n % 2]
        return v, n + 1

    return ops.sum(ops.while_loop(lambda s: s[1] < 3, body, (x, 0))[0] ** 2)


def several(x: Any, w: Any) -> Any:
    """A bool and a number that are carried, a captured value that becomes what is carried, and one that is not used."""

    def body(state: Any) -> Any:
        p, q, _, n = state
        return q * ops.exp(w[0] * 0.3), x + p[0] * w[1], ops.sum(q) < 20.0, n * 2

    p, q, _, n = ops.while_loop(lambda s: ops.logical_and(s[2], s[3] < 30), body, (x, x * 0, True, 1))
    return ops.sum(p * q) * n


def descent(x: Any, w: Any) -> Any:
    """A gradient is taken in each round."""

    def body(state: Any) -> Any:
        v, n = state
        return v - ops.grad(lambda u: ops.sum(ops.sin(u * w[0]) * u))(v) * 0.1, n + 1

    return ops.sum(ops.while_loop(lambda s: s[1] < 3, body, (x, 0))[0] ** 2)


def _pulled(x: Any, w: Any) -> tuple[Any, Any]:
    def f(u: Any) -> Any:
        return ops.while_loop(lambda s: s[1] < 3, lambda s: (ops.sin(s[0] * w[0]) + s[0], s[1] + 1), (u, 0))[0]

    y, pull = ops.vjp(f, x)
    return y, lambda v: pull(ops.sin(v))[0]


def backward_in_a_loop(x: Any, w: Any) -> Any:
    """What the rounds of one loop have kept is used in all rounds of another."""
    y, pull = _pulled(x, w)
    return ops.sum(ops.while_loop(lambda s: s[1] < 2, lambda s: (s[0] + pull(s[0]) * 0.1, s[1] + 1), (y, 0))[0] ** 2)


def backward_in_a_branch(x: Any, w: Any) -> Any:
    y, pull = _pulled(x, w)
    return ops.sum(ops.cond(ops.sum(y) > 0, pull, lambda v: v, y) ** 2)


def backward_in_a_scan(x: Any, w: Any) -> Any:
    y, pull = _pulled(x, w)
    return ops.sum(ops.scan(lambda c, row: (c + pull(c * row) * 0.1, None), y, w)[0] ** 2)


PROGRAMS: list[Program] = [
    counted, layers, until_large, never, keeps_nothing, nested, in_a_scan, around_a_scan, branching,
    bounded_by_a_tensor, assigned, several, descent, backward_in_a_loop, backward_in_a_branch, backward_in_a_scan,
]  # fmt: skip
