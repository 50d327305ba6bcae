"""What the functions of matrices share; the last two axes are those of matrices, the others those of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import broadcast_shapes, float32
from graphls.ops.creation import arange
from graphls.ops.diagonals import eye
from graphls.ops.elementwise import cast
from graphls.ops.operands import floats, in_graph
from graphls.ops.shapes import broadcast_to, reshape, swapaxes
from graphls.tensors import dispatch
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Tensor


def as_one(function: Callable[..., Any], *operands: Any) -> Any:
    """`function` of the operands as tensors of one float dtype, as if it were a single operation.

    16-bit floats are computed in float32 and rounded once, and no network with mixed precision casts what is inside.
    """
    tensors = floats(*operands)
    dtype = tensors[0].dtype
    with dispatch.without_casts():
        results = function(*(cast(t, float32) if dtype.is_half else t for t in tensors))
    return map_leaves(lambda t: cast(t, dtype) if dtype.is_half and t.dtype is float32 else t, results)


def require_matrices(name: str, x: Tensor) -> Tensor:
    """x itself; raises GraphValueError for fewer than two axes."""
    if x.ndim < 2:
        raise GraphValueError(f"{name} takes matrices or batches of them, not {x.type}.")
    return x


def require_square(name: str, x: Tensor) -> Tensor:
    """x itself; raises GraphValueError unless its last two axes have one size."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise GraphValueError(f"{name} takes square matrices, not {x.type}.")
    return x


def require_system(name: str, matrix: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    """Square matrices and right-hand sides with as many rows, as batches of one shape; raises GraphValueError else."""
    require_square(name, matrix)
    if rhs.ndim < 2 or rhs.shape[-2] != matrix.shape[-1]:
        message = f"{name} with {matrix.type} takes right-hand sides with {matrix.shape[-1]} rows, not {rhs.type}."
        raise GraphValueError(message)
    batch = broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    return broadcast_to(matrix, (*batch, *matrix.shape[-2:])), broadcast_to(rhs, (*batch, *rhs.shape[-2:]))


def transposed(x: Tensor) -> Tensor:
    """The matrices with rows and columns exchanged."""
    return swapaxes(x, -1, -2)


def unit_matrices(x: Tensor) -> Tensor:
    """Unit matrices of the shape and dtype of square matrices."""
    return broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)


def numbered(size: int) -> Tensor:
    """The numbers from 0 on of so many rows or columns, for comparing them with one that a loop is at."""
    return in_graph(arange(size))


def as_column(x: Tensor) -> Tensor:
    """Vectors along the last axis as matrices of one column."""
    return reshape(x, (*x.shape, 1))


def as_row(x: Tensor) -> Tensor:
    """Vectors along the last axis as matrices of one row."""
    return reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
