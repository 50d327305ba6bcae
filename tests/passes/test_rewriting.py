"""Passes that `rewrite` makes: what replaces a match, and what of the graph stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls import nn, ops
from graphls.base.errors import GraphKeyError, GraphlsError, GraphTypeError, GraphValueError
from graphls.ir import Graph, Node, Value, dump, interpret, parse, verify
from graphls.ir.graph import definers
from graphls.passes import Pattern, Rewrite, find_pass, manager, parse_pipeline, register_pass, rewrite
from graphls.testing import assert_same_values, check_pass, check_rewrite
from tests.passes.test_properties import Making

GRAPH = """
graph @main(%x: f32[2,3], %y: f32[2,3]) {
  %n = neg(%y) : f32[2,3]  // backward net.a | net.py:3
  %r = add(%x, %n) : f32[2,3]  // backward net.b | net.py:4
  return %r
}
"""
MINUS = rewrite("add(a, neg(b))", "sub(a, b)", name="minus")


def replaced(rule: Rewrite, text: str) -> Graph:
    return verify(rule.run(parse(text)))


@pytest.mark.parametrize(
    "replacement",
    [
        "sub(a, b)", lambda e, a, b: e.sub(a, b), lambda e, b, a: e.sub(a, b),
        parse("graph @r(%a: f32[], %b: f32[]) {\n%s = sub(%a, %b) : f32[]\nreturn %s\n}\n"),
    ],
)  # fmt: skip
def test_a_replacement_is_a_function_an_expression_or_a_graph(replacement: Any) -> None:
    check_pass(
        rewrite("add(a, neg(b))", replacement),
        GRAPH,
        """
graph @main(%x: f32[2,3], %y: f32[2,3]) {
  %r = sub(%x, %y) : f32[2,3]  // backward net.b | net.py:4
  return %r
}
""",
    )


def test_new_nodes_have_phase_cell_and_line_of_the_last_node() -> None:
    graph = replaced(rewrite("add(a, neg(b))", "neg(sub(b, a))"), GRAPH)
    assert [(n.phase, n.scope, str(n.loc)) for n in graph.nodes] == [("backward", "net.b", "net.py:4")] * 2


def test_constants_that_nothing_reads_any_more_are_gone_and_others_stay() -> None:
    text = """
graph @main(%x: f32[2]) {
  %c = constant() {value=array(f32[], [2.0])} : f32[]
  %d = constant() {value=array(f32[], [2.0])} : f32[]
  %m = mul(%x, %c) : f32[2]
  %k = mul(%x, %d) : f32[2]
  %r = exp(%d) : f32[]
  return %m, %k, %r
}
"""
    graph = replaced(rewrite("mul(a, 2.0)", "add(a, a)"), text)
    assert [node.primitive.name for node in graph.nodes] == ["constant", "add", "add", "exp"]
    assert graph.nodes[0].output.name == "d"


def test_a_replacement_may_be_a_value_of_the_match_or_a_number() -> None:
    text = """
graph @main(%x: f32[2]) {
  %a = neg(%x) : f32[2]
  %r = neg(%a) : f32[2]
  %z = sub(%r, %r) : f32[2]
  return %z
}
"""
    assert not replaced(rewrite("sub(neg(neg(a)), b)", "a"), text).nodes
    zeros = replaced(rewrite("sub(a, a)", lambda e: 0.0), text)
    assert [node.primitive.name for node in zeros.nodes[-2:]] == ["constant", "broadcast_to"]


def test_matches_that_a_replacement_makes_possible_are_replaced_too() -> None:
    lines = [f"%n{i + 1} = neg(%n{i}) : f32[2]" for i in range(7)]
    text = "graph @main(%n0: f32[2]) {\n" + "\n".join(lines) + "\nreturn %n7\n}\n"
    assert len(replaced(rewrite("neg(neg(a))", "a"), text).nodes) == 1


def test_numbers_and_attributes_are_given_to_the_replacement() -> None:
    text = """
