"""Numbers in a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.checks import number
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.reporting import checked
from graphls.ir.types import DType, as_dtype, float32, float64
from graphls.ops.creation import arange, zeros, zeros_like
from graphls.ops.elementwise import add, cast, mul, pow
from graphls.ops.operands import float_of, in_graph, operand_of
from graphls.ops.record import operation
from graphls.ops.shapes import expand_dims
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation
def range(start: Any, end: Any, step: Any) -> Tensor:
    """The numbers from `start` up to, but without, `end`; raises GraphValueError for a step of 0."""
    return arange(start, end, step)


@operation(classes="LinSpace")
def linspace(start: Any, end: Any, steps: int) -> Tensor:
    """That many numbers at equal distances, from `start` to `end`; of tensors, along a new last axis.

    The last is `end` itself. Raises GraphValueError for less than one number.
    """
    return _linspace(start, end, steps, None)


def _linspace(start: Any, end: Any, steps: int, dtype: DType | None) -> Tensor:
    bounds = map(float_of, dispatch.promoted(operand_of(start), operand_of(end)))
    first, last = bounds if dtype is None else (cast(start, dtype), cast(end, dtype))
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise GraphTypeError(f"linspace takes an integer as 'steps', not {steps!r}.")
    if steps < 1:
        raise GraphValueError(f"linspace makes 1 number or more, not {steps}.")
    fractions = checked(np.arange, steps) / max(steps - 1, 1)
    rising, falling = (in_graph(Tensor(f, first.dtype)) for f in (fractions, 1 - fractions))
    return add(mul(expand_dims(first, -1), falling), mul(expand_dims(last, -1), rising))


@operation
def logspace(start: Any, end: Any, steps: int, base: float = 10, *, dtype: Any = float32) -> Tensor:
    """The powers of a base whose exponents are `linspace(start, end, steps)`; float32 unless another dtype is given."""
    wanted = as_dtype(dtype)
    exponents = _linspace(start, end, steps, float64 if wanted is float64 else None)
    return cast(pow(number("logspace", "base", base), exponents), wanted)


@operation
def empty(size: Any, dtype: Any = None) -> Tensor:
    """A tensor of which nothing is said but its shape and dtype, float32 unless given; it holds zeros."""
    return zeros(size, dtype)


@operation
def empty_like(x: Any, *, dtype: Any = None) -> Tensor:
    """A tensor of which nothing is said but that it has the shape of x, and its dtype unless given; it holds zeros."""
    return zeros_like(x, dtype=dtype)
