"""Gradients of channel-wise kernels, where oneDNN 3.2 has fast ones for up to 3 columns without dilation only.

Larger kernels are computed in parts of 3 columns, dilated ones by rows and columns, each from a window of the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from graphls.ir.graph import Value
from graphls.primitives.windows import Geometry
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor, Primitive, Query, Role
from graphls.runtime.onednn.kernels.convolution_shapes import SLOW, Shapes, images
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Program

MOST_COLUMNS = 3
"""Columns of kernels up to which there is a fast kernel."""

Sizes = tuple[int, ...]


class Part(NamedTuple):
    """Rows and columns of kernels: the first ones, their numbers, and the window of the padded images that they see."""

    first: Sizes
    counts: Sizes
    origin: Sizes
    window: Sizes
    shapes: Shapes


def parts(shapes: Shapes) -> list[Part]:
    """The parts of channel-wise kernels that have a fast kernel each; none where one of them has none."""
    x, w, y = shapes.types
    if x.rank != 4:
        return []
    at, (height, width) = shapes.at, w.shape[2:]
    results = []
    for row, rows in _spans(height, height, at.dilations[0]):
        for column, columns in _spans(width, MOST_COLUMNS, at.dilations[1]):
            first, counts = (row, column), (rows, columns)
            window = tuple((n - 1) * s + k for n, s, k in zip(y.shape[2:], at.strides, counts, strict=True))
            origin = tuple(i * d for i, d in zip(first, at.dilations, strict=True))
            inner = Geometry.over(counts, strides=at.strides, groups=at.groups)
            kinds = x.with_shape((*x.shape[:2], *window)), w.with_shape((*w.shape[:2], *counts)), y
            results.append(Part(first, counts, origin, window, Shapes(inner, *kinds)))
    is_inside = all(before < n for (before, _), n in zip(at.sides(), _sizes(results), strict=True))
    kernels = (part.shapes.weight_gradient(None) for part in results)
    are_fast = is_inside and not any(kernel.implementation.startswith(SLOW) for kernel in kernels)
    return results if are_fast else []


def _sizes(parts: Sequence[Part]) -> list[int]:
    """The sizes of padded images, as far as kernels see them."""
    return [first + n for first, n in zip(parts[-1].origin, parts[-1].window, strict=True)]


def _spans(size: int, most: int, dilation: int) -> list[tuple[int, int]]:
    """The first positions and the lengths of parts of an axis, as equal as can be; with a dilation, of one each.

    There is no fast kernel for one column with strides: 7 columns are 3, 2 and 2.
    """
    count = -(-size // (most if dilation == 1 else 1))
    ends = [size * i // count for i in range(count + 1)]
    return [(first, end - first) for first, end in pairwise(ends)]


def weight_gradient(
    program: Program, shapes: Shapes, parts: Sequence[Part], operands: tuple[Value, Value], totals: View | None
) -> View:  # fmt: skip
    """Append the kernels of parts, the first of which sums the gradient by channel; returns the gradient of all."""
    x, g = operands
    padded = _padded(program, x, shapes, parts)
    kind = shapes.weights_type
    result = program.scratch(Descriptor.of(kind))
    for part in parts:
        sums = totals if part is parts[0] else None
        kernel = part.shapes.weight_gradient(None if sums is None else sums.layout)
        gradient = program.scratch(kernel.layout(Query.WEIGHTS_GRADIENT))
        program.run(kernel, {
            Role.SOURCE: _window(program, padded, part, kernel), Role.WEIGHTS_GRADIENT: gradient,
            Role.RESULT_GRADIENT: images(program, g, kernel.layout(Query.RESULT_GRADIENT)),
            **({} if sums is None else {Role.BIAS_GRADIENT: sums}),
        })  # fmt: skip
        place = result.layout.part(part.shapes.weights_type.shape, (0, 0, 0, *part.first))
        assert place is not None, "A part of row-major memory is always described."
        program.append(program.reorder(gradient, View(result.buffer, place)))
    return result


def _window(program: Program, padded: View, part: Part, kernel: Primitive) -> View:
    """The images that a part sees, in the layout of its kernel."""
    shape = part.shapes.types[0].shape
    window = padded.layout.part(shape, (0, 0, *part.origin))
    assert window is not None, "A part along axes without blocks is always described."
    return program.converted(View(padded.buffer, window, False), kernel.layout(Query.SOURCE))


def _padded(program: Program, value: Value, shapes: Shapes, parts: Sequence[Part]) -> View:
    """The images with zeros around them, as far as kernels see them."""
    x, at = shapes.types[0], shapes.at
    dtype, view = DATA_TYPES[x.dtype], images(program, value, Descriptor.common(x.shape, DATA_TYPES[x.dtype]))
    sizes = _sizes(parts)
    before = [first for first, _ in at.sides()]
    counts = [min(n, size - first) for n, size, first in zip(x.shape[2:], sizes, before, strict=True)]
    if counts == sizes:
        return view
    shape = *x.shape[:2], *sizes
    result = program.scratch(Descriptor.common(shape, dtype))
    program.append(program.reorder(program.repeated(program.number(0.0, 4), shape), result))
    box = *x.shape[:2], *counts
    source, target = view.layout.part(box, (0, 0, 0, 0)), result.layout.part(box, (0, 0, *before))
    assert source is not None and target is not None, "A part along axes without blocks is always described."
    program.append(program.reorder(View(view.buffer, source), View(result.buffer, target)))
    return result
