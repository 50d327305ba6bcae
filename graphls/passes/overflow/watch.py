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
    """The graph with these values as further outputs, also those computed in branches and in loops.

    A value in a loop of a fixed length has an axis for its iterations; those in other loops are not there.
    """
    e, carried = _Watching(Names.of(graph), set(values)).block(graph.nodes)
    return graph.replace(nodes=tuple(e.nodes), outputs=(*graph.outputs, *(carried.get(v, v) for v in values)))


def trips_of(graph: Graph) -> dict[Value, tuple[int, ...]]:
    """The lengths of the loops around values in loops of a fixed length, the outermost first."""
    return dict(_trips(graph.nodes, ()))


def _trips(nodes: Iterable[Node], lengths: tuple[int, ...]) -> Iterator[tuple[Value, tuple[int, ...]]]:
    for node in nodes:
        for region in node.regions if node.primitive.is_branch else _bodies(node):
            inner = lengths if node.primitive.is_branch else (*lengths, node.attrs["length"])
            yield from ((value, inner) for value in region.inputs)
            yield from _trips(region.nodes, inner)
        if lengths:
            yield from ((value, lengths) for value in node.outputs)


def _bodies(node: Node) -> tuple[Graph, ...]:
    """The body of a loop of a fixed length; none of any other node."""
    return node.regions[-1:] if node.primitive.is_loop and node.attrs.get("length") is not None else ()


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
            rewritten, inner = node, dict[Value, Value]()
            if node.primitive.is_branch:
                rewritten, inner = self.cond(node)
            elif _bodies(node):
                rewritten, inner = self.loop(node)
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
        inside = {v: carrier for _, inner in blocks for v, carrier in inner.items()}
        outputs = tuple(Value(self.names.fresh(v.name), carrier.type) for v, carrier in inside.items())
        rewritten = replace(node, regions=tuple(regions), outputs=(*node.outputs, *outputs))
        return rewritten, dict(zip(inside, outputs, strict=True))

    def loop(self, node: Node) -> tuple[Node, dict[Value, Value]]:
        """A loop that also yields the watched values of each iteration."""
        (body,) = _bodies(node)
        e, inner = self.block(body.nodes)
        inner |= {v: v for v in body.inputs if v in self.values}
        if not inner:
            return node, {}
        length = node.attrs["length"]
        outputs = [
            Value(self.names.fresh(v.name), v.type.with_shape((length, *v.type.shape))) for v in inner.values()
        ]
        body = body.replace(nodes=tuple(e.nodes), outputs=(*body.outputs, *inner.values()))
        rewritten = replace(node, regions=(*node.regions[:-1], body), outputs=(*node.outputs, *outputs))
        return rewritten, dict(zip(inner, outputs, strict=True))

    def zeros(self, e: Builder, like: Value) -> Value:
        return e.constant(0, like.type.dtype, like.type.shape)
