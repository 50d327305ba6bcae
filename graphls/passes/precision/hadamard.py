"""The random Hadamard transform of 16 numbers, by sums of pairs, whose order is the same on every engine."""

from __future__ import annotations

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value

SIZE = 16
SIGNS = (1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1)
"""Random signs, drawn once: those of Transformer Engine, jax/quantize/hadamard.py."""


def transformed(e: Builder, x: Value, axis: int) -> Value:
    """x with each 16 numbers along an axis multiplied by the orthogonal matrix diag(signs) @ H / 4; same type.

    H is Sylvester's Hadamard matrix. The product of two operands that are transformed along the axis over which it
    sums is that of the operands themselves. Numbers behind the last 16 stay as they are. Source: "Pretraining Large
    Language Models with NVFP4" (arXiv 2509.25149), appendix C.
    """
    size = x.shape[axis]
    groups = size // SIZE
    if not groups:
        return x
    head = _part(e, x, axis, 0, groups * SIZE) if size % SIZE else x
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    signs = np.array(SIGNS).reshape(SIZE, *(1,) * len(after)) / SIZE**0.5
    y = e.mul(e.reshape(head, shape=(*before, groups, SIZE, *after)), e.constant(signs, x.dtype))
    y = e.reshape(y, shape=(*before, groups, 4, 4, *after))
    for four in (len(before) + 1, len(before) + 2):  # two stages at once, for which each number is moved once
        a, b, c, d = (_part(e, y, four, i, i + 1) for i in range(4))
        (a, c), (b, d) = _both(e, a, c), _both(e, b, d)
        y = e.concat(*_both(e, a, b), *_both(e, c, d), axis=four)
    y = e.reshape(y, shape=head.shape)
    return e.concat(y, _part(e, x, axis, groups * SIZE, size), axis=axis) if size % SIZE else y  # type: ignore[no-any-return]


def _both(e: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """The sum and the difference."""
    return e.add(x, y), e.sub(x, y)


def _part(e: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """The elements from `start` to before `stop` along an axis."""
    starts, stops = [0] * x.rank, list(x.shape)
    starts[axis], stops[axis] = start, stop
    return e.slice(x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.rank)  # type: ignore[no-any-return]
