"""Schedules, users, and the sweep that passes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from graphls.ir import Graph, Node, Value, dump, parse, verify
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import definers, needs
from graphls.passes.rewriter import Rewriter, schedule, users

GRAPH = """
graph @g(%b: bool[], %x: f32[4]) {
  state @w: f32[4]
  %a = exp(%x) : f32[4]
  %c = neg(@w) : f32[4]
  %d = abs(%a) after(%c) : f32[4]
  %y = cond(%b) : f32[4] region {
    %i = sqrt(%a) after(%d) : f32[4]
    yield %i
  } region {
    yield %c
  }
  @w <- %d
  return %y
}
"""


def names(nodes: Sequence[Node]) -> list[str]:
    return [node.outputs[0].name for node in nodes]


def test_schedule_keeps_a_valid_order() -> None:
    nodes = parse(GRAPH).nodes
    assert schedule(nodes) == nodes


def test_schedule_follows_data_control_edges_and_regions() -> None:
    a, c, d, y = parse(GRAPH).nodes
    assert names(schedule([y, d, c, a])) == ["c", "a", "d", "y"]


def test_schedule_stays_near_the_given_order() -> None:
    lines = "".join(f"  %{name} = exp(%x) : f32[]\n" for name in "abc")
    a, b, c = parse(f"graph @g(%x: f32[]) {{\n{lines}  return\n}}").nodes
    late = replace(a, after=c.outputs)
    assert names(schedule([late, b, c])) == ["b", "c", "a"]


def test_schedule_names_a_cycle() -> None:
    a, c, *rest = parse(GRAPH).nodes
    with pytest.raises(GraphValueError, match=r"form a cycle: %[ac] -> %[ac] -> %[ac]"):
        schedule([replace(a, after=c.outputs), replace(c, after=a.outputs), *rest])


def test_schedule_is_fast_for_a_long_chain() -> None:
    lines = "".join(f"  %v{i + 1} = neg(%v{i}) : f32[]\n" for i in range(5000))
    nodes = parse(f"graph @g(%v0: f32[]) {{\n{lines}  return\n}}").nodes
    assert schedule(reversed(nodes)) == nodes


def test_users_and_needs_see_regions_and_control_edges() -> None:
    nodes = parse(GRAPH).nodes
    a, c, d, y = nodes
    found = users(nodes)
    assert found[a.output] == [d, y]
    assert found[c.output] == [d, y]
    assert found[d.output] == [y]
    assert {v.name for v in needs(y)} == {"b", "a", "c", "d"}
    assert definers(nodes)[c.output] is c


class NegToExp(Rewriter):
    """Every neg becomes exp of exp."""

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.primitive.name != "neg":
            return node
        value: Value = self.e.exp(self.e.exp(node.inputs[0]))
        return (value,)


def test_a_sweep_exchanges_values_everywhere() -> None:
    graph = NegToExp(parse(GRAPH)).run()
    verify(graph)
    assert dump(graph) == dump(
        parse(
            """
graph @g(%b: bool[], %x: f32[4]) {
  state @w: f32[4]
  %a = exp(%x) : f32[4]
  %exp = exp(@w) : f32[4]
  %exp_1 = exp(%exp) : f32[4]
  %d = abs(%a) after(%exp_1) : f32[4]
  %y = cond(%b) : f32[4] region {
    %i = sqrt(%a) after(%d) : f32[4]
    yield %i
  } region {
    yield %exp_1
  }
  @w <- %d
  return %y
}
"""
        )
    )


def test_a_sweep_without_changes_shares_every_node() -> None:
    graph = parse(GRAPH)
    assert Rewriter(graph).run().nodes == graph.nodes


def test_a_region_gets_its_own_constants() -> None:
    class Half(Rewriter):
        def visit(self, node: Node) -> Node | Sequence[Value]:
            return (self.e.mul(node.inputs[0], 0.5),) if node.primitive.name == "neg" else node

    graph: Graph = Half(
        parse(
            "graph @g(%b: bool[], %x: f32[]) {\n  %y = cond(%b) : f32[] region {\n    %i = neg(%x) : f32[]\n"
            "    yield %i\n  } region {\n    yield %x\n  }\n  %z = neg(%x) : f32[]\n  return %y, %z\n}"
        )
    ).run()
    verify(graph)
