"""The hoist pass: computes elementwise work of a scan once on complete arrays, before the scan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Node, Value, definers, needs
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter, carries, users


@register_pass
@dataclass(frozen=True)
class Hoist:
    """Compute elementwise nodes of a scan of known length once, on complete arrays, before the scan.

    Before:

        %last = scan(%s, %a) {carries=1, length=3, reverse=false} : f32[2] region(%c: f32[2], %x: f32[2]) {
          %y = square(%x) : f32[2]  // backward
          %p = mul(%c, %x) : f32[2]  // backward
          %q = mul(%p, %y) : f32[2]  // backward
          yield %q
        }  // backward

    After:

        %square = square(%a) : f32[3,2]  // backward
        %mul = mul(%a, %square) : f32[3,2]  // backward
        %last = scan(%s, %mul) {carries=1, length=3, reverse=false} : f32[2] region(%c: f32[2], %p_1: f32[2]) {
          %q = mul(%c, %p_1) : f32[2]  // backward
          yield %q
        }  // backward

    Elementwise primitives are hoisted, and products with a loop-invariant matrix. Of the 29 elementwise nodes in the
    backward of an LSTM 8 stay, each of which takes a kernel in every iteration. A product of three factors is hoisted
    in part, which changes values by rounding only; those of 16 bits, whose rounding is intended, stay. A scan that
    would have to iterate over more bytes than before is not changed.
    """

    name = "hoist"

    def run(self, graph: Graph) -> Graph:
        """The graph with smaller regions of scans."""
        return _Hoist(graph).run()


class _Hoist(Rewriter):
    def visit(self, node: Node) -> Node | Sequence[Value]:
        return Hoisting(self.e, node).run() if node.primitive.is_loop and node.attrs.get("length") else node


class Hoisting:
    """One scan: `arrays` maps values of the region to their precomputed arrays, `stays` has the nodes left in the scan.

    `constants` are copied before the scan, for the nodes there.
    """

    def __init__(self, e: Builder, node: Node) -> None:
        self.e, self.node = e, node
        (self.region,) = node.regions
        self.count = carries(node)
        self.arrays = dict(zip(self.region.inputs[self.count :], node.inputs[self.count :], strict=True))
        self.own = {*self.region.inputs, *definers(self.region.nodes)}
        self.users = users(self.region.nodes)
        self.constants: dict[Value, Value] = {}
        self.stays: dict[Node, None] = {}
        self.definer: dict[Value, Node] = {}

    def run(self) -> Node:
        """The reduced scan; the hoisted nodes stand before it."""
        for node in self.region.nodes:
            array = self.hoisted(node)
            if array is None:
                node = self.with_joint_factor(node)
                self.stays[node] = None
                self.definer.update((v, node) for v in node.outputs)
            else:
                self.arrays[node.output] = array
        return self.left() if len(self.stays) < len(self.region.nodes) else self.node

    def left(self) -> Node:
        """The scan over the arrays that the remaining nodes read, or the old one where these arrays are larger."""
        before = self.region.inputs
        used = dict.fromkeys((*(v for n in self.stays for v in needs(n)), *self.region.outputs))
        elements = [v for v in used if v in self.arrays]
        if _bytes(elements) > _bytes(before[self.count :]):
            return self.node
        region = self.region.replace(inputs=(*before[: self.count], *elements), nodes=tuple(self.stays))
        inputs = (*self.node.inputs[: self.count], *(self.arrays[v] for v in elements))
        return replace(self.node, inputs=inputs, regions=(region,))

    def hoisted(self, node: Node) -> Value | None:
        """The results of a node in all iterations, as one array; None where it cannot be computed before the scan."""
        if node.after or node.regions:
            return None
        if node.primitive.is_constant:
            (self.constants[node.output],) = self.e.emit(node.primitive, (), node.attrs)
        elif self.is_along_arrays(node) and not any(map(self.is_unknown, node.inputs)):
            operands = (self.broadcast_array(v, node.output.type.rank) for v in node.inputs)
            return self.e.emit(node.primitive, operands, node.attrs)[0]
        return None

    def is_along_arrays(self, node: Node) -> bool:
        """Whether a node commutes with stacking: on arrays it computes the stacked results of their elements."""
        if node.primitive.elementwise:
            return any(v in self.arrays for v in node.inputs)
        if not node.primitive.is_product or node.primitive.is_convolution or node.attrs.get("transpose_a"):
            return False
        rows, matrix, *bias = node.inputs
        return rows in self.arrays and self.arrays.keys().isdisjoint((matrix, *bias)) and matrix.type.rank == 2

    def is_unknown(self, value: Value) -> bool:
        return value in self.own and value not in self.arrays and value not in self.constants

    def broadcast_array(self, value: Value, rank: int) -> Value:
        """The array of a value, with axes of size 1 where it is broadcast to more axes; an outer value as it is."""
        if value not in self.arrays:
            return self.constants.get(value, value)
        array, (length, *shape) = self.arrays[value], self.arrays[value].type.shape
        missing = rank - len(shape)
        return self.e.reshape(array, shape=(length, *(1,) * missing, *shape)) if missing else array

    def with_joint_factor(self, node: Node) -> Node:
        """The product c * (x * y) in place of (c * x) * y, where nothing else reads c * x."""
        for product, y in (node.inputs, node.inputs[::-1]) if _is_product(node) else ():
            maker = self.definer.get(product)
            if y not in self.arrays or maker is None or not self.is_exclusive(maker, node):
                continue
            for c, x in (maker.inputs, maker.inputs[::-1]):
                if x in self.arrays and x.type == y.type == c.type:
                    del self.stays[maker]
                    joint = Value(self.e.names.fresh(product.name), y.type)
                    self.arrays[joint] = self.e.mul(self.arrays[x], self.arrays[y])
                    return replace(node, inputs=(c, joint))
        return node

    def is_exclusive(self, maker: Node, node: Node) -> bool:
        """Whether only this node reads a product."""
        if not _is_product(maker) or maker.after or maker.output.type != node.output.type:
            return False
        return len(self.users[maker.output]) == 1 and maker.output not in self.region.outputs


def _is_product(node: Node) -> bool:
    if node.primitive.name != "mul":
        return False
    dtype = node.output.type.dtype
    return dtype.is_float and not dtype.is_half


def _bytes(values: Iterable[Value]) -> int:
    return sum(v.type.nbytes for v in values)
