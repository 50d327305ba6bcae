"""Functions that name others of one kind: splits along fixed axes, flat views, elements by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.arrangement import tensor_split
from graphls.ops.operands import tensor_of
from graphls.ops.pads import pad
from graphls.ops.record import operation
from graphls.ops.shapes import gather, reshape, swapaxes
from graphls.ops.sorting import topk
from graphls.tensors.tensor import Tensor


@operation
def hsplit(input: Any, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """x cut along its second axis, a vector along its first; see `tensor_split`.

    Raises GraphValueError for a number.
    """
    x = _with_axes("hsplit", input, 1)
    return tensor_split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


@operation
def vsplit(input: Any, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """x cut along its first axis; see `tensor_split`. Raises GraphValueError for fewer axes than two."""
    return tensor_split(_with_axes("vsplit", input, 2), indices_or_sections, 0)


@operation
def dsplit(input: Any, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """x cut along its third axis; see `tensor_split`. Raises GraphValueError for fewer axes than three."""
    return tensor_split(_with_axes("dsplit", input, 3), indices_or_sections, 2)


def _with_axes(name: str, x: Any, least: int) -> Tensor:
    tensor = tensor_of(x)
    if tensor.ndim < least:
        raise GraphValueError(f"{name} takes a tensor of rank {least} or more, not {tensor.type}.")
    return tensor


@operation
def ravel(input: Any) -> Tensor:
    """All elements as a vector, in row-major order."""
    return reshape(tensor_of(input), (-1,))


@operation
def view_as(input: Any, other: Any) -> Tensor:
    """x in the shape of another tensor."""
    return reshape(tensor_of(input), tensor_of(other).shape)


@operation
def swapdims(input: Any, dim0: int, dim1: int) -> Tensor:
    """x with two axes exchanged."""
    return swapaxes(input, dim0, dim1)


@operation
def take(input: Any, index: Any, axis: int | None = None) -> Tensor:
    """The elements of x, counted in row-major order, or its slices along an axis, that integers name.

    Raises GraphIndexError for an index that is known and out of range.
    """
    return gather(ravel(input) if axis is None else input, index, axis or 0)


@operation
def top_k(input_x: Any, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements along the last axis, in order, and their int32 positions; see `topk`."""
    return topk(input_x, k, sorted=sorted)


@operation
def padding(x: Any, pad_dim_size: int = 8) -> Tensor:
    """x, whose last axis has the size 1, with zeros behind up to the size `pad_dim_size`.

    Raises GraphTypeError for a size that is no integer, GraphValueError for one below 1, for fewer axes than two and
    for a last axis of another size.
    """
    x = tensor_of(x)
    if isinstance(pad_dim_size, bool) or not isinstance(pad_dim_size, int):
        raise GraphTypeError(f"The 'pad_dim_size' of padding is an integer, not {pad_dim_size!r}.")
    if x.ndim < 2 or x.shape[-1] != 1 or pad_dim_size < 1:
        message = f"padding cannot make a last axis of {pad_dim_size} elements from that of {x.type}."
        raise GraphValueError(message)
    return pad(x, (0, pad_dim_size - 1))
