"""Hoists backward values into the forward pass where that keeps fewer arrays alive.

The slope of a gelu is computed from its input, the square of it and a logistic function, which would all stay in
memory. OpenVINO (2026.4.1) fuses elementwise operators that follow each other, but it orders operators from the outputs
back to their operands. So the slope comes with the backward pass, in a kernel of its own: three more arrays cross for
each layer, 108 MB of a GPT. A condition that never holds, between the slope and a forward value of the same operands,
brings both into one kernel, where it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto, helper

from graphls.ir.graph import Graph, Node, Value, uses
from graphls.ir.reachability import reached
from graphls.runtime.lowering.lowering import Lowered

LEAST = 1 << 16
"""Bytes from which on a value is hoisted."""

MOST = 8
"""The most forward values that a hoisted value may be computed from."""


@dataclass(frozen=True)
class _Origins:
    """The origins of a value: values of the forward pass, by these elementwise nodes of the backward pass."""

    sources: frozenset[Value] = frozenset()
    nodes: frozenset[Node] = frozenset()


_CONSTANT = _Origins()


class _Hoisting:
    """The backward values of a graph to hoist, each with the forward value that it is computed beside, as `pairs`."""

    def __init__(self, graph: Graph) -> None:
        self.origins = _origins(graph.nodes)
        self.leaving = {*graph.outputs, *(write.value for write in graph.writes)}
        self.position = {value: number for number, node in enumerate(graph.nodes) for value in node.outputs}
        self.readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(uses(node)):
                self.readers.setdefault(value, []).append(node)
        pairs = ((value, self.companion(value)) for value in self.origins if self.is_worth_it(value))
        self.pairs = {value: companion for value, companion in pairs if companion is not None}

    def is_worth_it(self, value: Value) -> bool:
        """Whether a value takes no more memory than the operands that would stay in memory for it alone."""
        origins = self.origins[value]
        if not origins.nodes or value.type.nbytes < LEAST or not self.is_last(value):
            return False
        freed = (source.type.nbytes for source in origins.sources if self.is_read_only_by(source, origins.nodes))
        inner = (node.output for node in origins.nodes if node.output is not value)
        return sum(freed) >= value.type.nbytes and all(self.is_read_only_by(v, origins.nodes) for v in inner)

    def is_last(self, value: Value) -> bool:
        """Whether each reader of a value has other operands of the backward pass as well."""
        results = (v for node in self.readers.get(value, ()) for v in node.outputs)
        return value not in self.leaving and self.origins.keys().isdisjoint(results)

    def is_read_only_by(self, value: Value, nodes: frozenset[Node]) -> bool:
        """Whether only these nodes and nodes of the forward pass read a value."""
        readers = self.readers.get(value, ())
        return value not in self.leaving and all(n.phase == "forward" or n in nodes for n in readers)

    def companion(self, value: Value) -> Value | None:
        """The last forward value of the same type that elementwise nodes compute from the same sources alone."""
        own = set(self.origins[value].sources)
        nodes = sorted(reached(self.forward(own), lambda n: self.forward(n.outputs)), key=self.position_of)
        for node in nodes:
            if all(v in own or self.origins.get(v) == _CONSTANT for v in node.inputs):
                own.add(node.output)
        last = max(self.position[source] for source in self.origins[value].sources)
        candidates = (v for v in own if v.type == value.type and self.position[v] > last and v not in self.leaving)
        return max(candidates, key=self.position.__getitem__, default=None)

    def forward(self, values: Iterable[Value]) -> list[Node]:
        """The elementwise nodes of the forward pass that read one of these."""
        nodes = (node for value in values for node in self.readers.get(value, ()))
        return [node for node in nodes if node.phase == "forward" and _is_elementwise(node)]

    def position_of(self, node: Node) -> int:
        """The position of a node with an output."""
        return self.position[node.outputs[0]]


def _origins(nodes: Sequence[Node]) -> dict[Value, _Origins]:
    """The values that are computed from a few forward values alone, with their origins."""
    origins: dict[Value, _Origins] = {}
    for node in nodes:
        if node.primitive.is_constant or node.phase == "forward":
            is_constant = node.primitive.is_constant
            origins.update((v, _CONSTANT if is_constant else _Origins(frozenset((v,)))) for v in node.outputs)
        elif node.phase == "backward" and _is_elementwise(node) and all(v in origins for v in node.inputs):
            sources = frozenset(source for v in node.inputs for source in origins[v].sources)
            if 0 < len(sources) <= MOST:
                inner = frozenset((node,)).union(*(origins[v].nodes for v in node.inputs))
                origins[node.output] = _Origins(sources, inner)
    return origins


def _is_elementwise(node: Node) -> bool:
    return node.primitive.elementwise and not node.regions and len(node.outputs) == 1


def hoistable_values(graph: Graph) -> Mapping[Value, Value]:
    """The backward values to hoist, each with the forward value that it is computed beside."""
    return _Hoisting(graph).pairs


def hoist_backward_values(lowered: Lowered, graph: Graph) -> None:
    """Hoist such values in the model of a graph, in place."""
    proto = lowered.model.graph
    operators = list(proto.node)
    maker = {name: number for number, operator in enumerate(operators) for name in operator.output}
    after: dict[int, list[NodeProto]] = {}
    moved: set[int] = set()
    named = ((lowered.tensors.get(v, ""), lowered.tensors.get(b, "")) for v, b in hoistable_values(graph).items())
    pairs = [(maker[beside], value, beside) for value, beside in named if {value, beside} <= maker.keys()]
    for position, value, beside in sorted(pairs):
        if position not in after:
            late = _operators_after(operators, maker, position, value) - moved
            moved |= late
            choice = _choice(operators[position], value, beside)
            after[position] = [*(operators[number] for number in sorted(late)), *choice]
    if after:
        ordered = [o for n, own in enumerate(operators) if n not in moved for o in (own, *after.get(n, ()))]
        del proto.node[:]
        proto.node.extend(ordered)


def _operators_after(operators: Sequence[NodeProto], maker: Mapping[str, int], position: int, name: str) -> set[int]:
    """The operators after a position that a value depends on, its own included."""

    def operands(number: int) -> list[int]:
        return [maker[name] for name in operators[number].input if maker.get(name, -1) > position]

    return set(reached((maker[name],), operands))


def _choice(operator: NodeProto, value: str, beside: str) -> list[NodeProto]:
    """Operators that choose the result `beside` of an operator, or a value if it were less than itself, so never.

    Their names start with that of the operator, so that their time is that of its node.
    """
    alone, never = f"{beside}/alone", f"{beside}/never"
    operator.output[list(operator.output).index(beside)] = alone
    return [
        helper.make_node("Less", [value, value], [never], name=f"{operator.name}/never"),
        helper.make_node("Where", [never, value, alone], [beside], name=f"{operator.name}/chosen"),
    ]
