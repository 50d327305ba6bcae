"""MindSpore's tensor methods that are not functions of `graphls.ops`, or have other defaults there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import int64
from graphls.ops.arrays.arrangement import repeat_interleave, tile
from graphls.ops.arrays.indexing import getitem, setitem
from graphls.ops.arrays.pads import pad
from graphls.ops.arrays.selection import searchsorted
from graphls.ops.arrays.shapes import broadcast_to, flatten, gather, gather_elements, reshape, squeeze, stack
from graphls.ops.math.elementwise import cast, clamp, where
from graphls.ops.math.reductions import cumsum
from graphls.ops.operands import Sizes, axis_of, tensor_of
from graphls.ops.record import tensor_method


@tensor_method("flatten")
def _flatten(x: TensorLike, order: str = "C", *, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from `start_dim` to `end_dim` as one: all of them by default, where `ops.flatten` keeps the first."""
    return flatten(x, order, start_dim=start_dim, end_dim=end_dim)


@tensor_method()
def repeat(x: TensorLike, *repeats: Any, axis: int | None = None) -> Tensor:
    """As `numpy.repeat(x, repeats, axis)`: each element several times; of a tuple or three numbers, as `tile`."""
    if axis is None and (len(repeats) > 2 or (isinstance(repeats[0], (tuple, list)) and len(repeats) == 1)):
        return tile(x, repeats[0] if len(repeats) == 1 else repeats)
    axis = repeats[1] if len(repeats) == 2 else axis
    return repeat_interleave(reshape(x, (-1,)) if axis is None else x, repeats[0], axis or 0)


@tensor_method()
def itemset(x: TensorLike, *args: Any) -> Tensor:
    """The tensor with the last argument at an index: one number in row-major order, or one for each axis."""
    *index, value = args
    position = index[0] if len(index) == 1 else tuple(index)
    if isinstance(position, int):
        position = np.unravel_index(position, tensor_of(x).shape)
    return setitem(x, tuple(map(int, position)), value)


@tensor_method()
def choose(x: TensorLike, choices: Sequence[TensorLike], mode: str = "clip") -> Tensor:
    """Elementwise selection: at each position, the element of the tensor with the index in x, clipped to the last."""
    shape = np.broadcast_shapes(tensor_of(x).shape, *(tensor_of(each).shape for each in choices))
    rows = stack([broadcast_to(tensor_of(each), shape) for each in choices])
    at = clamp(broadcast_to(x, shape), 0, len(choices) - 1)
    return squeeze(gather_elements(rows, 0, reshape(at, (1, *shape))), 0)


@tensor_method("searchsorted")
def _searchsorted(x: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> Tensor:
    """The insertion positions of values in a sorted tensor, as `ops.searchsorted`."""
    return searchsorted(x, v, out_int32=True, side=side, sorter=sorter)


@tensor_method()
def select(x: TensorLike, dim: int, index: int) -> Tensor:
    """The slice at an index of an axis, without that axis."""
    return getitem(x, (*(slice(None),) * axis_of(dim, tensor_of(x).ndim), index))


@tensor_method()
def resize(x: TensorLike, *new_shape: Any) -> Tensor:
    """The elements in row-major order in another shape: cut at the end, or padded with zeros."""
    x = tensor_of(x)
    shape: Sizes = new_shape[0] if len(new_shape) == 1 and not isinstance(new_shape[0], int) else new_shape
    size = int(np.prod(shape))
    row = reshape(x, (-1,))
    return reshape(row[:size] if size <= x.size else pad(row, [0, size - x.size]), shape)


@tensor_method()
def masked_scatter(x: TensorLike, mask: TensorLike, tensor: TensorLike) -> Tensor:
    """The tensor with the first elements of another, one after the other, where a mask is true."""
    x = tensor_of(x)
    chosen = broadcast_to(mask, x.shape)
    number = reshape(cumsum(cast(reshape(chosen, (-1,)), int64), 0) - 1, x.shape)
    return where(chosen, gather(reshape(tensor, (-1,)), clamp(number, 0), 0), x)


@tensor_method()
def fill_diagonal(x: TensorLike, fill_value: float, wrap: bool = False) -> Tensor:
    """The tensor with a number on its main diagonal, which `wrap` continues in tall matrices."""
    x = tensor_of(x)
    mask = np.zeros(x.shape, bool)
    np.fill_diagonal(mask, True, wrap)
    return where(Tensor(mask), fill_value, x)


@tensor_method()
def is_contiguous(x: TensorLike) -> bool:
    """True: the elements are always in row-major order in memory."""
    tensor_of(x)
    return True


@tensor_method()
def stride(x: TensorLike) -> list[int]:
    """The stride of each axis, in elements."""
    shape = tensor_of(x).shape
    return [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
