"""Products that the factor pass has scaled by an operand become numbers times the product, where both are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import float32
from graphls.passes.rewriter import Rewriter


def with_multiples(graph: Graph) -> Graph:
    """The graph whose updates read products times numbers, and whose checks read each value once.

    The factor pass computes a product again with a scaled operand for the update, as other engines only bound the
    product that is checked. Here both would be computed: of

        %p = matmul(%x, %g)
        %u = mul(%p, %s)
        %q = matmul(%x, mul(%g, %s))
        %flag = overflow_get(%q, %u)
        %new = sub(@w, %q)  // update

    the second product is left out, and `@w - mul(%p, %s)` is one kernel.
    """
    return _Multiples(graph).run()


def factors(node: Node | None) -> tuple[Value, Value] | None:
    """The array and the number of a product of both in float32; None for other nodes."""
    if node is None or node.primitive.name != "mul" or node.output.type.dtype is not float32:
        return None
    for array, number in (node.inputs, node.inputs[::-1]):
        if number.type.size == 1 and array.type == node.output.type and array is not number:
            return array, number
    return None


class _Multiples(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.multiples: dict[object, Value] = {}
        self.copies: dict[tuple[Builder, Value], Value] = {}

    def visit(self, node: Node) -> Node | Sequence[Value]:
        multiple = self.multiple(node)
        if multiple is not None:
            return (multiple,)
        if node.primitive.is_check:
            return replace(node, inputs=tuple(dict.fromkeys(node.inputs)))
        if node.phase == "update" and not node.regions:
            return replace(node, inputs=tuple(map(self.copy, node.inputs)))
        return node

    def define(self, node: Node) -> None:
        """Take note of a node, and of the product that it is a multiple of."""
        super().define(node)
        if (parts := factors(node)) is not None and parts[0] in self.definer:
            product = self.definer[parts[0]]
            if product.primitive.is_bounded and len(product.outputs) == 1:
                self.multiples[_key(product, product.inputs, parts[1])] = node.output

    def multiple(self, node: Node) -> Value | None:
        """The multiple that a product with a scaled operand equals, where there is one."""
        if not node.primitive.is_bounded or len(node.outputs) != 1:
            return None
        for at, operand in enumerate(node.inputs):
            if (parts := factors(self.definer.get(operand))) is not None:
                inputs = (*node.inputs[:at], parts[0], *node.inputs[at + 1 :])
                if (value := self.multiples.get(_key(node, inputs, parts[1]))) is not None:
                    return value
        return None

    def copy(self, value: Value) -> Value:
        """A multiple of an array, computed again in the block of an update, which costs no pass; others as they are."""
        maker = self.definer.get(value)
        parts = factors(maker)
        if maker is None or parts is None or maker.phase != "backward" or value.type.size == 1:
            return value
        key = self.e, value
        if key not in self.copies:
            self.copies[key] = self.e.mul(*parts)
        return self.copies[key]


def _key(node: Node, inputs: Sequence[Value], number: Value) -> object:
    return node.primitive.name, tuple(inputs), number, tuple(sorted((name, repr(v)) for name, v in node.attrs.items()))