graph @main(%x: f32[2,3]) {
  %s = sum(%x) {axis=[1], keepdims=true} : f32[2,1]
  %c = constant() {value=array(f32[], [0.25])} : f32[]
  %r = mul(%c, %s) : f32[2,1]
  return %r
}
"""
    both = [
        rewrite("mul(sum(a, axis=AXIS, keepdims=KEEP), F)", "sum(mul(a, F), axis=AXIS, keepdims=KEEP)"),
        rewrite(
            "mul(sum(a, axis=AXIS, keepdims=KEEP), F)",
            lambda e, a, F, AXIS, KEEP: e.sum(e.mul(a, F), axis=AXIS, keepdims=KEEP),
        ),
    ]
    for rule in both:
        graph = replaced(rule, text)
        assert [node.primitive.name for node in graph.nodes] == ["constant", "mul", "sum"]
        assert_same_values(parse(text), graph, tolerance=1e-6)


@pytest.mark.parametrize(
    "replacement", ["x * (A * B)", "mul(x, mul(A, B))", lambda e, x, A, B: x * (A * B), lambda e, x, A, B: A * B * x]
)
def test_numbers_are_computed_and_operators_add_nodes(replacement: Any) -> None:
    rule = rewrite("(x * A) * B", replacement)
    graph = graphls.trace_graph(lambda x: ((x * 2.5) * 4.0) * 3.0, np.ones((2, 3), np.float32)).graph
    after = verify(rule.run(graph))
    assert [node.primitive.name for node in after.nodes] == ["constant", "mul"]
    assert after.nodes[0].attrs["value"] == 30.0
    assert check_rewrite(rule, graph) == 2


def test_values_have_operators_in_rules_only() -> None:
    value = parse(GRAPH).inputs[0]
    with pytest.raises(GraphTypeError, match="has operators in gradient rules and replacements only"):
        value * 2
    with pytest.raises(GraphTypeError, match="has operators in gradient rules and replacements only"):
        np.float32(2) * value


def test_a_value_is_repeated_as_the_constant_of_the_match_is_and_else_is_an_error() -> None:
    text = """
graph @main(%x: f32[3,1], %z: f32[3,3]) {
  %c = constant() {value=array(f32[], [2.0])} : f32[]
  %d = constant() {value=array(f32[1,3], [4.0, 4.0, 4.0])} : f32[1,3]
  %m = mul(%x, %c) : f32[3,1]
  %n = mul(%m, %d) : f32[3,3]
  %s = sub(%x, %z) : f32[3,3]
  %y = add(%n, %s) : f32[3,3]
  return %y
}
"""
    rule = rewrite("x * A * B", lambda e, x, A, B: x * (A * B))
    after = replaced(rule, text)
    assert "broadcast_to" in {node.primitive.name for node in after.nodes}
    assert_same_values(parse(text), after)
    with pytest.raises(GraphTypeError, match=r"gives f32\[3,1\] where %s is f32\[3,3\].* as by broadcast_to"):
        replaced(rewrite("x - z", "neg(x)"), text)


def test_an_array_is_a_replacement() -> None:
    rule = rewrite("x - x", lambda e, x: np.zeros(x.shape))
    graph = graphls.trace_graph(lambda x: ops.exp(x - x), np.ones((2, 3), np.float32)).graph
    assert check_rewrite(rule, graph) == 1
    with pytest.raises(GraphTypeError, match="a number, not None"):
        rewrite("exp(x)", lambda e, x: None).run(graph)


def test_passes_are_a_list_of_passes_and_texts() -> None:
    x = np.ones((2, 3), np.float32)
    step = graphls.compile(graphls.grad(lambda v: ops.sum(v * ops.sigmoid(v))), x, passes=[SIGMOID, "default"])
    assert next(iter(list(step.stages)[1:])) == "01_spread" and len(step.stages) > 4
    with pytest.raises(GraphlsError, match="apply the gradient pass, as passes='mine, default' does"):
        graphls.compile(graphls.grad(lambda v: ops.sum(v * ops.sigmoid(v))), x, passes=SIGMOID)


def test_other_readers_keep_the_nodes_that_are_shared() -> None:
    text = GRAPH.replace("return %r", "return %r, %n")
    assert replaced(MINUS, text).diff(parse(text)).added == ()
    shared = replaced(rewrite("add(a, neg(b))", "sub(a, b)", shared=True), text)
    assert [node.primitive.name for node in shared.nodes] == ["neg", "sub"]


def test_control_edges_stay() -> None:
    text = """
