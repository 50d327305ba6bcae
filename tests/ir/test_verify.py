"""The verifier: each rule of the IR, and the message that shows where it is broken."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest

import graphls.primitives  # noqa: F401
from graphls.ir import TOKEN, Builder, Graph, Location, Node, Type, Value, Write, parse, verify
from graphls.ir.errors import GraphTypeError, VerifyError
from graphls.ir.registry import lookup, operations
from graphls.ir.types import bool_, float16, float32

Values = tuple[Value, ...]
F32 = Type(float32)
HERE = Location("net.py", 7)


def node(name: str, inputs: Values, *outputs: Value, regions: tuple[Graph, ...] = (), after: Values = ()) -> Node:
    return Node(lookup(name), inputs, outputs, {}, after, regions, "forward", "fc", HERE)


def value(name: str, kind: Type = F32, is_state: bool = False) -> Value:
    return Value(name, kind, is_state)


def graph(nodes: list[Node], outputs: Values = (), states: Values = (), writes: tuple[Write, ...] = ()) -> Graph:
    return Graph("g", (X, B), states, tuple(nodes), writes, outputs)


def region(nodes: list[Node], outputs: Values = (), inputs: Values = ()) -> Graph:
    return Graph("region", inputs, (), tuple(nodes), (), outputs)


X, B = value("x"), value("b", Type(bool_))
Y, Z, W = value("y"), value("z"), value("w", is_state=True)
EMPTY = region([])


def expect_fault(broken: Graph, line: str, message: str, loc: Location | None = None) -> None:
    """The first line says what and where; under the first `line` of the graph stand carets and the message."""
    with pytest.raises(VerifyError) as caught:
        verify(broken)
    first, *shown = str(caught.value).split("\n")
    assert first.lower() == f"{message}{f' ({loc})' if loc else ''}.".lower()
    (at,) = (i for i, text in enumerate(shown) if text.lstrip().startswith("^"))
    assert shown[at - 1].strip() == line
    indent = len(shown[at - 1]) - len(line)
    assert shown[at] == f"{' ' * indent}{'^' * len(line)} {message}"
    assert [*shown[:at], *shown[at + 1 :]] == str(broken).splitlines()


NEG_Y = "%y = neg(%x) : f32[]  // forward fc | net.py:7"


def test_a_value_defined_twice() -> None:
    expect_fault(graph([node("neg", (X,), X)]), NEG_Y.replace("%y", "%x"), "%x is defined twice", HERE)


def test_a_value_defined_in_two_regions() -> None:
    inner = region([node("neg", (X,), Y)])
    broken = graph([node("cond", (B,), regions=(EMPTY, inner)), node("neg", (X,), Y)])
    with pytest.raises(VerifyError, match="%y is defined twice"):
        verify(broken)


def test_one_name_for_two_values() -> None:
    broken = graph([node("neg", (X,), Y), node("abs", (X,), value("y"))])
    expect_fault(broken, "%y = abs(%x) : f32[]  // forward fc | net.py:7", "the name %y is used twice", HERE)


def test_one_name_inside_and_outside_of_a_region() -> None:
    broken = graph([node("cond", (B,), regions=(region([node("neg", (X,), value("y"))]), EMPTY)), node("abs", (X,), Y)])
    expect_fault(broken, "%y = abs(%x) : f32[]  // forward fc | net.py:7", "the name %y is used twice", HERE)


def test_a_state_and_a_value_may_share_a_name() -> None:
    verify(graph([node("neg", (X,), value("w"))], states=(W,)))


def test_a_value_that_is_not_defined() -> None:
    line = "%y = neg(%z) : f32[]  // forward fc | net.py:7"
    expect_fault(graph([node("neg", (Z,), Y)]), line, "%z is not defined", HERE)


def test_another_value_of_the_same_name() -> None:
    line = "%y = neg(%x) : f32[]  // forward fc | net.py:7"
    expect_fault(graph([node("neg", (value("x"),), Y)]), line, "%x is not defined", HERE)


def test_a_control_edge_to_a_value_that_is_not_defined() -> None:
    line = "%y = neg(%x) after(%z) : f32[]  // forward fc | net.py:7"
    expect_fault(graph([node("neg", (X,), Y, after=(Z,))]), line, "%z is not defined", HERE)


def test_a_use_before_the_definition() -> None:
    broken = graph([node("neg", (Z,), Y), node("abs", (X,), Z)])
    expect_fault(broken, "%y = neg(%z) : f32[]  // forward fc | net.py:7", "%z is used before it is defined", HERE)


def test_a_use_in_a_region_before_the_definition() -> None:
    broken = graph([node("cond", (B,), regions=(region([node("neg", (Z,), Y)]), EMPTY)), node("abs", (X,), Z)])
    expect_fault(broken, "%y = neg(%z) : f32[]  // forward fc | net.py:7", "%z is used before it is defined", HERE)


def test_a_cycle_of_data_and_control_edges() -> None:
    broken = graph([node("neg", (X,), Y, after=(Z,)), node("abs", (Y,), Z)])
    line = "%y = neg(%x) after(%z) : f32[]  // forward fc | net.py:7"
    expect_fault(broken, line, "data and control edges form a cycle: %z -> %y -> %z", HERE)


def test_a_node_that_waits_for_itself() -> None:
    line = "%y = neg(%x) after(%y) : f32[]  // forward fc | net.py:7"
    expect_fault(graph([node("neg", (X,), Y, after=(Y,))]), line, "data and control edges form a cycle: %y -> %y", HERE)


def test_a_cycle_through_a_region() -> None:
    inner, out = value("i"), value("r")
    regions = region([node("neg", (X,), inner, after=(Z,))], (inner,)), region([], (X,))
    broken = graph([node("cond", (B,), out, regions=regions), node("abs", (out,), Z)])
    line = "%i = neg(%x) after(%z) : f32[]  // forward fc | net.py:7"
    expect_fault(broken, line, "data and control edges form a cycle: %z -> %r -> %z", HERE)


def fault_of(broken: Graph) -> str:
    with pytest.raises(VerifyError) as caught:
        verify(broken)
    return str(caught.value)


def test_an_output_type_that_is_not_inferred() -> None:
    broken = graph([node("neg", (X,), value("y", Type(float16, (2,))))])
    line = "%y = neg(%x) : f16[2]  // forward fc | net.py:7"
    expect_fault(broken, line, "neg gives f32[] here, not f16[2]", HERE)


def test_too_few_outputs() -> None:
    line = "neg(%x)  // forward fc | net.py:7"
    expect_fault(graph([node("neg", (X,))]), line, "neg gives f32[] here, not nothing", HERE)


def test_operands_that_do_not_fit() -> None:
    line = "%y = add(%x, %b) : f32[]  // forward fc | net.py:7"
    message = "add takes operands of one dtype, not f32[] and bool[]; cast one of them"
    expect_fault(graph([node("add", (X, B), Y)]), line, message, HERE)


@pytest.mark.parametrize(
    "line",
    [
        "%y = matmul(%x) : f32[]",
        "%y = neg(%x) {axis=1} : f32[]",
        "%y = transpose(%x) {permutation=none} : f32[]",
        '%y = transpose(%x) {permutation="ab"} : f32[]',
        "%y = constant() {value=1} : f32[]",
        "%y = custom_gradient(%x) : f32[]",
        "%y = custom_gradient(%x) {outputs=[]} : f32[]",
        "%y = gradient(%x) {of=none, wrt=1} : f32[]",
        "%y = neg(%x) : f32[] region { yield }",
        "cond(%x) region { yield } region { yield }",
        "cond(%b) region { yield }",
        "cond(%b) region { yield %x } region { yield }",
        "cond(%b) region { yield } region(%p: f32[]) { yield }",
    ],
)
def test_type_rules_that_fail_in_any_way(line: str) -> None:
    broken = parse(f"graph @g(%x: f32[], %b: bool[]) {{\n  {line}  // update | a.py:3\n  return\n}}")
    message = fault_of(broken)
    assert message.split("\n")[0].endswith("(a.py:3).")
    assert "^^^" in message


@pytest.mark.parametrize(
    "call",
    ["add(%t, %t) : token", "depend(%t) : token", "stop_gradient(%t) : token", "overflow_get(%x, %t) : bool[]"],
)
def test_a_token_as_data(call: str) -> None:
    broken = parse(f"graph @g(%x: f32[]) {{\n  %t = overflow_start() : token\n  %u = {call}\n  return\n}}")
    assert "token" in fault_of(broken).split("\n")[0]


def test_a_token_cannot_leave_the_graph() -> None:
    token = value("t", TOKEN)
    broken = graph([node("overflow_start", (), token)], (X, token))
    expect_fault(broken, "return %x, %t", "the token %t cannot leave the graph")


def test_a_token_cannot_leave_its_region() -> None:
    first, second = value("t", TOKEN), value("u", TOKEN)
    regions = tuple(region([node("overflow_start", (), t)], (t,)) for t in (first, second))
    broken = graph([node("cond", (B,), value("v", TOKEN), regions=regions)])
    expect_fault(broken, "yield %t", "the token %t cannot leave its region", HERE)


def test_a_region_that_yields_what_is_not_defined() -> None:
    broken = graph([node("cond", (B,), Y, regions=(region([], (X,)), region([], (Z,))))])
    expect_fault(broken, "yield %z", "the region yields %z, which is not defined", HERE)


def test_a_region_that_captures_what_is_not_defined() -> None:
    broken = graph([node("cond", (B,), regions=(region([node("neg", (Z,), Y)]), EMPTY))])
    expect_fault(broken, "%y = neg(%z) : f32[]  // forward fc | net.py:7", "%z is not defined", HERE)


@pytest.mark.parametrize("use", ["node", "region", "write", "output"])
def test_a_value_that_escapes_its_region(use: str) -> None:
    holder = node("cond", (B,), regions=(region([node("neg", (X,), Y)]), EMPTY))
    inside = node("abs", (Y,), Z)
    broken = {
        "node": graph([holder, inside]),
        "region": graph([replace(holder, regions=(*holder.regions[:1], region([inside])))]),
        "write": graph([holder], states=(W,), writes=(Write(W, Y),)),
        "output": graph([holder], (Y,)),
    }[use]
    line, subject, loc = {
        "node": ("%z = abs(%y) : f32[]  // forward fc | net.py:7", "%y", HERE),
        "region": ("%z = abs(%y) : f32[]  // forward fc | net.py:7", "%y", HERE),
        "write": ("@w <- %y", "%y", None),
        "output": ("return %y", "the output %y", None),
    }[use]
    expect_fault(broken, line, f"{subject} belongs to a region and cannot be used outside of it", loc)


@pytest.mark.parametrize("extra", [{"states": (W,)}, {"writes": (Write(W, X),)}])
def test_a_region_with_states(extra: dict[str, tuple[Value, ...]]) -> None:
    broken = graph([node("cond", (B,), regions=(EMPTY.replace(**extra), EMPTY))], states=())
    assert "A region cannot have states or writes (net.py:7)." in fault_of(broken)


def test_parameters_of_a_region() -> None:
    e = Builder()
    parameter = value("p", is_state=True)
    e.emit("custom_gradient", (X,), {"outputs": 0}, regions=(region([], (), (parameter,)),))
    line = "custom_gradient(%x) {outputs=0} region(@p: f32[]) {"
    expect_fault(graph(e.nodes), line, "a node cannot define the state @p")


def test_a_state_that_is_written_twice() -> None:
    broken = graph([], states=(W,), writes=(Write(W, X), Write(W, X, True)))
    expect_fault(broken, "@w <- %x in place", "@w is written twice")


def test_a_write_of_another_type() -> None:
    broken = graph([], states=(W,), writes=(Write(W, B),))
    expect_fault(broken, "@w <- %b", "@w holds f32[] and cannot take bool[]")


@pytest.mark.parametrize("target", [W, X])
def test_a_write_to_what_is_no_state(target: Value) -> None:
    broken = graph([], writes=(Write(target, X),))
    sign = "@" if target.is_state else "%"
    expect_fault(broken, f"{sign}{target.name} <- %x", f"{sign}{target.name} is not a state of this graph")


def test_a_write_of_what_is_not_defined() -> None:
    expect_fault(graph([], states=(W,), writes=(Write(W, Y),)), "@w <- %y", "%y is not defined")


def test_an_output_that_is_not_defined() -> None:
    expect_fault(graph([], (X, Y)), "return %x, %y", "the output %y is not defined")


def test_a_phase_that_does_not_exist() -> None:
    broken = graph([replace(node("neg", (X,), Y), phase="later")])
    message = "'later' is not a phase; there are forward, backward, check, update"
    expect_fault(broken, "%y = neg(%x) : f32[]  // later fc | net.py:7", message, HERE)


def test_inputs_and_states_that_are_marked_wrongly() -> None:
    header = "graph @g(@w: f32[]) {"
    expect_fault(Graph("g", (W,), (), (), (), ()), header, "the input @w is marked as a state")
    expect_fault(graph([], states=(Y,)), "state %y: f32[]", "the state 'y' is not marked as a state")
    token = value("t", TOKEN, is_state=True)
    expect_fault(graph([], states=(token,)), "state @t: token", "the state @t cannot be a token")
    expect_fault(graph([], states=(W, W)), "state @w: f32[]", "@w is defined twice")
    line = "@s = neg(%x) : f32[]  // forward fc | net.py:7"
    expect_fault(graph([node("neg", (X,), value("s", is_state=True))]), line, "a node cannot define the state @s", HERE)


def test_a_large_graph_is_cut_to_the_lines_around_the_fault() -> None:
    e = Builder()
    results = [e.neg(X) for _ in range(500)]
    nodes = [*e.nodes[:300], node("neg", (Z,), Y), *e.nodes[300:]]
    shown = fault_of(graph(nodes, tuple(results[:1]))).split("\n")
    assert len(shown) < 100
    assert shown[1:3] == ["graph @g(%x: f32[], %b: bool[]) {", "  ..."]
    assert shown[-1] == "  ..."
    mark = next(i for i, line in enumerate(shown) if line.endswith("^ %z is not defined"))
    assert shown[mark - 1] == "  %y = neg(%z) : f32[]  // forward fc | net.py:7"


def test_a_long_line_is_cut() -> None:
    e = Builder()
    e.constant(np.zeros(10_000, np.float32))
    assert max(map(len, fault_of(graph([*e.nodes, node("neg", (Z,), Y)])).split("\n"))) < 250


def test_no_message_is_written_for_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
graph @g(%p: bool[]) {
  state @w: f32[4]
  %new = cond(%p) : f32[4] region {
    %n = neg(@w) : f32[4]
    yield %n
  } region {
    yield @w
  }
  @w <- %new
  return %new
}
"""
    graph = parse(text)
    monkeypatch.delattr(sys.modules[verify.__module__], "reference")
    assert verify(graph) is graph


