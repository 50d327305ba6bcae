"""Checks of many values in plans, and what a plan is proven of once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from graphls.ir import Graph, parse
from graphls.ir.plan import plan_of
from graphls.ir.verify import verify
from graphls.passes.schedule import cut, plans
from graphls.passes.schedule.cut import split_checks
from graphls.passes.schedule.partition import Partition
from graphls.passes.simplify.dce import Dce
from graphls.runtime.numpy.reference import ReferenceSession


def checked(length: int) -> Graph:
    """A window in which so many values are made, all of which its check looks at, and the input."""
    made = "\n".join(f"  %v{i} = mul(%x, %x) after(%status) : f32[2]  // backward" for i in range(length))
    values = ", ".join(f"%v{i}" for i in reversed(range(length)))
    return parse(
        f"""graph @g(%x: f32[2]) {{
  %status = overflow_start() : token  // check
{made}
  %last = exp(%x) after(%status) : f32[2]  // backward
  %bad = overflow_get(%status, %x, {values}) {{mode="window"}} : bool[] // check
  return %bad, %last
}}"""
    )


def test_a_check_of_many_values_is_made_of_parts_behind_the_last_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "MOST_CHECKED", 4)
    graph = checked(10)
    made = split_checks(graph)
    verify(made)
    names = [n.primitive.name for n in made.nodes]
    found = [n for n in made.nodes if n.primitive.is_check]
    assert [[v.name for v in n.inputs[1:]] for n in found[:3]] == [
        ["x", "v0", "v1", "v2"],
        ["v3", "v4", "v5", "v6"],
        ["v7", "v8", "v9"],
    ]
    assert names.index("overflow_get") == 4, "as soon as the values are there"
    assert found[3].output is graph.nodes[-1].output and found[3].inputs[1:] == tuple(n.output for n in found[:3])
    assert all(n.attrs == {"mode": "window"} for n in found)


@pytest.mark.parametrize(("x", "bad"), [((1.0, 2.0), False), ((1e30, 1.0), True), ((1.0, np.nan), True)])
def test_the_parts_of_a_check_see_what_it_sees(
    x: tuple[float, float], bad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut, "MOST_CHECKED", 4)
    graph, array = checked(10), np.array(x, np.float32)
    whole, parts = (ReferenceSession(g, {}).run([array]) for g in (graph, split_checks(graph)))
    assert bool(whole[0]) is bool(parts[0]) is bad


def test_a_check_of_few_values_stays() -> None:
    graph = checked(10)
    assert split_checks(graph) is graph


def test_no_segment_of_a_large_plan_reads_all_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphls.passes.schedule.cut.MOST_LOOKUPS", 0)
    monkeypatch.setattr("graphls.passes.schedule.cut.MOST_NODES", 70)
    segments = plan_of(Partition().run(checked(600))).segments
    assert len(segments) > 8
    assert max(len(s.graph.inputs) for s in segments) <= 2 * cut.MOST_CHECKED


def test_each_segment_is_proven_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proven: Counter[Graph] = Counter()
    prove = plans.read_before_write
    monkeypatch.setattr(plans, "read_before_write", lambda graph: (proven.update([graph]), prove(graph))[1])
    graph = parse("""graph @g(%x: f32[2], %bad: bool[]) {
  state @w: f32[2]
  %flag = logical_not(%bad) : bool[]
  %new = cond(%flag) : f32[2] region {
    %sum = add(@w, %x) : f32[2]
    yield %sum
  } region {
    yield @w
  }
  @w <- %new
  return %flag
}""")
    plan = Partition(least=0).run(graph)
    assert plan.writes[0].in_place
    assert [len(g.nodes) for g in proven] == [1, 1, 0], "the last is the copy that is left out where nothing moves"
    assert set(proven.values()) == {1} and len(plan_of(plan).segments) == 2


def test_a_step_that_is_not_cut_is_only_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dce, "run", lambda self, graph: pytest.fail("nothing is cut"))
    graph = checked(10)
    assert Partition().run(graph) is graph
