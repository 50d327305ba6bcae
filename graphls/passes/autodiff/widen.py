"""The widen pass: computes the backward without 16-bit floats. `import graphls` does not load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.ir.graph import Graph, Node, Value
from graphls.ir.registry import lookup
from graphls.ir.types import DType, float32
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter
from graphls.primitives.loops import each_iteration


@register_pass
@dataclass(frozen=True)
class Widen:
    """Compute the nodes of one phase in float32 where they compute 16-bit floats.

    Before:

        %y = exp(%x) : f16[4]  // forward
        %g = mul(%seed, %y) : f16[4]  // backward
        return %y, %g

    After:

        %y = exp(%x) : f16[4]  // forward
        %cast = cast(%seed) {dtype=f32} : f32[4]  // backward
        %cast_1 = cast(%y) {dtype=f32} : f32[4]  // backward
        %g = mul(%cast, %cast_1) : f32[4]  // backward
        return %y, %g

    So the numbers are those that the phase would have without rounding, overflow and underflow, on the values of the
    other phases. A result keeps its name; nodes outside of the phase read it through a cast back, and outputs of the
    graph are wide. Constants, random arrays, and results of `custom_gradient` and of host calls are not changed.
    """

    phase: str = "backward"
    name = "widen"

    def run(self, graph: Graph) -> Graph:
        """The graph with the phase in float32."""
        widening = _Widening(graph, self.phase)
        graph_after = widening.run()
        return graph_after.replace(outputs=tuple(widening.wide.get(v, v) for v in graph_after.outputs))


class _Widening(Rewriter):
    def __init__(self, graph: Graph, phase: str) -> None:
        super().__init__(graph)
        self.phase = phase
        self.wide: dict[Value, Value] = {}

    def exchanged(self, node: Node) -> Node:
        if node.primitive.name == "scan" and node.phase == self.phase:
            # Before the sweep goes into the region, so that its nodes find the wide parameters.
            node = replace(node, regions=tuple(map(self.taking_wide, node.regions)))
        return super().exchanged(node)

    def taking_wide(self, region: Graph) -> Graph:
        """A region with float32 parameters, of which the old 16-bit ones are casts."""
        inputs, casts = list(region.inputs), []
        for i, value in enumerate(region.inputs):
            if value.type.dtype.is_half:
                inputs[i] = self.wide[value] = Value(self.names.fresh(value.name), value.type.with_dtype(float32))
                casts.append(Node(lookup("cast"), (inputs[i],), (value,), {"dtype": value.type.dtype}, phase="check"))
        return region.replace(inputs=tuple(inputs), nodes=(*casts, *region.nodes))

    def visit(self, node: Node) -> Node | Sequence[Value]:
        primitive, values = node.primitive, (*node.inputs, *node.outputs)
        if node.phase != self.phase or not any(v.type.dtype.is_half for v in values):
            return node
        if primitive.is_branch:
            return self.put(replace(node, regions=tuple(map(self.yielding_wide, node.regions))))
        if primitive.name == "scan":
            inputs, regions = tuple(map(self.widened, node.inputs)), tuple(map(self.yielding_wide, node.regions))
            return self.put(replace(node, inputs=inputs, regions=regions))
        if node.regions or not node.inputs or primitive.on_host or primitive.calls_python:
            return node
        inputs = tuple(map(self.widened, node.inputs))
        return self.put(replace(node, inputs=inputs, attrs=_wide_attributes(node.attrs)))

    def put(self, node: Node) -> tuple[Value, ...]:
        """Append a node that computes in float32; returns its results as other nodes read them."""
        types = node.primitive.result_types(tuple(v.type for v in node.inputs), node.attrs, node.regions)
        pairs = list(zip(node.outputs, types, strict=True))
        computed = tuple(v if v.type == kind else Value(v.name, kind, sharding=v.sharding) for v, kind in pairs)
        self.e.append(replace(node, outputs=computed))
        outputs = zip(node.outputs, computed, strict=True)
        return tuple(v if v is new else self.back(new, v.type.dtype) for v, new in outputs)

    def back(self, wide: Value, dtype: DType) -> Value:
        narrow = self.cast(wide, dtype, wide.name)
        self.wide[narrow] = wide
        return narrow

    def cast(self, value: Value, dtype: DType, name: str = "cast") -> Value:
        if value.type.stacked:
            return each_iteration(self.e, lambda e, x: e.emit("cast", (x,), {"dtype": dtype})[0], value)
        return self.e.emit("cast", (value,), {"dtype": dtype}, name=name)[0]

    def widened(self, value: Value) -> Value:
        """A value in float32, without rounding where this phase computed it."""
        if not value.type.dtype.is_half:
            return value
        return self.wide[value] if value in self.wide else self.cast(value, float32)

    def yielding_wide(self, region: Graph) -> Graph:
        """A branch that yields its 16-bit results in float32."""
        outer, self.e = self.e, type(self.e)(self.names)
        self.e.phase = self.phase
        outputs = tuple(map(self.widened, region.outputs))
        inner, self.e = self.e, outer
        return region.replace(nodes=(*region.nodes, *inner.nodes), outputs=outputs)


def _wide_attributes(attrs: Mapping[str, object]) -> Mapping[str, Any]:
    """Attributes that name a 16-bit dtype, as those of `cast`, name float32."""
    return {k: float32 if isinstance(v, DType) and v.is_half else v for k, v in attrs.items()}
