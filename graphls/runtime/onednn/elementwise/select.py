"""Choices between a value and a number by a mask, as in attention, exact for nan and infinities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import uint8
from graphls.passes.patterns.terms import number_of
from graphls.runtime.onednn.binding import DATA_TYPES, Attributes, Descriptor, Primitive, Role
from graphls.runtime.onednn.elementwise.algorithms import MAX, MIN
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import Array, View
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program


def selections(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of choices between a value and a number by a constant mask; NumPy makes others."""
    for node in nodes:
        if node.primitive.name == "where" and node.output.type.dtype in COMPUTED:
            selection = _selection(node, definer)
            if selection is not None:
                yield Group((node,), node.inputs, node.outputs, selection.emit)


class Selection:
    """A value with a number in its place where a mask says so.

    The smaller one of the bytes of the value and of 255, or 0 where the number is, then the greater one of that and of
    the bytes of the number, or 0 where the value is: the same bits, for which the kernel for floats is no help, as it
    gives the second operand if one is nan.
    """

    def __init__(self, node: Node, value: Value, number: float, keeps: Array) -> None:
        self.node, self.value = node, value
        kind = node.output.type
        bits = np.dtype(f"u{kind.nbytes // kind.size}")
        self.keeps = np.where(keeps, bits.type(-1 % (1 << 8 * bits.itemsize)), bits.type(0))
        self.number = np.where(keeps, bits.type(0), np.array(number, kind.dtype.numpy).view(bits))
        size = self.keeps.nbytes
        self.layout = Descriptor.plain((kind.nbytes // size, size), DATA_TYPES[uint8])
        self.mask_layout = Descriptor.plain((1, size), DATA_TYPES[uint8])

    def emit(self, program: Program) -> None:
        """Append the kernel; NumPy's selection where oneDNN has only its slow reference."""
        attributes = Attributes()
        role = attributes.binary(MAX, self.mask_layout) if self.number.any() else None
        kernel = Primitive("selection", "binary", library().engine, MIN, self.layout, self.mask_layout, self.layout,
                           attributes)  # fmt: skip
        if kernel.is_reference:
            program.interpret(self.node)
            return
        result = program.written(self.node.output, Descriptor.of(self.node.output.type))
        views: dict[int, View] = {
            Role.SOURCE: View(program.plain(self.value).buffer, self.layout),
            Role.RESULT: View(result.buffer, self.layout),
            Role.SOURCE_1: program.shared(self.keeps, self.mask_layout),
        }  # fmt: skip
        if role is not None:
            views[role] = program.shared(self.number, self.mask_layout)
        program.run(kernel, views)


def _selection(node: Node, definer: Mapping[Value, Node]) -> Selection | None:
    """The value and the mask of a node, whose axes are the last ones of the result; None where they are others."""
    condition, x, y = node.inputs
    maker, kind = definer.get(condition), node.output.type
    if maker is None or not maker.primitive.is_constant or kind.stacked or not kind.size:
        return None
    shape, last = kind.shape, condition.type.shape
    while last[:1] == (1,):
        last = last[1:]
    if not last or shape[len(shape) - len(last) :] != last:
        return None
    mask = np.asarray(maker.attrs["value"])
    for value, other, keeps in ((x, y, mask), (y, x, ~mask)):
        fixed = definer.get(other)
        number = number_of(fixed) if fixed is not None and fixed.primitive.is_constant else None
        if number is not None and value.type == kind:
            return Selection(node, value, number, keeps)
    return None