STRANGE: tuple[object, ...] = ((), (1, "a"), "strange", 1.5, None, True, ((0,),), np.zeros(2))


def test_attributes_of_all_primitives_are_held_to_their_types() -> None:
    """What the verifier lets through has attributes of the types that the rules announce; samples all pass."""
    refused = 0
    for primitive in operations():
        for sample in getattr(primitive, "samples", ()):
            primitive.check_attributes(sample.attrs)
            for name, strange in itertools.product(sample.attrs, STRANGE):
                kind = type(sample.attrs[name])
                if kind in (bool, int, tuple) and type(strange) not in (kind, type(None), int, bool):
                    with pytest.raises(GraphTypeError, match=rf"^{primitive.name} takes .* as {name}, not"):
                        primitive.check_attributes({**sample.attrs, name: strange})
                    refused += 1
            with pytest.raises(GraphTypeError, match=f"{primitive.name} has no attribute 'strange'"):
                primitive.check_attributes({**sample.attrs, "strange": 1})
    assert refused > 500


def test_an_attribute_of_another_type_is_told_at_its_line() -> None:
    text = "graph @g(%x: f32[2]) {{\n  %y = sum(%x) {{axis=[0], keepdims={}}} : f32[1]\n  return %y\n}}"
    assert verify(parse(text.format("true")))
    with pytest.raises(VerifyError, match=r"sum takes true or false as keepdims, not \(1, 2\)"):
        verify(parse(text.format("[1, 2]")))
