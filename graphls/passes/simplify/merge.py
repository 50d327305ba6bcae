"""The merge pass: merges conditions on the same flag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphls.ir.build import substitute
from graphls.ir.graph import Graph, Node, Value, needs, with_blocks
from graphls.passes.manager import register_pass


@register_pass
@dataclass(frozen=True)
class Merge:
    """Merge several `cond` on one flag into the last of them.

    Before:

        %s = cond(%p) : f32[] region {
          yield @s
        } region {
          %c = mul(@s, %two) : f32[]  // update
          yield %c
        }  // update
        %n = add(%k, %one) : f32[]  // update
        %w = cond(%p) : f32[4] region {
          yield @w
        } region {
          %d = mul(%g, %s) : f32[4]  // update
          yield %d
        }  // update

    After:

        %n = add(%k, %one) : f32[]  // update
        %s, %w = cond(%p) : f32[], f32[4] region {
          yield @s, @w
        } region {
          %c = mul(@s, %two) : f32[]  // update
          %d = mul(%g, %c) : f32[4]  // update
          yield %c, %d
        }  // update

    A step with loss scaling then waits for its flag once. Conditions of different phases are not merged, nor are two
    between which another node reads a result of the first.
    """

    name = "merge"

    def run(self, graph: Graph) -> Graph:
        """The graph with fewer conditions."""
        return graph.replace(nodes=merged(graph.nodes))


def merged(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of a graph or region, with each `cond` merged into the next one on its flag where possible."""
    result: list[Node | None] = []
    waiting: dict[Value, int] = {}
    flags: dict[Value, Value] = {}
    for node in nodes:
        node = with_blocks(node, merged)
        flag = node.inputs[0] if node.primitive.is_branch else None
        earlier = result[waiting[flag]] if flag in waiting else None
        if flag is not None and earlier is not None and earlier.phase == node.phase:
            node = merged_conditions(earlier, node)
            # The last condition takes over all regions, because operands of the later ones may be computed in between.
            result[waiting.pop(flag)] = None
        # A reader of a result of a waiting cond would have to run between the two, so that one cannot be merged.
        for value in needs(node):
            if value in flags:
                waiting.pop(flags.pop(value), None)
        if flag is not None:
            waiting[flag] = len(result)
            flags.update(dict.fromkeys(node.outputs, flag))
        result.append(node)
    return tuple(node for node in result if node is not None)


def merged_conditions(first: Node, second: Node) -> Node:
    """One `cond` for two on the same flag, in the place of the second, which may use the results of the first."""
    pairs = zip(first.regions, second.regions, strict=True)
    regions = tuple(_concatenated(first.outputs, *pair) for pair in pairs)
    after = dict.fromkeys((*first.after, *(v for v in second.after if v not in first.outputs)))
    return replace(second, outputs=(*first.outputs, *second.outputs), after=tuple(after), regions=regions)


def _concatenated(results: tuple[Value, ...], first: Graph, second: Graph) -> Graph:
    mapping = dict(zip(results, first.outputs, strict=True))
    nodes = (*first.nodes, *(substitute(node, mapping) for node in second.nodes))
    return second.replace(nodes=nodes, outputs=(*first.outputs, *(mapping.get(v, v) for v in second.outputs)))
