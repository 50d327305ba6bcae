"""Malformed text: one error class, the line and the column of the fault, and what is wrong."""

from __future__ import annotations

import pytest

import graphls.primitives  # noqa: F401
from graphls.ir import parse
from graphls.ir.errors import GraphSyntaxError

HEAD = "graph @g(%x: f32[2], %b: bool[]) {\n"
TAIL = "\n  return %x\n}\n"

WHOLE = [
    ("", 1, 1, "expected 'graph' and found the end of the text"),
    ("graf @g() {}", 1, 1, "expected 'graph' and found 'graf'"),
    ("graph g() {}", 1, 7, "expected a value and found 'g'"),
    ("graph %g() { return }", 1, 7, "the name of a graph begins with '@'"),
    ("graph @g(x) {}", 1, 10, "expected a value and found 'x'"),
    ("graph @g(%x f32[]) {}", 1, 13, "expected ':' and found 'f32[]'"),
    ("graph @g(%x: f33[2]) {}", 1, 14, "'f33[2]' is not a type"),
    ("graph @g(%x: f32[2,]) {}", 1, 14, "'f32[2,]' has a malformed shape"),
    ("graph @g(%x: token[]) {}", 1, 14, "'token[]' is not a type"),
    ("graph @g(%x: f32[], %x: f32[]) {}", 1, 21, "%x is defined twice"),
    ("graph @g(%x: f32[] {}", 1, 20, "expected ')' and found '{'"),
    ("graph @g() {", 1, 13, "expected a word and found the end of the text"),
    ("graph @g() {\n  return %y\n}", 2, 10, "%y is not defined above"),
    ("graph @g() {\n  return\n", 3, 1, "expected '}' and found the end of the text"),
    ("graph @g() { return } }", 1, 23, "expected the end and found '}'"),
    ("graph @g() {\n  state %s f32[]\n  return\n}", 2, 12, "expected ':' and found 'f32[]'"),
    ('graph @"\\q"() { return }', 1, 7, "is not a valid string"),
    ('graph @"abc() { return }', 1, 7, "'@' was not expected here"),
    ("// text form 2\ngraph @g() { return }", 1, 14, "form 2, and this graphls reads form 1; install a newer"),
    ("\n// text form 10, of later\n?", 2, 14, "this is text form 10"),
]

