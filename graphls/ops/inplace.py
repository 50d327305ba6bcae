"""Slices of a tensor written by their indices: MindSpore calls it in place, and it gives another tensor."""

from __future__ import annotations

from typing import Any

from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.ops.scattering import index_add, tensor_scatter_add, tensor_scatter_sub, tensor_scatter_update
from graphls.ops.shapes import reshape
from graphls.tensors.tensor import Tensor


@operation(classes="InplaceAdd", settings="indices")
def inplace_add(x: Any, v: Any, indices: Any) -> Tensor:
    """x with the slices of v added to those that an integer or several name along the first axis.

    Raises GraphValueError for a v of other sizes, GraphIndexError for an index that is known and out of range.
    """
    return tensor_scatter_add(x, _rows(indices), v)


@operation(classes="InplaceSub", settings="indices")
def inplace_sub(x: Any, v: Any, indices: Any) -> Tensor:
    """x with the slices of v subtracted; otherwise as `inplace_add`."""
    return tensor_scatter_sub(x, _rows(indices), v)


@operation(classes="InplaceUpdate", settings="indices")
def inplace_update(x: Any, v: Any, indices: Any) -> Tensor:
    """x with the slices of v in place of its own, of several for one index the last; otherwise as `inplace_add`."""
    return tensor_scatter_update(x, _rows(indices), v)


@operation(classes="InplaceIndexAdd", settings="axis")
def inplace_index_add(var: Any, indices: Any, updates: Any, axis: int) -> Tensor:
    """`var` with slices of the updates added to those that indices name along an axis, as `index_add`.

    A parameter is written, too.
    """
    return index_add(var, indices, updates, axis)


def _rows(indices: Any) -> Tensor:
    return reshape(tensor_of(indices), (-1, 1))
