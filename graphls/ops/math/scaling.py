"""Low dtypes with a scale for each block: absolute maxima, and conversions to and from low dtypes with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import as_dtype, float8_e4m3fn, float32
from graphls.ops.arrays.shapes import reshape
from graphls.ops.operands import apply, float_of, tensor_in, tensor_of
from graphls.ops.record import operation

Block = Sequence[int] | None
"""The size of a block along each axis, 0 for that of the whole axis; None for one block."""


@operation(method=False)
def absolute_maximum(x: TensorLike, block: Any = None) -> Tensor:
    """The largest absolute value of each block, in float32, or float64 of float64; nan where one is nan, 0 of none.

    `block` has a size for each axis, 0 for the whole axis, and the last block of an axis may be smaller; by default all
    elements are one block. The result has one element for each block, along as many axes as x, and no gradient: scales
    are constants for it. Raises GraphValueError for a block that does not fit x.
    """
    x = float_of(x)
    return apply("absolute_maximum", x, block=_block(x, block))


@operation(method=False)
def quantize(x: TensorLike, scale: TensorLike, dtype: Any = float8_e4m3fn, block: Any = None) -> Tensor:
    """x * scale in a low dtype: rounded to the nearest number, ties to even, or the largest one where it is beyond.

    x, the scale and their product are float32. `block` is that of `absolute_maximum`, and the scale has one element for
    each block; of a single block it may be a number. `dequantize` with the inverse of the scale gives x back, rounded.
    No gradient passes through a low dtype. A gradient straight through is that of
    `y + (x - stop_gradient(x))`, where y is x rounded. Raises GraphTypeError for any other dtype, and GraphValueError
    for a block or a scale that does not fit x.
    """
    x = float_of(x)
    block = _block(x, block)
    return apply("quantize", x, _scale(scale, block), dtype=as_dtype(dtype), block=block)


@operation(method=False)
def dequantize(x: TensorLike, scale: TensorLike, dtype: Any = float32, block: Any = None) -> Tensor:
    """x * scale for x of a low dtype: float32, rounded once more to float16 or bfloat16 if `dtype` is one of these.

    `block` is that of `absolute_maximum`, and the scale, of a float or low dtype, has one element for each block; of a
    single block it may be a number. No gradient passes through a low dtype (see `quantize`). Raises GraphTypeError for
    other dtypes, and GraphValueError for a block or a scale that does not fit x.
    """
    x = tensor_of(x)
    block = _block(x, block)
    return apply("dequantize", x, _scale(scale, block), dtype=as_dtype(dtype), block=block)


def _block(x: Tensor, block: Block) -> tuple[int, ...]:
    return (0,) * x.ndim if block is None else tuple(block)


def _scale(scale: TensorLike, block: tuple[int, ...]) -> Tensor:
    """The scale as a tensor, with an axis for each one of the block where it is a number for all elements."""
    scale = tensor_of(scale) if is_tensor(scale) else tensor_in(scale, float32)
    return reshape(scale, (1,) * len(block)) if scale.ndim == 0 and block and not any(block) else scale
