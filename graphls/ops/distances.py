"""Distances and angles between vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.checks import number
from graphls.ir.errors import GraphValueError
from graphls.ops.elementwise import div, maximum, mul, sub
from graphls.ops.norms import vector_norm
from graphls.ops.operands import float_of, floats, in_single
from graphls.ops.record import operation
from graphls.ops.reductions import sum
from graphls.ops.shapes import expand_dims, gather
from graphls.tensors.tensor import Tensor


@operation(classes="Cdist", settings="p")
def cdist(x1: Any, x2: Any, p: float = 2.0) -> Tensor:
    """The distances (..., m, n) of each of the vectors (..., m, k) from each of others, (..., n, k).

    `p`, from 0 on or inf, is the order of the norm; the gradient of a distance of 0 is 0. Leading axes broadcast.
    Raises GraphValueError for a negative `p` and for vectors of different sizes.
    """
    number("cdist", "p", p, least=0)
    x1, x2 = floats(x1, x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        message = f"cdist takes lists of vectors of one size, (..., m, k) and (..., n, k), not {x1.type} and {x2.type}."
        raise GraphValueError(message)
    return in_single(lambda a, b: vector_norm(sub(expand_dims(a, -2), expand_dims(b, -3)), p, -1), x1, x2)


@operation(classes="Pdist", settings="p")
def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The distances (..., n (n - 1) / 2) of vectors (..., n, k) from those behind them, first all of the first.

    See `cdist`.
    """
    number("pdist", "p", p, least=0)
    x = float_of(input)
    if x.ndim < 2:
        raise GraphValueError(f"pdist takes a list of vectors, (..., n, k), not {x.type}.")
    first, second = (Tensor(places) for places in np.triu_indices(x.shape[-2], 1))
    return in_single(lambda x: vector_norm(sub(gather(x, first, -2), gather(x, second, -2)), p, -1), x)


@operation
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis, broadcasting; the product of their norms counts as `eps`
    at least.
    """

    def computed(a: Tensor, b: Tensor) -> Tensor:
        norms = mul(vector_norm(a, 2, dim, keepdims=True), vector_norm(b, 2, dim, keepdims=True))
        return sum(div(mul(a, b), maximum(norms, eps)), dim)

    return in_single(computed, *floats(x1, x2))
