"""The select pass: runs both branches of a condition and selects between their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from graphls.ir.build import substitute
from graphls.ir.graph import Graph, Node, Value, needs
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter


@register_pass
@dataclass(frozen=True)
class Select:
    """Run both branches of every `cond` and select between their results.

    Before:

        %w = cond(%p) : f32[4] region {
          yield @w
        } region {
          %d = mul(%g, @w) : f32[4]  // update
          yield %d
        }  // update

    After:

        %d = mul(%g, @w) : f32[4]  // update
        %w = where(%p, @w, %d) : f32[4]  // update

    Later nodes of the branch read %w in place of %d, which are equal where the branch counts. Nothing then waits for
    the flag, so that a GPU can record the complete step once and replay it. A `cond` with a loop in a branch stays,
    since the loop may end only where the condition holds. Values do not change.
    """

    name = "select"

    def run(self, graph: Graph) -> Graph:
        """The graph without conditions."""
        return selected(graph, lambda node: True)


def selected(graph: Graph, should_select: Callable[[Node], bool], deferred: Set[Value] = frozenset()) -> Graph:
    """The graph with `where` in place of the conditions that `should_select` accepts.

    Results that are `deferred` remain results of a condition, whose branches yield outer values and have no nodes.
    """
    return _Select(graph, should_select, deferred).run()


def new_states(graph: Graph, node: Node) -> frozenset[Value]:
    """The results of a condition that are only written to states: new values of its second branch, or the old ones."""
    read = {*graph.outputs, *(v for n in graph.nodes for v in needs(n))}
    written: dict[Value, list[Value]] = {}
    for write in graph.writes:
        written.setdefault(write.value, []).append(write.state)
    first, second = node.regions
    computed = {v for n in second.nodes if not n.primitive.is_constant for v in n.outputs}
    triples = zip(node.outputs, first.outputs, second.outputs, strict=True)
    return frozenset(v for v, x, y in triples if y in computed and v not in read and set(written.get(v, ())) == {x})


class _Select(Rewriter):
    def __init__(self, graph: Graph, should_select: Callable[[Node], bool], deferred: Set[Value]) -> None:
        super().__init__(graph)
        self.should_select = should_select
        self.deferred = deferred

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if not node.primitive.is_branch or not is_plain(node) or not self.should_select(node):
            return node
        first, second = node.regions
        for inner in first.nodes:
            self.e.append(inner)
        every = list(zip(node.outputs, first.outputs, second.outputs, strict=True))
        pairs = [(v, x, y) for v, x, y in every if v not in self.deferred]
        results_of: dict[Value, list[tuple[Value, Value]]] = {}
        for v, x, y in pairs:
            results_of.setdefault(y, []).append((v, x))
        selected_values: dict[Value, Value] = {}
        later: dict[Value, Value] = {}
        for inner in second.nodes:
            self.e.append(substitute(inner, later))
            # Later nodes of the branch read the selected value, which is their own where the branch counts, so that
            # the unselected one is free early.
            for y in inner.outputs:
                for v, x in results_of.get(y, ()):
                    later[y] = selected_values[v] = self.chosen(node, v, x, y)
        replacements = {v: x if x is y else selected_values.get(v) or self.chosen(node, v, x, y) for v, x, y in pairs}
        self.defer(node, [each for each in every if each[0] in self.deferred])
        return [replacements.get(v, v) for v in node.outputs]

    def defer(self, node: Node, results: Sequence[tuple[Value, Value, Value]]) -> None:
        """Emit a condition with these results, each with its values in the branches."""
        if results:
            outputs, *yields = (tuple(values) for values in zip(*results, strict=True))
            regions = (r.replace(nodes=(), outputs=values) for r, values in zip(node.regions, yields, strict=True))
            self.e.append(replace(node, outputs=outputs, regions=tuple(regions)))

    def chosen(self, node: Node, value: Value, x: Value, y: Value) -> Value:
        """A result of the condition, selected by `where`."""
        inputs = (node.inputs[0], x, y)
        self.e.append(replace(node, primitive=lookup("where"), inputs=inputs, outputs=(value,), regions=()))
        return value


def is_plain(node: Node) -> bool:
    """Whether branches have no nodes with regions, and yield no tokens."""
    inner = (inner for region in node.regions for inner in region.nodes)
    return not any(n.regions for n in inner) and all(v.type != TOKEN for v in node.outputs)
