"""Rows that are picked and put together by segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.creation import zeros
from graphls.ops.elementwise import div
from graphls.ops.operands import float_of, in_single, tensor_of
from graphls.ops.record import operation
from graphls.ops.scattering import tensor_scatter_add
from graphls.ops.shapes import gather
from graphls.tensors.tensor import Symbol, Tensor


@operation
def sparse_segment_mean(x: Any, indices: Any, segment_ids: Any) -> Tensor:
    """The means of the slices of x along its first axis that indices name, by segments; 0 for those without any.

    The segment ids, one for each index, rise from 0 on; the last one, which must be known, says how many there are.
    Raises GraphValueError for others, GraphTypeError for what the graph computes.
    """
    x, places, segments = float_of(x), tensor_of(indices), tensor_of(segment_ids)
    if isinstance(segments, Symbol):
        raise GraphTypeError("The segment ids of sparse_segment_mean must be known.")
    ids = segments.array
    if ids.ndim != 1 or places.shape != ids.shape or np.any(np.diff(ids, prepend=0) < 0):
        message = f"sparse_segment_mean takes a rising segment id for each of the indices {places.type}, not {ids}."
        raise GraphValueError(message)
    if not x.ndim:
        raise GraphValueError(f"sparse_segment_mean takes slices of a tensor, not {x.type}.")
    return in_single(lambda x: _means(x, places, ids), x)


def _means(x: Tensor, places: Tensor, ids: Any) -> Tensor:
    counts = np.maximum(np.bincount(ids), 1).astype(x.dtype.numpy)
    totals = zeros((counts.size, *x.shape[1:]), x.dtype)
    if ids.size:
        totals = tensor_scatter_add(totals, Tensor(ids.reshape(-1, 1)), gather(x, places))
    return div(totals, Tensor(counts.reshape(-1, *(1 for _ in x.shape[1:]))))
