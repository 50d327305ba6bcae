"""How numbers vary together."""

from __future__ import annotations

from typing import Any

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.creation import ones
from graphls.ops.elementwise import cast, div, maximum, mul, sub
from graphls.ops.matrices import as_one, transposed
from graphls.ops.network import matmul
from graphls.ops.operands import float_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import sum
from graphls.ops.shapes import reshape, squeeze
from graphls.tensors.tensor import Tensor


@operation
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """The covariances of variables, which are the rows of a matrix and whose observations are its columns.

    Of a vector or a number it is the variance. `fweights` are integers that say how often an observation was made,
    `aweights` how much it counts. The sum of products is divided by the number of observations less `correction`; by 0
    where that is negative. Raises GraphValueError for more than two axes and for weights of another size.
    """
    x = float_of(input)
    if x.ndim > 2:
        raise GraphValueError(f"cov takes a matrix of variables and observations, not {x.type}.")
    rows = reshape(x, (1, -1)) if x.ndim < 2 else x
    often, weighty = (_weights(name, w, rows) for name, w in (("fweights", fweights), ("aweights", aweights)))
    if often is not None and often.dtype.is_float:
        raise GraphTypeError(f"The fweights of cov are integers, not {often.type}.")
    found = as_one(lambda x: _covariance(x, often, weighty, integer("cov", "correction", correction)), rows)
    return found if x.ndim == 2 else squeeze(found)


def _weights(name: str, weights: Any, rows: Tensor) -> Tensor | None:
    given = None if weights is None else tensor_of(weights)
    if given is not None and given.shape != rows.shape[1:]:
        message = f"The {name} of cov are one for each of {rows.shape[1]} observations, not {given.type}."
        raise GraphValueError(message)
    return given


def _covariance(x: Tensor, often: Tensor | None, weighty: Tensor | None, correction: int) -> Tensor:
    often, weighty = (None if w is None else cast(w, x.dtype) for w in (often, weighty))
    weights = ones(x.shape[1:], x.dtype)
    for given in (often, weighty):
        weights = weights if given is None else mul(weights, given)
    total = sum(weights)
    lost = total if weighty is None else sum(mul(weights, weighty))
    centred = sub(x, div(sum(mul(x, weights), -1, keepdims=True), total))
    count = sub(total, mul(div(lost, total), float(correction)))
    return div(matmul(mul(centred, weights), transposed(centred)), maximum(count, 0.0))
