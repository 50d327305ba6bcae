"""Blocks of elements along the batch, and columns of windows as images."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.blocks import fold
from graphls.ops.operands import shape_of, tensor_of
from graphls.ops.pads import pad
from graphls.ops.record import operation, operator_class
from graphls.ops.shapes import reshape, transpose
from graphls.tensors.tensor import Tensor

Sides = tuple[tuple[int, int], ...]


@operation
def space_to_batch_nd(input_x: Any, block_size: Any, paddings: Any) -> Tensor:
    """The last axes cut into blocks, whose elements of one place stand together in the batch.

    `paddings` has the numbers of zeros before and behind each of these axes, `block_size` one integer or one for each.
    From (N, ..., sizes...) to (N * product of the blocks, ..., padded sizes / blocks). Raises GraphTypeError for what
    are no integers, GraphValueError for those that do not fit.
    """
    name, x = "space_to_batch_nd", tensor_of(input_x)
    blocks, sides = _arguments(name, x, block_size, paddings)
    x = _padded(x, sides)
    outer, sizes = x.shape[: -len(blocks)], x.shape[-len(blocks) :]
    if any(n % b for n, b in zip(sizes, blocks, strict=True)):
        raise GraphValueError(f"{name} cannot cut the sizes {sizes} into blocks of {blocks}.")
    counts = [n // b for n, b in zip(sizes, blocks, strict=True)]
    spread = reshape(x, (*outer, *chain(*zip(counts, blocks, strict=True))))
    first = len(outer)
    order = (*range(first + 1, spread.ndim, 2), *range(first), *range(first, spread.ndim, 2))
    return reshape(transpose(spread, order), (math.prod(blocks) * outer[0], *outer[1:], *counts))


@operation(classes="BatchToSpaceNDV2")
@operator_class("BatchToSpaceND", "block_shape crops")
def batch_to_space_nd(input_x: Any, block_shape: Any, crops: Any) -> Tensor:
    """The batch taken apart into blocks along the last axes; undoes `space_to_batch_nd`.

    `crops` has the numbers of elements that are taken away before and behind each of these axes. Raises GraphTypeError
    for what are no integers, GraphValueError for those that do not fit.
    """
    name, x = "batch_to_space_nd", tensor_of(input_x)
    blocks, sides = _arguments(name, x, block_shape, crops)
    count, outer, sizes = math.prod(blocks), x.shape[: -len(blocks)], x.shape[-len(blocks) :]
    whole = tuple(n * b for n, b in zip(sizes, blocks, strict=True))
    if outer[0] % count or any(n <= sum(side) for n, side in zip(whole, sides, strict=True)):
        message = f"{name} cannot make blocks of {blocks}, cropped by {sides}, of {x.type}."
        raise GraphValueError(message)
    batch = (outer[0] // count, *outer[1:])
    spread = reshape(x, (*blocks, *batch, *sizes))
    first, axes = len(blocks), len(batch)
    pairs = ((first + axes + i, i) for i in range(first))
    x = reshape(transpose(spread, (*range(first, first + axes), *chain(*pairs))), (*batch, *whole))
    return _padded(x, tuple((-before, -behind) for before, behind in sides))


def _padded(x: Tensor, sides: Sides) -> Tensor:
    return pad(x, tuple(chain(*sides[::-1])))


def _arguments(name: str, x: Tensor, block: Any, sides: Any) -> tuple[tuple[int, ...], Sides]:
    """The size of a block and both sides for each of the last axes."""
    if not isinstance(sides, (tuple, list)) or any(not isinstance(pair, (tuple, list)) for pair in sides):
        raise GraphTypeError(f"{name} takes a pair of integers for each axis, not {sides!r}.")
    pairs = tuple(shape_of(pair) for pair in sides)
    blocks = (block,) * len(pairs) if isinstance(block, int) else shape_of(block)
    is_pairs = len(pairs) == len(blocks) and all(len(p) == 2 and min(p) >= 0 for p in pairs)
    if not pairs or not is_pairs or min(blocks) < 1 or len(blocks) >= x.ndim:
        message = f"{name} cannot use blocks of {block} with {sides} at the edges of {x.type}."
        raise GraphValueError(message)
    return blocks, tuple((before, behind) for before, behind in pairs)


@operation
def col2im(input_x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding_value: Any, stride: Any) -> Tensor:
    """Images from columns of windows (N, C, kernel height * kernel width, windows), of which those that overlap add up.

    To (N, C, *output_size); see `fold`, which takes channels and kernel as one axis.
    """
    x = tensor_of(input_x)
    if x.ndim != 4:
        raise GraphValueError(f"col2im takes columns of shape (N, C, kernel, windows), not {x.type}.")
    columns = reshape(x, (x.shape[0], x.shape[1] * x.shape[2], x.shape[3]))
    sizes = shape_of(output_size)
    images = fold(columns, sizes[0] if len(sizes) == 1 else sizes, kernel_size, dilation, padding_value, stride)
    if images.shape[1] != x.shape[1]:
        message = f"A kernel of {kernel_size} has not the {x.shape[2]} elements of {x.type}."
        raise GraphValueError(message)
    return images
