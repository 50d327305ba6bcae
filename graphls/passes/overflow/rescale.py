"""The rescale pass: multiplies the gradient scale by an input. `import graphls` does not load it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphls.ir.graph import Graph, Node, Value, definers, uses, walk
from graphls.ir.types import Type, float32
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter

FACTOR = "scale_factor"


@register_pass
@dataclass(frozen=True)
class Rescale:
    """Add an input `%scale_factor : f32[]` to a traced graph, which multiplies the scale of its gradients.

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

    The scale is the origin of the sensitivities behind casts, moves and products; where that is a constant and the loss
    is a product with a state or an input of one element that has no gradient, the scale is that one. All other nodes,
    also those that unscale, read the scale unchanged. Gradients of gradients are scaled once, by the outer sensitivity.
    A constant that is not finite is not scaled. The scales are outputs of the graph, too, after its own (but for those
    inside a `cond`).
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
        self.sources = {*graph.inputs, *graph.states}
        self.along: dict[Value, int] = {}
        self.origins: dict[Value, Value] = {}
        self.products: list[Value] = []
        self.depth = 0
        self.losses: dict[Value, Value] = {}
        self.gradients: set[Value] = set()
        self.trace_back(graph)
        for node in outer_gradients(graph):
            scaled = self.scaled_loss(node) if self.is_constant(node.inputs[node.attrs["of"]]) else None
            if scaled is not None:
                self.losses[scaled[0].output] = scaled[1]
            else:
                self.gradients.update(node.outputs)

    def run(self) -> Graph:
        swept = super().run()
        return swept.replace(inputs=(*swept.inputs, self.factor), outputs=(*swept.outputs, *self.products))

    def region(self, region: Graph) -> Graph:
        self.depth += 1
        swept = super().region(region)
        self.depth -= 1
        return swept

    def trace_back(self, graph: Graph) -> None:
        """Find the operand through which each value is a multiple of a scale, and the origin of the chain."""
        for node in walk(graph):
            at = self.operand(node)
            if at is not None:
                self.along[node.output] = at
                self.origins[node.output] = self.origin(node.inputs[at])

    def operand(self, node: Node) -> int | None:
        factors = node.primitive.factors
        if len(factors) < 2:
            return next((at for at in factors if node.inputs[at].type.dtype.is_float), None)
        from_sources = [i for i, v in enumerate(node.inputs) if self.origin(v) in self.sources]
        others = [i for i, v in enumerate(node.inputs) if not self.is_constant(v)]
        return next(iter(from_sources or others), None)

    def origin(self, value: Value) -> Value:
        """The value behind casts, moves and products."""
        return self.origins.get(value, value)

    def source_of(self, value: Value) -> Value:
        """The float behind casts and moves."""
        while value in self.along and self.traced[value].primitive.is_transparent:
            value = self.traced[value].inputs[0]
        return value

    def is_constant(self, value: Value) -> bool:
        node = self.traced.get(self.origin(value))
        return node is not None and node.primitive.is_constant

    def scaled_loss(self, gradient: Node) -> tuple[Node, Value] | None:
        """The product with the scale that the loss comes from, and the operand of it that is the scale."""
        of, wrt = gradient.attrs["of"], gradient.attrs["wrt"]
        scales = self.sources - set(gradient.inputs[2 * of : 2 * of + wrt])
        value = gradient.inputs[0]
        while value in self.along:
            node = self.traced[value]
            scale_operands = [v for v in node.inputs if v.type.size == 1 and self.source_of(v) in scales]
            if len(node.primitive.factors) == 2 and scale_operands and node.inputs[0] is not node.inputs[1]:
                return node, scale_operands[0]
            value = node.inputs[self.along[value]]
        return None

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.outputs and node.outputs[0] in self.losses:
            scale = self.losses[node.outputs[0]]
            times = self.times(scale)
            return replace(node, inputs=tuple(times if v is scale else v for v in node.inputs))
        if node.outputs and node.outputs[0] in self.gradients:
            of = node.attrs["of"]
            seeds = tuple(map(self.times, node.inputs[of : 2 * of]))
            return replace(node, inputs=(*node.inputs[:of], *seeds, *node.inputs[2 * of :]))
        return node

    def times(self, value: Value) -> Value:
        """A sensitivity, recomputed with the scale times the factor."""
        node, at = self.traced.get(value), self.along.get(value)
        if node is None or at is None:
            return value if node is not None and _is_infinite(node) else self.product(value)
        inputs = (*node.inputs[:at], self.times(node.inputs[at]), *node.inputs[at + 1 :])
        with self.e.at(node):
            return self.e.emit(node.primitive, inputs, node.attrs, after=node.after, name=value.name)[0]

    def product(self, scale: Value) -> Value:
        """The scale times the factor, multiplied in float32 before any cast, in the dtype of the scale."""
        dtype, node = scale.type.dtype, self.traced.get(scale)
        source = node.inputs[0] if node is not None and node.primitive.name == "cast" else scale
        single = source if source.type.dtype is float32 else self.e.cast(source, dtype=float32)
        product: Value = self.e.mul(single, self.factor)
        self.products += [] if self.depth else [product]
        return product if dtype is float32 else self.e.cast(product, dtype=dtype)


def _is_infinite(node: Node) -> bool:
    return node.primitive.is_constant and not np.isfinite(np.asarray(node.attrs["value"], np.float64)).all()


def outer_gradients(graph: Graph) -> Iterator[Node]:
    """The `gradient` nodes that no later one differentiates."""
    required: set[Value] = set()
    for node in reversed(list(walk(graph))):
        is_gradient = node.primitive.name == "gradient"
        if is_gradient and required.isdisjoint(node.outputs):
            yield node
        if is_gradient:
            required.update(node.inputs[: node.attrs["of"]])
        if not required.isdisjoint(node.outputs):
            required.update(uses(node))
            for region in node.regions:
                required.update(region.outputs)
