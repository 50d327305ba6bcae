"""What comes before and behind what, and the regions of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphls.ir import Graph, Node, Value, parse
from graphls.ir.graph import blocks, filtered, inside, walk, with_blocks, with_regions
from graphls.ir.reachability import (
    Reachability,
    ancestors,
    dependencies,
    dependents,
    descendants,
    marked_dependents,
    reached,
    stable_order,
    waits_for,
)

GRAPH = """
graph @g(%p: bool[], %x: f32[4]) {
  %a = exp(%x) : f32[4]
  %b = neg(%x) : f32[4]
  %c = abs(%b) after(%a) : f32[4]
  %y = cond(%p) : f32[4] region {
    %i = sqrt(%c) : f32[4]
    %j = cond(%p) : f32[4] region {
      %k = exp(%i) : f32[4]
      yield %k
    } region {
      yield %i
    }
    yield %j
  } region {
    yield %b
  }
  %z = neg(%a) : f32[4]
  return %y, %z
}
"""


def names(nodes: Sequence[Node] | frozenset[Node]) -> set[str]:
    return {node.output.name for node in nodes}


def named(values: set[Value]) -> set[str]:
    return {value.name for value in values}


def test_ancestors_and_descendants_follow_captures_and_control_edges() -> None:
    nodes = parse(GRAPH).nodes
    a, _, c, y, _ = nodes
    assert names(ancestors(nodes, [y])) == {"a", "b", "c"}
    assert names(ancestors(nodes, [a])) == set()
    assert names(descendants(nodes, [a])) == {"c", "y", "z"}
    assert names(descendants(nodes, [a], control=False)) == {"z"}
    assert names(descendants(nodes, [c, a])) == {"c", "y", "z"}, "one that runs after another of them is behind it"


def test_before_and_behind_are_of_values() -> None:
    graph = parse(GRAPH)
    assert [node.output.name for node in dependencies(graph.nodes, [graph.nodes[2].output])] == ["a", "b", "c"]
    assert named(dependents(graph.nodes, [graph.nodes[0].output])) == {"a", "z"}
    assert named(dependents(graph.nodes, [graph.inputs[0]], waits_for)) == {"p", "y"}


def test_reached_visits_each_item_once_and_no_more_than_is_asked_for() -> None:
    asked = []

    def following(number: int) -> list[int]:
        asked.append(number)
        return [number // 2, number // 3]

    assert 6 in reached([12], following)
    assert asked == [12]
    assert list(reached([12], following)) == [12, 6, 4, 3, 2, 1, 0]


def test_bits_say_what_is_before_and_behind_as_the_sweeps_do() -> None:
    nodes = random_block(np.random.default_rng(0), 60)
    reach, later = Reachability(nodes, nodes), marked_dependents(nodes, {n: 1 << i for i, n in enumerate(nodes)})
    for node in nodes:
        earlier = {n for n in nodes if reach.before[node] & reach.bit[n]}
        assert earlier == set(dependencies(nodes, node.inputs, lambda n: n.inputs))
        assert {n for n in nodes if later[node] & reach.bit[n]} == {node, *descendants(nodes, [node], control=False)}


def random_block(rng: np.random.Generator, count: int) -> tuple[Node, ...]:
    """Sums of any two earlier values."""
    lines, known = [], ["%x", "%y"]
    for i in range(count):
        a, b = rng.choice(known[-8:], 2)
        lines.append(f"  %v{i} = add({a}, {b}) : f32[]\n")
        known.append(f"%v{i}")
    return parse(f"graph @g(%x: f32[], %y: f32[]) {{\n{''.join(lines)}  return\n}}").nodes


def test_an_order_is_as_near_as_it_can_be_and_leaves_cycles_out() -> None:
    assert stable_order([[], [], []]) == [0, 1, 2]
    assert stable_order([[2], [], [1]]) == [1, 2, 0]
    assert stable_order([[], [2], [1], [0, 2]]) == [0], "what waits for a cycle never comes"
    assert stable_order([[1, 1], []]) == [1, 0]


def test_every_block_of_a_graph() -> None:
    graph = parse(GRAPH)
    assert [len(block.nodes) for block in blocks(graph)] == [5, 1, 0, 2, 0]
    assert {node.output.name for node in inside(graph.nodes[3])} == {"i", "j", "k"}


def test_regions_are_changed_at_every_depth_and_else_the_nodes_stay() -> None:
    graph = parse(GRAPH)
    y = graph.nodes[3]
    assert with_regions(y, lambda region: region) is y
    assert with_blocks(y, lambda nodes: nodes) is y

    def without_phase(nodes: Sequence[Node]) -> list[Node]:
        return [replace(with_blocks(node, without_phase), phase="check") for node in nodes]

    changed = Graph("g", graph.inputs, (), tuple(without_phase(graph.nodes)), (), graph.outputs)
    assert {node.phase for node in walk(changed)} == {"check"}
    assert len(list(walk(changed))) == len(list(walk(graph)))
    kept = filtered(graph.nodes, lambda node: node.output.name not in ("k", "z"))
    assert names(kept) == {"a", "b", "c", "y"}
    assert names(list(inside(kept[3]))) == {"i", "j"}
    assert all(a is b for a, b in zip(kept[:3], graph.nodes, strict=False))
