"""Images and batches split into blocks, windows and patches, and the inverse functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, product
from typing import cast

import numpy as np

from graphls.base.checks import integer
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.arrangement import movedim, tensor_split
from graphls.ops.arrays.pads import pad, pads_of, sizes_of
from graphls.ops.arrays.selection import topk
from graphls.ops.arrays.shapes import concat, cut, gather, reshape, stack, swapaxes, transpose
from graphls.ops.math.elementwise import addn, maximum
from graphls.ops.network.convolution import are_last, channels_first, spatial, to_format
from graphls.ops.operands import Paddings, Shape, ShapeLike, Sizes, apply, shape_of, tensor_of
from graphls.ops.record import cell, operation, operator_class

Pair = tuple[int, int]
Settings = tuple[Pair, Pair, Pair, Pair]
"""Kernel, dilation, padding and stride, each for the height and the width."""


def _image(name: str, x: TensorLike) -> Tensor:
    images = tensor_of(x)
    if images.ndim != 4:
        raise GraphValueError(f"{name} takes images of shape (N, C, H, W), not {images.type}.")
    return images


def _block(name: str, block_size: int, *sizes: int) -> int:
    if block_size < 2 or any(n % (block_size if len(sizes) > 1 else block_size**2) for n in sizes):
        raise GraphValueError(f"{name} cannot make blocks of {block_size} times {block_size} from sizes {sizes}.")
    return block_size


@operation(classes="SpaceToDepth", settings="block_size", checks={"block_size": integer})
def space_to_depth(x: TensorLike, block_size: int) -> Tensor:
    """Moves blocks of pixels into the channels, grouped by position in the block.

    From (N, C, H, W) to (N, C * b * b, H / b, W / b). Raises GraphValueError where the sizes do not fit.
    """
    x = _image("space_to_depth", x)
    n, c, h, w = x.shape
    b = _block("space_to_depth", block_size, h, w)
    blocks = reshape(x, (n, c, h // b, b, w // b, b))
    return reshape(transpose(blocks, (0, 3, 5, 1, 2, 4)), (n, c * b * b, h // b, w // b))


@operation(classes="DepthToSpace", settings="block_size", checks={"block_size": integer})
def depth_to_space(x: TensorLike, block_size: int) -> Tensor:
    """Moves channels into blocks of pixels, the inverse of `space_to_depth`.

    From (N, C * b * b, H, W) to (N, C, H * b, W * b). Raises GraphValueError where the sizes do not fit.
    """
    x = _image("depth_to_space", x)
    n, depth, h, w = x.shape
    b = _block("depth_to_space", block_size, depth)
    c = depth // (b * b)
    blocks = reshape(x, (n, b, b, c, h, w))
    return reshape(transpose(blocks, (0, 3, 4, 1, 5, 2)), (n, c, h * b, w * b))


@operation(also="mint.nn.functional")
def unfold(x: TensorLike, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """The windows of images as columns (im2col): from (N, C, H, W) to (N, C * kernel height * kernel width, windows).

    Sizes are one integer, or two for height and width. Raises GraphValueError where no window fits.
    """
    x = _image("unfold", x)
    kernel, dilation, padding, stride = settings = _settings(kernel_size, dilation, padding, stride)
    x = pad(x, (padding[1], padding[1], padding[0], padding[0]))
    rows, columns = _windows("unfold", x.shape[2:], settings)
    patches = [apply("slice", x, **cuts) for cuts in _cuts(x.shape, (rows, columns), settings)]
    n, c = x.shape[:2]
    return reshape(stack(patches, 2), (n, c * kernel[0] * kernel[1], rows * columns))


@operation
def fold(
    x: TensorLike, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Images of a size from columns of windows (col2im), with overlapping windows added; the adjoint of `unfold`.

    From (N, C * kernel height * kernel width, windows) to (N, C, H, W). Sizes are one integer, or two for height and
    width. Raises GraphValueError where the columns do not fit such an image.
    """
    x = tensor_of(x)
    kernel, dilation, padding, stride = settings = _settings(kernel_size, dilation, padding, stride)
    height, width = (n + 2 * p for n, p in zip(sizes_of("output_size", output_size, 2), padding, strict=True))
    rows, columns = _windows("fold", (height, width), settings)
    count = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % count or x.shape[2] != rows * columns:
        expected = f"(N, C * {count}, {rows * columns})"
        raise GraphValueError(f"fold takes columns of shape {expected} for these sizes, not {x.type}.")
    n, c = x.shape[0], x.shape[1] // count
    windows, shape = reshape(x, (n, c, count, rows, columns)), (n, c, height, width)
    placed = [
        apply("slice_gradient", reshape(cut(windows, 2, i, i + 1), (n, c, rows, columns)), shape=shape, **cuts)
        for i, cuts in enumerate(_cuts(shape, (rows, columns), settings))
    ]
    return pad(addn(placed), (-padding[1], -padding[1], -padding[0], -padding[0]))


