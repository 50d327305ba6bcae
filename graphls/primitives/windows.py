"""Sliding windows over images of one to three axes, which convolution and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.types import Type
from graphls.primitives.emitter import Attribute, Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array

Shape = tuple[int, ...]


class Geometry(NamedTuple):
    """The layout of windows on an image: the attributes of convolution and, without groups, of pooling.

    Each has one number per axis of the image, but `pads` two: the padding before every axis, then after every axis.
    """

    strides: Shape
    pads: Shape
    dilations: Shape
    groups: int

    @classmethod
    def over(
        cls, kernel: Shape, strides: Shape = (), pads: Shape = (), dilations: Shape = (), groups: int = 1
    ) -> Geometry:
        """The attributes with their defaults: strides and dilations of 1, no padding, one group."""
        ones = (1,) * len(kernel)
        return cls(strides or ones, pads or (0, 0) * len(kernel), dilations or ones, groups)

    def is_uneven(self) -> bool:
        """True if an axis is padded more on one side than on the other."""
        return any(before != after for before, after in self.sides())

    def without_pads(self) -> Geometry:
        """The same for images that are already padded."""
        return self._replace(pads=(0,) * len(self.pads))

    def sides(self) -> list[tuple[int, int]]:
        """The padding before and after each axis."""
        axes = len(self.strides)
        return list(zip(self.pads[:axes], self.pads[axes:], strict=True))

    def with_sides(self, shape: Shape) -> Shape:
        """The sizes of padded images."""
        return tuple(n + sum(pads) for n, pads in zip(shape[2:], self.sides(), strict=True))

    def adjoint_sides(self, shape: Shape, kernel: Shape) -> list[tuple[int, int]]:
        """The padding of a gradient, spread by the strides, with which the flipped kernel makes images of a shape.

        It is negative where windows reach beyond what counts.
        """
        every = zip(shape[2:], self.counts(shape, kernel), self.strides, self.reach(kernel), self.sides(), strict=True)
        return [(r - 1 - before, size + before - (n - 1) * s - 1) for size, n, s, r, (before, _) in every]

    def reach(self, kernel: Shape) -> Shape:
        """The sizes that a kernel spans."""
        return tuple(d * (k - 1) + 1 for k, d in zip(kernel, self.dilations, strict=True))

    def room(self, shape: Shape, kernel: Shape) -> Shape:
        """The distance that a kernel can move along each axis of a padded image."""
        sizes = zip(shape[2:], self.sides(), self.reach(kernel), strict=True)
        return tuple(n + sum(pads) - reach for n, pads, reach in sizes)

    def counts(self, shape: Shape, kernel: Shape) -> Shape:
        """The number of windows on an image along each axis."""
        return tuple(room // s + 1 for room, s in zip(self.room(shape, kernel), self.strides, strict=True))

    def position_inside(self, shape: Shape, kernel: Shape) -> Shape | None:
        """A position in the kernel that lies within the images in all windows; None where there is none."""
        positions = []
        for k, d, s, n, size, (before, _) in zip(
            kernel, self.dilations, self.strides, self.counts(shape, kernel), shape[2:], self.sides(), strict=True
        ):
            inside = [i for i in range(k) if i * d >= before and (n - 1) * s + i * d - before < size]
            positions += inside[:1]
        return tuple(positions) if len(positions) == len(kernel) else None


def require_windows(name: str, x: Type, kernel: Shape, at: Geometry) -> None:
    """Raise GraphValueError unless a window fits the images and all sizes are valid."""
    axes = len(kernel)
    if axes not in (1, 2, 3) or x.rank != axes + 2:
        raise GraphValueError(
            f"{name} with a kernel of {kernel} takes images of shape (batch, channels, {_sizes(axes)}), not {x}."
        )
    if not len(at.strides) == len(at.dilations) == len(at.pads) / 2 == axes:
        raise GraphValueError(f"{name} takes a stride, a dilation and two pads for each axis of its kernel {kernel}.")
    if min(*kernel, *at.strides, *at.dilations, at.groups) < 1 or min(at.pads) < 0:
        raise GraphValueError(
            f"{name} takes kernels, strides, dilations and groups of 1 or more and no negative padding."
        )
    if min(at.room(x.shape, kernel)) < 0:
        raise GraphValueError(f"{name} with a kernel of {kernel} and padding {at.pads} does not fit {x}.")


def _sizes(axes: int) -> str:
    return ", ".join(("depth", "height", "width")[-axes:] if axes in (2, 3) else ("length",))


def windows(x: Array, kernel: Shape, at: Geometry, fill: Any = 0) -> Array:
    """A view of shape (batch, channels, windows along each axis..., kernel...) of the padded images."""
    padded = np.pad(x, [(0, 0), (0, 0), *at.sides()], constant_values=fill)
    axes = tuple(range(2, x.ndim))
    every: Any = np.lib.stride_tricks.sliding_window_view(padded, at.reach(kernel), axes)  # type: ignore[call-overload]
    steps = tuple(slice(None, None, s) for s in (1, 1, *at.strides, *at.dilations))
    return np.asarray(every[steps])


def by_position(x: Array, kernel: Shape, at: Geometry, fill: Any = 0) -> list[Array]:
    """The elements of all windows of the padded images at each position in the kernel: (batch, channels, windows...).

    NumPy computes on a few large arrays many times faster than along the short axes of many windows, and XLA makes one
    loop of what is computed from all of them.
    """
    framed = namespace(x).pad(x, [(0, 0), (0, 0), *at.sides()], constant_values=fill)
    counts = at.counts(x.shape, kernel)
    regions: Any = [(..., *(slice(*s) for s in _spans(p, counts, at))) for p in np.ndindex(*kernel)]
    return [framed[region] for region in regions]


def fold(columns: Array, shape: Shape, at: Geometry) -> Array:
    """The adjoint of `windows`: images of a shape with all windows added (col2im)."""
    axes = len(shape) - 2
    padded = np.zeros((*shape[:2], *at.with_sides(shape)), columns.dtype)
    counts, kernel = columns.shape[2 : 2 + axes], columns.shape[2 + axes :]
    for position in np.ndindex(*kernel):
        region: Any = (..., *(slice(*span) for span in _spans(position, counts, at)))
        at_position: Any = (..., *position)
        padded[region] += columns[at_position]
    return np.asarray(padded[_inside(shape, at)])


def _inside(shape: Shape, at: Geometry) -> Any:
    """The index of images in the padded ones."""
    return (..., *(slice(before, before + n) for n, (before, _) in zip(shape[2:], at.sides(), strict=True)))


def fold_positions(jax: Any, parts: Sequence[Any], shape: Shape, kernel: Shape, at: Geometry) -> Any:
    """The adjoint of `by_position` in XLA: images of a shape with the elements at all positions added."""
    images, counts = at.with_sides(shape), at.counts(shape, kernel)
    total: Any = 0
    for position, part in zip(np.ndindex(*kernel), parts, strict=True):
        ends = [(a, n - b, s - 1) for (a, b, s), n in zip(_spans(position, counts, at), images, strict=True)]
        total = total + jax.lax.pad(part, part.dtype.type(0), [(0, 0, 0), (0, 0, 0), *ends])
    return total[_inside(shape, at)]


def _spans(position: Shape, counts: Shape, at: Geometry) -> list[tuple[int, int, int]]:
    """Start, stop and step, along each axis, of the elements at one position in the kernel over all windows."""
    starts = [p * d for p, d in zip(position, at.dilations, strict=True)]
    return [(a, a + s * (n - 1) + 1, s) for a, n, s in zip(starts, counts, at.strides, strict=True)]


def slices(e: Emitter, x: str, kernel: Shape, counts: Shape, at: Geometry, fill: float = 0.0) -> list[str]:
    """For each position in the kernel, the elements there in all windows of the ONNX tensor x, on its axes from 2."""
    axes = len(kernel)
    x = padded(e, x, at, fill)
    parts = []
    for position in np.ndindex(*kernel):
        starts, stops, steps = zip(*_spans(position, counts, at), strict=True)
        parts.append(e.Slice(x, e.ints(starts), e.ints(stops), e.ints(range(2, 2 + axes)), e.ints(steps)))
    return parts


def padded(e: Emitter, x: str, at: Geometry, fill: float = 0.0) -> str:
    """The ONNX tensor x with the padding of its images."""
    axes = len(at.strides)
    return e.Pad(x, e.ints((0, 0, *at.pads[:axes], 0, 0, *at.pads[axes:])), e.scalar(fill)) if any(at.pads) else x


def apart(e: Emitter, x: str, shape: Shape) -> str:
    """The tensor x of that shape, separated from a Pad whose result it is.

    At some opsets ONNX Runtime fuses a Pad with an AveragePool or a Conv after it: the fused operator leaves zeros of
    the Pad out of a mean (1.19 and 1.20), is refused (a Pad as wide as the windows), or writes to another buffer
    (uneven padding on CUDA). A Reshape to the same shape, which copies nothing, prevents that.
    """
    return e.Reshape(x, e.ints(shape)) if e.is_padded(x) else x


def attributes(kernel: Shape, at: Geometry) -> dict[str, Attribute]:
    """The ONNX attributes of a window."""
    return {"kernel_shape": kernel, "strides": at.strides, "pads": at.pads, "dilations": at.dilations}
