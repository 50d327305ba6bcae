"""Images of shape (N, C, H, W) taken apart into blocks, and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.elementwise import addn
from graphls.ops.operands import apply, tensor_of
from graphls.ops.pads import pad
from graphls.ops.record import operation
from graphls.ops.shapes import cut, reshape, stack, transpose
from graphls.tensors.tensor import Tensor

Pair = tuple[int, int]
Settings = tuple[Pair, Pair, Pair, Pair]
"""Kernel, dilation, padding and stride, each for the height and the width."""


def _image(name: str, x: Any) -> Tensor:
    images = tensor_of(x)
    if images.ndim != 4:
        raise GraphValueError(f"{name} takes images of shape (N, C, H, W), not {images.type}.")
    return images


def _block(name: str, block_size: Any, *sizes: int) -> int:
    if isinstance(block_size, bool) or not isinstance(block_size, int):
        raise GraphTypeError(f"{name} takes an integer as 'block_size', not {block_size!r}.")
    if block_size < 2 or any(n % (block_size if len(sizes) > 1 else block_size**2) for n in sizes):
        raise GraphValueError(f"{name} cannot make blocks of {block_size} times {block_size} from sizes {sizes}.")
    return block_size


@operation(classes="SpaceToDepth", settings="block_size")
def space_to_depth(x: Any, block_size: int) -> Tensor:
    """Images whose blocks of pixels stand along the channels: those of one place in the block together.

    From (N, C, H, W) to (N, C * b * b, H / b, W / b). Raises GraphValueError where the sizes do not fit.
    """
    x = _image("space_to_depth", x)
    n, c, h, w = x.shape
    b = _block("space_to_depth", block_size, h, w)
    blocks = reshape(x, (n, c, h // b, b, w // b, b))
    return reshape(transpose(blocks, (0, 3, 5, 1, 2, 4)), (n, c * b * b, h // b, w // b))


@operation(classes="DepthToSpace", settings="block_size")
def depth_to_space(x: Any, block_size: int) -> Tensor:
    """Images whose channels stand in blocks of pixels; undoes `space_to_depth`.

    From (N, C * b * b, H, W) to (N, C, H * b, W * b). Raises GraphValueError where the sizes do not fit.
    """
    x = _image("depth_to_space", x)
    n, depth, h, w = x.shape
    b = _block("depth_to_space", block_size, depth)
    c = depth // (b * b)
    blocks = reshape(x, (n, b, b, c, h, w))
    return reshape(transpose(blocks, (0, 3, 4, 1, 5, 2)), (n, c, h * b, w * b))


@operation
def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of images as columns: from (N, C, H, W) to (N, C * kernel height * kernel width, windows).

    Sizes are one integer, or two for height and width. Raises GraphValueError where no window fits.
    """
    x = _image("unfold", x)
    kernel, dilation, padding, stride = settings = _settings("unfold", kernel_size, dilation, padding, stride)
    x = pad(x, (padding[1], padding[1], padding[0], padding[0]))
    rows, columns = _windows("unfold", x.shape[2:], settings)
    taken = [apply("slice", x, **cuts) for cuts in _cuts(x.shape, (rows, columns), settings)]
    n, c = x.shape[:2]
    return reshape(stack(taken, 2), (n, c * kernel[0] * kernel[1], rows * columns))


@operation
def fold(x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Images of a size from columns of windows, of which those that overlap add up; the adjoint of `unfold`.

    From (N, C * kernel height * kernel width, windows) to (N, C, H, W). Sizes are one integer, or two for height and
    width. Raises GraphValueError where the columns are not those of such an image.
    """
    x = tensor_of(x)
    kernel, dilation, padding, stride = settings = _settings("fold", kernel_size, dilation, padding, stride)
    height, width = (n + 2 * p for n, p in zip(_pair("fold", "output_size", output_size, 1), padding, strict=True))
    rows, columns = _windows("fold", (height, width), settings)
    count = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % count or x.shape[2] != rows * columns:
        wanted = f"(N, C * {count}, {rows * columns})"
        raise GraphValueError(f"fold takes columns of shape {wanted} for these sizes, not {x.type}.")
    n, c = x.shape[0], x.shape[1] // count
    windows, shape = reshape(x, (n, c, count, rows, columns)), (n, c, height, width)
    placed = [
        apply("slice_gradient", reshape(cut(windows, 2, i, i + 1), (n, c, rows, columns)), shape=shape, **cuts)
        for i, cuts in enumerate(_cuts(shape, (rows, columns), settings))
    ]
    return pad(addn(placed), (-padding[1], -padding[1], -padding[0], -padding[0]))


def _settings(name: str, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Settings:
    return (
        _pair(name, "kernel_size", kernel, 1),
        _pair(name, "dilation", dilation, 1),
        _pair(name, "padding", padding, 0),
        _pair(name, "stride", stride, 1),
    )


def _pair(name: str, argument: str, value: Any, least: int) -> Pair:
    pair = (value, value) if isinstance(value, int) else value
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
    if not is_pair or any(isinstance(n, bool) or not isinstance(n, int) for n in pair):
        raise GraphTypeError(f"{name} takes one integer or two as {argument!r}, not {value!r}.")
    if min(pair) < least:
        raise GraphValueError(f"{name} takes {argument!r} of {least} or more, not {value}.")
    return pair[0], pair[1]


def _windows(name: str, sizes: tuple[int, ...], settings: Settings) -> Pair:
    """The numbers of windows below and beside each other."""
    kernel, dilation, _, stride = settings
    rows, columns = ((n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(sizes, kernel, dilation, stride, strict=True))
    if rows < 1 or columns < 1:
        raise GraphValueError(f"{name}: no window of {kernel} fits into {sizes}.")
    return rows, columns


def _cuts(shape: tuple[int, ...], windows: Pair, settings: Settings) -> Iterator[dict[str, tuple[int, ...]]]:
    """For each place in a window, the pixels that stand there in all windows, as a slice."""
    kernel, dilation, _, stride = settings
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            first = (i * dilation[0], j * dilation[1])
            stops = (f + s * (n - 1) + 1 for f, s, n in zip(first, stride, windows, strict=True))
            yield {"starts": (0, 0, *first), "stops": (*shape[:2], *stops), "steps": (1, 1, *stride)}
