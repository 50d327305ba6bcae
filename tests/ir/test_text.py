"""The text form: what is printed reads back as the same graph, and as the same text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphls.primitives  # noqa: F401
from graphls.ir import Builder, Graph, Location, Type, Value, dump, parse, same, verify
from graphls.ir.errors import GraphlsError, GraphSyntaxError, GraphTypeError, VerifyError
from graphls.ir.registry import _operations
from graphls.ir.text import attribute_text
from graphls.ir.types import float32
from tests.ir.graphs import FREE, HOSTILE, graphs


@pytest.fixture(scope="module", autouse=True)
def free() -> Iterator[None]:
    """The test primitive is known by name in this module only."""
    _operations[FREE.name] = FREE
    yield
    del _operations[FREE.name]


@given(graphs())
def test_what_is_printed_reads_back(graph: Graph) -> None:
    text = dump(verify(graph))
    restored = verify(parse(text))
    assert same(graph, restored)
    assert dump(restored) == text
    assert text.isascii()


PIECES = (
    "%", "@", '"', "\\", "{", "}", "(", ")", "[", "]", "=", ":", ",", "<-", "//", "// check", " | a.py:1", "\n", " ",
    "-", "1", "99999", ".5", "e9", "inf", "nan", "f32[2]", "f32[99999999999999999999]", "token", "array(", "region {",
    "yield", "return", "state @s: f32[]", "in place", "after(%x)", "graph @g() {", "true", "none", "é", "\u0661",
    "9" * 5000, "[" * 300, "\x00", "\ud800", "add", "cond(%x) region { yield } region { yield }", '"\\ud800"', '"\\x"',
)  # fmt: skip


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """The text of a graph in which pieces are cut out, put in, and moved."""
    text = dump(draw(graphs()))
    for _ in range(draw(st.integers(1, 3))):
        at, length = draw(st.integers(0, len(text))), draw(st.sampled_from((0, 0, 1, 1, 2, 5, 20)))
        text = text[:at] + draw(st.sampled_from(("", *PIECES))) + text[at + length :]
    return text


@given(broken_texts())
def test_a_broken_text_is_a_syntax_error_or_a_graph_that_reads_back(text: str) -> None:
    try:
        graph = parse(text)
    except GraphSyntaxError as error:
        assert_points_into(text, error)
        return
    assert same(graph, parse(dump(graph)))
    with contextlib.suppress(VerifyError):
        verify(graph)


def assert_points_into(text: str, error: GraphSyntaxError) -> None:
    lines = text.split("\n")
    assert error.lineno is not None and error.offset is not None
    assert 1 <= error.lineno <= len(lines)
    assert 1 <= error.offset <= len(lines[error.lineno - 1]) + 1
    assert str(error).startswith(f"<text>:{error.lineno}:{error.offset}: ")


SOURCE = """\
graph @g(%x: f32[2], %y: f32[2]) {
  state @w: f32[2]
  %a = add(%x, @w) : f32[2]  // forward net.fc | model.py:3
  %t = overflow_start() after(%a) : token  // check
  %b = overflow_get(%t, %a) {mode="window"} : bool[]  // check
  %r = cond(%b) : f32[2] region {
    %i = mul(%a, %y) : f32[2]  // update
    yield %i
  } region {
    yield %y
  }  // update
  @w <- %r in place
  return %a, %b
}
"""


def test_the_source_is_canonical() -> None:
    assert dump(verify(parse(SOURCE))) == SOURCE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@g(", "@h("),
        ("%y: f32[2]", "%y: f32[3]"),
        ("state @w: f32[2]", "state @w: f16[2]"),
        ("%x", "%z"),
        ("add(%x, @w)", "add(@w, %x)"),
        ("add(%x, @w)", "sub(%x, @w)"),
        ("after(%a)", "after(%x)"),
        (" after(%a)", ""),
        ('mode="window"', 'mode="outputs"'),
        ("// forward", "// backward"),
        ("net.fc", "net.fd"),
        ("model.py:3", "model.py:4"),
        (" | model.py:3", ""),
        ("mul(%a, %y)", "mul(%a, %a)"),
        ("yield %y", "yield %x"),
        (" in place", ""),
        ("  @w <- %r in place\n", ""),
        ("return %a, %b", "return %b, %a"),
    ],
)
def test_same_sees_every_difference(old: str, new: str) -> None:
    changed = parse(SOURCE.replace(old, new))
    assert not same(parse(SOURCE), changed)
    assert same(changed, changed)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (0, False),
        (None, False),
        ("f32", float32),
        ((1, 2), (1, 2, 3)),
        ((1, (2,)), (1, 2)),
        (np.float32([0.0]), np.float32([-0.0])),
        (np.float32([1.0]), np.float64([1.0])),
        (np.float32([1.0]), np.float32([[1.0]])),
        (np.float32([1.0]), (1.0,)),
    ],
)
def test_same_tells_attributes_apart(first: object, second: object) -> None:
    assert not same(with_attribute(first), with_attribute(second))
    assert same(with_attribute(first), with_attribute(first))


def with_attribute(value: object) -> Graph:
    e = Builder()
    e.emit(FREE, (), {"results": (), "value": value})
    return Graph("g", (), (), tuple(e.nodes), (), ())


def test_attributes_of_numpy_and_enumeration_types_are_written_plainly() -> None:
    assert attribute_text(np.float64(0.5)) == "0.5"
    assert attribute_text((True, None, -0.0, float("-inf"), "ä")) == r'[true, none, -0.0, -inf, "\u00e4"]'


@pytest.mark.parametrize("value", [[1], {"a": 1}, object(), 1j, Type(float32), np.int64(1)])
def test_an_attribute_without_a_text_is_refused(value: object) -> None:
    with pytest.raises(GraphTypeError, match="cannot be an attribute"):
        dump(with_attribute(value))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_scopes_and_files(name: str) -> None:
    e = Builder()
    e.scope, e.loc = name, Location(name, 7)
    x = Value(name, Type(float32), is_state=True)
    e.emit("neg", (x,), name=name)
    graph = verify(Graph(name, (), (x,), tuple(e.nodes), (), (x,)))
    assert same(parse(dump(graph)), graph)


def test_remarks_are_ignored_and_comments_of_nodes_are_not() -> None:
    remarks = """\
