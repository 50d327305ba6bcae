"""The fold pass: what is known is computed now, and what changes nothing goes away."""

from __future__ import annotations

from dataclasses import dataclass

from graphls.ir.graph import Graph
from graphls.passes.fold_rules import RULES
from graphls.passes.folding import Folding
from graphls.passes.manager import register_pass
from graphls.passes.rewrite import gradient_nodes


@register_pass
@dataclass(frozen=True)
class Fold:
    """Compute small results of constants, and take away what keeps every bit of its operand.

    Before:

        %a = constant() {value=array(f32[], [2.0])} : f32[]  // forward
        %b = constant() {value=array(f32[], [0.5])} : f32[]  // forward
        %c = mul(%a, %b) : f32[]  // forward
        %y = mul(%x, %c) : f32[4]  // forward
        %z = exp(%y) : f32[4]  // forward

    After (what is left over is for `dce`):

        %a = constant() {value=array(f32[], [2.0])} : f32[]  // forward
        %b = constant() {value=array(f32[], [0.5])} : f32[]  // forward
        %c = constant() {value=array(f32[], [1.0])} : f32[]  // forward
        %z = exp(%x) : f32[4]  // forward

    Results are computed up to `limit` elements, or as many as the operands have. Infinities, nan, the sign of
    zero and rounding are kept, so `x * 0` and `x + 0.0` stay. Nodes with control edges stay, since the edges
    order them. A graph with `gradient` nodes stays as it is, because equal values have different gradients.
    """

    limit: int = 1024
    name = "fold"

    def run(self, graph: Graph) -> Graph:
        """The graph with less to compute."""
        if any(gradient_nodes(graph)):
            return graph
        return Folding(graph, RULES, self.limit).run()
