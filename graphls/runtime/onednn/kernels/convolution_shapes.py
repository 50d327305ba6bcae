"""Descriptors of convolutions and of their images, in layouts that kernels choose."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from graphls.ir.graph import Node, Value
from graphls.ir.types import Type
from graphls.primitives.windows import Geometry
from graphls.runtime.onednn.binding import Descriptor, Primitive, dims
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Program

TRAINING = 64
DIRECT = 1

SLOW = "x64:gemm"
"""Kernels of columns and products, which are slow for one channel: ten times and more."""

Windows = tuple[Any, Any, Any, Any]


def geometry(node: Node, kernel: Sequence[int]) -> tuple[Geometry, Windows]:
    """The windows of a node, and their strides, dilations and paddings as oneDNN takes them."""
    names = ("strides", "pads", "dilations", "groups")
    at = Geometry.over(tuple(kernel), **{name: node.attrs[name] for name in names if name in node.attrs})
    return at, windows_of(at)


def windows_of(at: Geometry) -> Windows:
    """Strides, dilations and paddings before and after each axis, as oneDNN takes them."""
    sides = at.sides()
    first, last = [before for before, _ in sides], [after for _, after in sides]
    return dims(at.strides), dims([d - 1 for d in at.dilations]), dims(first), dims(last)


def _weights_shape(shape: Sequence[int], groups: int) -> tuple[int, ...]:
    """The shape of kernels as oneDNN takes it, which counts groups by an axis of their own."""
    return (groups, shape[0] // groups, *shape[1:]) if groups > 1 else tuple(shape)


class Shapes:
    """Descriptors of a convolution, in whatever layout.

    Channel-wise ones of one axis have another axis of size 1, as oneDNN has fast kernels for two axes only.
    """

    def __init__(self, at: Geometry, x: Type, w: Type, y: Type) -> None:
        self.is_channelwise = at.groups > 1 and at.groups == x.shape[1] == w.shape[0]
        if self.is_channelwise and x.rank == 3:
            x, w, y = (kind.with_shape((*kind.shape, 1)) for kind in (x, w, y))
            (before, after), one = at.pads, (1,)
            at = Geometry(at.strides + one, (before, 0, after, 0), at.dilations + one, at.groups)
        self.at, self.windows, self.types = at, windows_of(at), (x, w, y)
        self.weights_type = w.with_shape(_weights_shape(w.shape, at.groups))
        is_small = at.groups == w.shape[0] or prod(w.shape[2:]) == 1
        self.slow = "brgconv_strided" if is_small else None  # 90 times as slow in bfloat16 for channel-wise kernels
        self.x, self.w, self.y = map(Descriptor.any_of, (x, self.weights_type, y))

    @classmethod
    def of(cls, node: Node, x: Type, w: Type, y: Type) -> Shapes:
        """Those of a node."""
        return cls(geometry(node, w.shape[2:])[0], x, w, y)

    def forward(self, bias: Descriptor | None = None) -> Primitive:
        """The forward kernel."""
        return Primitive("convolution", "convolution_forward", library().engine, TRAINING, DIRECT, self.x, self.w, bias,
                         self.y, *self.windows, None)  # fmt: skip

    def weight_gradient(self, by_channel: Descriptor | None) -> Primitive:
        """The kernel of the gradient of kernels, and of biases where these have a layout."""
        return Primitive("convolution, gradient of kernels", "convolution_backward_weights", library().engine, DIRECT,
                         self.x, self.w, by_channel, self.y, *self.windows, self.forward(by_channel),
                         None)  # fmt: skip

    def weights(self, program: Program, value: Value, layout: Descriptor) -> View:
        """The kernels in a layout."""
        if self.at.groups == 1:
            return program.read(value, layout)
        plain = View(program.plain(value).buffer, Descriptor.of(self.weights_type))
        return program.converted(plain, layout, value)


def images(program: Program, value: Value, layout: Descriptor) -> View:
    """Images in the layout of a kernel, which may have an axis of size 1 more."""
    return View(program.read(value, own(value, layout)).buffer, layout)


def result(program: Program, value: Value, layout: Descriptor) -> View:
    """Images that the next call writes in the layout of a kernel."""
    return View(program.written(value, own(value, layout)).buffer, layout)


def own(value: Value, layout: Descriptor) -> Descriptor:
    """The layout of a kernel with the axes of a value."""
    reshaped = layout.reshaped(value.type.shape)
    assert reshaped is not None, "An axis of size 1 is left out of any layout."
    return reshaped