graph @main(%x: f32[2], %y: f32[2]) {
  %first = exp(%y) : f32[2]
  %n = neg(%y) after(%first) : f32[2]
  %r = add(%x, %n) : f32[2]
  %last = exp(%x) after(%r) : f32[2]
  return %r, %last, %first
}
"""
    graph = replaced(MINUS, text)
    by_name = {node.output.name: node for node in graph.nodes}
    assert [value.name for value in by_name["r"].after] == ["first"]
    assert [value.name for value in by_name["last"].after] == ["r"]
    # A value that has no node of its own cannot have the edge.
    assert len(replaced(rewrite("add(a, neg(b))", "a"), text).nodes) == 4


def test_regions_are_searched_and_what_they_capture_is_counted() -> None:
    text = """
graph @main(%x: f32[2], %p: bool[]) {
  %n = neg(%x) : f32[2]
  %a = add(%x, %n) : f32[2]
  %r = cond(%p) : f32[2] region {
    %e = exp(%n) : f32[2]
    yield %e
  } region {
    %m = neg(%x) : f32[2]
    %f = add(%m, %x) : f32[2]
    yield %f
  }
  return %r, %a
}
"""
    graph = replaced(MINUS, text)
    assert [node.primitive.name for node in graph.nodes] == ["neg", "add", "cond"]
    assert [node.primitive.name for node in graph.nodes[-1].regions[1].nodes] == ["sub"]


def test_values_of_another_type_are_an_error_that_names_both_and_the_line() -> None:
    with pytest.raises(GraphTypeError) as caught:
        replaced(rewrite("add(a, neg(b))", "cast(a, dtype=f16)", name="narrow"), GRAPH)
    message = str(caught.value)
    assert "The replacement of 'narrow' gives f16[2,3] where %r is f32[2,3]" in message and "net.py:4" in message
    with pytest.raises(GraphTypeError, match=r"gives 2 values where the last node of the pattern has 1"):
        replaced(rewrite("add(a, neg(b))", lambda e, a, b: (a, b)), GRAPH)
    with pytest.raises(GraphTypeError, match=r"returns values of its builder, or a number, not 'a'"):
        replaced(rewrite("add(a, neg(b))", lambda e: "a"), GRAPH)


@pytest.mark.parametrize(
    "replacement", ["mul(add(a, b), 1.0)", "neg(neg(add(b, a)))", lambda e, a, b: e.add(b, a)]
)
def test_a_replacement_that_contains_its_pattern_is_an_error(replacement: Any) -> None:
    with pytest.raises(GraphValueError, match=r"'again' has no end: its replacement contains its pattern, add\(a, b\)"):
        replaced(rewrite("add(a, b)", replacement, name="again"), GRAPH)


POWER = """
graph @main(%x: f32[2]) {
  %c = constant() {value=array(f32[], [5.0])} : f32[]
  %r = pow(%x, %c) : f32[2]
  return %r
}
"""


def test_a_replacement_that_only_grows_is_an_error_too() -> None:
    with pytest.raises(GraphValueError, match="has no end"):
        replaced(rewrite("pow(a, N)", lambda e, a, N: e.pow(a, N + 1)), POWER)


def test_a_replacement_may_contain_its_pattern_where_the_guard_ends_it() -> None:
    unrolled = rewrite(
        "pow(a, N)", lambda e, a, N: e.mul(a, a if N == 2 else e.pow(a, N - 1)), when=lambda N: int(N) == N and N >= 2
    )
    graph = replaced(unrolled, POWER)
    assert [node.primitive.name for node in graph.nodes].count("mul") == 4
    assert not [node for node in graph.nodes if node.primitive.name in ("pow", "constant")]
    assert_same_values(parse(POWER), graph, tolerance=1e-5)


def test_a_value_of_which_a_gradient_is_taken_stays() -> None:
    def gradient_of(x: Any) -> Any:
        return graphls.grad(lambda y: ops.sum(ops.exp(ops.neg(ops.neg(y)))))(x)

    x = np.float32([0.5, 1.0])
    plain = graphls.compile(gradient_of, x)(x).asnumpy()
    step = graphls.compile(gradient_of, x, passes=[rewrite("neg(neg(a))", "a"), *parse_pipeline("default").passes])
    assert np.array_equal(step(x).asnumpy(), plain)
    assert "neg" not in {node.primitive.name for node in step.graph.nodes}


BAD = [
    (lambda: rewrite("add(a, b)", "sub(a, c)"), "The replacement has 'c'; the pattern has a, b"),
    (lambda: rewrite("add(alpha, b)", lambda e, alpa: alpa), "takes 'alpa'; did you mean 'alpha'"),
    (lambda: rewrite("add(a, b)", lambda: 0), "takes a builder and names"),
    (lambda: rewrite("add(a, b)", lambda a, b: a), "function takes a builder and names"),
    (lambda: rewrite("add(a, b)", "sub(a, b)", name="my pass"), "has letters, digits and '_'"),
    (lambda: rewrite("softmax(x, ...)", "log_softmax(x, ...)"), "`...`, which only matches attributes; name them"),
    (lambda: rewrite("add(alpha, b)", "alpa"), "has 'alpa'; did you mean 'alpha'"),
    (lambda: rewrite(Pattern("add(a, b)"), "sub(a, b)", shared=True), "A Pattern has its own types"),
    (lambda: rewrite("add(a, b)", 3), "a function, an expression as text, or a graph"),  # type: ignore[arg-type]
    (lambda: register_pass(rewrite("add(a, b)", "sub(a, b)", name="fold")), "graphls has a pass 'fold' itself"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:20] for _, message in BAD])
def test_what_is_no_rewrite_says_why(make: Any, message: str) -> None:
    with pytest.raises(GraphlsError) as caught:
        make()
    assert message in str(caught.value)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_passes", dict(manager._passes))


@pytest.mark.usefixtures("known")
def test_pipelines_know_a_registered_rewrite_by_its_name() -> None:
    minus = register_pass(rewrite("add(a, neg(b))", "sub(a, b)", name="to_minus"))
    assert find_pass("to_minus") is type(minus) and str(parse_pipeline("to_minus, dce")) == "to_minus, dce"
    assert parse_pipeline("to_minus").passes == (minus,)
    assert (find_pass("to_minus").__doc__ or "") == "add(a, neg(b)) becomes sub(a, b)."
    step = graphls.compile(lambda x, y: x + -y, *[np.ones(2, np.float32)] * 2, passes="to_minus, default")
    assert [node.primitive.name for node in step.graph.nodes] == ["sub"]
    assert "01_to_minus" in step.stages


def test_the_word_default_stands_for_the_default_passes_and_near_words_are_corrected() -> None:
    assert str(parse_pipeline("default")) == manager.DEFAULT_PASSES
    for text, near in (("defalt", "default"), ("fold, defualt", "default"), ("flod", "fold")):
        with pytest.raises(GraphKeyError, match=f"did you mean '{near}'"):
            parse_pipeline(text)
    with pytest.raises(GraphValueError, match="no option 'modee'; did you mean 'mode'"):
        parse_pipeline("overflow{modee=window}")


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(4, 8), nn.Dense(8, 1)

    def construct(self, x: Any) -> Any:
        h = self.first(x)
        return self.second(h * ops.sigmoid(h))


def trained(passes: object) -> tuple[Any, list[float]]:
    """A step with loss scaling in float16, and what three calls return."""
    graphls.set_seed(3)
    net = Net().to_float(graphls.float16)
    train = nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9),
        nn.DynamicLossScaleUpdateCell(2**24, 2, 1),
    )  # fmt: skip
    x, y = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), np.ones((3, 1), np.float32)
    step = graphls.compile(train, x, y, passes=passes)
    return step, [float(value) for _ in range(12) for value in step(x, y)]


SIGMOID = rewrite("mul(a, sigmoid(a))", "div(a, add(exp(neg(a)), 1.0))", name="spread", shared=True)


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_rewrite_before_and_after_the_gradient_keeps_training_windows_and_skipped_steps(place: str) -> None:
    default = parse_pipeline("default").passes
    cleaned = parse_pipeline("dce, order").passes
    passes = [SIGMOID, *default] if place == "before" else [*default, SIGMOID, *cleaned]
    step, values = trained(passes)
    plain, expected = trained(list(default))
    names = {node.primitive.name for node in step.graph.nodes}
    assert "exp" in names and "exp" not in {node.primitive.name for node in plain.graph.nodes}
    assert values[1::3] == expected[1::3] and 1.0 in values[1::3] and 0.0 in values[1::3]
    np.testing.assert_allclose(values, expected, rtol=5e-3)


def test_derivatives_of_a_rewritten_function_are_those_of_the_formula() -> None:
    x = np.linspace(-4, 4, 33, dtype=np.float32)
    gradient = graphls.grad(lambda v: ops.sum(v * ops.sigmoid(v)))
    exact = x.astype(np.float64)
    share = 1 / (1 + np.exp(-exact))
    for passes in ([SIGMOID, *parse_pipeline("default").passes], [*parse_pipeline("default").passes, SIGMOID]):
        step = graphls.compile(gradient, x, passes=passes)
        np.testing.assert_allclose(step(x).asnumpy(), share * (1 + exact * (1 - share)), rtol=1e-5, atol=1e-6)


KEPT = [
    MINUS, rewrite("neg(neg(a))", "a"), rewrite("sub(a, b)", "add(a, neg(b))"),
    rewrite("abs(neg(a))", "abs(a)", shared=True), rewrite("relu(relu(a))", "relu(a)"),
    rewrite("neg(mul(a, b))", "mul(neg(a), b)"), rewrite("abs(mul(a, b))", "mul(abs(a), abs(b))"),
    rewrite("floor(floor(a))", "floor(a)"), rewrite("where(c, a, a)", "a", types={"c": "bool[]"}),
]  # fmt: skip


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_programs_keep_their_bits(data: Any) -> None:
    graph = verify(Making(data.draw, "f32").graph())
    rule = data.draw(st.sampled_from(KEPT))
    after, matches = rule.replaced(graph)
    verify(after)
    assert_same_values(graph, after)
    assert dump(rule.run(after)) == dump(after)
    if not matches:
        assert dump(after) == dump(graph)


def test_both_sides_are_compared_at_every_match() -> None:
    assert check_rewrite(MINUS, GRAPH) == 1
    with pytest.raises(AssertionError, match=r"wrong changes values at <%r: f32\[2,3\] = add\(...\)>."):
        check_rewrite(rewrite("add(a, neg(b))", "sub(b, a)", name="wrong"), GRAPH)
    with pytest.raises(AssertionError, match=r"matches nowhere; nearest: 1 of 2 nodes match at %r = add\(%x, %n\)"):
        check_rewrite(rewrite("add(a, exp(b))", "sub(b, a)"), GRAPH)


def pattern_of(value: Value, definer: dict[Value, Node], names: dict[Value, str], depth: int, data: Any) -> str:
    """The text of a pattern that a value matches: its node and, by chance, those of its operands."""
    node = definer.get(value)
    is_leaf = node is None or node.primitive.is_constant or node.regions or len(node.outputs) > 1
    if is_leaf or (depth and data.draw(st.booleans())) or depth > 3:
        return names.setdefault(value, f"v{len(names)}")
    assert node is not None
    operands = [pattern_of(v, definer, names, depth + 1, data) for v in node.inputs]
    if node.primitive.is_commutative and data.draw(st.booleans()):
        operands.reverse()
    return f"{node.primitive.name}({', '.join([*operands, '...'])})"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_pattern_that_is_copied_from_a_graph_matches_there_with_the_same_values(data: Any) -> None:
    graph = verify(Making(data.draw, "f32").graph())
    definer = definers(graph.nodes)
    roots = [n for n in graph.nodes if not n.regions and not n.primitive.is_constant]
    if not roots:
        return
    node, names = data.draw(st.sampled_from(roots)), dict[Value, str]()
    pattern = Pattern(pattern_of(node.output, definer, names, 0, data), shared=True)
    matches = [match for match in pattern.find(graph) if match.nodes[0] is node]
    assert len(matches) == 1 and {*matches[0].values} == {*names.values()}
    before, after = rewrite(pattern, lambda e: 0.0).sides(matches[0])
    original = interpret(before, [np.ones(v.type.shape, v.type.dtype.numpy) for v in before.inputs])[0]
    assert original[0].shape == node.output.type.shape and verify(after)
