"""Max pooling and its gradient, which share a workspace: the position of the largest element in each window."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, Type, float32, int32, uint8
from graphls.passes.rewriter import users
from graphls.primitives.pooling import corners, row_major_strides
from graphls.primitives.windows import Geometry
from graphls.runtime.onednn.binding import F32, Descriptor, Memory, Primitive, Query, Role
from graphls.runtime.onednn.kernels.convolution_shapes import TRAINING
from graphls.runtime.onednn.kernels.pooling import fast_kernel, windows
from graphls.runtime.onednn.kernels.reductions import REDUCE_SUM, by_row, in_rows
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import Array, PythonCall, View, move
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program
from graphls.runtime.onednn.registry import rule

MAXIMUM = 0x1FF
POSITIONS: Mapping[int, DType] = {4: int32, 6: uint8}
"""The dtypes of the positions in windows, by those of workspaces."""


@dataclass(eq=False)
class Maxima(PythonCall):
    """Corrects what a kernel has pooled, by NumPy, where the images have nan or infinities.

    oneDNN leaves nan out, and gives the least finite number for a window of -inf. Sums of the elements, which are
    finite only if all elements are, find both.
    """

    node: Node
    source: View
    result: View
    workspace: View
    sums: View
    kind = "nan of maxima"

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffers that it reads."""
        return self.source.buffer, self.sums.buffer

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffers that it writes."""
        return self.result.buffer, self.workspace.buffer

    def bound(self, binding: Binding) -> partial[None]:
        """The call on the memories of a binding."""
        sums = binding.array(self.sums.buffer, Type(float32, self.sums.layout.shape))
        return partial(self._check, binding, sums)

    def _check(self, binding: Binding, sums: Array) -> None:
        if not np.isfinite(sums).all():
            self._correct(binding)

    def _correct(self, binding: Binding) -> None:
        """Write the maxima, nan among them, and their positions as NumPy computes them."""
        (x,), (y, positions) = self.node.inputs, self.node.outputs
        images = np.empty(x.type.shape, x.type.dtype.numpy)
        move(binding.memory(self.source), _memory(Descriptor.of(x.type), images))
        maxima, chosen = self.node.primitive.evaluate((images,), self.node.attrs, (y.type, positions.type))
        inner = _positions_in_windows(chosen, x.type, self.node)
        move(_memory(Descriptor.of(y.type), maxima), binding.memory(self.result))
        kind = self.workspace.layout.dtype
        inner = np.ascontiguousarray(inner, POSITIONS[kind].numpy)
        move(_memory(Descriptor.plain(y.type.shape, kind), inner), binding.memory(self.workspace))


@dataclass(eq=False)
class _Positions(PythonCall):
    """The positions of maxima among the elements of the images, from those in their windows."""

    node: Node
    workspace: Buffer
    target: Buffer
    dtype: DType
    kind = "positions of maxima"

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffer that it reads."""
        return (self.workspace,)

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffer that it writes."""
        return (self.target,)

    def run(self, binding: Binding) -> int:
        """Look the positions up."""
        x, kind = self.node.inputs[0].type, self.node.outputs[1].type
        at, kernel = _geometry(self.node)
        steps, images = row_major_strides(x.shape[2:]), np.arange(prod(x.shape[:2])) * prod(x.shape[2:])
        offsets = [int(np.dot(np.multiply(place, at.dilations), steps)) for place in np.ndindex(*kernel)]
        result = binding.array(self.target, kind)
        np.take(np.array(offsets), binding.array(self.workspace, Type(self.dtype, kind.shape)), out=result)
        result += corners(steps, kind.shape[2:], at)
        result += images.reshape(*x.shape[:2], *[1] * len(kernel))
        return 0


def _memory(layout: Descriptor, array: Array) -> Memory:
    return Memory(layout, array.ctypes.data)


def _geometry(node: Node) -> tuple[Geometry, tuple[int, ...]]:
    """The windows of a node, and their size."""
    attributes = dict(node.attrs)
    kernel: tuple[int, ...] = attributes.pop("kernel")
    return Geometry.over(kernel, **attributes), kernel


def _positions_in_windows(positions: Array, x: Type, node: Node) -> Array:
    """The numbers, in row-major order, of elements of images among those of their windows."""
    at, kernel = _geometry(node)
    inner = np.zeros(positions.shape, np.int64)
    coordinates = np.unravel_index(positions % prod(x.shape[2:]), x.shape[2:])
    for axis, (coordinate, size) in enumerate(zip(coordinates, kernel, strict=True)):
        first = at.strides[axis] * np.arange(positions.shape[2 + axis]) - at.pads[axis]
        first = first.reshape([-1 if i == 2 + axis else 1 for i in range(positions.ndim)])
        inner = inner * size + np.clip((coordinate - first) // at.dilations[axis], 0, size - 1)
    return inner


def _pooled(program: Program, node: Node) -> tuple[Primitive, View]:
    """Append a pooling; returns its kernel and the workspace."""
    source, kernel = fast_kernel(program, node.inputs[0], lambda layout: Primitive(
        "max pooling", "pooling_forward", library().engine, TRAINING, MAXIMUM, layout,
        Descriptor.any_of(node.outputs[0].type), *windows(node), None,
    ))  # fmt: skip
    result = program.written(node.outputs[0], kernel.layout(Query.RESULT))
    workspace = program.scratch(kernel.layout_of(Role.WORKSPACE))
    program.run(kernel, {Role.SOURCE: source, Role.RESULT: result, Role.WORKSPACE: workspace})
    sums = by_row(program, View(source.buffer, in_rows(source.layout)), REDUCE_SUM, F32)
    program.append(Maxima(node, source, result, workspace, sums))
    return kernel, workspace


def _is_fit(node: Node) -> bool:
    """Whether there is a kernel: it takes no single element, and no windows in which there is nothing but padding."""
    x, y = node.inputs[0].type, node.outputs[0].type
    at, kernel = _geometry(node)
    for axis, size in enumerate(x.shape[2:]):
        corners = np.arange(y.shape[2 + axis]) * at.strides[axis] - at.pads[axis]
        elements = corners[:, None] + np.arange(kernel[axis]) * at.dilations[axis]
        if not ((elements >= 0) & (elements < size)).any(axis=1).all():
            return False
    return x.size > 1 and x.dtype in COMPUTED


@rule("max_pool", where=_is_fit)
def _max_pool(program: Program, node: Node) -> None:
    """A pooling whose positions are read by other nodes than its gradient."""
    _, workspace = _pooled(program, node)
    kind = workspace.layout.dtype
    plain = program.converted(workspace, Descriptor.plain(workspace.layout.shape, kind))
    target = Buffer(node.outputs[1].type.nbytes)
    program.raw[node.outputs[1]] = target
    program.append(_Positions(node, plain.buffer, target, POSITIONS[kind]))


class _MaxPooling:
    """A max pooling with gradients by its workspace."""

    def __init__(self, node: Node, gradients: Sequence[Node]) -> None:
        self.node, self.gradients = node, gradients

    def groups(
        self, definer: Mapping[Value, Node], readers: Mapping[Value, list[Node]], results: Collection[Value]
    ) -> Iterator[Group]:  # fmt: skip
        """The groups of both passes."""
        yield Group((self.node,), self.node.inputs, self.node.outputs, self.emit)
        for node in self.gradients:
            maker, shape = definer.get(node.inputs[0]), self.node.inputs[0].type.shape
            g = maker.inputs[0] if maker is not None and maker.primitive.name == "reshape" else node.inputs[0]
            images = [n.output for n in readers.get(node.output, ()) if _is_image(n, shape)]
            is_read = node.output in results or len(images) < len(readers.get(node.output, ()))
            flat = node.output if is_read else None
            emit = partial(self.emit_gradient, g=g, flat=flat, images=images)
            yield Group((node,), (g, self.node.outputs[1]), (node.output, *images), emit)

    def emit(self, program: Program) -> None:
        """Append the forward kernel."""
        self.kernel, workspace = _pooled(program, self.node)
        program.alias(self.node.outputs[1], workspace)

    def emit_gradient(self, program: Program, g: Value, flat: Value | None, images: Sequence[Value]) -> None:
        """Append the backward kernel."""
        x, y = (v.type for v in (self.node.inputs[0], self.node.outputs[0]))
        kernel = Primitive("max pooling, gradient", "pooling_backward", library().engine, MAXIMUM, Descriptor.any_of(x),
                           self.kernel.layout(Query.RESULT), *windows(self.node), self.kernel, None)  # fmt: skip
        layout = kernel.layout(Query.RESULT_GRADIENT)
        if g.type.shape == y.shape:
            gradient = program.read(g, layout)
        else:
            gradient = program.converted(program.reshaped(g, Descriptor.of(y)), layout)
        result = program.scratch(kernel.layout(Query.SOURCE_GRADIENT))
        program.run(kernel, {
            Role.RESULT_GRADIENT: gradient, Role.WORKSPACE: program.first(self.node.outputs[1]),
            Role.SOURCE_GRADIENT: result,
        })  # fmt: skip
        for image in images:
            program.alias(image, result)
        if flat is not None:
            plain = program.converted(result, Descriptor.of(x), images[0] if images else None)
            program.alias(flat, View(plain.buffer, Descriptor.of(flat.type)))


def _is_image(node: Node, shape: tuple[int, ...]) -> bool:
    return node.primitive.name == "reshape" and node.output.type.shape == shape


def poolings(nodes: Sequence[Node], results: Collection[Value], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of max poolings and of their gradients, where nothing else reads the positions of the maxima."""
    pooled = [node for node in nodes if node.primitive.name == "max_pool" and _is_fit(node)]
    readers = users(nodes) if pooled else {}
    for node in pooled:
        gradients = _gradients(node, readers, results)
        if gradients is not None:
            yield from _MaxPooling(node, gradients).groups(definer, readers, results)


def _gradients(node: Node, readers: Mapping[Value, list[Node]], results: Collection[Value]) -> list[Node] | None:
    """The gradients that read the positions of a pooling, in whatever shape and dtype; None if anything else does."""
    gradients, waiting = [], [node.outputs[1]]
    while waiting:
        value = waiting.pop()
        if value in results:
            return None
        for reader in readers.get(value, ()):
            is_moved = reader.primitive.is_view or reader.primitive.name == "cast"
            if is_moved and not reader.output.type.dtype.is_float:
                waiting.append(reader.output)
            elif _is_gradient(reader, value, node):
                gradients.append(reader)
            else:
                return None
    return gradients


def _is_gradient(node: Node, positions: Value, pooling: Node) -> bool:
    """Whether a node adds numbers at the positions of a pooling to as many zeros as its images have elements."""
    if node.primitive.name != "gather_gradient" or node.inputs[1] is not positions or node.inputs[0] is positions:
        return False
    x, y = pooling.inputs[0].type, pooling.outputs[0].type
    return node.output.type == x.with_shape((x.size,)) and node.inputs[0].type == y.with_shape((y.size,))
