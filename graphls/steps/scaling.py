"""Telling users of loss scaling that does nothing: only float16 has too little range for gradients."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakSet

from graphls.ir.graph import Graph, Value, blocks, definers, walk
from graphls.ir.reach import reached
from graphls.ir.reporting import warn
from graphls.ir.types import bfloat16, float32
from graphls.passes.overflow import can_overflow_early
from graphls.passes.rewrite import gradient_nodes
from graphls.passes.windows import windows
from graphls.tensors.parameter import Parameter
from graphls.trace.trace import Traced

_told: WeakSet[Parameter] = WeakSet()


def warn_of_idle_scaling(traced: Traced, graph: Graph) -> None:
    """Warn, once for each loss scale, where nothing in the overflow windows of a compiled step is float16.

    A loss scale is a state of one element above 1 that is not trained and that the loss, or the sensitivity that its
    gradient starts with, is multiplied by. `graph` is what has become of the traced graph.
    """
    scales = {traced.parameters[v.name] for v in multipliers(traced.graph)}
    scales = {p for p in scales if not p.requires_grad and p.size == 1 and float(p) > 1} - set(_told)
    found = [window for block in blocks(graph) for window in windows(block.nodes)] if scales else []
    if not found or any(can_overflow_early(window.inside) for window in found):
        return
    _told.update(scales)
    made = {v.type.dtype for window in found for node in window.inside for v in node.outputs}
    dtype = bfloat16 if bfloat16 in made else float32
    warn(
        f"Gradients in {dtype.long_name} need no loss scaling, and nothing between this loss and its overflow check is "
        "float16; train with TrainOneStepCell, or compute the network in float16.",
        found[0].get.loc,
    )


def multipliers(graph: Graph) -> set[Value]:
    """The states that a differentiated value, or the sensitivity of one, is a product with."""
    definer = definers(walk(graph))
    scaled = (value for node in gradient_nodes(graph) for value in node.inputs[: 2 * node.attrs["of"]])

    def factors(value: Value) -> Iterator[Value]:
        node = definer.get(value)
        return (node.inputs[at] for at in node.primitive.factors) if node is not None else iter(())

    return {value for value in reached(scaled, factors) if value.is_state}
