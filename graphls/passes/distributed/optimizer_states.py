"""The parameters that a step trains, their gradients, and the states that belong to each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphls.ir.graph import Graph, Node, Value, definers, walk
from graphls.passes.distributed.shard_choice import CODES, is_pointwise
from graphls.passes.rewriter import carries, gradient_nodes

States = frozenset[Value]
_NONE: States = frozenset()


def gradients(graph: Graph) -> dict[Value, Value]:
    """The results of `gradient` nodes that are the gradients of states, each with its state."""
    definer = definers(walk(graph))
    return {g: state for node in gradient_nodes(graph) for g, state in _pairs(node, definer)}


def _pairs(node: Node, definer: dict[Value, Node]) -> Iterator[tuple[Value, Value]]:
    first = 2 * node.attrs["of"]
    for gradient, value in zip(node.outputs, node.inputs[first:], strict=False):
        while value in definer and is_pointwise(definer[value]) and len(definer[value].inputs) == 1:
            (value,) = definer[value].inputs
        if value.is_state:
            yield gradient, value


def owners(graph: Graph) -> dict[Value, Value]:
    """The states of optimizers, such as moments and averages, each with the trained state of its shape it belongs to.

    A state belongs to a trained one where its new value is computed elementwise from that one, or from its gradient, or
    where the new value of the trained one is computed elementwise from it. The maxima of the blocks of codes belong to
    the same one as the codes.
    """
    origins = _Origins(graph)
    trained = frozenset(origins.gradients.values())
    owner: dict[Value, Value] = {}
    for write in graph.writes:
        if write.state not in trained:
            for parameter in _of_shape(origins.of[write.value] & trained, write.state, graph.states):
                owner.setdefault(write.state, parameter)
    for write in graph.writes:
        if write.state in trained:
            for state in _of_shape(origins.of[write.value] - trained, write.state, graph.states):
                owner.setdefault(state, write.state)
    for node in walk(graph):
        if isinstance(node.primitive, CODES) and node.inputs[0] in owner and node.inputs[1].is_state:
            owner[node.inputs[1]] = owner[node.inputs[0]]
    return owner


def _of_shape(states: States, like: Value, order: Sequence[Value]) -> list[Value]:
    """Those of these states that have the shape of another one, in the order of the graph."""
    return [state for state in order if state in states and state.type.shape == like.type.shape]


class _Origins:
    """For each value `of` the states from which, or from whose gradients, it is computed elementwise."""

    def __init__(self, graph: Graph) -> None:
        self.gradients = gradients(graph)
        self.of: dict[Value, States] = {value: _NONE for value in graph.inputs}
        self.of.update((state, frozenset((state,))) for state in graph.states)
        self.sweep(graph.nodes)

    def sweep(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.primitive.is_branch:
                self.branch(node)
            elif node.regions:
                self.with_regions(node)
            elif len(node.outputs) == 1 and (is_pointwise(node) or isinstance(node.primitive, CODES)):
                like = (v for v in node.inputs if v.type.shape == node.output.type.shape)
                self.of[node.output] = _NONE.union(*map(self.of.__getitem__, like))
            else:
                self.of.update((v, frozenset((s,)) if (s := self.gradients.get(v)) else _NONE) for v in node.outputs)

    def branch(self, node: Node) -> None:
        for region in node.regions:
            self.sweep(region.nodes)
        for i, value in enumerate(node.outputs):
            self.of[value] = _NONE.union(*(self.of[region.outputs[i]] for region in node.regions))

    def with_regions(self, node: Node) -> None:
        """What a loop carries comes from its operand and from each iteration; of other regions nothing is known."""
        count = carries(node) if node.primitive.is_loop else 0
        for region in node.regions:
            self.of.update(dict.fromkeys(region.inputs, _NONE))
            if count:
                self.of.update(zip(region.inputs[:count], map(self.of.__getitem__, node.inputs[:count]), strict=True))
            self.sweep(region.nodes)
        self.of.update(dict.fromkeys(node.outputs, _NONE))
        for value, before, after in zip(node.outputs[:count], node.inputs, node.regions[-1].outputs, strict=False):
            self.of[value] = self.of[before] | self.of[after]
