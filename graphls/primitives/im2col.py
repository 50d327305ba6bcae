"""Convolution in ONNX: the runtime's kernels, or im2col by a Gather of all windows and one matrix product.

The latter computes float64, for which the runtime has no convolution, and gradients of kernels.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphls.ir.types import float64
from graphls.primitives.emitter import Attribute, Emitter
from graphls.primitives.primitive import Array
from graphls.primitives.shape import reshaped
from graphls.primitives.windows import Geometry, Shape, apart, attributes, padded, windows

_FEWEST_CHANNELS, _FEWEST_OF_WINDOWS = 64, 128
"""Channels below which ConvTranspose is the fastest form of the adjoint: for kernels of size 1, and larger ones."""

_FEW_WINDOWS, _MANY_WINDOWS = 128, 256
"""Windows per image up to which, and of all images from which on, other forms are faster; see `_not_folded`."""


def convolved(e: Emitter, x: str, w: str, shape: Shape, kernels: Shape, at: Geometry) -> str:
    """The convolution of images of shape `shape` with kernels of shape `kernels`, in the dtype of the current node."""
    kernel = kernels[2:]
    if e.in_types[0].dtype is not float64:
        if e.is_gpu:
            x, at = (_framed(e, x, shape, at), at.without_pads()) if at.is_uneven() else (apart(e, x, shape), at)
        return e.Conv(x, w, **attributes(kernel, at), group=at.groups)
    patches = columns(e, x, shape, _window_positions(shape, kernel, at), at.groups)
    rows = _kernel_rows(e, w, kernels, at.groups, (0, 3, 2, 1))
    return _as_images(e, e.MatMul(patches, rows), (shape[0], kernels[0], *at.counts(shape, kernel)), at.groups)


def transposed(e: Emitter, g: str, w: str, shape: Shape, kernels: Shape, at: Geometry) -> str:
    """The adjoint in the images, of shape `shape`, whose last rows may lie outside of all windows."""
    kernel = kernels[2:]
    if e.in_types[0].dtype is not float64:
        faster = _not_folded(e, g, w, shape, kernels, at) if e.runs_as_written and at.groups == 1 else None
        if faster is not None:
            return faster
        unused = [n % s for n, s in zip(at.room(shape, kernel), at.strides, strict=True)]
        options: dict[str, Attribute] = {"output_padding": unused, "group": at.groups}
        if e.is_gpu and at.is_uneven():
            wide = e.ConvTranspose(g, w, **attributes(kernel, at.without_pads()), **options)
            return _within_frame(e, wide, shape, at)
        return e.ConvTranspose(g, w, **attributes(kernel, at), **options)
    window_indices = _windows_of(_window_positions(shape, kernel, at), shape)
    patches = columns(e, g, (shape[0], kernels[0], *at.counts(shape, kernel)), window_indices, at.groups)
    rows = _kernel_rows(e, w, kernels, at.groups, (0, 3, 1, 2))
    return _as_images(e, e.MatMul(patches, rows), shape, at.groups)


def _not_folded(e: Emitter, g: str, w: str, shape: Shape, kernels: Shape, at: Geometry) -> str | None:
    """The adjoint in the images without ConvTranspose, for strides of 1 and many channels; None where that is slower.

    ONNX Runtime on a CPU (1.19 to 1.31) multiplies the kernels by one image at a time and folds each on one thread.
    One product of all images was 1.2 to 1.8 times as fast for kernels of size 1 and few windows; a convolution with
    flipped kernels spreads over threads, and is not used where flipping them would take longer than that saves.
    """
    inside = [reach - 1 - pad for reach, pad in zip(at.reach(kernels[2:]) * 2, at.pads, strict=True)]
    windows_of_one = prod(at.counts(shape, kernels[2:]))
    is_small = prod(kernels[2:]) == 1
    if set(at.strides) != {1} or min(inside) < 0:
        return None
    if min(kernels[:2]) < (_FEWEST_CHANNELS if is_small else _FEWEST_OF_WINDOWS):
        return None
    if is_small and windows_of_one <= _FEW_WINDOWS:
        return _by_one_product(e, g, w, shape, kernels)
    if shape[0] * windows_of_one < _MANY_WINDOWS:
        return None
    flipped = _flipped(e, w, kernels)
    return e.Conv(g, flipped, **attributes(kernels[2:], at._replace(pads=tuple(inside))))


def _by_one_product(e: Emitter, g: str, w: str, shape: Shape, kernels: Shape) -> str:
    """The adjoint for kernels of size 1: the rows of all windows times the kernels as a matrix."""
    batch, (outputs, inputs), windows_of_one = shape[0], kernels[:2], prod(shape[2:])
    rows = _moved(e, g, (batch, outputs, windows_of_one), (0, 2, 1), (batch * windows_of_one, outputs))
    product = e.MatMul(rows, reshaped(e, w, (outputs, inputs)))
    return _moved(e, product, (batch, windows_of_one, inputs), (0, 2, 1), shape)


def _flipped(e: Emitter, w: str, kernels: Shape) -> str:
    """Kernels (output, input, position) as (input, output, position), with the positions reversed.

    A product with ones on the antidiagonal was two to three times as fast as a Gather.
    """
    (outputs, inputs), positions = kernels[:2], prod(kernels[2:])
    swapped = _moved(e, w, (outputs, inputs, positions), (1, 0, 2), (inputs * outputs, positions))
    if positions > 1:
        swapped = e.MatMul(swapped, e.const(np.eye(positions)[::-1], e.in_types[1].dtype))
    return reshaped(e, swapped, (inputs, outputs, *kernels[2:]))


def _framed(e: Emitter, x: str, shape: Shape, at: Geometry) -> str:
    """Images padded by a separate node, for ONNX Runtime on CUDA.

    Its kernels of convolutions with uneven padding write to a buffer of an earlier step (1.31.1).
    """
    sizes = [n + sum(pads) for n, pads in zip(shape[2:], at.sides(), strict=True)]
    return apart(e, padded(e, x, at), (*shape[:2], *sizes))


def _within_frame(e: Emitter, x: str, shape: Shape, at: Geometry) -> str:
    """Padded images without their padding."""
    starts = [before for before, _ in at.sides()]
    stops = [start + n for start, n in zip(starts, shape[2:], strict=True)]
    return e.Slice(x, e.ints(starts), e.ints(stops), e.ints(range(2, len(shape))))


def weight_gradient(e: Emitter, x: str, g: str, shape: Shape, kernels: Shape, at: Geometry) -> str:
    """The adjoint in the kernels, from images and the gradient of their convolution."""
    (batch, _), groups, kernel = shape[:2], at.groups, kernels[2:]
    count = prod(at.counts(shape, kernel))
    patches = columns(e, x, shape, _window_positions(shape, kernel, at), groups)
    outputs = kernels[0] // groups
    rows = _moved(e, g, (batch, groups, outputs, count), (1, 2, 0, 3), (groups, outputs, batch * count))
    return _moved(e, e.MatMul(rows, patches), (kernels[0], prod(kernel), kernels[1]), (0, 2, 1), kernels)


def columns(e: Emitter, x: str, shape: Shape, positions: Array, groups: int) -> str:
    """im2col: the windows as (groups, images * windows, positions * channels of a group).

    `positions` has a row of positions in the flat image for each window; one past the end stands for a zero.
    """
    batch, channels, plane = shape[0], shape[1] // groups, prod(shape[2:])
    x = _moved(e, x, (batch, groups, channels, plane), (1, 0, 3, 2), (groups, batch, plane, channels))
    if positions.max() == plane:
        x = e.Pad(x, e.ints((0, 0, 0, 0, 0, 0, 1, 0)))
    patches = e.Gather(x, e.const(positions.reshape(-1)), axis=2)
    return reshaped(e, patches, (groups, batch * positions.shape[0], positions.shape[1] * channels))


def _window_positions(shape: Shape, kernel: Shape, at: Geometry) -> Array:
    """The position in the flat image of each element of each window: (windows, elements of the kernel)."""
    plane = prod(shape[2:])
    image = np.arange(plane).reshape(1, 1, *shape[2:])
    return windows(image, kernel, at, fill=plane).reshape(-1, prod(kernel))


def _windows_of(positions: Array, shape: Shape) -> Array:
    """The window in which each element of the kernel meets each position: (positions, elements of the kernel)."""
    count, elements = positions.shape
    result = np.full((prod(shape[2:]) + 1, elements), count)
    result[positions, np.arange(elements)] = np.arange(count)[:, None]
    return result[:-1]


def _kernel_rows(e: Emitter, w: str, kernels: Shape, groups: int, order: Shape) -> str:
    """Kernels (group, output, input, position) transposed to `order`, whose middle two are the rows of a matrix.

    The transposition has four axes: one of two axes beside a float64 product is fused into an operator that the
    runtime has for float32 only.
    """
    sizes = (groups, kernels[0] // groups, kernels[1], prod(kernels[2:]))
    moved = e.Transpose(reshaped(e, w, sizes), perm=order)
    return reshaped(e, moved, (groups, sizes[order[1]] * sizes[order[2]], sizes[order[3]]))


def _as_images(e: Emitter, rows: str, shape: Shape, groups: int) -> str:
    """Rows (groups, images * positions, channels of a group) as images of a shape."""
    return _moved(e, rows, (groups, shape[0], prod(shape[2:]), shape[1] // groups), (1, 0, 3, 2), shape)


def _moved(e: Emitter, x: str, shape: Shape, order: Shape, result: Shape) -> str:
    """Reshapes a tensor to `shape`, transposes it to `order`, and reshapes it to `result`.

    Axes of size 1 are left out, as the runtime's transposition took thirty times as long with them.
    """
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    moved = [axes.index(axis) for axis in order if axis in axes]
    if moved != sorted(moved):
        x = e.Transpose(reshaped(e, x, [shape[axis] for axis in axes]), perm=moved)
    return reshaped(e, x, result)
