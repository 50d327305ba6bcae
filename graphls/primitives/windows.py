"""Sliding windows over images, which convolution and pooling share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphls.ir.errors import GraphValueError
from graphls.ir.types import Type, float32, float64
from graphls.primitives.primitive import Array

Pair = tuple[int, int]
Shape = tuple[int, ...]


class Geometry(NamedTuple):
    """How windows lie on an image: the attributes of convolution and, without the last two, of pooling.

    `pads` is what is added at the top, left, bottom and right.
    """

    strides: Pair = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: Pair = (1, 1)
    groups: int = 1

    def reach(self, kernel: Shape) -> Pair:
        """The height and width that a kernel spans."""
        height, width = (d * (k - 1) + 1 for k, d in zip(kernel, self.dilations, strict=True))
        return height, width

    def room(self, shape: Shape, kernel: Shape) -> Pair:
        """How far a kernel can move down and across a padded image."""
        height, width = self.reach(kernel)
        top, left, bottom, right = self.pads
        return shape[2] + top + bottom - height, shape[3] + left + right - width

    def counts(self, shape: Shape, kernel: Shape) -> Pair:
        """How many windows lie on an image, down and across."""
        down, across = self.room(shape, kernel)
        return down // self.strides[0] + 1, across // self.strides[1] + 1


def require_windows(name: str, x: Type, kernel: Shape, at: Geometry) -> None:
    """Raise GraphValueError unless a window fits the images and the sizes make sense."""
    if x.rank != 4:
        raise GraphValueError(f"{name} takes images of shape (batch, channels, height, width), not {x}.")
    if len(kernel) != 2 or min(*kernel, *at.strides, *at.dilations, at.groups) < 1 or min(at.pads) < 0:
        raise GraphValueError(
            f"{name} takes kernels, strides, dilations and groups of 1 or more and no negative padding."
        )
    if min(at.room(x.shape, kernel)) < 0:
        raise GraphValueError(f"{name} with a kernel of {kernel} and padding {at.pads} does not fit {x}.")


def windows(x: Array, kernel: Shape, at: Geometry, fill: Any = 0) -> Array:
    """A view of shape (batch, channels, down, across, kernel height, kernel width) of the padded images."""
    top, left, bottom, right = at.pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    every: Any = np.lib.stride_tricks.sliding_window_view(padded, at.reach(kernel), (2, 3))  # type: ignore[call-overload]
    (down, across), (row, column) = at.strides, at.dilations
    return np.asarray(every[:, :, ::down, ::across, ::row, ::column])


def fold(columns: Array, shape: Shape, at: Geometry) -> Array:
    """The adjoint of `windows`: images of a shape to which all windows are added."""
    top, left, bottom, right = at.pads
    batch, channels, height, width = shape
    padded = np.zeros((batch, channels, height + top + bottom, width + left + right), columns.dtype)
    for i, j in np.ndindex(*columns.shape[4:]):
        rows, columns_ = (slice(*span) for span in _spans((i, j), columns.shape[2:4], at))
        padded[:, :, rows, columns_] += columns[..., i, j]
    return padded[:, :, top : top + height, left : left + width]


def _spans(place: Shape, counts: Shape, at: Geometry) -> list[tuple[int, int, int]]:
    """Start, stop and step, down and across, of what one place in the kernel sees in all windows."""
    starts = [p * d for p, d in zip(place, at.dilations, strict=True)]
    return [(a, a + s * (n - 1) + 1, s) for a, n, s in zip(starts, counts, at.strides, strict=True)]


def slices(e: Any, x: str, kernel: Shape, counts: Pair, at: Geometry, fill: float = 0.0) -> list[str]:
    """For each place in the kernel, what it sees in all windows of the ONNX tensor x, along its last two axes."""
    if any(at.pads):
        x = e.Pad(x, e.ints((0, 0, *at.pads[:2], 0, 0, *at.pads[2:])), e.scalar(fill))
    seen = []
    for place in np.ndindex(*kernel):
        starts, stops, steps = zip(*_spans(place, counts, at), strict=True)
        seen.append(str(e.Slice(x, e.ints(starts), e.ints(stops), e.ints((2, 3)), e.ints(steps))))
    return seen


def in_single(e: Any, *names: str) -> tuple[str, ...]:
    """The tensors as they are, or in float32 where they are float64, of which the runtime has no kernels."""
    return tuple(e.cast(n, float32) for n in names) if e.in_types[0].dtype is float64 else names


def as_result(e: Any, name: str) -> str:
    """A tensor that was computed `in_single`, in the dtype of the result."""
    return str(e.cast(name, float64)) if e.in_types[0].dtype is float64 else name


def transposed(e: Any, g: str, w: str, shape: Shape, kernel: Shape, at: Geometry) -> str:
    """ConvTranspose of two tensors, to images of a shape, of which the last rows may lie outside of all windows."""
    left_over = [n % s for n, s in zip(at.room(shape, kernel), at.strides, strict=True)]
    g, w = in_single(e, g, w)
    return as_result(e, e.ConvTranspose(g, w, output_padding=left_over, **attributes(kernel, at), group=at.groups))


def attributes(kernel: Shape, at: Geometry) -> dict[str, Any]:
    """The ONNX attributes of a window."""
    return {"kernel_shape": kernel, "strides": at.strides, "pads": at.pads, "dilations": at.dilations}
