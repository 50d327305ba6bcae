"""States of optimizers in 8 bits: codes of a dynamic map, with an absolute maximum for each block of 256 elements.

The rule is that of Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (2021, arXiv:2110.02861), with the
map and the size of a block of bitsandbytes 0.50.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import float32, int32, uint8
from graphls.ops.arrays.pads import pad
from graphls.ops.arrays.shapes import cut, gather, reshape
from graphls.ops.math.elementwise import (
    abs,
    add,
    cast,
    clip_by_value,
    greater,
    greater_equal,
    minimum,
    mul,
    reciprocal,
    sign,
    sqrt,
    where,
)
from graphls.ops.operands import apply, state_of
from graphls.ops.state import assign

Array = np.ndarray[Any, Any]

BLOCK = 256
"""The number of elements with one maximum."""
LEAST = 4096
"""The number of elements from which on a state is stored in 8 bits, `min_8bit_size` of bitsandbytes."""
CELLS = 1024
"""The number of equal parts of [0, 1] in which fourth roots are looked up; none of them has two borders of codes."""
NORMAL = (2.0**-126, 2.0**126)
"""The range of maxima whose reciprocal no engine takes for 0; numbers beyond are stored as the nearest of the map."""


@cache
def dynamic_map(is_signed: bool) -> Array:
    """The 256 numbers that codes stand for, rising, in float32: `create_dynamic_map` of bitsandbytes.

    These are 0, 1 and, for each exponent from -6 to 0, the centres of equal parts of [0.1, 1] times a power of ten: 2
    parts at first and twice as many for each further exponent, or with signs half as many, and their negatives.
    """
    codes: list[Array] = [np.array([0, 1], np.float32)]
    for exponent in range(7):
        ends = _evenly_spaced(2 ** (exponent if is_signed else exponent + 1))
        centres = (ends[:-1] + ends[1:]) / np.float32(2) * np.float32(10.0 ** (exponent - 6))
        codes += [centres, -centres] if is_signed else [centres]
    return np.sort(np.concatenate(codes))


def _evenly_spaced(parts: int) -> Array:
    """The borders of equal parts of [0.1, 1] in float32, rounded once, from both ends as PyTorch's linspace does."""
    first, last = float(np.float32(0.1)), 1.0
    step = float((np.float32(last) - np.float32(first)) / np.float32(parts))
    half = (parts + 1) // 2
    rising = [first + step * i for i in range(half)]
    falling = [last - step * (parts - i) for i in range(half, parts + 1)]
    return np.array([*rising, *falling], np.float32)


@cache
def borders(is_signed: bool) -> Array:
    """The largest number of each code, halfway to the next one; infinite for the last code."""
    codes = dynamic_map(is_signed)
    return np.append((codes[:-1] + codes[1:]) / np.float32(2), np.float32(np.inf))


@cache
def first_codes(is_signed: bool) -> Array:
    """The code of the smallest number of each cell, or the one below it where that is near to a border.

    Cell c holds the numbers whose fourth root times CELLS is from c to c + 1, and with signs minus CELLS.
    """
    roots = (np.arange((1 + is_signed) * CELLS + 1) - 0.25) / CELLS - is_signed
    return np.searchsorted(borders(is_signed), np.sign(roots) * roots**4).astype(np.int32)


class EightBitState(Parameter):
    """The codes of a state, uint8 in its shape, and its `maxima` in float32, one for each block of the flat state.

    `read` and `write` take part in a step; the state is 0 at first.
    """

    __slots__ = ("is_signed", "maxima")

    def __init__(self, shape: tuple[int, ...], prefix: str, name: str, is_signed: bool) -> None:
        zero = np.searchsorted(dynamic_map(is_signed), 0)
        super().__init__(np.full(shape, zero, np.uint8), f"{prefix}.{name}", requires_grad=False)
        count = -(-math.prod(shape) // BLOCK)
        self.maxima = Parameter(np.zeros(count, np.float32), f"{prefix}_maxima.{name}", requires_grad=False)
        self.is_signed = is_signed

    def read(self) -> Tensor:
        """The state in float32."""
        codes = gather(Tensor(dynamic_map(self.is_signed)), cast(self._in_blocks(state_of(self)), int32), 0)
        return self._in_shape(mul(codes, reshape(state_of(self.maxima), (-1, 1))))

    def write(self, value: Tensor) -> Tensor:
        """Store the nearest codes to a value, which is returned as it is; the lower of two that are equally near."""
        flat = _flat(cast(value, float32))
        maxima = apply("absolute_maximum", flat, block=(BLOCK,))
        scale = reshape(reciprocal(clip_by_value(maxima, *NORMAL)), (-1, 1))
        codes = nearest_codes(mul(self._in_blocks(flat), scale), self.is_signed)
        assign(self, self._in_shape(codes))
        assign(self.maxima, maxima)
        return value

    def _in_blocks(self, x: Tensor) -> Tensor:
        """The elements in rows, the last of which is filled up with zeros."""
        missing = -math.prod(x.shape) % BLOCK
        return reshape(pad(_flat(x), (0, missing)) if missing else x, (-1, BLOCK))

    def _in_shape(self, x: Tensor) -> Tensor:
        size = math.prod(self.shape)
        return reshape(x if size % BLOCK == 0 else cut(_flat(x), 0, 0, size), self.shape)


def _flat(x: Tensor) -> Tensor:
    return reshape(x, (math.prod(x.shape),))


def nearest_codes(x: Tensor, is_signed: bool) -> Tensor:
    """The uint8 codes nearest to numbers, from 0 on unless `is_signed`; any code for nan.

    A table of fourth roots leaves two codes, between which a comparison decides, so that the code does not depend on
    how an engine rounds the root.
    """
    if is_signed:
        place = add(mul(mul(sign(x), sqrt(sqrt(abs(x)))), CELLS), float(CELLS))
    else:
        place = mul(sqrt(sqrt(x)), float(CELLS))
    place = minimum(where(greater_equal(place, 0.0), place, 0.0), float((1 + is_signed) * CELLS))
    first = gather(Tensor(first_codes(is_signed)), cast(place, int32), 0)
    is_above = greater(x, gather(Tensor(borders(is_signed)), first, 0))
    return cast(add(first, cast(is_above, int32)), uint8)
