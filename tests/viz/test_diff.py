"""Differences of graphs: names, order and users' lines do not count, and everything else does."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphls.inspect.diff.diff import diff
from graphls.ir import Graph, Location, Node, Value, Write, parse
from graphls.ir.graph import Difference
from tests.ir.graphs import graphs

GRAPH = """graph @g(%x: f32[4], %p: bool[]) {
  state @w: f32[4]
  state @step: i32[]
  %one = constant() {value=array(f32[], [1.0])} : f32[]  // forward net.a | train.py:3
  %y = mul(%x, @w) : f32[4]  // forward net.a | train.py:4
  %a = add(%y, %one) : f32[4]  // forward net.a | train.py:5
  %loss = sum(%a) {axis=[0], keepdims=false} : f32[]  // forward net.loss | train.py:6
  %status = overflow_start() after(%loss) : token  // check
  %g = mul(%x, %x) after(%status) : f32[4]  // backward net.a | train.py:4
  %overflow = overflow_get(%status, %g) : bool[]  // check
  %new = cond(%overflow) : f32[4] region {
    yield @w
  } region {
    %d = sub(@w, %g) : f32[4]  // update optimizer
    yield %d
  }  // update
  @w <- %new
  return %loss, %overflow
}
"""


def changed(old: str, new: str, text: str = GRAPH) -> Difference:
    assert old in text
    return parse(text).diff(parse(text.replace(old, new)))


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [value.name for node in nodes for value in node.outputs]


def pairs(difference: Difference) -> dict[str, str]:
    return {b.output.name: a.output.name for a, b in difference.changed}


def was(difference: Difference) -> dict[str, tuple[str, ...]]:
    return {node.output.name: texts for node, texts in difference.was.items()}


def test_a_graph_does_not_differ_from_itself() -> None:
    graph = parse(GRAPH)
    difference = graph.diff(graph)
    assert not difference and str(difference) == "No difference in 9 nodes."
    assert all(a is b for b, a in difference.paired.items()) and len(difference.paired) == 9


def test_names_lines_and_the_name_of_the_graph_do_not_count() -> None:
    text = GRAPH.replace("%y", '%"</script>"').replace("%x", "%q").replace("train.py:4", "train.py:9")
    assert not parse(GRAPH).diff(parse(text.replace("@g(", "@h(")))


def test_an_attribute() -> None:
    difference = changed("[1.0]", "[2.0]")
    assert pairs(difference) == {"one": "one"} and was(difference) == {"one": ("value=array(f32[], [1.0])",)}
    assert not difference.added and not difference.removed
    difference = changed("keepdims=false", "keepdims=true")
    assert was(difference) == {"loss": ("keepdims=false",)}


def test_a_control_edge() -> None:
    assert was(changed("overflow_start() after(%loss)", "overflow_start()")) == {"status": ("after(%loss)",)}
    assert was(changed("mul(%x, @w)", "mul(%x, @w) after(%one)")) == {"y": ("without after",)}


def test_operands_and_their_order() -> None:
    assert was(changed("sub(@w, %g)", "sub(%g, @w)")) == {"d": ("sub(@w, %g)",)}
    assert was(changed("add(%y, %one)", "add(%x, %one)")) == {"a": ("add(%y, %one)",)}


def test_another_primitive_in_the_same_place_is_one_node_that_changed() -> None:
    difference = changed("mul(%x, %x)", "square(%x)")
    assert was(difference) == {"g": ("mul(%x, %x)",)} and pairs(difference) == {"g": "g"}
    assert "~   %g = square(%x) after(%status) : f32[4]  // backward net.a | train.py:4\n~     was: mul(%x, %x)" in str(
        difference
    )


def test_phase_cell_and_types() -> None:
    assert was(changed("update optimizer", "backward optimizer")) == {"d": ("phase update",)}
    assert was(changed("update optimizer", 'update "a b"')) == {"d": ("cell optimizer",)}
    assert was(changed("%d = sub(@w, %g) : f32[4]", "%d = sub(@w, %g) : f16[4]")) == {"d": ("types f32[4]",)}


def test_a_cell_with_a_hostile_name_stays_one_line() -> None:
    difference = parse(GRAPH.replace("update optimizer", 'update "a\\nb\\u202e"')).diff(parse(GRAPH))
    assert was(difference) == {"d": ('cell "a\\nb\\u202e"',)}


def test_a_node_that_is_removed_and_one_that_is_added() -> None:
    line = "  %a = add(%y, %one) : f32[4]  // forward net.a | train.py:5\n"
    text = GRAPH.replace(line, "").replace("sum(%a)", "sum(%y)")
    difference = parse(GRAPH).diff(parse(text))
    assert names(difference.removed) == ["a"] and not difference.added
    assert was(difference) == {"loss": ("sum(%a)",)}
    turned = parse(text).diff(parse(GRAPH))
    assert names(turned.added) == ["a"] and not turned.removed and was(turned) == {"loss": ("sum(%y)",)}


def test_a_node_that_moves_out_of_a_region() -> None:
    line = "%d = sub(@w, %g) : f32[4]  // update optimizer\n"
    text = GRAPH.replace("    " + line, "").replace("  %overflow =", f"  {line}  %overflow =")
    difference = parse(GRAPH).diff(parse(text))
    assert was(difference) == {"d": ("in region 2 of %new",)}
    assert was(parse(text).diff(parse(GRAPH))) == {"d": ("in no region",)}


def test_what_a_region_yields() -> None:
    assert was(changed("yield @w", "yield %g")) == {"new": ("region 1 yield @w",)}


def test_ends_of_the_graph() -> None:
    for old, new, field, was in (
        ("%p: bool[]", "%p: i32[]", "inputs", "(%x: f32[4], %p: bool[])"),
        ("state @step: i32[]", "state @step: i64[]", "states", "i32[]"),
        ("@w <- %new", "@w <- %new in place", "writes", "%new"),
        ("@w <- %new", "@w <- %g", "writes", "%new"),
        ("return %loss, %overflow", "return %overflow, %loss", "outputs", "%loss, %overflow"),
    ):
        difference = changed(old, new)
        assert difference and not difference.changed and len(getattr(difference, field)) in (1, 2)
        assert f"was: {was}\n" in str(difference)


def test_ends_that_only_one_graph_has() -> None:
    for old, field, count in (
        (", %p: bool[]", "inputs", 1), ("  state @step: i32[]\n", "states", 1), ("  @w <- %new\n", "writes", 1),
        (", %overflow\n}", "outputs", 1),
    ):  # fmt: skip
        less = parse(GRAPH.replace(old, "\n}" if "}" in old else ""))
        ((first, second),) = getattr(parse(GRAPH).diff(less), field)
        assert first is not None and second is None
        ((first, second),) = getattr(less.diff(parse(GRAPH)), field)
        assert first is None and second is not None and len(getattr(less.diff(parse(GRAPH)), field)) == count


def test_the_text_shows_where_and_what() -> None:
    difference = changed("    %d = sub(@w, %g) : f32[4]  // update optimizer\n    yield %d", "    yield %g")
    assert str(difference) == """\
