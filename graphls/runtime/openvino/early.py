"""Moves backward values into the forward pass where that keeps fewer arrays alive.

The slope of a gelu is made of its input, the square of it and a logistic function, which would all be kept. OpenVINO
(2026.4.1) makes one kernel of elementwise operators that follow each other, but it numbers operators from what is asked
for back to what that needs. So it meets the slope with the backward pass and makes a kernel of its own of it: three
more arrays cross for each layer, 108 MB of a GPT. A condition that never holds, between the slope and what the forward
pass makes beside it, brings both into one kernel, where it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto, helper

from graphls.ir.graph import Graph, Node, Value, uses
from graphls.ir.reachability import reached
from graphls.runtime.lowering.lowering import Lowered

LEAST = 1 << 16
"""Bytes from which on a value is made early."""

MOST = 8
"""Values of the forward pass that it may be made of."""


@dataclass(frozen=True)
class _Made:
    """The origins of a value: values of the forward pass, by these elementwise nodes of the backward pass."""

    sources: frozenset[Value] = frozenset()
    nodes: frozenset[Node] = frozenset()


_NOTHING = _Made()


class _Early:
    """The values of a graph to make early, each with one of the forward pass that is made beside it, as `pairs`."""

    def __init__(self, graph: Graph) -> None:
        self.origins = _made_of_forward(graph.nodes)
        self.leaving = {*graph.outputs, *(write.value for write in graph.writes)}
        self.place = {value: number for number, node in enumerate(graph.nodes) for value in node.outputs}
        self.readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(uses(node)):
                self.readers.setdefault(value, []).append(node)
        found = ((value, self.beside(value)) for value in self.origins if self.is_worth_it(value))
        self.pairs = {value: beside for value, beside in found if beside is not None}

    def is_worth_it(self, value: Value) -> bool:
        """Whether a value takes no more memory than what only it, and the forward pass, need."""
        made = self.origins[value]
        if not made.nodes or value.type.nbytes < LEAST or not self.is_last(value):
            return False
        freed = (source.type.nbytes for source in made.sources if self.is_kept_for(source, made.nodes))
        inner = (node.output for node in made.nodes if node.output is not value)
        return sum(freed) >= value.type.nbytes and all(self.is_kept_for(v, made.nodes) for v in inner)

    def is_last(self, value: Value) -> bool:
        """Whether all that reads a value needs other values of the backward pass as well."""
        made = (v for node in self.readers.get(value, ()) for v in node.outputs)
        return value not in self.leaving and self.origins.keys().isdisjoint(made)

    def is_kept_for(self, value: Value, nodes: frozenset[Node]) -> bool:
        """Whether only these nodes, and the forward pass, read a value."""
        readers = self.readers.get(value, ())
        return value not in self.leaving and all(n.phase == "forward" or n in nodes for n in readers)

    def beside(self, value: Value) -> Value | None:
        """The last value of the same type that the forward pass makes, elementwise, of the same ones alone."""
        own = set(self.origins[value].sources)
        nodes = sorted(reached(self.forward(own), lambda n: self.forward(n.outputs)), key=self.place_of)
        for node in nodes:
            if all(v in own or self.origins.get(v) == _NOTHING for v in node.inputs):
                own.add(node.output)
        last = max(self.place[source] for source in self.origins[value].sources)
        found = (v for v in own if v.type == value.type and self.place[v] > last and v not in self.leaving)
        return max(found, key=self.place.__getitem__, default=None)

    def forward(self, values: Iterable[Value]) -> list[Node]:
        """The elementwise nodes of the forward pass that read one of these."""
        nodes = (node for value in values for node in self.readers.get(value, ()))
        return [node for node in nodes if node.phase == "forward" and _is_elementwise(node)]

    def place_of(self, node: Node) -> int:
        """The number of a node with an output."""
        return self.place[node.outputs[0]]


def _made_of_forward(nodes: Sequence[Node]) -> dict[Value, _Made]:
    """The values computed from a few values of the forward pass alone, with those origins."""
    made: dict[Value, _Made] = {}
    for node in nodes:
        if node.primitive.is_constant or node.phase == "forward":
            made.update((v, _NOTHING if node.primitive.is_constant else _Made(frozenset((v,)))) for v in node.outputs)
        elif node.phase == "backward" and _is_elementwise(node) and all(v in made for v in node.inputs):
            sources = frozenset(source for v in node.inputs for source in made[v].sources)
            if 0 < len(sources) <= MOST:
                made[node.output] = _Made(sources, frozenset((node,)).union(*(made[v].nodes for v in node.inputs)))
    return made


def _is_elementwise(node: Node) -> bool:
    return node.primitive.elementwise and not node.regions and len(node.outputs) == 1


def early_values(graph: Graph) -> Mapping[Value, Value]:
    """The values of the backward pass to make early, each with one of the forward pass that is made beside it."""
    return _Early(graph).pairs


def make_early(lowered: Lowered, graph: Graph) -> None:
    """Make such values early in the model of a graph."""
    proto = lowered.model.graph
    operators = list(proto.node)
    maker = {name: number for number, operator in enumerate(operators) for name in operator.output}
    behind: dict[int, list[NodeProto]] = {}
    moved: set[int] = set()
    named = ((lowered.tensors.get(v, ""), lowered.tensors.get(b, "")) for v, b in early_values(graph).items())
    pairs = [(maker[beside], value, beside) for value, beside in named if {value, beside} <= maker.keys()]
    for place, value, beside in sorted(pairs):
        if place not in behind:
            late = _needed_behind(operators, maker, place, value) - moved
            moved |= late
            behind[place] = [*(operators[number] for number in sorted(late)), *_choice(operators[place], value, beside)]
    if behind:
        ordered = [o for n, own in enumerate(operators) if n not in moved for o in (own, *behind.get(n, ()))]
        del proto.node[:]
        proto.node.extend(ordered)


def _needed_behind(operators: Sequence[NodeProto], maker: Mapping[str, int], place: int, name: str) -> set[int]:
    """The operators behind a place that make a value and what it needs."""

    def needed(number: int) -> list[int]:
        return [maker[name] for name in operators[number].input if maker.get(name, -1) > place]

    return set(reached((maker[name],), needed))


def _choice(operator: NodeProto, value: str, beside: str) -> list[NodeProto]:
    """The operators that choose what an operator makes `beside` a value, which would be taken if it were below itself.

    They have its name in front of theirs, so that their time is that of its node.
    """
    alone, never = f"{beside}/alone", f"{beside}/never"
    operator.output[list(operator.output).index(beside)] = alone
    return [
        helper.make_node("Less", [value, value], [never], name=f"{operator.name}/never"),
        helper.make_node("Where", [never, value, alone], [beside], name=f"{operator.name}/chosen"),
    ]
