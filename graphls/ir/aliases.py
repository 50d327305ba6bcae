"""Alias analysis: values that may share a buffer because a runtime removes identity operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.interpret import Array


class Aliases:
    """The possible aliases of each value of a block, through chains of moves and of additions of zero.

    A runtime folds constants, and then drops the sum with a zero, the product with a one and
    a branch that is never taken. A cast and the cast back give the value itself; the value in between is another one.
    """

    def __init__(self, nodes: Iterable[Node], outer: Aliases | None = None) -> None:
        self.roots: dict[Value, frozenset[Value]] = dict(outer.roots) if outer else {}
        self.fixed: dict[Value, Array | None] = dict(outer.fixed) if outer else {}
        for node in nodes:
            self._take_note_of_constants(node)
            for value, operand in self._shared(node):
                self.roots[value] = self.roots.get(value, frozenset()) | self.roots.get(operand, {operand})

    def of(self, value: Value) -> frozenset[Value]:
        """The values of other nodes, or from outside, that a value may alias; itself where there are none."""
        roots = self.roots.get(value, frozenset())
        return frozenset(root for root in roots if root.type.dtype is value.type.dtype) or frozenset((value,))

    def _take_note_of_constants(self, node: Node) -> None:
        if node.primitive.is_constant:
            self.fixed[node.output] = node.attrs["value"]
        elif node.inputs and not node.regions and all(value in self.fixed for value in node.inputs):
            self.fixed.update(dict.fromkeys(node.outputs))

    def _shared(self, node: Node) -> Iterator[tuple[Value, Value]]:
        """The results of a node that may be operands, and these."""
        if node.primitive.is_view:
            yield from zip(node.outputs, node.inputs, strict=False)
        elif node.primitive.is_branch:
            yield from self._yielded(node) if node.inputs[0] in self.fixed else ()
        elif node.primitive.may_be_operand and not node.regions:
            for value in node.outputs:
                yield from ((value, v) for v in node.inputs if v.type.size == value.type.size)
        for position, number in node.primitive.neutral:
            other = node.inputs[1 - position]
            if other.type == node.output.type and self._may_be_number(node.inputs[position], number):
                yield node.output, other

    def _yielded(self, node: Node) -> Iterator[tuple[Value, Value]]:
        for region in node.regions:
            # A region may yield an outer value, which the runtime then puts in place of the result.
            inside = Aliases(region.nodes, self)
            defined = {value for inner in region.nodes for value in inner.outputs}
            for value, result in zip(node.outputs, region.outputs, strict=True):
                yield from ((value, root) for root in inside.of(result) if root not in defined)

    def _may_be_number(self, value: Value, number: float) -> bool:
        if value not in self.fixed or value.type.size != 1:
            return False
        known = self.fixed[value]
        return known is None or bool(np.all(known == number))
