"""The watch pass: makes every float value of a step an output. `import graphls` does not load it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphls.ir.build import Builder, Names
from graphls.ir.graph import PHASES, Graph, Node, Value
from graphls.passes.manager import register_pass


@register_pass
@dataclass(frozen=True)
class Watch:
    """Give float values as the only outputs, and write no state.

    Before:

        %y = cond(%c) : f16[4] region {
          %a = exp(%x) : f16[4]  // forward
          yield %a
        } region {
          yield %x
        }  // forward
        @w <- %new
        return %i

    After:

        %y, %a_1 = cond(%c) : f16[4], f16[4] region {
          %a = exp(%x) : f16[4]  // forward
          yield %a, %a
        } region {
          %zeros = broadcast_to(%c_1) {shape=[4]} : f16[4]  // check
          yield %x, %zeros
        }  // forward
        return %c, %x, %a_1, %y

    Values in a branch that does not run are zeros; the conditions are outputs, too, and tell which those are.
    `watched_values` gives the values in the order of the outputs. Only nodes of these `phases` are watched, and of
    the values only those from `start` to `stop`.
    """

    phases: tuple[str, ...] = PHASES
    start: int = 0
    stop: int | None = None
    name = "watch"

    def run(self, graph: Graph) -> Graph:
        """The graph that only watches."""
        values = watched_values(graph, self.phases)[self.start : self.stop]
        return giving(graph.replace(writes=(), outputs=()), values)


def giving(graph: Graph, values: Sequence[Value]) -> Graph:
    """The graph with these values as further outputs, also those computed in branches, but not in loops."""
    e, carried = _Watching(Names.of(graph), set(values)).block(graph.nodes)
    return graph.replace(nodes=tuple(e.nodes), outputs=(*graph.outputs, *(carried.get(v, v) for v in values)))


def watched_values(graph: Graph, phases: tuple[str, ...] = PHASES) -> list[Value]:
    """The floats among inputs, states and results, and the conditions of branches; in the order of execution."""
    sources = (v for v in (*graph.inputs, *graph.states) if is_watched(v))
    return list(dict.fromkeys((*sources, *_defined(graph.nodes, phases))))


def _defined(nodes: Iterable[Node], phases: tuple[str, ...]) -> Iterator[Value]:
    for node in nodes:
        if node.phase in phases:
            if node.primitive.is_branch:
                yield node.inputs[0]
                for region in node.regions:
                    yield from _defined(region.nodes, phases)
            yield from filter(is_watched, node.outputs)


def is_watched(value: Value) -> bool:
    """Whether a value is watched: floats that have elements and are not stacks."""
    return value.type.dtype.is_float and value.type.size > 0 and not value.type.stacked


class _Watching:
    def __init__(self, names: Names, values: set[Value]) -> None:
        self.names, self.values = names, values

    def block(self, nodes: Iterable[Node]) -> tuple[Builder, dict[Value, Value]]:
        """The nodes, and for each watched value, also of a branch, the value that carries it."""
        e = Builder(self.names)
        carried: dict[Value, Value] = {}
        for node in nodes:
            rewritten, inner = self.cond(node) if node.primitive.is_branch else (node, {})
            e.append(rewritten)
            carried.update(inner)
            carried.update((v, v) for v in node.outputs if v in self.values)
        return e, carried

    def cond(self, node: Node) -> tuple[Node, dict[Value, Value]]:
        """A `cond` that also yields the watched values of its branches."""
        blocks = [self.block(region.nodes) for region in node.regions]
        if not any(inner for _, inner in blocks):
            return node, {}
        regions = []
        for region, (e, own) in zip(node.regions, blocks, strict=True):
            with e.at(node, "check"):
                added = [v if inner is own else self.zeros(e, v) for _, inner in blocks for v in inner.values()]
            regions.append(region.replace(nodes=tuple(e.nodes), outputs=(*region.outputs, *added)))
        inside = [v for _, inner in blocks for v in inner]
        outputs = tuple(Value(self.names.fresh(v.name), v.type) for v in inside)
        rewritten = replace(node, regions=tuple(regions), outputs=(*node.outputs, *outputs))
        return rewritten, dict(zip(inside, outputs, strict=True))

    def zeros(self, e: Builder, like: Value) -> Value:
        return e.constant(0, like.type.dtype, like.type.shape)
