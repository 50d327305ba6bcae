"""Patterns: what matches, what does not, and what is said of the nearest place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphlsError, GraphTypeError, GraphValueError
from graphls.ir import Builder, Graph, Value, parse
from graphls.passes import Pattern
from graphls.passes.patterns import matching
from graphls.passes.patterns.sources import parameters_of


def graph_of(*lines: str, inputs: str = "%x: f32[2,3], %y: f32[2,3]", returns: str = "%r") -> Graph:
    body = "\n".join(lines)
    return parse(f"graph @main({inputs}) {{\n{body}\nreturn {returns}\n}}\n")


def constant(name: str, value: str, kind: str = "f32[]") -> str:
    return f"%{name} = constant() {{value=array({kind}, [{value}])}} : {kind}"


BIASED = graph_of(
    "%s = add(%b, %x) : f32[2,3]", "%r = relu(%s) : f32[2,3]", inputs="%x: f32[2,3], %b: f32[3]"
)


def relu_of_sum(e: Any, x: Any, b: Any) -> Any:
    return e.relu(e.add(x, b))


AS_GRAPH = graph_of("%s = add(%x, %b) : f32[]", "%r = relu(%s) : f32[]", inputs="%x: f32[], %b: f32[]")


@pytest.mark.parametrize("source", [relu_of_sum, "relu(add(x, b))", AS_GRAPH])
def test_a_function_an_expression_and_a_graph_match_alike(source: Any) -> None:
    (match,) = Pattern(source).find(BIASED)
    assert [node.primitive.name for node in match.nodes] == ["relu", "add"]
    assert {match["x"], match["b"]} == {*BIASED.inputs}
    assert str(Pattern(source)) == "relu(add(x, b))"


@pytest.mark.parametrize("primitive", ["add", "mul", "minimum", "maximum", "equal", "not_equal", "logaddexp"])
def test_operands_of_commutative_primitives_match_in_both_orders(primitive: str) -> None:
    kind = "bool" if "equal" in primitive else "f32"
    graph = graph_of("%n = neg(%y) : f32[2,3]", f"%r = {primitive}(%x, %n) : {kind}[2,3]")
    (match,) = Pattern(f"{primitive}(neg(a), b)").find(graph)
    assert match["b"].name == "x"


def test_operands_of_other_primitives_match_in_their_order_only() -> None:
    graph = graph_of("%n = neg(%y) : f32[2,3]", "%r = sub(%x, %n) : f32[2,3]")
    assert not Pattern("sub(neg(a), b)").find(graph)
    assert Pattern("sub(b, neg(a))").find(graph)


def test_a_name_is_the_same_value_wherever_it_stands() -> None:
    graph = graph_of("%a = mul(%x, %x) : f32[2,3]", "%b = mul(%x, %y) : f32[2,3]", "%r = add(%a, %b) : f32[2,3]")
    assert [match.nodes[0].output.name for match in Pattern("mul(v, v)").find(graph)] == ["a"]


def test_equal_parts_may_be_one_node_or_several() -> None:
    twice = graph_of("%a = exp(%x) : f32[2,3]", "%b = exp(%x) : f32[2,3]", "%r = mul(%a, %b) : f32[2,3]")
    once = graph_of("%a = exp(%x) : f32[2,3]", "%r = mul(%a, %a) : f32[2,3]")

    def square(e: Any, v: Any) -> Any:
        part = e.exp(v)
        return e.mul(part, part)

    for graph in (twice, once):
        assert Pattern(square).find(graph) and Pattern("mul(exp(v), exp(v))").find(graph)


@pytest.mark.parametrize(
    ("kind", "written"),
    [("f32[]", "0.1"), ("f16[]", "0.1"), ("bf16[]", "0.1"), ("f64[2,3]", ", ".join(["0.1"] * 6))],
)
def test_a_number_matches_a_constant_that_is_rounded_or_repeated(kind: str, written: str) -> None:
    dtype = kind.partition("[")[0]
    full = f"{dtype}[2,3]"
    graph = graph_of(constant("c", written, kind), f"%r = mul(%c, %x) : {full}", inputs=f"%x: {full}")
    assert Pattern("mul(v, 0.1)").find(graph)
    assert not Pattern("mul(v, 0.11)").find(graph)
    (match,) = Pattern("mul(v, FACTOR)").find(graph)
    assert match["FACTOR"] == pytest.approx(0.1, rel=1e-2)


def test_a_number_matches_one_that_is_broadcast_or_cast() -> None:
    graph = graph_of(
        constant("c", "2.0", "f64[]"), "%d = cast(%c) {dtype=f32} : f32[]",
        "%e = broadcast_to(%d) {shape=[2,3]} : f32[2,3]", "%r = mul(%x, %e) : f32[2,3]",
    )  # fmt: skip
    (match,) = Pattern("mul(v, 2.0)").find(graph)
    assert [node.primitive.name for node in match.constants] == ["broadcast_to", "cast", "constant"]


def test_the_tolerance_of_constants() -> None:
    graph = graph_of(constant("c", "0.5001"), "%r = mul(%x, %c) : f32[2,3]")
    assert not Pattern("mul(v, 0.5)").find(graph)
    assert Pattern("mul(v, 0.5)", tolerance=1e-3).find(graph)


def test_an_array_matches_a_constant_of_its_shape_and_numbers() -> None:
    graph = graph_of(constant("c", "1.0, 2.0, 3.0", "f32[3]"), "%r = mul(%x, %c) : f32[2,3]")
    assert Pattern(lambda e, v: e.mul(v, np.array([1.0, 2.0, 3.0]))).find(graph)
    assert not Pattern(lambda e, v: e.mul(v, np.array([1.0, 2.0, 4.0]))).find(graph)
    assert not Pattern(lambda e, v: e.mul(v, np.array([[1.0, 2.0, 3.0]]))).find(graph)
    assert not Pattern("mul(v, FACTOR)").find(graph)


SUM = graph_of("%r = sum(%x) {axis=[1], keepdims=true} : f32[2,1]", returns="%r")


@pytest.mark.parametrize(
    ("text", "axis"),
    [("sum(v, axis=(1,), keepdims=True)", None), ("sum(v, axis=AXIS, keepdims=True)", (1,)), ("sum(v, ...)", None)],
)
def test_attributes_are_values_names_or_free(text: str, axis: Any) -> None:
    (match,) = Pattern(text).find(SUM)
    assert match.numbers.get("AXIS") == axis


@pytest.mark.parametrize("text", ["sum(v)", "sum(v, axis=(1,))", "sum(v, axis=(0,), keepdims=True)"])
def test_attributes_that_are_not_written_have_their_defaults(text: str) -> None:
    assert not Pattern(text).find(SUM)


def test_dtypes_are_attributes_by_their_names() -> None:
    graph = graph_of("%r = cast(%x) {dtype=f16} : f16[2,3]")
    assert Pattern("cast(v, dtype=f16)").find(graph) and Pattern("cast(v, dtype=float16)").find(graph)
    assert not Pattern("cast(v, dtype=f64)").find(graph)
    assert Pattern(lambda e, v: e.cast(v, dtype=graphls.float16)).find(graph)


def test_a_result_of_several() -> None:
    graph = graph_of(
        "%v, %i = top_k(%x) {k=2, axis=1, largest=true} : f32[2,2], i64[2,2]", "%r = neg(%v) : f32[2,2]"
    )
    assert Pattern("neg(top_k(a, ...))").find(graph)
    assert not Pattern("neg(top_k(a, ...)[1])").find(graph)
    assert not Pattern(lambda e, a: e.neg(e.top_k(a, ...)[1])).find(graph)


@pytest.mark.parametrize(
    ("types", "is_match"),
    [
        ({"x": "f32[..., n]", "b": "[n]"}, True), ({"x": "f32[m, n]", "b": "[m]"}, False), ({"x": "float"}, True),
        ({"x": "int"}, False), ({"x": "f32[2, 3]"}, True), ({"x": "[..., 4]"}, False), ({"b": graphls.float32}, True),
        ({"b": graphls.float16}, False), ({"x": "[k, ..., n]", "b": "[n]"}, True), ({"b": "[...]"}, True),
        ({"b": "[a, ..., c]"}, True), ({"b": "[a, ..., d, c]"}, False),
    ],
)  # fmt: skip
def test_types_and_sizes(types: Any, is_match: bool) -> None:
    matches = Pattern("relu(add(x, b))", types=types).find(BIASED)
    assert bool(matches) == is_match
    if is_match and "n" in str(types.get("x", "")):
        assert matches[0]["n"] == 3


def test_annotations_are_types_unless_they_are_for_type_checkers() -> None:
    def biased(e: Builder, x: f32[..., n], b: [n]) -> Value:  # type: ignore # noqa: F821
        return e.relu(e.add(x, b))

    pattern = Pattern(biased)
    assert {name: kind.text for name, kind in pattern.types.items()} == {"x": "f32[..., n]", "b": "[n]"}
    assert pattern.find(BIASED)[0]["n"] == 3


def test_a_guard_sees_values_numbers_sizes_and_the_match() -> None:
    seen: list[Any] = []

    def when(b: Any, n: int, match: Any) -> bool:
        seen.append((b.name, n, match.uses("x"), len(match.nodes)))
        return n == 3

    assert Pattern("relu(add(x, b))", types={"b": "[n]"}, when=when).find(BIASED)
    assert seen == [("b", 3, 1, 2)]
    assert not Pattern("relu(add(x, b))", when=lambda x: False).find(BIASED)


def test_a_guard_chooses_between_orders_of_operands() -> None:
    (match,) = Pattern("relu(add(v, w))", when=lambda v: v.name == "x").find(BIASED)
    assert match["v"].name == "x"


READ_TWICE = graph_of("%s = add(%x, %y) : f32[2,3]", "%r = relu(%s) : f32[2,3]", returns="%r, %s")


def test_inner_values_have_no_other_readers_unless_they_are_shared() -> None:
    assert not Pattern(relu_of_sum).find(READ_TWICE)
    assert Pattern(relu_of_sum, shared=True).find(READ_TWICE)
    assert "%s has other readers; `shared=True` allows them" in str(Pattern(relu_of_sum).nearest(READ_TWICE))


def test_a_match_lies_in_one_block() -> None:
    graph = parse("""
