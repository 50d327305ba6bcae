"""The rescale pass: the scale of the gradients times a number. A plain `import graphls` leaves it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.types import Type, float32
from graphls.passes.manager import register_pass
from graphls.passes.rewrite import Rewriter, definers

FACTOR = "scale_factor"
TRANSPARENT = ("broadcast_to", "cast", "depend", "reshape", "stop_gradient")


@register_pass
@dataclass(frozen=True)
class Rescale:
    """Give a traced graph one more input, `%scale_factor : f32[]`, times which the scale of its gradients is taken.

    Before:

        %scale = cast(@scale_sense) {dtype=f16} : f16[]  // backward
        %gw = gradient(%loss, %scale, @w) {of=1, wrt=1} : f16[4]  // backward
        return %loss

    After:

        %scale = cast(@scale_sense) {dtype=f16} : f16[]  // backward
        %mul = mul(@scale_sense, %scale_factor) : f32[]  // backward
        %scale_1 = cast(%mul) {dtype=f16} : f16[]  // backward
        %gw = gradient(%loss, %scale_1, @w) {of=1, wrt=1} : f16[4]  // backward
        return %loss, %mul

    The scale is what the sensitivities are made of, behind casts and moves; where that is a constant and the loss is
    the product of something and a state or an input of one element, by which nobody differentiates, it is that one.
    Everything else, unscaling too, goes on with the scale as it was. Gradients of gradients are scaled once, by the
    outer sensitivity. A constant that is not finite stays. The scales are outputs of the graph, too, behind its own
    (but for those inside a `cond`).
    """

    name = "rescale"

    def run(self, graph: Graph) -> Graph:
        """The graph with the input."""
        return _Rescaling(graph).run()


class _Rescaling(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.factor = Value(self.names.fresh(FACTOR), Type(float32))
        self.traced = definers(walk(graph))
        self.products: list[Value] = []
        self.depth = 0
        self.losses: dict[Value, Value] = {}
        self.gradients: set[Value] = set()
        for node in outer_gradients(graph):
            found = self.scaled_loss(node) if self.is_constant(node.inputs[node.attrs["of"]]) else None
            if found is not None:
                self.losses[found[0].output] = found[1]
            else:
                self.gradients.update(node.outputs)

    def run(self) -> Graph:
        made = super().run()
        return made.replace(inputs=(*made.inputs, self.factor), outputs=(*made.outputs, *self.products))

    def region(self, region: Graph) -> Graph:
        self.depth += 1
        made = super().region(region)
        self.depth -= 1
        return made

    def behind(self, value: Value) -> Value:
        """What casts and moves of a float lead back to."""
        node = self.traced.get(value)
        while node is not None and node.primitive.name in TRANSPARENT and node.inputs[0].type.dtype.is_float:
            value = node.inputs[0]
            node = self.traced.get(value)
        return value

    def is_constant(self, value: Value) -> bool:
        node = self.traced.get(self.behind(value))
        return node is not None and node.primitive.name == "constant"

    def scaled_loss(self, gradient: Node) -> tuple[Node, Value] | None:
        """The product that is differentiated, and its operand that is the scale."""
        product = self.traced.get(self.behind(gradient.inputs[0]))
        if product is None or product.primitive.name != "mul":
            return None
        of, wrt = gradient.attrs["of"], gradient.attrs["wrt"]
        given = {*self.graph.inputs, *self.graph.states} - set(gradient.inputs[2 * of : 2 * of + wrt])
        found = (v for v in product.inputs if v.type.size == 1 and self.behind(v) in given)
        scale = next(found, None)
        return None if scale is None else (product, scale)

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.outputs and node.outputs[0] in self.losses:
            (scale,) = self.current([self.losses[node.outputs[0]]])
            times = self.times(scale)
            return replace(node, inputs=tuple(times if v is scale else v for v in node.inputs))
        if node.outputs and node.outputs[0] in self.gradients:
            of = node.attrs["of"]
            seeds = tuple(map(self.times, node.inputs[of : 2 * of]))
            return replace(node, inputs=(*node.inputs[:of], *seeds, *node.inputs[2 * of :]))
        return node

    def times(self, value: Value) -> Value:
        """A sensitivity, made of the scale times the factor."""
        node = self.definer.get(value)
        if node is None or node.primitive.name not in TRANSPARENT or not node.inputs[0].type.dtype.is_float:
            return value if node is not None and _is_infinite(node) else self.product(value)
        inner = self.times(node.inputs[0])
        with self.e.at(node):
            return self.e.emit(node.primitive, (inner,), node.attrs, after=node.after, name=value.name)[0]

    def product(self, scale: Value) -> Value:
        """The product, made in float32 of what the scale was cast from, in the dtype of the scale."""
        dtype, node = scale.type.dtype, self.definer.get(scale)
        source = node.inputs[0] if node is not None and node.primitive.name == "cast" else scale
        single = source if source.type.dtype is float32 else self.e.cast(source, dtype=float32)
        product: Value = self.e.mul(single, self.factor)
        self.products += [] if self.depth else [product]
        return product if dtype is float32 else self.e.cast(product, dtype=dtype)


def _is_infinite(node: Node) -> bool:
    return node.primitive.name == "constant" and not np.isfinite(np.asarray(node.attrs["value"], np.float64)).all()


def outer_gradients(graph: Graph) -> Iterator[Node]:
    """The `gradient` nodes that no later one differentiates."""
    needed: set[Value] = set()
    for node in reversed(list(walk(graph))):
        is_gradient = node.primitive.name == "gradient"
        if is_gradient and needed.isdisjoint(node.outputs):
            yield node
        if is_gradient:
            needed.update(node.inputs[: node.attrs["of"]])
        if not needed.isdisjoint(node.outputs):
            needed.update(uses(node))
            for region in node.regions:
                needed.update(region.outputs)
