"""Tensors with one region replaced: a slice, a range along an axis, a diagonal."""

from __future__ import annotations

import builtins
from typing import Any

from graphls.ir.checks import integer
from graphls.ir.errors import GraphValueError
from graphls.ops.bands import matrix_set_diag
from graphls.ops.diagonals import matrices_of, two_axes
from graphls.ops.indexing import getitem, setitem
from graphls.ops.movement import movedim
from graphls.ops.operands import axis_of, tensor_of
from graphls.ops.record import operation
from graphls.tensors.tensor import Tensor


@operation
def select_scatter(input: Any, src: Any, axis: int, index: int) -> Tensor:
    """x with `src` in place of the slice number `index` along an axis.

    Raises GraphValueError where `src` has another shape than that slice, GraphIndexError for an index out of range.
    """
    return _with_part("select_scatter", input, src, axis, integer("select_scatter", "index", index))


@operation
def slice_scatter(
    input: Any, src: Any, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x with `src` in place of every `step`-th slice from `start` up to, but without, `end` along an axis.

    Bounds count as in a Python slice. Raises GraphValueError where `src` has another shape than these slices.
    """
    return _with_part("slice_scatter", input, src, axis, builtins.slice(start, end, step))


def _with_part(name: str, input: Any, src: Any, axis: int, part: Any) -> Tensor:
    x, values = tensor_of(input), tensor_of(src)
    index = (*(builtins.slice(None) for _ in range(axis_of(axis, x.ndim))), part)
    wanted = getitem(x, index).shape
    if values.shape != wanted:
        message = f"{name} takes a source of shape {wanted} for what it replaces, not {values.type}."
        raise GraphValueError(message)
    return setitem(x, index, values)


@operation
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with `src` in place of what `diagonal` takes from it with the same arguments.

    Raises GraphValueError where `src` has another shape, and unless there are two different axes.
    """
    x = matrices_of("diagonal_scatter", input)
    axes = two_axes(dim1, dim2, x.ndim)
    return movedim(matrix_set_diag(movedim(x, axes, (-2, -1)), src, offset), (-2, -1), axes)
