"""States of optimizers in 8 bits: codes of a dynamic map, with an absolute maximum for each block of 256 elements."""

from __future__ import annotations

import math

import numpy as np

from graphls.distributed.shards import BLOCK
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import float32
from graphls.ops.arrays.shapes import reshape
from graphls.ops.math.elementwise import cast
from graphls.ops.operands import apply, state_of
from graphls.ops.state import assign
from graphls.primitives.blockwise import dynamic_map

LEAST = 4096
"""The number of elements from which on a state is stored in 8 bits, `min_8bit_size` of bitsandbytes."""


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
        codes, maxima = state_of(self), state_of(self.maxima)
        return apply("dequantize_blockwise", codes, maxima, is_signed=self.is_signed)

    def write(self, value: Tensor) -> Tensor:
        """Store the nearest codes to a value, which is returned as it is; the lower of two that are equally near."""
        value_in_32 = cast(value, float32)
        maxima = apply("absolute_maximum", reshape(value_in_32, (-1,)), block=(BLOCK,))
        assign(self, apply("quantize_blockwise", value_in_32, maxima, is_signed=self.is_signed))
        assign(self.maxima, maxima)
        return value
