"""Building graphs: names, builders, and copies of nodes."""

from __future__ import annotations

import numpy as np
import pytest

import graphls.primitives  # noqa: F401
from graphls.ir import Builder, Graph, Location, Names, Type, Value, captures, needs, parse, uses, verify, walk
from graphls.ir.build import copy_nodes, substitute
from graphls.ir.errors import GraphKeyError, GraphTypeError
from graphls.ir.registry import lookup
from graphls.ir.types import bfloat16, float16, float32, float64

F32 = Type(float32, (2,))


def test_names_are_free_and_close_to_the_wish() -> None:
    names = Names(["x", "y_1"])
    assert [names.fresh(wish) for wish in ("x", "x", "x_1", "y", "y_1", "", "", "_3", "_3")] == [
        "x_1", "x_2", "x_3", "y", "y_2", "", "_1", "_3", "_2",
    ]  # fmt: skip


NESTED = verify(
    parse("""\
graph @g(%x: f32[2], %b: bool[]) {
  state @w: f32[2]
  %a = neg(%x) : f32[2]
  %z = neg(%x) : f32[2]
  %y = cond(%b) : f32[2] region {
    %i = add(%a, @w) : f32[2]
    %o = cond(%b) : f32[2] region {
      %k = mul(%i, %x) after(%z) : f32[2]
      yield %k
    } region {
      yield %a
    }
    yield %o
  } region {
    yield %x
  }
  %c = custom_gradient(%y, %x) {outputs=1} : f32[2] region(%p: f32[2], %q: f32[2], %g: f32[2]) {
    %m = mul(%g, %q) : f32[2]
    yield %m
  }
  return %c
}
""")
)


def names_of(values: object) -> list[str]:
    return [value.name for value in values]  # type: ignore[attr-defined]


def test_names_of_a_graph_are_those_of_its_regions_too() -> None:
    assert Names.of(NESTED).taken == {*"xbwazyiokcpqgm"}


def test_walk_captures_uses_and_needs() -> None:
    holder = NESTED.nodes[2]
    assert [v.name for n in walk(NESTED) for v in n.outputs] == [*"azikoymc"]
    assert names_of(captures(holder.regions[0])) == ["a", "w", "b", "x"]
    assert names_of(uses(holder)) == ["b", "a", "w", "x"]
    assert set(names_of(needs(holder))) == {"b", "a", "w", "x", "z"}
    assert names_of(captures(NESTED.nodes[3].regions[0])) == []


def test_states_by_name() -> None:
    assert NESTED.state("w") is NESTED.states[0]
    with pytest.raises(GraphKeyError, match="has no state 'W'"):
        NESTED.state("W")


def test_a_builder_calls_primitives_and_makes_constants_of_the_dtype_at_hand() -> None:
    e = Builder()
    x = Value("x", Type(float16, (2,)))
    y = e.add(e.mul(x, 2.0), 2.0)
    assert str(y.type) == "f16[2]"
    assert [n.primitive.name for n in e.nodes] == ["constant", "mul", "add"]
    assert e.nodes[0].attrs["value"].dtype == np.float16
    assert not e.nodes[0].attrs["value"].flags.writeable


def test_equal_constants_are_made_once_and_others_are_not() -> None:
    e = Builder()
    zero = e.constant(0.0, float32)
    assert e.constant(np.float32(0)) is zero
    others = [e.constant(-0.0, float32), e.constant(0.0, float64), e.constant(0.0, bfloat16)]
    assert len({zero, *others, e.constant(np.zeros(1, np.float32))}) == 5
    assert str(e.constant(1.0, float32, (2, 3)).type) == "f32[2,3]"


def test_a_constant_is_a_copy() -> None:
    e = Builder()
    given = np.ones(2, np.float32)
    made = e.constant(given)
    given[:] = 7
    assert e.nodes[0].outputs == (made,)
    assert e.nodes[0].attrs["value"].tolist() == [1, 1]


def test_a_primitive_that_does_not_exist() -> None:
    e = Builder()
    with pytest.raises(AttributeError, match="no primitive 'matmull'; did you mean 'matmul'"):
        _ = e.matmull
    assert not hasattr(e, "_repr_html_")


def test_an_error_names_the_line() -> None:
    e = Builder()
    e.loc = Location("net.py", 3)
    with pytest.raises(GraphTypeError, match=r"one dtype.*\(net.py:3\)$") as caught:
        e.add(Value("x", Type(float16)), Value("y", Type(float32)))
    assert caught.value.location == e.loc


def test_at_lends_phase_scope_and_line_of_a_node() -> None:
    e, node = Builder(), NESTED.nodes[0]
    with e.at(node, "backward") as same:
        assert same is e
        assert (e.phase, e.scope, e.loc) == ("backward", node.scope, node.loc)
    assert (e.phase, e.scope, e.loc) == ("forward", "", None)


def test_control_edges_are_kept_once() -> None:
    e, x = Builder(), Value("x", F32)
    e.emit("neg", (x,), after=(x, x))
    assert e.nodes[0].after == (x,)


def test_substitute_reaches_operands_control_edges_and_captures() -> None:
    a, x, z = (NESTED.nodes[0].output, NESTED.inputs[0], NESTED.nodes[1].output)
    new = {value: Value(f"{value.name}_new", value.type) for value in (a, x, z)}
    changed = substitute(NESTED.nodes[2], new)
    assert set(names_of(needs(changed))) == {"b", "a_new", "w", "x_new", "z_new"}
    assert substitute(NESTED.nodes[2], {Value("q", F32): a}) is NESTED.nodes[2]


def test_copies_define_new_values_all_through() -> None:
    names, mapping = Names.of(NESTED), {}
    copied = copy_nodes(NESTED.nodes, mapping, names, "backward")
    both = Graph("g", NESTED.inputs, NESTED.states, (*NESTED.nodes, *copied), (), (mapping[NESTED.outputs[0]],))
    verify(both)
    assert {n.phase for n in copied} == {"backward"}
    assert lookup("cond") is copied[2].primitive
