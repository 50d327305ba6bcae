"""The select pass: both branches of a condition run, and the flag selects between their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import TOKEN
from graphls.passes.manager import register_pass
from graphls.passes.rewrite import Rewriter


@register_pass
@dataclass(frozen=True)
class Select:
    """Run both branches of every `cond` and select between what they yield.

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

    Nothing then waits for the flag, so that a GPU can record the whole step once and replay it. A `cond` with a loop in
    a branch stays, since a loop may end only where the condition holds. Values do not change.
    """

    name = "select"

    def run(self, graph: Graph) -> Graph:
        """The graph without conditions."""
        return _Select(graph).run()


class _Select(Rewriter):
    def visit(self, node: Node) -> Node | Sequence[Value]:
        if not node.primitive.is_branch or not _is_plain(node):
            return node
        for inner in (inner for region in node.regions for inner in region.nodes):
            self.e.append(inner)
        first, second = (region.outputs for region in node.regions)
        pairs = zip(node.outputs, first, second, strict=True)
        condition = node.inputs[0]
        return [x if x is y else self.e.emit("where", (condition, x, y), name=v.name)[0] for v, x, y in pairs]


def _is_plain(node: Node) -> bool:
    """Whether branches have no loops, and yield values only."""
    inner = (inner for region in node.regions for inner in region.nodes)
    return not any(n.regions for n in inner) and all(v.type != TOKEN for v in node.outputs)
