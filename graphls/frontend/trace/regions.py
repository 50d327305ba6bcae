"""Functions traced as regions of loops, with invariant nodes hoisted and random draws lifted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Symbol, is_tensor
from graphls.frontend.trace.branches import explore
from graphls.frontend.trace.calls import Recorded
from graphls.frontend.trace.states import copies
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Node, Value, needs, with_blocks
from graphls.ir.types import TOKEN


def once(tracer: Tracer, kind: str, run: Callable[[], object], copied: Callable[[Any], Any] = copies) -> Any:
    """The result of `run()`, replayed from the record where a construct is traced again for another branch."""
    frame, start = tracer.here.frame, len(tracer.writes)
    recorded = frame.replayed(kind)
    if recorded is not None:
        tracer.repeat_writes(recorded.writes)
        return copied(recorded.outputs)
    outputs = explore(tracer, run)
    frame.record(Recorded(kind, copied(outputs), tuple(tracer.writes[start:])))
    return outputs


@dataclass
class Run:
    """The trace of one run of a function: nodes, a pytree of symbols, the parameters that it wrote, and its prints."""

    nodes: list[Node]
    result: Any
    states: dict[Parameter, Value]
    shown: list[Any]

    @classmethod
    def of(cls, tracer: Tracer, function: Callable[[], object], states: Mapping[Parameter, Value]) -> Run:
        """Trace a function into a new list of nodes; at its start, parameters have the values in `states`."""
        start = len(tracer.writes)
        try:
            # Writes of the region only become its outputs: after it, the states are as before.
            with tracer.region(shown=[]) as region:
                tracer.repeat_writes(states.items())
                result = explore(tracer, function)
                result = map_leaves(lambda leaf: Symbol(tracer.value(leaf)) if is_tensor(leaf) else leaf, result)
                return cls(region.builder.nodes, result, dict(tracer.writes[start:]), region.shown)
        finally:
            tracer.forget_writes(start)

    def hoist(self, tracer: Tracer, own: Iterable[Value]) -> None:
        """Move the loop-invariant nodes, which depend on no value of the region, before it."""
        # In schedule order, so that all descendants of a remaining node remain, too.
        changing, remaining = set(own), []
        for node in self.nodes:
            if _is_fixed(node) or not changing.isdisjoint(needs(node)):
                changing.update(node.outputs)
                remaining.append(node)
            else:
                tracer.builder.append(node)
        self.nodes = remaining

    def lift_random(self, tracer: Tracer, length: int) -> tuple[list[Value], list[Value]]:
        """Draw the random tensors of all iterations before the loop; returns those of one, and the arrays of all."""
        elements: list[Value] = []
        arrays: list[Value] = []

        def lifted(nodes: Sequence[Node]) -> list[Node]:
            remaining = []
            for node in nodes:
                if is_random(node):
                    arrays.append(_all_draws(tracer, node, length))
                    elements.append(node.output)
                else:
                    remaining.append(with_blocks(node, lifted))
            return remaining

        self.nodes = lifted(self.nodes)
        return elements, arrays


def _all_draws(tracer: Tracer, node: Node, length: int) -> Value:
    """The draws of a random node in all iterations, as one array; nodes without a shape are drawn one by one."""
    with tracer.builder.at(node) as e:
        if "shape" in node.attrs:
            attrs = {**node.attrs, "shape": (length, *node.attrs["shape"])}
            return e.emit(node.primitive, node.inputs, attrs, name=node.output.name)[0]
        sites = ({**node.attrs, "site": next(tracer.sites)} for _ in range(length))
        rows = [e.emit(node.primitive, node.inputs, attrs)[0] for attrs in sites]
        return e.emit("concat", [e.reshape(row, shape=(1, *row.type.shape)) for row in rows], {"axis": 0})[0]


def is_random(node: Node) -> bool:
    """Whether a node draws a random tensor."""
    return node.primitive.on_host


def _is_fixed(node: Node) -> bool:
    """Whether a node cannot be hoisted: random tensors differ in each iteration, and overflow windows open in it."""
    return is_random(node) or any(v.type == TOKEN for v in node.outputs)
