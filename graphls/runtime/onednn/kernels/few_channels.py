"""Gradients of kernels between few channels, for which oneDNN 3.2 has fast kernels only where channels fill blocks.

Blocks that channels do not fill have zeros in memory, so that images of 8 channels are also ones of 16.
"""

from __future__ import annotations

from graphls.ir.graph import Value
from graphls.ir.types import Type
from graphls.runtime.onednn.binding import BLOCK, BLOCKED, DATA_TYPES, Descriptor, Query, Role
from graphls.runtime.onednn.kernels.convolution_shapes import SLOW, Shapes, images
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Program

FEW = 3
"""Channels of images up to which kernels read rows."""


def filled(shapes: Shapes) -> Shapes | None:
    """The shapes with channels that fill blocks; None where there is no fast kernel for these either."""
    x, w, y = shapes.types
    if shapes.at.groups > 1 or x.rank not in BLOCKED:
        return None
    outputs, inputs = (-(-n // BLOCK) * BLOCK if n > FEW or axis == 0 else n for axis, n in enumerate(w.shape[:2]))
    wide = w.with_shape((outputs, inputs, *w.shape[2:]))
    result = Shapes(shapes.at, _with_channels(x, inputs), wide, _with_channels(y, outputs))
    kernel = result.weight_gradient(None)
    if kernel.implementation.startswith(SLOW):
        return None
    pairs = (x, kernel.layout(Query.SOURCE)), (y, kernel.layout(Query.RESULT_GRADIENT))
    return result if all(_is_known(kind, layout) for kind, layout in pairs) else None


def _with_channels(kind: Type, channels: int) -> Type:
    return kind.with_shape((kind.shape[0], channels, *kind.shape[2:]))


def _is_known(kind: Type, layout: Descriptor) -> bool:
    """Whether a layout has blocks of channels, if it has more than the images."""
    return layout.shape == kind.shape or layout.equals(Descriptor.blocked(layout.shape, layout.dtype))


def weight_gradient(
    program: Program, wide: Shapes, shapes: Shapes, operands: tuple[Value, Value], has_bias: bool
) -> tuple[View, View | None]:  # fmt: skip
    """Append the kernel; returns the gradient of the kernels, and the sums of that of the images by channel."""
    dtype, count = DATA_TYPES[wide.types[1].dtype], wide.types[1].shape[0]
    totals = program.scratch(Descriptor.plain((count,), dtype)) if has_bias else None
    kernel = wide.weight_gradient(None if totals is None else totals.layout)
    gradient = program.scratch(kernel.layout(Query.WEIGHTS_GRADIENT))
    x, g = operands
    program.run(kernel, {
        Role.SOURCE: _blocks(program, x, kernel.layout(Query.SOURCE)), Role.WEIGHTS_GRADIENT: gradient,
        Role.RESULT_GRADIENT: _blocks(program, g, kernel.layout(Query.RESULT_GRADIENT)),
        **({} if totals is None else {Role.BIAS_GRADIENT: totals}),
    })  # fmt: skip
    plain = program.converted(gradient, Descriptor.of(wide.weights_type))
    part = plain.layout.part(shapes.weights_type.shape, (0,) * shapes.weights_type.rank)
    assert part is not None, "A part of row-major memory is always described."
    return View(plain.buffer, part, False), totals


def _blocks(program: Program, value: Value, layout: Descriptor) -> View:
    """Images in a layout that may have more channels."""
    if layout.shape == value.type.shape:
        return images(program, value, layout)
    return View(program.read(value, Descriptor.blocked(value.type.shape, layout.dtype)).buffer, layout)
