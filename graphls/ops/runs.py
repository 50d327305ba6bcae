"""Elements without those that are there already."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bool_, int32
from graphls.ops.creation import full, ones
from graphls.ops.elementwise import cast, sub
from graphls.ops.joins import replaced
from graphls.ops.logic import not_equal
from graphls.ops.operands import axis_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.scans import cumsum
from graphls.ops.selection import known
from graphls.ops.shapes import concat, cut
from graphls.ops.sorting import sort
from graphls.tensors.tensor import Tensor


@operation(classes="UniqueConsecutive", settings="return_inverse return_counts dim")
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """A known tensor's elements, or its slices along an axis, without those that are equal to the one before.

    On demand also the int32 position in the result of each element, and how many there were of each. Raises
    GraphTypeError for what the graph computes, because the shape would not be static.
    """
    x = known("unique_consecutive", input)
    array = np.moveaxis(x.array, axis_of(dim, x.ndim), 0) if dim is not None else x.array.reshape(-1)
    rows = array.reshape(len(array), -1 if array.size else 1)[:, : array.size]
    begins = np.ones(len(array), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    places = (np.cumsum(begins) - 1).reshape(x.shape if dim is None else -1)
    counts = np.diff(np.append(np.flatnonzero(begins), len(array)))
    found = Tensor(np.moveaxis(array[begins], 0, dim or 0), x.dtype)
    extra = ((return_inverse, places), (return_counts, counts))
    wanted = tuple(Tensor(numbers, int32) for is_wanted, numbers in extra if is_wanted)
    return (found, *wanted) if wanted else found


@operation(classes="UniqueWithPad")
def unique_with_pad(x: Any, pad_num: int) -> tuple[Tensor, Tensor]:
    """The different integers of a vector in rising order, `pad_num` behind them, and the position of each element.

    Both have the shape and dtype of x, which the graph may compute. Raises GraphTypeError for other dtypes than int32
    and int64, GraphValueError for anything but a vector.
    """
    x = tensor_of(x)
    if x.dtype.kind != "int" or x.dtype.itemsize < 4:
        raise GraphTypeError(f"unique_with_pad takes int32 or int64, not {x.type}; cast it first.")
    if x.ndim != 1:
        raise GraphValueError(f"unique_with_pad takes a vector, not {x.type}.")
    size = x.shape[0]
    rising, order = sort(x)
    differs = not_equal(cut(rising, 0, min(1, size), size), cut(rising, 0, 0, max(size - 1, 0)))
    begins = concat((ones((min(1, size),), bool_), differs), 0)
    numbers = sub(cumsum(cast(begins, x.dtype), 0), 1)
    found = replaced(full((size,), pad_num, dtype=x.dtype), numbers, rising, 0)
    return found, replaced(full((size,), 0, dtype=x.dtype), order, numbers, 0)
