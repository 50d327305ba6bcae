"""Which nodes are in an overflow window."""

from __future__ import annotations

from pathlib import Path

from graphls.inspect.viz.tree import windows
from graphls.ir import Graph, parse, walk
from graphls.passes import parse_pipeline
from tests.viz.graphs import step

CASES = Path(__file__).parent.parent / "passes" / "overflow"


def named(graph: Graph) -> list[tuple[str, str, set[str]]]:
    return [
        (start.output.name, get.output.name, {v.name for node in inside for v in node.outputs})
        for start, get, inside in windows(graph)
    ]


def test_what_runs_after_the_start_and_before_the_get() -> None:
    assert named(step()) == [("status", "overflow", {"seed", "ge", "wide", "gd", "gw"})]


def test_nodes_of_regions_are_inside_with_their_owner() -> None:
    graph = parse(
        """graph @main(%flag: bool[], %s: f32[]) {
          %status = overflow_start() : token  // check
          %g = cond(%flag) after(%status) : f32[] region {
            %a = neg(%s) : f32[]  // backward
            yield %a
          } region {
            yield %s
          }  // backward
          %overflow = overflow_get(%status, %g) : bool[]  // check
          return %overflow
        }"""
    )
    assert named(graph) == [("status", "overflow", {"g", "a"})]


def test_a_window_in_a_region_is_found() -> None:
    graph = parse(
        """graph @main(%flag: bool[], %s: f32[]) {
          %o = cond(%flag) : bool[] region {
            %status = overflow_start() : token  // check
            %g = depend(%s) after(%status) : f32[]  // backward
            %overflow = overflow_get(%status, %g) : bool[]  // check
            yield %overflow
          } region {
            yield %flag
          }  // check
          return %o
        }"""
    )
    assert named(graph) == [("status", "overflow", {"g"})]


def test_before_the_overflow_pass_there_is_no_window_and_behind_it_one_for_each_get() -> None:
    before = (CASES / "two_windows.ir").read_text(encoding="utf-8").split("-----\n")[0]
    graph = parse("".join(line for line in before.splitlines(True) if not line.startswith("//")))
    assert windows(graph) == ()
    placed = parse_pipeline("overflow").run(graph).graph
    gets = [node.output.name for node in walk(placed) if node.primitive.name == "overflow_get"]
    found = named(placed)
    assert [get for _, get, _ in found] == gets and len(gets) == 2
    assert found[0][2].isdisjoint(found[1][2]) and all(inside for _, _, inside in found)
