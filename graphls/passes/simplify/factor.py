"""The factor pass: moves a scalar factor from the result of a product to its smaller operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphls.ir.graph import Graph, Node, Value, walk
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter, users

SHARE, LEAST = 2, 1 << 14
"""A product has at least SHARE times the elements of the operand that is scaled in its place, and at least LEAST."""


@register_pass
@dataclass(frozen=True)
class Factor:
    """Scale the smaller operand of a matrix product, or of a gradient of kernels, in place of the product.

    So are the slices that the gradient of a `gather` adds to zeros, as in that of an embedding.

    Before:

        %p = matmul(%x, %g) {transpose_a=true} : f32[512,512]  // backward
        %u = mul(%p, %s) : f32[512,512]  // backward
        %overflow = overflow_get(%status, %u) : bool[]  // check
        %y = add(%u, @m) : f32[512,512]  // update

    After:

        %p = matmul(%x, %g) {transpose_a=true} : f32[512,512]  // backward
        %u = mul(%p, %s) : f32[512,512]  // backward
        %mul = mul(%g, %s) : f32[2,512]  // backward
        %matmul = matmul(%x, %mul) {transpose_a=true} : f32[512,512]  // backward
        %overflow = overflow_get(%status, %matmul, %u) : bool[]  // check
        %y = add(%matmul, @m) : f32[512,512]  // update

    Checked products stay, because a product may overflow whose scaled operand would have prevented it. The CPU
    lowering computes them only where bounds are inconclusive, so that dividing gradients by the loss scale costs
    no pass over them. Values change by rounding only; 16-bit products, whose rounding is intended, stay.
    """

    name = "factor"

    def run(self, graph: Graph) -> Graph:
        """The graph in which numbers multiply the smaller operands."""
        return _Factor(graph).run()


class _Factor(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.users = users(walk(graph))
        self.results = {*graph.outputs, *(w.value for w in graph.writes)}
        self.originals: dict[Value, Value] = {}

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.primitive.is_check:
            # Check the original product, too: it may overflow where the product with a scaled operand does not.
            checked = tuple(self.originals[v] for v in node.inputs if v in self.originals)
            return replace(node, inputs=(*node.inputs, *checked)) if checked else node
        if node.primitive.name == "mul":
            for product, factor in (node.inputs, node.inputs[::-1]):
                if self.fits(node, product, factor):
                    return (self.moved(node, self.definer[product], factor),)
        return node

    def fits(self, node: Node, product: Value, factor: Value) -> bool:
        """Whether a node multiplies a large product, which nothing else reads, by one number."""
        maker = self.definer.get(product)
        if maker is None or not maker.primitive.is_bounded or product in self.results:
            return False
        small = maker.inputs[_scaled(maker)]
        rank = min(small.type.rank, product.type.rank)
        if product.type.dtype.is_half or factor.type.size != 1 or factor.type.rank > rank:
            return False
        # Checks do not count: a product that only they read is bounded and not computed.
        others = [n for n in self.users.get(product, ()) if n.outputs != node.outputs]
        is_worth_it = max(SHARE * _size(small), LEAST) <= _size(product)
        return is_worth_it and all(n.primitive.is_check for n in others)

    def moved(self, node: Node, product: Node, factor: Value) -> Value:
        """The product with its smaller operand scaled; the node itself stays for overflow checks."""
        self.e.append(node)
        inputs = list(product.inputs)
        at = _scaled(product)
        inputs[at] = self.e.mul(inputs[at], factor)
        (scaled,) = self.e.emit(product.primitive, inputs, product.attrs)
        self.originals[scaled] = node.output
        self.users[scaled] = self.users.get(node.output, [])
        return scaled


def _scaled(product: Node) -> int:
    """The position of the operand that a number multiplies: the smaller one of a product, else the first."""
    return min(range(2), key=lambda i: _size(product.inputs[i])) if product.primitive.is_product else 0


def _size(value: Value) -> int:
    return value.type.size