// check
graph @g(%x: f32[]) {  // check | not.py:1
  // backward
  %a = neg(%x) : f32[]  // a remark
  %b = neg(%a)  // update
    : f32[]
  %c = neg(%b) : f32[]  // backward s | a.py:1
  // check
  return %c  // update
}
"""
    assert [(n.phase, n.scope, n.loc) for n in parse(remarks).nodes] == [
        ("forward", "", None),
        ("forward", "", None),
        ("backward", "s", Location("a.py", 1)),
    ]


def test_regions_nest_a_hundred_deep_and_no_deeper() -> None:
    assert same(verify(parse(nested(100))), parse(dump(parse(nested(100)))))
    with pytest.raises(GraphSyntaxError, match="nested more than 100 deep"):
        parse(nested(101))


def nested(depth: int) -> str:
    text = ""
    for _ in range(depth):
        text = f"cond(%b) region {{ {text} yield }} region {{ yield }}"
    return f"graph @g(%b: bool[]) {{ {text} return }}"


@pytest.mark.slow
def test_twenty_thousand_nodes() -> None:
    e = Builder()
    x = e.constant(1.0)
    graph_input = Value("x", x.type)
    value, flag = graph_input, e.constant(True)
    for _ in range(18_000):
        value = e.add(value, x)
    for _ in range(2_000):
        (value,) = e.emit("cond", (flag,), regions=(Graph("region", (), (), (), (), (value,)),) * 2)
    graph = verify(Graph("g", (graph_input,), (), tuple(e.nodes), (), (value,)))
    assert same(verify(parse(dump(graph))), graph)


def test_errors_are_also_the_builtin_ones() -> None:
    for error, builtin in ((GraphSyntaxError, SyntaxError), (VerifyError, ValueError), (GraphTypeError, TypeError)):
        assert issubclass(error, GraphlsError) and issubclass(error, builtin)