graph @main(%x: f32[2], %p: bool[]) {
  %n = neg(%x) : f32[2]
  %r = cond(%p) : f32[2] region {
    %e = exp(%n) : f32[2]
    yield %e
  } region {
    %m = neg(%x) : f32[2]
    %f = exp(%m) : f32[2]
    yield %f
  }
  return %r
}
""")
    assert [match.nodes[0].output.name for match in Pattern("exp(neg(v))").find(graph)] == ["f"]


def test_a_match_lies_in_one_phase() -> None:
    graph = graph_of("%n = neg(%x) : f32[2,3] // forward", "%r = exp(%n) : f32[2,3] // backward")
    assert not Pattern("exp(neg(v))").find(graph)
    assert "%n is of the phase forward" in str(Pattern("exp(neg(v))").nearest(graph))


NORMAL = graph_of(
    constant("half", "0.5"), "%h = mul(%x, %half) : f32[2,3]", "%t = tanh(%x) : f32[2,3]", constant("one", "1.0"),
    "%p = add(%t, %one) : f32[2,3]", "%r = mul(%h, %p) : f32[2,3]",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mul(mul(v, 0.5), add(erf(v), 1.0))", "3 of 4 nodes match at %r = mul(%h, %p), where the pattern has erf(v): "
         "%t is a result of tanh"),
        ("mul(mul(v, 0.5), add(tanh(v), 2.0))", "where the pattern has 2.0: %one is the constant 1.0"),
        ("mul(mul(v, 0.25), add(tanh(v), 1.0))", "where the pattern has 0.25: %half is the constant 0.5"),
        ("mul(mul(v, 0.5), add(tanh(neg(v)), 1.0))", "where the pattern has neg(v): %x is not a result of a node"),
        ("mul(mul(v, W), add(tanh(W), 1.0))", "%x is not a constant with one number"),
    ],
)  # fmt: skip
def test_the_nearest_place_says_which_part_failed_where_and_why(text: str, expected: str) -> None:
    pattern = Pattern(text)
    assert not pattern.find(NORMAL)
    assert expected in str(pattern.nearest(NORMAL))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(v)", "%r has axis=(1,) where the pattern has None, the default; write axis=(1,), axis=AXIS or `...`"),
        ("sum(v, axis=(0,), keepdims=True)", "%r has axis=(1,) where the pattern has (0,)"),
    ],
)
def test_the_nearest_place_says_which_attribute_differs(text: str, expected: str) -> None:
    assert expected in str(Pattern(text).nearest(SUM))


def test_the_nearest_place_says_which_type_or_guard_refuses() -> None:
    assert "b is %b: f32[3] and must be f16" in str(Pattern(relu_of_sum, types={"b": "f16"}).nearest(BIASED)) or (
        "b is %x: f32[2,3] and must be f16" in str(Pattern(relu_of_sum, types={"b": "f16"}).nearest(BIASED))
    )
    near = Pattern(relu_of_sum, when=lambda x: False).nearest(BIASED)
    assert "the function `when` refuses it" in str(near)
    assert near is not None and (near.matched, near.total) == (2, 2)


def test_without_a_node_for_the_root_the_missing_primitives_are_known() -> None:
    pattern = Pattern("gather(exp(v), w, axis=0)")
    assert pattern.nearest(NORMAL) is None
    assert pattern.missing(NORMAL) == ["gather", "exp"]


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("mull(x, y)", GraphValueError, "no primitive 'mull'; did you mean 'mul'"),
        (lambda e, x: e.mull(x, x), GraphAttributeError, "did you mean 'mul'"),
        ("sum(x, axsi=(0,))", GraphTypeError, "sum has no attribute 'axsi'; did you mean 'axis'"),
        (lambda e, x: e.sum(x, axsi=(0,)), GraphTypeError, "did you mean 'axis'"),
        ("reshape(x)", GraphValueError, "says nothing of its attribute 'shape'; write shape=SHAPE"),
        ("sum(x, axis=n)", GraphValueError, "a name of any value is in capitals"),
        (lambda e, x, n: e.sum(x, axis=n), GraphValueError, "write it in capitals"),
        ("mul(x,", GraphValueError, "does not parse"),
        ("mul(x if y else z, z)", GraphValueError, "'x if y else z' is not a part of a pattern"),
        ("mul(x, 1 / 0)", GraphValueError, "A number in a pattern cannot be computed: division by zero"),
        ("sum(x, axis=N - 1)", GraphValueError, "write the replacement as a function to compute it"),
        ("add(x)", GraphTypeError, "add takes 2 operands, not 1"),
        (lambda e, x, y, z: e.add(x, y, z), GraphTypeError, "add takes 2 operands, not 3"),
        ("softmax(x, 1)", GraphTypeError, "takes 1 operand, not 2; attributes are written by name, as axis=..."),
        ("transpose(x, perm=P)", GraphTypeError, "has no attribute 'perm'; it has permutation"),
        ("while_loop(x, ...)", GraphValueError, "has regions, so that no pattern may contain it"),
        ("exp(x), neg(x)", GraphValueError, "one last operation, not 2; write a pattern for each"),
        (lambda e, x: (e.exp(x), e.neg(x)), GraphTypeError, "not 2 of them; write a pattern for each"),
        ("sum(x, axis=A, ...)", GraphValueError, "`...` stands before attributes"),
        ("x", GraphValueError, "would match any value"),
        (lambda x, w: x @ w, GraphTypeError, "takes the builder and names"),
        (lambda e, x: ops.exp(x), GraphTypeError, "has no numbers, as functions of graphls.ops need"),
        (lambda: None, GraphTypeError, "takes the builder and names"),
        (lambda e, x: 3, GraphTypeError, "returns the symbol"),
        (7, GraphTypeError, "a function, an expression as text, or a graph"),
        ("print(x, ...)", GraphValueError, "has an effect"),
    ],
)
def test_what_is_no_pattern_says_why(source: Any, kind: type[GraphlsError], message: str) -> None:
    with pytest.raises(kind) as caught:
        Pattern(source)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"xs": "f32"}}, "has no value 'xs'; did you mean 'x'"),
        ({"types": {"x": "f33"}}, "no dtype 'f33'; did you mean 'f32'"),
        ({"types": {"x": "f32[-]"}}, "a size is a number, a name or '...'"),
        ({"types": {"x": "f32[..., ...]"}}, "has '...' twice"),
        ({"types": {"x": "[b]"}}, "has the name of a value"),
        ({"types": {"x": 3}}, "is a text such as 'f32[..., n]'"),
        ({"when": lambda bb: True}, "takes 'bb'; did you mean 'b'"),
        ({"when": "x.rank == 2"}, "`when` is a function of names"),
    ],
)
def test_wrong_options_say_what_is_nearest(options: Any, message: str) -> None:
    with pytest.raises(GraphlsError, match=r".") as caught:
        Pattern("add(x, b)", **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("x @ w + b", lambda e, x, w, b: x @ w + b),
        ("-x * (2 - y) / 4.0", lambda e, x, y: -x * (2 - y) / 4.0),
        ("x**2 % y // 3", lambda e, x, y: x**2 % y // 3),
        ("y ** (1 / 2)", lambda e, y: y ** (1 / 2)),
        ("where(x <= y, 1 + x, x - y)", lambda e, x, y: e.where(x <= y, 1 + x, x - y)),
        ("where(x > y, 3 / x, 2 ** y)", lambda e, x, y: e.where(x > y, 3 / x, 2**y)),
    ],
)
def test_operators_are_the_primitives_that_a_trace_has_for_them(text: str, function: Any) -> None:
    assert str(Pattern(text)) == str(Pattern(function))
    names = parameters_of(function)[1:]
    arrays = {name: np.full((2, 2), 0.75, np.float32) for name in names}


    def computed(*values: Any) -> Any:
        return eval(text, {**dict(zip(names, values, strict=True)), "where": ops.where})

    graph = graphls.trace_graph(computed, *arrays.values()).graph
    (match,) = Pattern(text, shared=True).find(graph)
    assert {match[name] for name in names} == set(graph.inputs)


def test_a_negative_axis_counts_from_the_end() -> None:
    graph = graphls.trace_graph(lambda x: ops.sum(ops.softmax(x, -1), (0, 1)), np.ones((2, 3), np.float32)).graph
    for axis, axes in ((-1, (-2, -1)), (1, (0, 1)), (-1, (0, -1))):
        assert len(Pattern(f"sum(softmax(x, axis={axis}), axis={axes})").find(graph)) == 1
    for text in ("softmax(x, axis=-2)", "softmax(x, axis=0)", "sum(x, axis=-1)", "sum(x, axis=(0,))"):
        assert not Pattern(text, shared=True).find(graph)
    one = graphls.trace_graph(lambda x: ops.one_hot(x, 3, axis=0), np.ones(2, np.int32)).graph
    assert Pattern("one_hot(x, ..., axis=-2)").find(one) and not Pattern("one_hot(x, ..., axis=-1)").find(one)


def test_what_is_searched_and_looked_up_is_named() -> None:
    graph = parse("graph @main(%x: f32[2]) {\n%y = exp(%x) : f32[2]\nreturn %y\n}\n")
    with pytest.raises(GraphTypeError, match=r"searched for in a graph, not in .*trace_graph\(cell, \*inputs\).graph"):
        Pattern("exp(x)").find(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(GraphKeyError, match="has no 'alpa'; did you mean 'alpha'; it has alpha"):
        Pattern("exp(alpha)").find(graph)[0]["alpa"]
    near = Pattern("exp(x)[2]").nearest(graph)
    assert near is not None and near.matched == 0 and near.reason == "it has 1 results"


def test_the_text_of_a_pattern_reads_back() -> None:
    text = "neg(top_k(mul(x, 0.5), ..., k=K)[1])"
    assert str(Pattern(str(Pattern(text)))) == text


def test_a_search_takes_steps_in_proportion_to_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [0]
    monkeypatch.setattr(matching.Matcher, "solve", counting(matching.Matcher.solve, steps))
    counts = []
    for length in (50, 200):
        names = [f"%a{i}" for i in range(length)]
        lines = [f"{new} = add({old}, %y) : f32[2,3]" for old, new in zip(["%x", *names], names, strict=False)]
        steps[0] = 0
        Pattern("add(add(add(a, b), c), exp(d))").find(graph_of(*lines, returns=names[-1]))
        counts.append(steps[0])
    assert counts[1] <= 4.2 * counts[0]


def test_a_search_in_sums_of_sums_takes_no_exponential_time(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [0]
    monkeypatch.setattr(matching.Matcher, "solve", counting(matching.Matcher.solve, steps))
    lines, level, sums = [], ["x", "y"] * 16, 0
    while len(level) > 1:
        pairs = [*zip(level[::2], level[1::2], strict=True)]
        lines += [f"%s{sums + i} = add(%{a}, %{b}) : f32[2,3]" for i, (a, b) in enumerate(pairs)]
        level, sums = [f"s{sums + i}" for i in range(len(pairs))], sums + len(pairs)

    def balanced(count: int, last: str) -> str:
        return last if count == 1 else f"add({balanced(count // 2, 'v')}, {balanced(count - count // 2, last)})"

    graph = graph_of(*lines, returns=f"%{level[0]}")
    assert not Pattern(balanced(32, "exp(v)")).find(graph)
    assert Pattern(balanced(32, "w").replace("v", "_x"), shared=True).nearest(graph) is not None
    assert steps[0] < 100_000


def counting(function: Any, steps: list[int]) -> Any:
    def counted(self: Any, goals: Any) -> Any:
        steps[0] += 1
        return function(self, goals)

    return counted


@pytest.mark.parametrize("depth", [101, 150, 5000])
def test_a_pattern_with_too_many_parts_is_an_error(depth: int) -> None:
    with pytest.raises(GraphValueError, match=r"100 primitives at most|too many parts|does not parse"):
        Pattern("neg(" * depth + "x" + ")" * depth)

    def chain(e: Any, x: Any) -> Any:
        for _ in range(depth):
            x = e.neg(x)
        return x

    with pytest.raises(GraphValueError, match="100 primitives at most"):
        Pattern(chain)
