"""Sliding windows over images, which convolution and pooling share."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphValueError
from graphls.ir.types import Type, float32, float64
from graphls.primitives.primitive import Array

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
"""What is added on the four sides: top, left, bottom, right."""


def window_counts(name: str, x: Type, kernel: Pair, strides: Pair, pads: Pads, dilations: Pair = (1, 1)) -> Pair:
    """How many windows of a kernel fit an image, down and across.

    Raises GraphValueError where not one does, or for sizes that make no sense.
    """
    if x.rank != 4:
        raise GraphValueError(f"{name} takes images of shape (batch, channels, height, width), not {x}.")
    if min(*kernel, *strides, *dilations) < 1 or min(pads) < 0:
        raise GraphValueError(f"{name} takes kernels, strides and dilations of 1 or more and no negative padding.")
    counts = []
    for i in range(2):
        room = x.shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (kernel[i] - 1) - 1
        if room < 0:
            raise GraphValueError(f"{name} with a kernel of {kernel} and padding {pads} does not fit {x}.")
        counts.append(room // strides[i] + 1)
    return counts[0], counts[1]


def windows(
    x: Array, kernel: Pair, strides: Pair, pads: Pads, dilations: Pair = (1, 1), fill: Any = 0
) -> Array:
    """A view of shape (batch, channels, down, across, kernel height, kernel width) of the padded images."""
    top, left, bottom, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    return every[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def fold(columns: Array, shape: tuple[int, ...], strides: Pair, pads: Pads, dilations: Pair = (1, 1)) -> Array:
    """The adjoint of `windows`: images of a shape to which all windows are added."""
    top, left, bottom, right = pads
    down, across, *kernel = columns.shape[2:]
    batch, channels, height, width = shape
    padded = np.zeros((batch, channels, height + top + bottom, width + left + right), columns.dtype)
    for i, j in np.ndindex(*kernel):
        row, column = i * dilations[0], j * dilations[1]
        rows = slice(row, row + strides[0] * (down - 1) + 1, strides[0])
        padded[:, :, rows, column : column + strides[1] * (across - 1) + 1 : strides[1]] += columns[..., i, j]
    return padded[:, :, top : top + height, left : left + width]


def remainders(shape: tuple[int, ...], kernel: Pair, strides: Pair, pads: Pads, dilations: Pair = (1, 1)) -> list[int]:
    """The rows and columns at the end that no window reaches."""
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    return [(shape[2 + i] + pads[i] + pads[2 + i] - reach[i]) % strides[i] for i in range(2)]


def in_single(e: Any, *names: str) -> tuple[str, ...]:
    """The tensors as they are, or in float32 where they are float64, of which the runtime has no kernels."""
    return tuple(e.cast(n, float32) for n in names) if e.in_types[0].dtype is float64 else names


def as_result(e: Any, name: str) -> str:
    """A tensor that was computed `in_single`, in the dtype of the result."""
    return str(e.cast(name, float64)) if e.in_types[0].dtype is float64 else name
