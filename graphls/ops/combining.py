"""Elements of vectors in every combination, and the powers of each."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from graphls.ir.checks import integer
from graphls.ir.errors import GraphValueError
from graphls.ops.arrangement import meshgrid
from graphls.ops.creation import ones_like, zeros
from graphls.ops.elementwise import mul
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import gather, reshape, sequence_of, stack
from graphls.tensors.tensor import Tensor


@operation
def cartesian_prod(*inputs: Any) -> Tensor:
    """Rows with one element of each vector, in every combination, of which the last element changes first.

    Raises GraphValueError for what is no vector.
    """
    vectors = sequence_of("cartesian_prod", inputs)
    for vector in vectors:
        _require_vector("cartesian_prod", vector)
    return reshape(stack(meshgrid(*vectors, indexing="ij"), -1), (-1, len(vectors)))


@operation
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Rows of `r` elements of a vector in their order, every choice once.

    With `with_replacement` an element may stand in a row more than once. Raises GraphValueError for
    what is no vector and for an `r` below 0.
    """
    x, count = tensor_of(input), integer("combinations", "r", r)
    _require_vector("combinations", x)
    if count < 0:
        raise GraphValueError(f"combinations takes 0 elements or more, not {count}.")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(x.size), count))
    places = np.array(rows, np.int64).reshape(len(rows), count)
    return gather(x, Tensor(places)) if x.size and places.size else zeros(places.shape, x.dtype)


@operation
def vander(x: Any, N: int | None = None) -> Tensor:
    """The powers of each element of a vector, as columns from exponent N - 1 to 0; N is the size of x unless given.

    Raises GraphValueError for what is no vector and for an N below 0.
    """
    x = tensor_of(x)
    _require_vector("vander", x)
    count = x.size if N is None else integer("vander", "N", N)
    if count < 0:
        raise GraphValueError(f"vander makes 0 columns or more, not {count}.")
    powers = list(itertools.accumulate([x] * (count - 1), mul, initial=ones_like(x)))[:count]
    return stack(powers[::-1], -1) if powers else zeros((x.size, 0), x.dtype)


def _require_vector(name: str, x: Tensor) -> None:
    if x.ndim != 1:
        raise GraphValueError(f"{name} takes vectors, not {x.type}.")
