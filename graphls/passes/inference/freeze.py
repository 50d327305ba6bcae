"""The freeze pass: removes the writes and the gradients of the named states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.ir.graph import Graph, Node, Value, blocks, uses
from graphls.ir.reachability import reached
from graphls.passes.adapters.weights import matches
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter


@register_pass
@dataclass(frozen=True)
class Freeze:
    """Remove the writes of states with matching names, and their gradients.

    Before:

        %gw, %gb = gradient(%loss, %seed, @w, @b) {of=1, wrt=2} : f32[4,2], f32[2]  // backward
        %v = add(@moment.w, %gw) : f32[4,2]  // update
        %w = sub(@w, %v) : f32[4,2]  // update
        @moment.w <- %v
        @w <- %w

    After, with `match="w"`:

        %gb = gradient(%loss, %seed, @b) {of=1, wrt=1} : f32[2]  // backward

    `match` is a shell-style pattern, or several, by default of all. Other readers of the gradients read zeros. States
    that only the writes of frozen states have read, such as their moments, are not written any more; `dce` removes the
    nodes that computed all that. The other states get the values that they would get if the frozen ones were constants.
    Runs before `gradient`.
    """

    match: Any = None
    name = "freeze"

    def run(self, graph: Graph) -> Graph:
        """The graph that leaves the states as they are."""
        frozen = {state for state in graph.states if matches(self.match, state.name)}
        if not frozen:
            return graph
        written = _remaining_writes(graph, frozen)
        result = _Freeze(graph, frozen).run()
        return result.replace(writes=tuple(write for write in result.writes if write.state in written))


def _remaining_writes(graph: Graph, frozen: set[Value]) -> set[Value]:
    """The states that are still written: neither frozen ones nor those that only writes of frozen ones have read."""
    sources = dict(_sources(graph))
    written = {write.state: write.value for write in graph.writes}

    def before(value: Value) -> Iterator[Value]:
        yield from sources.get(value, ())

    read = set(reached((written[state] for state in frozen if state in written), before))
    candidates = {state for state in written if state in frozen or state in read}

    def before_steps(value: Value) -> Iterator[Value]:
        """The operands of a value, and for a state also the value that is written to it."""
        yield from sources.get(value, ())
        if value in candidates - frozen:
            yield written[value]

    roots = (*graph.outputs, *(value for state, value in written.items() if state not in candidates))
    required = set(reached(roots, before_steps))
    return {state for state in written if state not in candidates or (state in required and state not in frozen)}


def _sources(graph: Graph) -> Iterator[tuple[Value, tuple[Value, ...]]]:
    """The operands of each value; for a result of a condition, the results of its branches at that position."""
    for block in blocks(graph):
        for node in block.nodes:
            if node.primitive.is_branch:
                inner = zip(*(region.outputs for region in node.regions), strict=True)
                yield from ((v, (*node.inputs, *results)) for v, results in zip(node.outputs, inner, strict=True))
            else:
                yield from ((v, uses(node)) for v in node.outputs)


class _Freeze(Rewriter):
    def __init__(self, graph: Graph, frozen: set[Value]) -> None:
        super().__init__(graph)
        self.frozen = frozen

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.primitive.name != "gradient":
            return node
        of, wrt = 2 * node.attrs["of"], node.attrs["wrt"]
        sources = node.inputs[of : of + wrt]
        if self.frozen.isdisjoint(sources):
            return node
        trained = [i for i, source in enumerate(sources) if source not in self.frozen]
        gradients = {i: node.outputs[i] for i in trained}
        if trained:
            inputs = (*node.inputs[:of], *(sources[i] for i in trained), *node.inputs[of + wrt :])
            attrs = {**node.attrs, "wrt": len(trained)}
            self.e.append(replace(node, inputs=inputs, outputs=tuple(gradients.values()), attrs=attrs))
        types = (source.type for source in sources)
        return [gradients.get(i) or self.e.constant(0, kind.dtype, kind.shape) for i, kind in enumerate(types)]
