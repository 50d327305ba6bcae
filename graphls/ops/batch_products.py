"""Products of vectors along an axis and of batches, and matrices transposed."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import broadcast_shapes
from graphls.ops.contractions import Labelled, contract
from graphls.ops.elementwise import mul
from graphls.ops.matrices import require_matrices, transposed
from graphls.ops.operands import axis_of, in_single, operand_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import sum
from graphls.ops.shapes import broadcast_to, expand_dims, transpose
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation
def t(input: Any) -> Tensor:
    """A matrix transposed; a vector or a number as it is. Raises GraphValueError for more axes."""
    x = tensor_of(input)
    if x.ndim > 2:
        raise GraphValueError(f"t takes two axes at most, not {x.type}; use swapaxes or transpose.")
    return transpose(x, None)


@operation
def adjoint(x: Any) -> Tensor:
    """The matrices of the last two axes transposed; raises GraphValueError for fewer axes."""
    return transposed(require_matrices("adjoint", tensor_of(x)))


@operation
def vecdot(x: Any, y: Any, *, axis: int = -1) -> Tensor:
    """The sums of the products of elements along an axis, broadcasting."""
    x, y = dispatch.promoted(operand_of(x), operand_of(y))
    shape = broadcast_shapes(x.shape, y.shape)
    wide, at = (broadcast_to(x, shape), broadcast_to(y, shape)), axis_of(axis, len(shape))
    return in_single(lambda a, b: sum(mul(a, b), at), *wide)


@operation
def batch_dot(x1: Any, x2: Any, axes: Any = None) -> Tensor:
    """The products of elements at the same place of the first axis, summed along an axis of each.

    `axes` is that of both or a pair; without, the last one of x1 and the last but one of x2, or its only one behind the
    first. The other axes of x1 come before those of x2; of two matrices the result has shape (batch, 1). Raises
    GraphValueError for the first axis, for other sizes, and for vectors.
    """
    x1, x2 = dispatch.promoted(operand_of(x1), operand_of(x2))
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[0] != x2.shape[0]:
        message = f"batch_dot takes tensors of two axes or more and of one batch size, not {x1.type} and {x2.type}."
        raise GraphValueError(message)
    first, second = _summed(x1, x2, (x1.ndim - 1, max(1, x2.ndim - 2)) if axes is None else axes)
    a, b = _labelled(x1, first, "x1"), _labelled(x2, second, "x2")
    kept = tuple(label for label in (*a.labels, *b.labels[1:]) if label != "sum")
    result = contract(a, b, kept).ordered(kept)
    return expand_dims(result, 1) if result.ndim == 1 else result


def _labelled(x: Tensor, summed: int, name: str) -> Labelled:
    return Labelled(x, ("batch", *("sum" if i == summed else f"{name} {i}" for i in range(1, x.ndim))))


def _summed(x1: Tensor, x2: Tensor, axes: Any) -> tuple[int, int]:
    pair = axes if isinstance(axes, (tuple, list)) else (axes, axes)
    if len(pair) != 2:
        raise GraphValueError(f"batch_dot takes an axis or a pair of them, not {axes!r}.")
    first, second = axis_of(pair[0], x1.ndim), axis_of(pair[1], x2.ndim)
    if not first or not second or x1.shape[first] != x2.shape[second]:
        message = f"batch_dot of {x1.type} and {x2.type} takes axes of one size behind the first, not {axes!r}."
        raise GraphValueError(message)
    return first, second
