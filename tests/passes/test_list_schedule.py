"""List scheduling: nodes for a single result run right after their last operand, all others keep their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphls.ir import needs, parse
from graphls.passes.schedule.list_schedule import list_schedule

UNSCALED = """
graph @main(%x0: f32[4,3], %x1: f32[4,6], %x2: f32[4,5], %y: f32[4,2], %w2: f32[2,5], %w1: f32[5,6], %scale: f32[]) {
  %d2 = exp(%y) : f32[4,2]
  %g2 = matmul(%x2, %d2) {transpose_a=true} : f32[5,2]
  %d1 = matmul(%d2, %w2) : f32[4,5]
  %g1 = matmul(%x1, %d1) {transpose_a=true} : f32[6,5]
  %d0 = matmul(%d1, %w1) : f32[4,6]
  %g0 = matmul(%x0, %d0) {transpose_a=true} : f32[3,6]
  %r = reciprocal(%scale) : f32[]
  %status = overflow_start() : token
  %u0 = mul(%g0, %r) : f32[3,6]
  %u1 = mul(%g1, %r) : f32[6,5]
  %u2 = mul(%g2, %r) : f32[5,2]
  %bad = overflow_get(%status, %u0, %u1, %u2) : bool[]
  return %u0, %u1, %u2, %bad
}
"""


def test_gradients_are_divided_by_the_scale_where_they_are_made() -> None:
    graph = parse(UNSCALED)
    names = [node.outputs[0].name for node in list_schedule(graph.nodes, {*graph.outputs})]
    assert names == ["r", "status", "d2", "g2", "u2", "d1", "g1", "d0", "g0", "u0", "u1", "bad"]


def test_what_several_results_need_stays_where_it_is() -> None:
    graph = parse("""
graph @main(%x: f32[8]) {
  %a = exp(%x) : f32[8]
  %b = log(%a) : f32[8]
  %both = add(%a, %b) : f32[8]
  %one = abs(%a) : f32[8]
  %other = neg(%a) : f32[8]
  %sum = add(%both, %other) : f32[8]
  return %one, %sum
}
""")
    names = [node.outputs[0].name for node in list_schedule(graph.nodes, {*graph.outputs})]
    assert names == ["a", "b", "both", "one", "other", "sum"]


def test_what_is_made_of_a_state_alone_waits_for_who_needs_it() -> None:
    graph = parse("""
graph @main(%x: f32[8]) {
  state @m: f32[8]
  state @w: f32[8]
  %a = exp(%x) : f32[8]
  %g = neg(%a) : f32[8]
  %h = abs(%a) : f32[8]
  %half = add(@m, @m) : f32[8]
  %m_1 = add(%half, %g) : f32[8]
  %w_1 = sub(@w, %m_1) : f32[8]
  @m <- %m_1
  @w <- %w_1
  return %h
}
""")
    leaving = {*graph.outputs, *(write.value for write in graph.writes)}
    names = [node.outputs[0].name for node in list_schedule(graph.nodes, leaving)]
    assert names == ["a", "g", "h", "half", "m_1", "w_1"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=20), st.data())
def test_nothing_runs_before_what_it_waits_for(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    names = ["x"]
    lines = []
    for a, b in pairs:
        name = f"v{len(lines)}"
        lines.append(f"  %{name} = add(%{names[a % len(names)]}, %{names[b % len(names)]}) : f32[2]")
        names.append(name)
    leaving = data.draw(st.lists(st.sampled_from(names[1:]), min_size=1, unique=True))
    returned = ", ".join(f"%{name}" for name in leaving)
    graph = parse("\n".join(["graph @main(%x: f32[2]) {", *lines, f"  return {returned}", "}"]))
    ordered = list_schedule(graph.nodes, {*graph.outputs})
    assert sorted(map(id, ordered)) == sorted(map(id, graph.nodes))
    made = set(graph.inputs)
    for node in ordered:
        assert made.issuperset(needs(node))
        made.update(node.outputs)
