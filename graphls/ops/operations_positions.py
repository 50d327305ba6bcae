"""Operator classes of diagonals, coordinates, edges and formats (see `operations`)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphls.ir.errors import GraphValueError
from graphls.ir.types import int32, uint8
from graphls.ops import diagonals, shapes
from graphls.ops.elementwise import cast, floor_div, mod, mul
from graphls.ops.indexing import setitem
from graphls.ops.logic import less
from graphls.ops.operands import shape_of, tensor_of
from graphls.ops.pads import pad
from graphls.ops.record import operator_class
from graphls.ops.reductions import sum as total
from graphls.tensors.tensor import Tensor


@operator_class("DiagPart")
def _diagonal_part(x: Any) -> Tensor:
    """The elements whose first half of coordinates is the second; raises GraphValueError where the sizes differ."""
    tensor = tensor_of(x)
    half = tensor.shape[: tensor.ndim // 2]
    if not half or tensor.shape != half * 2:
        raise GraphValueError(f"DiagPart takes sizes that come twice, not {tensor.type}.")
    return shapes.reshape(diagonals.diagonal(shapes.reshape(tensor, (prod(half), prod(half)))), half)


@operator_class("FillDiagonal", "fill_value wrap")
def _fill_diagonal(input_x: Any, fill_value: float, wrap: bool = False) -> Tensor:
    """x with one number where all coordinates are equal; with `wrap` again below in a tall matrix, after a free row.

    Raises GraphValueError for fewer axes than two, and for more of different sizes.
    """
    x = tensor_of(input_x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise GraphValueError(f"FillDiagonal takes a matrix, or axes of one size, not {x.type}.")
    step = sum(prod(x.shape[i + 1 :]) for i in range(x.ndim))
    stop = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    places = np.arange(0, stop, step)
    flat = setitem(shapes.reshape(x, (-1,)), Tensor(places), fill_value)
    return shapes.reshape(flat, x.shape)


@operator_class("InvertPermutation")
def _inverted(x: Any) -> tuple[int, ...]:
    """The permutation that undoes another, as a tuple; raises GraphValueError for what is none."""
    order = shape_of(x)
    if sorted(order) != list(range(len(order))):
        raise GraphValueError(f"{order} is no permutation of the numbers from 0.")
    return tuple(int(i) for i in np.argsort(order))


@operator_class("UnravelIndex")
def _coordinates(indices: Any, dims: Any) -> Tensor:
    """The coordinates in a shape of positions in row-major order, one row for each axis."""
    places, sizes = tensor_of(indices), shape_of(dims)
    steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    return shapes.stack([mod(floor_div(places, step), size) for step, size in zip(steps, sizes, strict=True)])


@operator_class("DataFormatDimMap", "src_format dst_format")
def _format_axis(input_x: Any, src_format: str = "NHWC", dst_format: str = "NCHW") -> Tensor:
    """For each number of an axis in one format, that of the same axis in the other."""
    x = tensor_of(input_x)
    return cast(shapes.gather(Tensor(_order(src_format, dst_format)), mod(x, len(src_format))), x.dtype)


@operator_class("DataFormatVecPermute", "src_format dst_format")
def _format_order(input_x: Any, src_format: str = "NHWC", dst_format: str = "NCHW") -> Tensor:
    """A vector of four numbers, or of pairs, one for each axis of one format, in the order of the other."""
    return shapes.gather(input_x, Tensor(_order(src_format, dst_format)))


def _order(source: str, target: str) -> list[int]:
    if sorted(source) != sorted(target) or sorted(source) != sorted("NHWC"):
        raise GraphValueError(f"Formats are orders of the letters NCHW, not {source!r}, {target!r}.")
    return [source.index(letter) for letter in target]


@operator_class("CompareAndBitpack")
def _bitpacked(x: Any, threshold: Any) -> Tensor:
    """Whether elements are above a threshold, eight bits of the last axis in one uint8, the first the highest."""
    values = tensor_of(x)
    if not values.ndim or values.shape[-1] % 8:
        message = f"CompareAndBitpack takes a last axis of eights, not {values.type}."
        raise GraphValueError(message)
    bits = cast(less(threshold, values), int32)
    eights = shapes.reshape(bits, (*values.shape[:-1], values.shape[-1] // 8, 8))
    return cast(total(mul(eights, Tensor([128, 64, 32, 16, 8, 4, 2, 1], int32)), -1), uint8)


@operator_class("PadV3", "mode paddings_contiguous")
def _padded(
    x: Any, paddings: Any, constant_value: Any = None, mode: str = "constant", paddings_contiguous: bool = True
) -> Tensor:
    """x with more elements before and behind its own along its last axes, the last one first; see `ops.pad`.

    The mode "edge" repeats the edge. Unless `paddings_contiguous`, all numbers before stand before all behind.
    """
    widths = [int(n) for n in tensor_of(paddings).asnumpy().reshape(-1)]
    if not paddings_contiguous:
        half = len(widths) // 2
        widths = [n for pair in zip(widths[:half], widths[half:], strict=True) for n in pair]
    value = constant_value if mode == "constant" else None
    return pad(x, widths, "replicate" if mode == "edge" else mode, value)
