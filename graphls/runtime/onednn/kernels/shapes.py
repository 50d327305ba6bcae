"""Rules of nodes that move or rename memory: reshapes, transpositions, slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.types import bfloat16, float8_e8m0fnu
from graphls.primitives.shape import cut
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor, Primitive, Query, Role, handles
from graphls.runtime.onednn.kernels.low_precision import MOST_CAST, cast_to_low, rounds
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import PythonCall, View, reorder_of
from graphls.runtime.onednn.program.program import Program
from graphls.runtime.onednn.registry import rule


@dataclass(eq=False)
class Moves(PythonCall):
    """Reorders that fill the memory of one value, one behind the other, each a part of it."""

    node: Node
    reorders: Sequence[Primitive]
    sources: Sequence[View]
    targets: Sequence[View]
    kind = "moves"

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffers that it reads."""
        return [view.buffer for view in self.sources]

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffer that it writes."""
        return (self.targets[0].buffer,)

    def bound(self, binding: Binding) -> partial[int]:
        """The call on the memories of a binding."""
        calls = map(binding.execution, self.reorders, map(_moved, self.sources, self.targets))
        return partial(self._move, list(calls))

    def _move(self, calls: Sequence[partial[int]]) -> int:
        return next((status for call in calls if (status := call())), 0)


def _moved(source: View, target: View) -> dict[int, View]:
    return {Role.SOURCE: source, Role.RESULT: target}


@rule("constant")
def _constant(program: Program, node: Node) -> None:
    program.constant(node.output, np.ascontiguousarray(node.attrs["value"]))


@rule("reshape", "stop_gradient", "depend")
def _reshape(program: Program, node: Node) -> None:
    """The same memory, where the layout allows it; else in row-major order first."""
    source = program.stored(node.inputs[0])
    layout = source.layout.reshaped(node.output.type.shape)
    if layout is None:
        source, layout = program.plain(node.inputs[0]), Descriptor.of(node.output.type)
    program.alias(node.output, View(source.buffer, layout))


def _is_cast(node: Node) -> bool:
    """Whether there is a kernel: none has numbers below the smallest normal ones of bfloat16."""
    source, target = node.inputs[0].type.dtype, node.output.type.dtype
    if target.is_low:
        return (rounds(target) and node.attrs.get("saturate", True)) or node.output.type.size <= MOST_CAST
    return source is not target and not (source is float8_e8m0fnu and target is bfloat16)


@rule("cast", where=_is_cast)
def _cast(program: Program, node: Node) -> None:
    """The same memory where the numbers are the same; else they are rounded, in whatever layout they have."""
    if node.output.type.dtype.is_low:
        cast_to_low(program, node)
        return
    source, dtype = program.stored(node.inputs[0]), DATA_TYPES[node.output.type.dtype]
    if source.layout.dtype != dtype and node.output.type.dtype is bfloat16:
        rounded = program.written(node.output, source.layout.with_dtype(dtype))
        program.append(program.reorder(source, rounded))
    else:
        program.alias(node.output, source)


@rule("transpose")
def _transpose(program: Program, node: Node) -> None:
    source = program.first(node.inputs[0])
    permutation = node.attrs["permutation"]
    moved = View(source.buffer, source.layout.permuted(permutation), False) if permutation else source
    program.alias(node.output, moved)


@rule("broadcast_to")
def _broadcast_to(program: Program, node: Node) -> None:
    """The same memory with strides of 0."""
    program.alias(node.output, program.broadcast(node.inputs[0], node.output.type.shape))


def _ranges(node: Node, shape: Sequence[int]) -> list[range]:
    """The positions that a slice, or the gradient of one, selects along each axis of a shape."""
    return cut(tuple(shape), *(node.attrs[name] for name in ("starts", "stops", "steps")))


@rule("slice", where=lambda node: _has_steps_inside(node.inputs[0].type.shape, node))
def _slice(program: Program, node: Node) -> None:
    """A part of the memory."""
    ranges, source = _ranges(node, node.inputs[0].type.shape), program.first(node.inputs[0])
    part = source.layout.part([len(r) for r in ranges], [r.start for r in ranges]) if _is_box(ranges) else None
    if part is None or _is_slow(part, source.layout):
        source = program.plain(node.inputs[0])
        part = _selected(source.layout, ranges)
    program.alias(node.output, View(source.buffer, part, False))


def _is_slow(part: Descriptor, layout: Descriptor) -> bool:
    """Whether a part of a layout cuts blocks, so that oneDNN moves its elements one by one."""
    target = Descriptor.plain(part.shape, part.dtype)
    return not layout.is_plain and reorder_of(part, target).implementation.startswith("simple")


def _is_box(ranges: Sequence[range]) -> bool:
    """Whether positions follow each other along each axis."""
    return all(r.step == 1 or len(r) == 1 for r in ranges)


def _selected(layout: Descriptor, ranges: Sequence[range]) -> Descriptor:
    """The elements at positions of row-major memory.

    With steps of 2, the positions 1, 3 and 5 of an axis are the second of each two in the part from 0 to 6.
    """
    steps = [r.step if len(r) > 1 else 1 for r in ranges]
    starts = [min(r.start, n - len(r) * s) for n, r, s in zip(layout.shape, ranges, steps, strict=True)]
    part = layout.part([len(r) * s for r, s in zip(ranges, steps, strict=True)], starts)
    if max(steps) > 1:
        axes = [(len(r), s, r.start - start) for r, s, start in zip(ranges, steps, starts, strict=True)]
        part = part and part.reshaped([*chain(*((n, s) if s > 1 else (n,) for n, s, _ in axes))])
        counts = [*chain(*((n, 1) if s > 1 else (n,) for n, s, _ in axes))]
        part = part and part.part(counts, [*chain(*((0, first) if s > 1 else (0,) for _, s, first in axes))])
        part = part and part.reshaped([n for n, _, _ in axes])
    assert part is not None, "A part of row-major memory is always described."
    return part


def _has_steps_inside(shape: Sequence[int], node: Node) -> bool:
    """Whether as many steps as there are positions fit on each axis."""
    ranges = _ranges(node, shape)
    return bool(shape) and all(len(r) == 1 or len(r) * r.step <= n for n, r in zip(shape, ranges, strict=True))


@rule("slice_gradient", where=lambda node: _has_steps_inside(node.output.type.shape, node))
def _slice_gradient(program: Program, node: Node) -> None:
    """Zeros, and the gradient in a part of their memory."""
    result = program.written(node.output, Descriptor.of(node.output.type))
    part = _selected(result.layout, _ranges(node, node.output.type.shape))
    zeros = program.repeated(program.number(0.0, node.output.type.rank), node.output.type.shape)
    sources, targets = (zeros, program.first(node.inputs[0])), (result, View(result.buffer, part))
    reorders = [reorder_of(source.layout, target.layout) for source, target in zip(sources, targets, strict=True)]
    program.append(Moves(node, reorders, sources, targets))


@rule("concat")
def _concat(program: Program, node: Node) -> None:
    """One kernel, which keeps the layout in which all operands are if there is a fast one for that."""
    axis = node.attrs["axis"] % node.output.type.rank
    views = [program.read(v) for v in node.inputs]
    kernel = None if any(view.layout.is_plain for view in views) else _joined(views, axis)
    if kernel is None or kernel.is_reference:
        views = [program.plain(v) for v in node.inputs]
        kernel = _joined(views, axis, Descriptor.of(node.output.type))
    result = program.written(node.output, kernel.layout(Query.RESULT))
    program.run(kernel, {**{Role.SEVERAL + i: view for i, view in enumerate(views)}, Role.RESULT: result})


def _joined(views: Sequence[View], axis: int, result: Descriptor | None = None) -> Primitive:
    layouts = handles(view.layout for view in views)
    return Primitive("concatenation", "concat", library().engine, result, len(views), axis, layouts, None)