LINES = [
    ("  %y = ", 3, 3, "There is no primitive 'return'"),
    ("  %y ? neg(%x) : f32[2]", 2, 6, "'?' was not expected here"),
    ("  %y = nag(%x) : f32[2]", 2, 8, "There is no primitive 'nag'; did you mean 'neg'"),
    ("  %y = neg %x : f32[2]", 2, 12, "expected '(' and found '%x'"),
    ("  %y = neg(%x : f32[2]", 2, 15, "expected ')' and found ':'"),
    ("  %y = neg(%z) : f32[2]", 2, 12, "%z is not defined above"),
    ("  %y = neg(%y) : f32[2]", 2, 12, "%y is not defined above"),
    ("  %y = neg(@x) : f32[2]", 2, 12, "@x is not defined above"),
    ("  %y = neg(%x)", 3, 3, "expected ':' and found 'return'"),
    ("  %y = neg(%x) : f32", 2, 18, "expected a type and found 'f32'"),
    ("  %y, %z = neg(%x) : f32[2]", 3, 3, "expected ',' and found 'return'"),
    ("  %y, %x = neg(%x) : f32[2], f32[2]", 2, 7, "%x is defined twice"),
    ("  %y, %y = neg(%x) : f32[2], f32[2]", 2, 7, "%y is defined twice"),
    ("  %y = neg(%x) after(%q) : f32[2]", 2, 22, "%q is not defined above"),
    ("  %y = neg(%x) {a} : f32[2]", 2, 18, "expected '=' and found '}'"),
    ("  %y = neg(%x) {a=1, a=2} : f32[2]", 2, 22, "the attribute a is given twice"),
    ("  %y = neg(%x) {a=b} : f32[2]", 2, 19, "'b' is not an attribute value"),
    ("  %y = neg(%x) {a=float} : f32[2]", 2, 19, "'float' is not an attribute value"),
    ("  %y = neg(%x) {a=%x} : f32[2]", 2, 19, "expected a word and found '%x'"),
    ("  %y = neg(%x) {a=[1,2} : f32[2]", 2, 23, "expected ']' and found '}'"),
    ('  %y = neg(%x) {a="\\q"} : f32[2]', 2, 19, "is not a valid string"),
    ('  %y = neg(%x) {a="\t"} : f32[2]', 2, 19, "is not a valid string"),
    ("  %y = neg(%x) {a=" + "7" * 5000 + "} : f32[2]", 2, 19, "too many digits"),
    ("  %y = constant() {value=array(f32, [1])} : f32[1]", 2, 32, "expected a type and found 'f32'"),
    ("  %y = constant() {value=array(f32[2], [1])} : f32[2]", 2, 40, "does not fill f32[2]"),
    ("  %y = constant() {value=array(i8[1], [300])} : i8[1]", 2, 39, "does not fill i8[1]"),
    ("  %y = constant() {value=array(i8[1], [1.5])} : i8[1]", 2, 39, "does not fill i8[1]"),
    ("  %y = constant() {value=array(f32[1], [none])} : f32[1]", 2, 40, "does not fill f32[1]"),
    ("  %y = constant() {value=array(f32[], none)} : f32[]", 2, 39, "does not fill f32[]"),
    ("  %y = constant() {value=array(bool[1], [1])} : bool[1]", 2, 41, "does not fill bool[1]"),
    ("  %y = constant() {value=array(token, [])} : f32[]", 2, 39, "does not fill token"),
    ('  %y = constant() {value=array(f32[2], "AAAA")} : f32[2]', 2, 40, "does not fill f32[2]"),
    ('  %y = constant() {value=array(f32[2], "?")} : f32[2]', 2, 40, "does not fill f32[2]"),
    ('  %y = constant() {value=array(f32[2], "é")} : f32[2]', 2, 40, "does not fill f32[2]"),
    ("  cond(%b) region { } region { yield }", 2, 21, "expected a word and found '}'"),
    ("  cond(%b) region { yield %q } region { yield }", 2, 27, "%q is not defined above"),
    ("  cond(%b) region { %i = neg(%x) : f32[2] yield }\n  %y = neg(%i) : f32[2]", 3, 12, "%i belongs to a region"),
    ("  cond(%b) region { %x = neg(%x) : f32[2] yield }", 2, 21, "%x is defined twice"),
    ("  %i = neg(%x) : f32[2]\n  cond(%b) region(%i: f32[]) { yield }", 3, 19, "%i is defined twice"),
    ("  %x <- %y", 2, 9, "%y is not defined above"),
    ("  %x <- %x in %x", 2, 15, "expected 'place' and found '%x'"),
    ("  %x <- %x\n  %y = neg(%x) : f32[2]", 3, 3, "nodes must stand before the writes of states"),
    ('  %"a = neg(%x) : f32[2]', 2, 3, "'%' was not expected here"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), WHOLE)
def test_a_malformed_graph(text: str, line: int, column: int, message: str) -> None:
    expect_error(text, line, column, message)


@pytest.mark.parametrize(("text", "line", "column", "message"), LINES)
def test_a_malformed_line(text: str, line: int, column: int, message: str) -> None:
    expect_error(HEAD + text + TAIL, line, column, message)


def expect_error(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        parse(text, file="step.ir")
    error = caught.value
    assert (error.filename, error.lineno, error.offset) == ("step.ir", line, column)
    first, shown, caret = str(error).split("\n")
    assert first.startswith(f"step.ir:{line}:{column}: ")
    assert message in first and first.endswith(".")
    assert shown in text.split("\n")[line - 1]
    assert caret.lstrip() == "^" and len(caret) <= len(shown) + 1


def test_a_long_line_is_cut_to_the_fault() -> None:
    text = f"graph @g(%x: f32[2]) {{ return {'%x, ' * 500}%oops, {'%x, ' * 500} }}"
    with pytest.raises(GraphSyntaxError) as caught:
        parse(text)
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) <= 160
    assert shown[caret.index("^") :].startswith("%oops")
