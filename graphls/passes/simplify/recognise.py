"""The recognise pass: replaces compositions of primitives by the one ONNX operator that computes them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphls.ir.build import Builder, Names, copy_nodes
from graphls.ir.graph import Graph, Node, Value, definers, with_blocks
from graphls.ir.registry import lookup
from graphls.ir.types import float32
from graphls.passes.manager import register_pass
from graphls.passes.patterns.matching import Match, matches, root
from graphls.passes.rewriter import users
from graphls.passes.simplify.compositions import RULES, SUMS, Operator, Rule
from graphls.passes.simplify.dce import Dce

_Rules = Sequence[tuple[str, Rule]]
_Definers = ChainMap[Value, Node]


@register_pass
@dataclass(frozen=True)
class Recognise:
    """Replace compositions of float32 primitives by one node where ONNX has one operator.

    Before:

        %mul = mul(%x, %half) : f32[4]  // forward
        %part = mul(%x, %root) : f32[4]  // forward
        %erf = erf(%part) : f32[4]  // forward
        %add = add(%erf, %one) : f32[4]  // forward
        %y = mul(%mul, %add) : f32[4]  // forward

    After:

        %y = composition(%x) {operator="Gelu", since=20} : f32[4] region {
          %mul_1 = mul(%x, %half) : f32[4]  // forward
          %part_1 = mul(%x, %root) : f32[4]  // forward
          %erf_1 = erf(%part_1) : f32[4]  // forward
          %add_1 = add(%erf_1, %one) : f32[4]  // forward
          %y_1 = mul(%mul_1, %add_1) : f32[4]  // forward
          yield %y_1
        }  // forward

    Inference models have the operator where their opset has it, else the nodes of the region; values do not change.
    Nodes whose results other nodes read are not part of a composition. compositions.py has the table of patterns;
    without `sums`, a product with a sum after it is none.
    """

    sums: bool = True
    name = "recognise"

    def run(self, graph: Graph) -> Graph:
        """The graph with its compositions, without the nodes that they replace."""
        names = Names.of(graph)
        results = {*graph.outputs, *(w.value for w in graph.writes)}
        rules = [*RULES, *(SUMS if self.sums else ())]
        return Dce().run(graph.replace(nodes=_Block(graph.nodes, results, names, rules).run()))


class _Block:
    """The nodes of a graph or region, matched from the last one on, so that the largest compositions are found."""

    def __init__(
        self, nodes: Sequence[Node], fixed: set[Value], names: Names, rules: _Rules, around: _Definers | None = None
    ) -> None:
        self.names, self.fixed, self.rules = names, fixed, rules
        self.definer: _Definers = ChainMap({}, *(around.maps if around else ()))
        self.definer.update(definers(nodes))
        self.nodes = [self.within(node) for node in nodes]
        self.definer.update(definers(self.nodes))
        self.users = users(self.nodes)
        self.position = {node: number for number, node in enumerate(self.nodes)}
        self.by_root: dict[str, list[tuple[str, Rule]]] = {}
        for text, rule in rules:
            self.by_root.setdefault(root(text), []).append((text, rule))

    def within(self, node: Node) -> Node:
        """The node with compositions recognised in its regions, whose outputs stay."""
        if node.primitive.is_inlined:
            return node
        yielded = {v for region in node.regions for v in region.outputs}
        return with_blocks(node, lambda inner: _Block(inner, yielded, self.names, self.rules, self.definer).run())

    def run(self) -> tuple[Node, ...]:
        result: list[Node] = []
        gone: set[Node] = set()
        for node in reversed(self.nodes):
            if node in gone:
                continue
            replacement = self.replacement(node)
            result += reversed(replacement[0] if replacement else [node])
            gone.update(replacement[1] if replacement else ())
        return tuple(reversed(result))

    def replacement(self, node: Node) -> tuple[list[Node], tuple[Node, ...]] | None:
        """The replacement of a node, and the nodes that it makes dead."""
        for text, rule in self.by_root.get(node.primitive.name, ()):
            match = matches(text, node, self.definer)
            if match is None or not self.is_apart(node, match):
                continue
            e = Builder(self.names)
            e.follow(node)
            operator = rule(e, node, match)
            if operator is not None:
                return [*e.nodes, self.composed(node, match, operator, (text, rule))], match.nodes
        return None

    def is_apart(self, last: Node, match: Match) -> bool:
        """Whether no other node reads the inner values of a match, and all of it is float32."""
        inner = {v for node in match.nodes for v in node.outputs} - {last.outputs[0]}
        ends = {node.outputs[0] for node in match.nodes}
        read = (user for value in inner for user in self.users.get(value, ()))
        is_single = all(v.type.dtype is float32 for v in (*match.values.values(), last.outputs[0]))
        return is_single and self.fixed.isdisjoint(inner) and all(user.outputs[0] in ends for user in read)

    def composed(self, node: Node, match: Match, operator: Operator, own: tuple[str, Rule]) -> Node:
        """The composition; its region has smaller ones recognised, for opsets without its operator."""
        copies: dict[Value, Value] = {}
        inner = copy_nodes(sorted(match.nodes, key=self.position.__getitem__), copies, self.names)
        result = copies[node.outputs[0]]
        others = [rule for rule in self.rules if rule[1] is not own[1]]
        nodes = _Block(inner, {result}, self.names, others, self.definer).run() if len(inner) > 1 else tuple(inner)
        region = Graph(operator.name, (), (), nodes, (), (result,))
        attrs = {"operator": operator.name, "since": operator.since, **operator.attributes}
        return replace(
            node, primitive=lookup("composition"), inputs=operator.inputs, outputs=node.outputs[:1], attrs=attrs,
            regions=(region,),
        )  # fmt: skip