def _settings(kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Settings:
    sizes = {"kernel_size": (kernel, 1), "dilation": (dilation, 1), "padding": (padding, 0), "stride": (stride, 1)}
    pairs = (sizes_of(name, value, 2, least) for name, (value, least) in sizes.items())
    return cast(Settings, tuple(pairs))


def _windows(name: str, sizes: tuple[int, ...], settings: Settings) -> Pair:
    """The numbers of rows and columns of windows."""
    kernel, dilation, _, stride = settings
    rows, columns = ((n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(sizes, kernel, dilation, stride, strict=True))
    if rows < 1 or columns < 1:
        raise GraphValueError(f"{name}: no window of {kernel} fits into {sizes}.")
    return rows, columns


def _cuts(shape: tuple[int, ...], windows: Pair, settings: Settings) -> Iterator[dict[str, tuple[int, ...]]]:
    """For each position in a window, the pixels there in all windows, as a slice."""
    kernel, dilation, _, stride = settings
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            first = (i * dilation[0], j * dilation[1])
            stops = (f + s * (n - 1) + 1 for f, s, n in zip(first, stride, windows, strict=True))
            yield {"starts": (0, 0, *first), "stops": (*shape[:2], *stops), "steps": (1, 1, *stride)}


@operator_class("Im2Col", "ksizes strides dilations pads")
def _im2col(x: TensorLike, ksizes: Sizes, strides: Sizes = 1, dilations: Sizes = 1, pads: Sizes = 0) -> Tensor:
    """The windows of images as columns: from (N, C, H, W) to (N, C, height * width of a window, windows)."""
    images = tensor_of(x)
    columns = unfold(images, ksizes, dilations, pads, strides)
    return reshape(columns, (*images.shape[:2], columns.shape[1] // max(images.shape[1], 1), columns.shape[2]))


Sides = tuple[tuple[int, int], ...]


@operation(classes="SpaceToBatch", settings="block_size paddings")
def space_to_batch_nd(input_x: TensorLike, block_size: ShapeLike, paddings: Paddings) -> Tensor:
    """Moves blocks of the last axes into the batch, grouped by position in the block.

    `paddings` has the numbers of zeros before and after each of these axes, `block_size` one integer or one for each.
    From (N, ..., sizes...) to (N * product of the blocks, ..., padded sizes / blocks). Raises GraphTypeError for
    anything but integers, GraphValueError for integers that do not fit.
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
def batch_to_space_nd(input_x: TensorLike, block_shape: ShapeLike, crops: Paddings) -> Tensor:
    """Moves the batch into blocks along the last axes, the inverse of `space_to_batch_nd`.

    `crops` has the numbers of elements to remove before and after each of these axes. Raises GraphTypeError for
    anything but integers, GraphValueError for integers that do not fit.
    """
    name, x = "batch_to_space_nd", tensor_of(input_x)
    blocks, sides = _arguments(name, x, block_shape, crops)
    count, outer, sizes = math.prod(blocks), x.shape[: -len(blocks)], x.shape[-len(blocks) :]
    full_sizes = tuple(n * b for n, b in zip(sizes, blocks, strict=True))
    if outer[0] % count or any(n <= sum(side) for n, side in zip(full_sizes, sides, strict=True)):
        message = f"{name} cannot make blocks of {blocks}, cropped by {sides}, of {x.type}."
        raise GraphValueError(message)
    batch = (outer[0] // count, *outer[1:])
    spread = reshape(x, (*blocks, *batch, *sizes))
    first, axes = len(blocks), len(batch)
    pairs = ((first + axes + i, i) for i in range(first))
    x = reshape(transpose(spread, (*range(first, first + axes), *chain(*pairs))), (*batch, *full_sizes))
    return _padded(x, tuple((-before, -after) for before, after in sides))


def _padded(x: Tensor, sides: Sides) -> Tensor:
    return pad(x, tuple(chain(*sides[::-1])))


def _arguments(name: str, x: Tensor, block: ShapeLike, sides: object) -> tuple[tuple[int, ...], Sides]:
    """The size of a block, and the numbers before and after, for each of the last axes."""
    if not isinstance(sides, (tuple, list)) or any(not isinstance(pair, (tuple, list)) for pair in sides):
        raise GraphTypeError(f"{name} takes a pair of integers for each axis, not {sides!r}.")
    pairs = tuple(shape_of(pair) for pair in sides)
    blocks = (block,) * len(pairs) if isinstance(block, int) else shape_of(block)
    is_pairs = len(pairs) == len(blocks) and all(len(p) == 2 and min(p) >= 0 for p in pairs)
    if not pairs or not is_pairs or min(blocks) < 1 or len(blocks) >= x.ndim:
        message = f"{name} cannot use blocks of {block} with {sides} at the edges of {x.type}."
        raise GraphValueError(message)
    return blocks, tuple((before, after) for before, after in pairs)


@operation
def col2im(
    input_x: TensorLike, output_size: ShapeLike, kernel_size: Sizes, dilation: Sizes, padding_value: Sizes,
    stride: Sizes,
) -> Tensor:  # fmt: skip
    """Images from columns of windows (N, C, kernel height * kernel width, windows), with overlapping windows added.

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


@operator_class("Col2Im", "kernel_size dilation padding stride", like=col2im)
def _of_columns(
    x: TensorLike, output_size: ShapeLike, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:  # fmt: skip
    return col2im(x, shape_of(output_size), kernel_size, dilation, padding, stride)


@operator_class("BatchToSpace", "block_size crops", like=batch_to_space_nd)
def _batch_to_space(input_x: TensorLike, block_size: int, crops: Paddings) -> Tensor:
    return batch_to_space_nd(input_x, block_size, crops)


@operator_class("SpaceToBatchND", "block_shape paddings", like=space_to_batch_nd)
def _space_to_batch_of(input_x: TensorLike, block_shape: ShapeLike, paddings: Paddings) -> Tensor:
    return space_to_batch_nd(input_x, block_shape, paddings)


@operation
def hsplit(input: TensorLike, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """x split along its second axis, a vector along its first; see `tensor_split`.

    Raises GraphValueError for a tensor without axes.
    """
    x = _with_axes("hsplit", input, 1)
    return tensor_split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


@operation
def vsplit(input: TensorLike, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """x split along its first axis; see `tensor_split`. Raises GraphValueError for fewer axes than two."""
    return tensor_split(_with_axes("vsplit", input, 2), indices_or_sections, 0)


@operation
def dsplit(input: TensorLike, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """x split along its third axis; see `tensor_split`. Raises GraphValueError for fewer axes than three."""
    return tensor_split(_with_axes("dsplit", input, 3), indices_or_sections, 2)


def _with_axes(name: str, x: TensorLike, least: int) -> Tensor:
    tensor = tensor_of(x)
    if tensor.ndim < least:
        raise GraphValueError(f"{name} takes a tensor of rank {least} or more, not {tensor.type}.")
    return tensor


@operation
def ravel(input: TensorLike) -> Tensor:
    """All elements as a vector, in row-major order."""
    return reshape(tensor_of(input), (-1,))


@operation
def view_as(input: TensorLike, other: TensorLike) -> Tensor:
    """x in the shape of another tensor."""
    return reshape(tensor_of(input), tensor_of(other).shape)


@operation
def swapdims(input: TensorLike, dim0: int, dim1: int) -> Tensor:
    """x with two axes exchanged."""
    return swapaxes(input, dim0, dim1)


@operation
def take(input: TensorLike, index: TensorLike, axis: int | None = None) -> Tensor:
    """The elements of x at indices in row-major order, or its slices at indices along an axis.

    Raises GraphIndexError for a constant index out of range.
    """
    return gather(ravel(input) if axis is None else input, index, axis or 0)


@operation
def top_k(input_x: TensorLike, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements along the last axis, in order, and their int32 positions; see `topk`."""
    return topk(input_x, k, sorted=sorted)


@operation(classes="Padding", settings="pad_dim_size", checks={"pad_dim_size": integer})
def padding(x: TensorLike, pad_dim_size: int = 8) -> Tensor:
    """x, whose last axis has the size 1, padded with zeros at the end to the size `pad_dim_size`.

    Raises GraphTypeError for a size that is not an integer, GraphValueError for one below 1, for fewer axes than two
    and for a last axis of another size.
    """
    x = tensor_of(x)
    if x.ndim < 2 or x.shape[-1] != 1 or pad_dim_size < 1:
        message = f"padding cannot make a last axis of {pad_dim_size} elements from that of {x.type}."
        raise GraphValueError(message)
    return pad(x, (0, pad_dim_size - 1))


@cell(
    "Unfold", "ksizes strides rates padding", inputs="input_x", defaults={"padding": "valid"},
    shown="ksizes strides rates padding",
)  # fmt: skip
@operator_class("ExtractImagePatches", "ksizes strides rates padding")
def image_patches(input_x: TensorLike, ksizes: Sizes, strides: Sizes, rates: Sizes, padding: str = "VALID") -> Tensor:
    """The windows of images (N, C, H, W) along the channels: (N, rows * columns * C, windows...).

    `ksizes`, `strides` and `rates`, the distances of pixels in a window, are two integers or [1, rows, columns, 1]. The
    padding is "VALID" or "SAME". Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    kernel, steps, distances = _sizes("ksizes", ksizes), _sizes("strides", strides), _sizes("rates", rates)
    return concat([*_patches("ExtractImagePatches", tensor_of(input_x), kernel, steps, distances, padding)], 1)


def _sizes(name: str, value: Sizes) -> Shape:
    if isinstance(value, (tuple, list)) and len(value) == 4 and value[0] == value[3] == 1:
        value = value[1:3]
    return sizes_of(name, value, 2)


@operator_class("ExtractVolumePatches", "kernel_size strides padding")
def volume_patches(input_x: TensorLike, kernel_size: Sizes, strides: Sizes, padding: str) -> Tensor:
    """The windows of volumes (N, C, D, H, W) along the channels: (N, C * elements of a window, windows...).

    The padding is "VALID" or "SAME". Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    kernel, steps = sizes_of("kernel_size", spatial(kernel_size, 3), 3), sizes_of("strides", spatial(strides, 3), 3)
    return concat([*_patches("ExtractVolumePatches", tensor_of(input_x), kernel, steps, (1, 1, 1), padding)], 1)


@operator_class("Dilation2D", "stride dilation pad_mode data_format")
def dilation(
    x: TensorLike, filter: TensorLike, stride: Sizes, dilation: Sizes, pad_mode: str = "SAME", data_format: str = "NCHW"
) -> Tensor:
    """Greyscale dilation: the largest sum of each window of images (N, C, H, W) and a filter (C, height, width).

    `dilation` is the distance of pixels in a window. Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    images, weights = channels_first(x, data_format, 2), tensor_of(filter)
    weights = movedim(weights, -1, 0) if are_last(data_format, 2) else weights
    if weights.ndim != 3 or weights.shape[0] != images.shape[1]:
        message = f"Dilation2D of images {images.type} takes a filter for each channel, not {weights.type}."
        raise GraphValueError(message)
    steps, distances = sizes_of("stride", spatial(stride, 2), 2), sizes_of("dilation", spatial(dilation, 2), 2)
    parts = _patches("Dilation2D", images, weights.shape[1:], steps, distances, pad_mode, -np.inf)
    flat = reshape(weights, (weights.shape[0], 1, 1, -1))
    raised = (part + gather(flat, position, -1) for position, part in enumerate(parts))
    return to_format(reduce(maximum, raised), data_format, 2)


def _patches(
    name: str, x: Tensor, kernel: Shape, strides: Shape, dilations: Shape, padding: str, fill: float | None = None
) -> Iterator[Tensor]:
    """Images (N, C, windows...) for each position in a window, in row-major order; `fill` is the padding's value."""
    if x.ndim != len(kernel) + 2:
        raise GraphValueError(f"{name} takes images of rank {len(kernel) + 2}, not {x.type}.")
    if not isinstance(padding, str) or padding.lower() not in ("valid", "same"):
        raise GraphTypeError(f"The padding of {name} is 'VALID' or 'SAME', not {padding!r}.")
    pads = pads_of(x.shape, kernel, strides, padding.lower(), 0, dilations)
    sides = [*zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)]
    x = pad(x, [n for pair in sides[::-1] for n in pair], value=fill) if any(pads) else x
    reaches = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reaches, strides, strict=True)]
    if min(counts) < 1:
        raise GraphValueError(f"{name}: no window of {kernel} fits into {x.type}.")
    for position in product(*map(range, kernel)):
        starts = [p * d for p, d in zip(position, dilations, strict=True)]
        stops = [a + s * (n - 1) + 1 for a, s, n in zip(starts, strides, counts, strict=True)]
        yield apply("slice", x, starts=(0, 0, *starts), stops=(*x.shape[:2], *stops), steps=(1, 1, *strides))
