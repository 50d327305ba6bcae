"""The cse pass: common subexpression elimination."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphls.ir.compare import attributes_key
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import TOKEN
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter, gradient_nodes


@register_pass
@dataclass(frozen=True)
class Cse:
    """Let equal nodes share the first of them (common subexpression elimination).

    Before:

        %a = exp(%x) : f32[4]  // forward
        %b = exp(%x) : f32[4]  // backward
        %y = mul(%a, %b) : f32[4]  // backward

    After:

        %a = exp(%x) : f32[4]  // forward
        %y = mul(%a, %a) : f32[4]  // backward

    Nodes are equal that have the same primitive, operands, attributes and control edges, in any phase. Nodes
    with tokens or regions are not merged. A branch of `cond` may read values from before the `cond`.
    A graph with `gradient` nodes stays as it is, because two equal values have different gradients.
    """

    name = "cse"

    def run(self, graph: Graph) -> Graph:
        """The graph in which every value is computed once."""
        if any(gradient_nodes(graph)):
            return graph
        return _Merge(graph).run()


class _Merge(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.seen: ChainMap[Any, tuple[Value, ...]] = ChainMap()

    def region(self, region: Graph) -> Graph:
        # A value of a branch is available in that branch only, a value from around it in both.
        self.seen = self.seen.new_child()
        swept = super().region(region)
        self.seen = self.seen.parents
        return swept

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.regions or any(v.type == TOKEN for v in (*node.inputs, *node.outputs)):
            return node
        # Control edges are part of the key: a node that waits for another one may not run earlier.
        key = (node.primitive.name, node.inputs, attributes_key(node.attrs), frozenset(node.after))
        first = self.seen.get(key)
        if first is None:
            self.seen[key] = node.outputs
            return node
        return first
