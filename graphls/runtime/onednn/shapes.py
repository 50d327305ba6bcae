"""Rules of nodes that move or rename memory: reshapes, transpositions, slices and concatenations."""

from __future__ import annotations

import numpy as np

from graphls.ir.graph import Node
from graphls.primitives.shape import cut
from graphls.runtime.onednn.binding import Descriptor, Primitive, Role, handles
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Program, View
from graphls.runtime.onednn.registry import rule


@rule("constant")
def _constant(program: Program, node: Node) -> None:
    program.constant(node.output, np.ascontiguousarray(node.attrs["value"]))


@rule("reshape", "stop_gradient", "depend")
def _reshape(program: Program, node: Node) -> None:
    """The same memory, where the layout allows it; else in row-major order first."""
    source = program.read(node.inputs[0])
    layout = source.layout.reshaped(node.output.type.shape)
    if layout is None:
        source, layout = program.plain(node.inputs[0]), Descriptor.of(node.output.type)
    program.alias(node.output, View(source.buffer, layout))


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


def _has_whole_steps(node: Node) -> bool:
    return set(node.attrs["steps"]) <= {1} and node.output.type.rank > 0


@rule("slice", where=_has_whole_steps)
def _slice(program: Program, node: Node) -> None:
    """A part of the memory."""
    x, shape = node.inputs[0], node.output.type.shape
    starts = [r.start for r in cut(x.type.shape, *(node.attrs[name] for name in ("starts", "stops", "steps")))]
    source = program.first(x)
    part = source.layout.part(shape, starts)
    if part is None:
        source = program.plain(x)
        part = source.layout.part(shape, starts)
    assert part is not None, "A part of row-major memory is always described."
    program.alias(node.output, View(source.buffer, part, False))


@rule("concat")
def _concat(program: Program, node: Node) -> None:
    views = [program.plain(v) for v in node.inputs]
    result = program.written(node.output, Descriptor.of(node.output.type))
    axis = node.attrs["axis"] % node.output.type.rank
    kernel = Primitive("concatenation", "concat", library().engine, result.layout, len(views), axis,
                       handles(v.layout for v in views), None)  # fmt: skip
    program.run(kernel, {**{Role.SEVERAL + i: view for i, view in enumerate(views)}, Role.RESULT: result})
