"""The watch pass: what every float value of a step was, in one output. A plain `import graphls` leaves it alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import graphls.primitives.summary  # noqa: F401  registers what the pass emits
from graphls.ir.build import Builder, Names
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.types import Type, float64
from graphls.passes.manager import register_pass

COLUMNS = 4
"""The numbers that `summary` gives for a value."""

NOT_RUN = (0.0, 0.0, math.nan, math.nan)
"""The summary of a value in a branch that did not run."""


@register_pass
@dataclass(frozen=True)
class Watch:
    """Give the summaries of all float values as the only output, and write no state.

    Before:

        %y = exp(%x) : f16[4]  // forward
        @w <- %new
        return %y

    After:

        %summary = summary(%x) : f64[4]  // check
        %y = exp(%x) : f16[4]  // forward
        %summary_1 = summary(%y) : f64[4]  // check
        ...
        %watched = concat(%summary, %summary_1) {axis=0} : f64[8]  // check
        return %watched

    Inputs and states come first, then the values in the order in which they are made. A `cond` yields the
    summaries of both branches, those of the one that did not run with nan for the least and the greatest element.
    `watched_values` says which value each row of four numbers belongs to.
    """

    name = "watch"

    def run(self, graph: Graph) -> Graph:
        """The graph that only watches."""
        watching = _Watching(Names.of(graph))
        e, rows = watching.block(graph.nodes, (*graph.inputs, *graph.states))
        outputs = (rows if rows is not None else e.constant(np.zeros(0)),)
        return graph.replace(nodes=tuple(e.nodes), writes=(), outputs=outputs)


def watched_values(graph: Graph) -> list[Value]:
    """The values whose summaries a watching graph gives, in the order of its rows."""
    return [node.inputs[0] for node in walk(graph) if node.primitive.name == "summary"]


def is_watched(value: Value) -> bool:
    """Whether a value can hold an infinity or nan."""
    return value.type.dtype.is_float and value.type.size > 0


class _Watching:
    def __init__(self, names: Names) -> None:
        self.names = names

    def block(self, nodes: Iterable[Node], given: Iterable[Value] = ()) -> tuple[Builder, Value | None]:
        """A block that also makes the summaries of its values, joined in one; None where there are none."""
        e = Builder(self.names)
        e.phase = "check"
        parts = [e.summary(v) for v in given if is_watched(v)]
        for node in nodes:
            made, rows = self.cond(node) if node.primitive.name == "cond" else (node, None)
            e.append(made)
            with e.at(node, "check"):
                parts += [] if rows is None else [rows]
                parts += [e.summary(v) for v in node.outputs if is_watched(v)]
        return e, joined(e, parts)

    def cond(self, node: Node) -> tuple[Node, Value | None]:
        """A `cond` with one more output: the summaries of what is made in either branch."""
        blocks = [self.block(region.nodes) for region in node.regions]
        sizes = [rows.type.size if rows is not None else 0 for _, rows in blocks]
        if not sum(sizes):
            return node, None
        regions = []
        for at, (region, (e, rows)) in enumerate(zip(node.regions, blocks, strict=True)):
            with e.at(node, "check"):
                parts = [rows if i == at else blank(e, size) for i, size in enumerate(sizes)]
                yielded = joined(e, [part for part in parts if part is not None])
            assert yielded is not None
            regions.append(region.replace(nodes=tuple(e.nodes), outputs=(*region.outputs, yielded)))
        rows = Value(self.names.fresh("watched"), Type(float64, (sum(sizes),)))
        return replace(node, regions=tuple(regions), outputs=(*node.outputs, rows)), rows


def joined(e: Builder, parts: Sequence[Value]) -> Value | None:
    """The summaries one after the other; None for none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return e.emit("concat", parts, {"axis": 0}, name="watched")[0]


def blank(e: Builder, size: int) -> Value | None:
    """Summaries for a branch that does not run."""
    return e.constant(np.tile(NOT_RUN, size // COLUMNS)) if size else None
