"""The proof of low operands holds for every recipe, and fails where one thing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphls import amp
from graphls.ir import parse
from graphls.ir.build import Builder, Names
from graphls.ir.errors import VerifyError
from graphls.ir.graph import Graph, Node, Value, Write
from graphls.passes.precision.proof import verify_low_precision
from tests.low_precision.steps import RECIPES, compiled, named, network

SCOPES = "network._backbone.0", "network._backbone.2"


def graph_of(name: str, scale: float | None = None) -> Graph:
    graph: Graph = compiled(network(RECIPES[name]), scale, backend="numpy").graph
    return graph


def exchanged(graph: Graph, old: Node, new: Node) -> Graph:
    return graph.replace(nodes=tuple(new if node is old else node for node in graph.nodes))


def of(graph: Graph, value: Value) -> Node:
    return next(node for node in graph.nodes if value in node.outputs)


@pytest.mark.parametrize("scale", [None, 1024.0])
@pytest.mark.parametrize("name", RECIPES)
def test_compiled_steps_are_proven(name: str, scale: float | None) -> None:
    graph = graph_of(name, scale)
    assert verify_low_precision(graph, dict.fromkeys(SCOPES, RECIPES[name])) is graph
    products = named(graph, "matmul")
    assert len(products) == 5
    assert all(of(graph, v).primitive.name == "dequantize" for node in products for v in node.inputs)


def one_operand_is_high(graph: Graph) -> tuple[Graph, str]:
    product = named(graph, "matmul")[0]
    low = of(graph, of(graph, product.inputs[1]).inputs[0])
    changed = replace(product, inputs=(product.inputs[0], low.inputs[0]))
    return exchanged(graph, product, changed), "operand of this product"


def a_rounded_value_leaks(graph: Graph) -> tuple[Graph, str]:
    relu, rounded = named(graph, "relu")[0], named(graph, "dequantize")[0]
    relu_of = replace(relu, inputs=(rounded.output,))
    return exchanged(graph, relu, relu_of), "rounded for products alone"


def a_rounded_value_is_returned(graph: Graph) -> tuple[Graph, str]:
    return graph.replace(outputs=(*graph.outputs, named(graph, "dequantize")[0].output)), "leaves its block"


def a_low_value_is_returned(graph: Graph) -> tuple[Graph, str]:
    return graph.replace(outputs=(*graph.outputs, named(graph, "quantize")[0].output)), "leaves its block"


def a_value_is_quantized_twice(graph: Graph) -> tuple[Graph, str]:
    node = named(graph, "quantize")[0]
    e = Builder(Names.of(graph))
    e.follow(node)
    e.emit(node.primitive, node.inputs, node.attrs)
    at = graph.nodes.index(node) + 1
    return graph.replace(nodes=(*graph.nodes[:at], *e.nodes, *graph.nodes[at:])), "quantized twice"


def scales_change_places(graph: Graph) -> tuple[Graph, str]:
    first, second = named(graph, "quantize")[:2]
    other = replace(first, inputs=(first.inputs[0], second.inputs[1]))
    nodes = [node for node in graph.nodes if node is not first]
    at = nodes.index(second)
    # what reads the first one comes later than both
    moved = [*nodes[: at + 1], other, *nodes[at + 1 :]]
    order = sorted(moved, key=lambda n: n.primitive.name == "dequantize" and n.inputs[0] is first.output)
    return graph.replace(nodes=tuple(order)), "comes"


def a_scale_is_constant(graph: Graph) -> tuple[Graph, str]:
    node = named(graph, "quantize")[0]
    e = Builder(Names.of(graph))
    e.follow(node)
    scale = e.reshape(e.constant(1.0, node.inputs[1].type.dtype), shape=node.inputs[1].type.shape)
    at = graph.nodes.index(node)
    changed = replace(node, inputs=(node.inputs[0], scale))
    nodes = (*graph.nodes[:at], *e.nodes, changed, *graph.nodes[at + 1 :])
    return graph.replace(nodes=nodes), "comes neither from its maximum nor from a state"


@pytest.mark.parametrize(
    "change",
    [
        one_operand_is_high, a_rounded_value_leaks, a_rounded_value_is_returned, a_low_value_is_returned,
        a_value_is_quantized_twice, scales_change_places, a_scale_is_constant,
    ],
)  # fmt: skip
def test_each_change_is_refused(change: Callable[[Graph], tuple[Graph, str]]) -> None:
    graph, text = change(graph_of("current"))
    with pytest.raises(VerifyError, match=text):
        verify_low_precision(graph, dict.fromkeys(SCOPES, RECIPES["current"]))


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_a_state_that_another_tensor_writes_is_refused(scale: float | None) -> None:
    graph = graph_of("delayed", scale)
    by_name: dict[str, Any] = {write.state.name: write for write in graph.writes}
    one, other = by_name["0.input_scale"], by_name["2.input_scale"]
    changed = {one: Write(one.state, other.value), other: Write(other.state, one.value)}
    writes = tuple(changed.get(write, write) for write in graph.writes)
    with pytest.raises(VerifyError, match=r"@0.input_scale scales %inputs_0, whose maximum it is not written from"):
        verify_low_precision(graph.replace(writes=writes), dict.fromkeys(SCOPES, RECIPES["delayed"]))


def test_a_state_that_is_written_before_any_maximum_is_refused() -> None:
    graph = graph_of("delayed")
    kind = graph.state("0.input_scale").type
    constant = next(n.output for n in graph.nodes if n.primitive.is_constant and n.output.type == kind)
    writes = tuple(replace(w, value=constant) if w.state.name == "0.input_scale" else w for w in graph.writes)
    with pytest.raises(VerifyError, match="whose maximum it is not written from"):
        verify_low_precision(graph.replace(writes=writes), dict.fromkeys(SCOPES, RECIPES["delayed"]))


ON_RANKS = """
graph @product(%x: f32[2,2], %y: f32[2,2]) {
  %m = absolute_maximum(%x) {block=[0, 0]} : f32[1,1]  // forward fc
  %n = absolute_maximum(%y) {block=[0, 0]} : f32[1,1]  // forward fc
  %t, %a, %b = all_reduce(%m, %n) {op="max", group="world", ranks=2} : token, f32[1,1], f32[1,1]  // forward fc
  %q = quantize(%x, %a) {dtype=f8e4m3fn, block=[0, 0]} : f8e4m3fn[2,2]  // forward fc
  %r = quantize(%y, %b) {dtype=f8e4m3fn, block=[0, 0]} : f8e4m3fn[2,2]  // forward fc
  %d = dequantize(%q, %a) {dtype=f32, block=[0, 0]} : f32[2,2]  // forward fc
  %e = dequantize(%r, %b) {dtype=f32, block=[0, 0]} : f32[2,2]  // forward fc
  %p = matmul(%d, %e) : f32[2,2]  // forward fc
  return %p
}
"""


def test_maxima_that_travel_together_stay_apart() -> None:
    recipes = {"fc": RECIPES["current"]}
    verify_low_precision(parse(ON_RANKS), recipes)
    with pytest.raises(VerifyError, match="the scale of %x comes neither from its maximum nor from a state"):
        verify_low_precision(parse(ON_RANKS.replace("quantize(%x, %a)", "quantize(%x, %b)")), recipes)


def test_nothing_is_asked_of_other_cells() -> None:
    graph, _ = one_operand_is_high(graph_of("current"))
    verify_low_precision(graph, {"another": RECIPES["current"]})


class WeightsAlone(amp.Recipe):
    """Low weights beside high activations."""

    def form(self, role: str, product: str, kind: Any, axes: tuple[int, ...]) -> amp.Form | None:
        return amp.CurrentForm() if role == "weight" else None


def test_a_recipe_may_leave_an_operand_as_it_is() -> None:
    graph = compiled(network(WeightsAlone()), backend="numpy").graph
    assert len(named(graph, "quantize")) == 2
