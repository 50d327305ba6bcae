"""Functions that take tensors apart, repeat them and put them together again."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from graphls.ir.checks import integer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import broadcast_shapes
from graphls.ops.creation import zeros
from graphls.ops.operands import axis_of, operand_of, shape_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import broadcast_to, concat, cut, expand_dims, gather, reshape, sequence_of, split, squeeze
from graphls.tensors import dispatch
from graphls.tensors.tensor import Symbol, Tensor


@operation(names="unbind")
def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, without that axis."""
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)
    return tuple(squeeze(cut(x, at, i, i + 1), at) for i in range(x.shape[at]))


@operation
def chunk(x: Any, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into that many pieces of one size at most, of which the last may be smaller.

    Raises GraphValueError for less than one piece.
    """
    x = tensor_of(x)
    if integer("chunk", "chunks", chunks) < 1:
        raise GraphValueError(f"chunk makes 1 piece or more, not {chunks}.")
    size = x.shape[axis_of(axis, x.ndim)]
    return split(x, -(-size // chunks), axis) if size else (x,)


@operation
def tensor_split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """x cut along an axis into a number of pieces whose sizes differ by one at most, or at the positions given.

    Raises GraphValueError for less than one piece.
    """
    x = tensor_of(x)
    at = axis_of(axis, x.ndim)
    size = x.shape[at]
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise GraphValueError(f"tensor_split makes 1 piece or more, not {count}.")
        ends = [size // count * i + builtins.min(i, size % count) for i in range(count + 1)]
    else:
        ends = [0, *(slice(n).indices(size)[1] for n in shape_of(indices_or_sections)), size]
    return tuple(cut(x, at, start, builtins.max(start, end)) for start, end in pairwise(ends))


@operation(classes="Tile")
def tile(x: Any, multiples: Any) -> Tensor:
    """x repeated as often as it is said for each axis; axes are added in front where there are more of these numbers.

    Raises GraphValueError for a negative number.
    """
    x, times = tensor_of(x), shape_of(multiples)
    if builtins.min(times, default=0) < 0:
        raise GraphValueError(f"tile repeats 0 times or more, not {times}.")
    rank = builtins.max(x.ndim, len(times))
    times = (*(1 for _ in range(rank - len(times))), *times)
    shape = (*(1 for _ in range(rank - x.ndim)), *x.shape)
    spread = reshape(x, tuple(n for size in shape for n in (1, size)))
    spread = broadcast_to(spread, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return reshape(spread, tuple(n * m for n, m in zip(times, shape, strict=True)))


@operation
def repeat_elements(x: Any, rep: int, axis: int = 0) -> Tensor:
    """Every slice along an axis repeated that often, each behind itself."""
    return repeat_interleave(x, rep, axis)


@operation
def repeat_interleave(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Every slice along an axis, or every element, repeated: all as often, or each as often as a sequence says.

    Raises GraphValueError for a negative number and for a sequence that does not fit, GraphTypeError for one that the
    graph computes.
    """
    x = tensor_of(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    at = axis_of(axis, x.ndim)
    if isinstance(repeats, Symbol):
        raise GraphTypeError("The shape of repeat_interleave by a computed tensor is not static.")
    counts = shape_of(repeats.tolist() if isinstance(repeats, (Tensor, np.ndarray)) else repeats)
    if not counts or len(counts) not in (1, x.shape[at]) or builtins.min(counts, default=0) < 0:
        raise GraphValueError(f"repeat_interleave cannot repeat {x.shape[at]} slices {repeats} times.")
    if len(counts) > 1:
        return gather(x, np.repeat(np.arange(len(counts)), counts), at)
    before, after = x.shape[: at + 1], x.shape[at + 1 :]
    spread = broadcast_to(expand_dims(x, at + 1), (*before, counts[0], *after))
    return reshape(spread, (*before[:-1], x.shape[at] * counts[0], *after))


@operation
def expand(x: Any, size: Any) -> Tensor:
    """x repeated to a wider shape, in which -1 keeps the size that x has."""
    return broadcast_to(x, size)


@operation
def expand_as(x: Any, other: Any) -> Tensor:
    """x repeated to the shape of another tensor."""
    return broadcast_to(x, tensor_of(other).shape)


@operation
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Tensors, each repeated to the shape in which all meet."""
    made = [tensor_of(t) for t in tensors]
    shape = broadcast_shapes(*(t.shape for t in made))
    return tuple(broadcast_to(t, shape) for t in made)


@operation
def atleast_1d(x: Any) -> Tensor:
    """x, with an axis if it has none."""
    x = tensor_of(x)
    return x if x.ndim else reshape(x, (1,))


@operation
def atleast_2d(x: Any) -> Tensor:
    """x, a vector as a matrix of one row."""
    x = atleast_1d(x)
    return expand_dims(x, 0) if x.ndim == 1 else x


@operation
def atleast_3d(x: Any) -> Tensor:
    """x, a vector of n elements as (1, n, 1), a matrix with a last axis of size 1."""
    x = atleast_2d(x)
    return expand_dims(x, -1) if x.ndim == 2 else x


@operation
def hstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their second axis, vectors and numbers along their first."""
    made = [atleast_1d(t) for t in sequence_of("hstack", tensors)]
    return concat(made, 0 if made[0].ndim == 1 else 1)


@operation(names="row_stack")
def vstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their first axis, of which vectors are rows."""
    return concat([atleast_2d(t) for t in sequence_of("vstack", tensors)], 0)


@operation
def dstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their third axis."""
    return concat([atleast_3d(t) for t in sequence_of("dstack", tensors)], 2)


@operation
def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Tensors joined along their second axis, of which vectors are columns."""
    columns = [reshape(t, (-1, 1)) if t.ndim < 2 else t for t in sequence_of("column_stack", tensors)]
    return concat(columns, 1)


@operation
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of a larger one of zeros; vectors count as rows, numbers as matrices of one element.

    Raises GraphValueError for more axes.
    """
    blocks = [atleast_2d(t) for t in dispatch.promoted(*map(operand_of, tensors))] if tensors else []
    if any(block.ndim > 2 for block in blocks):
        raise GraphValueError("block_diag takes tensors of two axes at most.")
    width, left, rows = builtins.sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        height, own = block.shape
        behind = width - left - own
        rows.append(concat((zeros((height, left), block.dtype), block, zeros((height, behind), block.dtype)), 1))
        left += own
    return concat(rows, 0) if rows else zeros((1, 0))


@operation
def meshgrid(*inputs: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid: each vector along an axis of its own, repeated along those of the others.

    The vectors are given one by one or as one tuple. With "xy" the first two axes are exchanged. Raises GraphValueError
    for another `indexing` and for what is no vector.
    """
    if indexing not in ("xy", "ij"):
        raise GraphValueError(f"'indexing' is 'xy' or 'ij', not {indexing!r}.")
    vectors = [tensor_of(x) for x in (inputs[0] if inputs and isinstance(inputs[0], (tuple, list)) else inputs)]
    if any(v.ndim > 1 for v in vectors):
        raise GraphValueError("meshgrid takes vectors.")
    places = list(range(len(vectors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    shape = tuple(vectors[i].size for i in places)
    columns = [reshape(v, (-1, *(1 for _ in shape[at + 1 :]))) for v, at in zip(vectors, places, strict=True)]
    return tuple(broadcast_to(column, shape) for column in columns)
