"""Quantiles: numbers below which a part of all elements lies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.ir.errors import GraphValueError
from graphls.ir.types import DType, int64
from graphls.ops.creation import full_like
from graphls.ops.elementwise import add, cast, ceil, floor, maximum, mul, sub
from graphls.ops.logic import equal, greater_equal, isnan, less_equal, logical_and, logical_not, where
from graphls.ops.movement import movedim
from graphls.ops.operands import axis_of, float_of, in_single, tensor_in, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import any, sum
from graphls.ops.shapes import gather_elements, reshape
from graphls.tensors import dispatch
from graphls.tensors.tensor import Symbol, Tensor


@operation(spelled=True)
def quantile(input: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The numbers below which parts `q` of the elements along an axis lie, interpolated; nan where one is.

    `q` is a number from 0 to 1, or a vector of such, along which the first axis of the result runs. Without an axis,
    of all elements. Raises GraphValueError for another `q` that is known, of which a graph makes nan, and over no
    elements.
    """
    return _quantile("quantile", input, q, axis, keepdims)


@operation(spelled=True)
def nanquantile(input: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """As `quantile`, of what is not nan; nan where everything is."""
    return _quantile("nanquantile", input, q, axis, keepdims)


def _quantile(name: str, input: Any, q: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = float_of(input)
    at = None if axis is None else axis_of(axis, x.ndim)
    moved = reshape(x, (-1,)) if at is None else movedim(x, at, -1)
    if not moved.shape[-1]:
        raise GraphValueError(f"{name} over no elements is not defined: {x.type} is empty.")
    parts = _parts(name, q, x.dtype)
    found = in_single(lambda x: _interpolated(x, cast(parts, x.dtype), name == "nanquantile"), moved)
    found = found if parts.ndim else reshape(found, found.shape[1:])
    if not keepdims:
        return found
    return reshape(found, (*parts.shape, *(1 if at in (None, i) else n for i, n in enumerate(x.shape))))


def _parts(name: str, q: Any, dtype: DType) -> Tensor:
    parts = tensor_of(q) if isinstance(q, Tensor) or dtype.is_half else tensor_in(q, dtype)
    if parts.ndim > 1 or not (isinstance(parts, Symbol) or np.all((parts.array >= 0) & (parts.array <= 1))):
        raise GraphValueError(f"The q of {name} is a number from 0 to 1 or a vector of such, not {q}.")
    return parts


def _interpolated(x: Tensor, parts: Tensor, skips_nan: bool) -> Tensor:
    """The quantiles along the last axis, as the first axis of the result."""
    size = x.shape[-1]
    ordered, _ = dispatch.apply("top_k", x, k=size, axis=x.ndim - 1, largest=False)
    counts = sum(cast(logical_not(isnan(x)), x.dtype), -1, keepdims=True)
    last = maximum(sub(counts, 1.0), 0.0) if skips_nan else full_like(counts, size - 1)
    is_part = logical_and(greater_equal(parts, 0.0), less_equal(parts, 1.0))
    places = mul(last, reshape(where(is_part, parts, 0.0), (-1,)))
    low, high = (gather_elements(ordered, -1, cast(f(places), int64)) for f in (floor, ceil))
    weight = sub(places, floor(places))
    found = where(equal(weight, 0.0), low, add(low, mul(sub(high, low), weight)))
    is_found = is_part if skips_nan else logical_and(is_part, logical_not(any(isnan(x), -1, keepdims=True)))
    return movedim(where(is_found, found, math.nan), -1, 0)