Nodes: 0 added, 1 removed, 1 changed, 7 the same.
  ...
    %overflow = overflow_get(%status, %g) : bool[]  // check
~   %new = cond(%overflow) : f32[4] region {
~     was: region 2 yield %d
      yield @w
    } region {
-     %d = sub(@w, %g) : f32[4]  // update optimizer
      yield %g
  ..."""


def test_a_long_line_is_cut_in_the_middle() -> None:
    numbers = ", ".join(f"{i}.0" for i in range(1000))
    difference = changed("array(f32[], [1.0])", f"array(f32[1000], [{numbers}])")
    assert max(map(len, str(difference).splitlines())) < 400
    assert "+ " not in str(difference) and "train.py:3" in str(difference)


def test_one_of_many_like_nodes_is_removed() -> None:
    """Constants with the same number are told apart by who uses them."""
    links = [f"  %c{i} = constant() {{value=array(f32[], [1.0])}} : f32[]\n" for i in range(40)]
    links += [f"  %y{i} = add(@w{i}, %c{i}) : f32[]\n" for i in range(40)]
    states = "".join(f"  state @w{i}: f32[]\n" for i in range(40))
    outputs = ", ".join(f"%y{i}" for i in range(40))
    before = f"graph @g() {{\n{states}{''.join(links)}  return {outputs}\n}}\n"
    after = before.replace(links[7], "").replace(links[47], "").replace("%y7,", "@w7,")
    difference = parse(before).diff(parse(after))
    assert names(difference.removed) == ["c7", "y7"] and not difference.added and not difference.changed


def test_a_result_of_a_cond_that_is_gone_leaves_the_others_alone() -> None:
    before = """graph @g(%b: bool[], %x: f32[4], %y: f32[4]) {
  %p, %q = cond(%b) : f32[4], f32[4] region {
    yield %x, %y
  } region {
    %e = exp(%x) : f32[4]
    yield %y, %e
  }
  return %x, %q
}
"""
    after = before.replace("%p, %q", "%q").replace("f32[4], f32[4] r", "f32[4] r")
    after = after.replace("yield %x, %y", "yield %y").replace("yield %y, %e", "yield %e")
    difference = parse(before).diff(parse(after))
    assert [b.output.name for _, b in difference.changed] == ["q"] and not difference.outputs and not difference.removed


def test_a_carry_of_a_scan_that_is_gone_leaves_the_others_alone() -> None:
    before = """graph @g(%a: f32[], %b: f32[], %x: f32[4]) {
  %p, %q = scan(%a, %b, %x) {carries=2, length=4} : f32[], f32[] region(%c: f32[], %d: f32[], %r: f32[]) {
    %m = mul(%c, %c) : f32[]
    %n = add(%d, %r) : f32[]
    yield %m, %n
  }
  return %q
}
"""
    after = before.replace("%p, %q", "%q").replace("%a, %b, %x)", "%b, %x)").replace("carries=2", "carries=1")
    after = after.replace(": f32[], f32[] r", ": f32[] r").replace("(%c: f32[], ", "(").replace("yield %m, ", "yield ")
    difference = parse(before).diff(parse(after.replace("    %m = mul(%c, %c) : f32[]\n", "")))
    assert names(difference.removed) == ["m"] and not difference.added
    assert [b.output.name for _, b in difference.changed] == ["q"]


def test_nodes_that_share_nothing_are_not_taken_for_some_that_changed() -> None:
    """Unless each is the only one of its kind in its cell."""
    for count in (1, 2):
        states = "".join(f"  state @m{i}: f32[4]\n" for i in range(count))
        nodes = "".join(f"  %a{i} = mul(@m{i}, @m{i}) : f32[4]\n" for i in range(count))
        writes = "".join(f"  @m{i} <- %a{i}\n" for i in range(count))
        before = f"graph @g() {{\n{states}{nodes}{writes}  return\n}}\n"
        difference = parse(before).diff(parse(before.replace("@m", "@n")))
        assert names(difference.removed) == names(difference.added) == [[], ["a0", "a1"]][count - 1]
        assert len(difference.states) == len(difference.writes) == 2 * count


def renamed(graph: Graph, seed: int, values: dict[Value, Value] | None = None) -> Graph:
    """The same graph with other names for all but states, and its nodes in another order, which data edges allow."""
    values = {} if values is None else values

    def new(value: Value) -> Value:
        if value not in values:
            name = value.name if value.is_state else f"v{len(values)}"
            values[value] = Value(name, value.type, value.is_state, value.sharding)
        return values[value]

    def block(inner: Graph) -> Graph:
        nodes = tuple(
            replace(
                n, inputs=tuple(map(new, n.inputs)), outputs=tuple(map(new, n.outputs)), after=tuple(map(new, n.after)),
                regions=tuple(map(block, n.regions)), loc=Location("other.py", 1),
            )
            for n in shuffled(inner.nodes, seed)
        )  # fmt: skip
        writes = tuple(Write(new(w.state), new(w.value), w.in_place) for w in inner.writes)
        ends = [tuple(map(new, several)) for several in (inner.inputs, inner.states, inner.outputs)]
        return Graph("other", ends[0], ends[1], nodes, writes, ends[2], inner.mesh)

    return block(graph)


def shuffled(nodes: tuple[Node, ...], seed: int) -> list[Node]:
    from graphls.ir import needs

    draw, waiting, done = random.Random(seed), list(nodes), []
    defined = {v for n in nodes for v in n.outputs}
    while waiting:
        ready = [n for n in waiting if not defined.intersection(needs(n))]
        node = draw.choice(ready)
        waiting.remove(node)
        done.append(node)
        defined.difference_update(node.outputs)
    return done


@given(graphs(), st.integers(0, 100))
def test_renamed_and_reordered_graphs_do_not_differ(graph: Graph, seed: int) -> None:
    difference = diff(graph, renamed(graph, seed))
    assert not difference, str(difference)
    assert len(difference.paired) == len({*difference.paired.values()})


@given(graphs(), graphs())
def test_two_graphs_differ_in_both_directions_alike(first: Graph, second: Graph) -> None:
    there, back = diff(first, second), diff(second, first)
    assert there.added == back.removed and there.removed == back.added
    assert {*there.changed} == {(b, a) for a, b in back.changed}
    assert bool(there) == bool(back) and len(there.writes) == len(back.writes)
    everything = {*there.added, *there.paired}
    assert len(everything) == len(there.added) + len(there.paired)
    assert str(there).startswith(("Nodes: ", "No difference")) and str(there) == str(diff(first, second))


@given(graphs(), st.randoms(use_true_random=False))
def test_a_node_that_is_gone_is_reported(graph: Graph, draw: Any) -> None:
    if not graph.nodes:
        return
    gone = draw.choice(graph.nodes)
    less = graph.replace(nodes=tuple(n for n in graph.nodes if n is not gone))
    assert gone in diff(graph, less).removed
    assert len(diff(renamed(graph, 1), less).removed) >= 1
    assert gone in diff(less, graph).added


@given(graphs(), st.randoms(use_true_random=False))
def test_a_primitive_that_changes_is_reported(graph: Graph, draw: Any) -> None:
    if not graph.nodes:
        return
    place = draw.randrange(len(graph.nodes))
    node = replace(graph.nodes[place], phase="check" if graph.nodes[place].phase != "check" else "update")
    other = graph.replace(nodes=(*graph.nodes[:place], node, *graph.nodes[place + 1 :]))
    for difference in (diff(graph, other), diff(renamed(graph, 3), other)):
        assert difference.added or len(difference.changed) == 1
    if node.outputs:
        assert diff(graph, other).changed == ((graph.nodes[place], node),)
