"""Weights that are computed of weights: random chains of sums and factors around products keep their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphls.ir import Graph, parse, verify
from graphls.ir.interpret import interpret
from graphls.passes.inference.fold_weights import fold_weights

Array = np.ndarray[Any, Any]
CONVOLUTION = "convolution(%x, @w) {dilations=[1, 1], groups=1, pads=[1, 1, 1, 1], strides=[1, 1]} : f32[2,4,5,5]"
PRODUCTS = {
    "convolution": ("f32[2,3,5,5]", "f32[4,3,3,3]", CONVOLUTION, (2, 4, 5, 5), 1),
    "matmul": ("f32[2,6,3]", "f32[3,4]", "matmul(%x, @w) : f32[2,6,4]", (2, 6, 4), 2),
    "matmul of a transposed weight": (
        "f32[2,6,3]", "f32[4,3]", "matmul(%x, @w) {transpose_b=true} : f32[2,6,4]", (2, 6, 4), 2,
    ),
}  # fmt: skip
Line = tuple[str, int, bool]
"""An operator; where its weight has its numbers: 0 by channel, 1 one number, 2 all of them; whether that is first."""

LINES = st.lists(
    st.tuples(st.sampled_from(("add", "sub", "mul", "div")), st.integers(0, 2), st.booleans()), min_size=1, max_size=5
)


def chain(product: str, lines: list[Line], read_at: int | None) -> Graph:
    """A product, and sums and factors behind it; one of the values may have a second reader."""
    x, w, text, shape, axis = PRODUCTS[product]
    by_channel = [n if i == axis else 1 for i, n in enumerate(shape)]
    shapes = [by_channel, [1] * len(shape), list(shape)]
    states, body = [f"  state @w: {w}"], [f"  %v0 = {text}"]
    kind = f"f32[{','.join(map(str, shape))}]"
    for i, (name, where, is_first) in enumerate(lines):
        states.append(f"  state @k{i}: f32[{','.join(map(str, shapes[where]))}]")
        operands = f"@k{i}, %v{i}" if is_first else f"%v{i}, @k{i}"
        body.append(f"  %v{i + 1} = {name}({operands}) : {kind}")
    more = "" if read_at is None else f", %v{read_at % (len(lines) + 1)}"
    return parse("\n".join([f"graph @g(%x: {x}) {{", *states, *body, f"  return %v{len(lines)}{more}", "}"]))


def arrays(graph: Graph) -> dict[str, Array]:
    """States that no quotient makes large."""
    rng = np.random.default_rng(3)
    return {
        v.name: (rng.uniform(0.5, 2, v.type.shape) * rng.choice([-1, 1], v.type.shape)).astype(np.float32)
        for v in graph.states
    }


def folded(graph: Graph, states: dict[str, Array], steady: set[Any] | None = None) -> tuple[Graph, dict[str, Array]]:
    weights: dict[str, Callable[[], Array]] = {name: (lambda a=a: a) for name, a in states.items()}  # type: ignore[misc]
    result, values = fold_weights(graph, weights, steady)
    return verify(result), {name: value() for name, value in values.items()}


@pytest.mark.parametrize("product", PRODUCTS)
@settings(max_examples=25)
@given(lines=LINES, read_at=st.none() | st.integers(0, 5))
def test_random_chains_keep_their_numbers(product: str, lines: list[Line], read_at: int | None) -> None:
    graph = chain(product, lines, read_at)
    states = arrays(graph)
    x = np.random.default_rng(4).uniform(0.5, 1, graph.inputs[0].type.shape).astype(np.float32)
    result, values = folded(graph, states)
    ours, theirs = interpret(result, [x], values)[0], interpret(graph, [x], states)[0]
    for mine, plain in zip(ours, theirs, strict=True):
        if np.abs(plain).min() > 1e-2:  # a quotient by a sum that nearly cancels amplifies every rounding
            np.testing.assert_allclose(mine, plain, rtol=2e-3, atol=2e-4 * np.abs(plain).max())


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_factor_and_a_sum_by_channel_become_a_weight_and_a_bias(product: str) -> None:
    graph = chain(product, [("sub", 0, False), ("mul", 0, False), ("div", 0, False), ("add", 0, False)], None)
    states = arrays(graph)
    result, values = folded(graph, states)
    kinds = [node.primitive.name for node in result.nodes if node.primitive.name != "reshape"]
    assert kinds == [product.split()[0], "add"]
    is_turned = product.endswith("transposed weight")  # in three dimensions it is turned now
    weight = "w.transposed.folded" if is_turned else "w.folded"
    assert set(values) == {weight, "bias.folded"}
    w, channels = (states["w"].T, 1) if is_turned else (states["w"], 1 if product == "matmul" else 0)
    factor = (states["k1"] / states["k2"]).reshape([-1 if i == channels else 1 for i in range(w.ndim)])
    np.testing.assert_allclose(values[weight], w * factor, rtol=1e-6)


def test_numbers_of_every_element_stay_where_they_are() -> None:
    graph = chain("matmul", [("mul", 2, False), ("add", 2, False)], None)
    result, values = folded(graph, arrays(graph))
    assert [node.primitive.name for node in result.nodes] == ["matmul", "mul", "add"]
    assert set(values) == {"w", "k0", "k1"}


def test_half_precision_keeps_its_roundings() -> None:
    text = """
    graph @g(%x: f16[2,3]) {
      state @w: f16[3,4]
      state @k: f16[4]
      %a = matmul(%x, @w) : f16[2,4]
      %b = mul(%a, @k) : f16[2,4]
      return %b
    }
    """
    graph = parse(text)
    result, values = folded(graph, {v.name: np.ones(v.type.shape, np.float16) for v in graph.states})
    assert [node.primitive.name for node in result.nodes] == ["matmul", "mul"]
    assert set(values) == {"w", "k"}


def test_weights_are_computed_when_they_are_asked_for_and_only_those_that_are_needed() -> None:
    text = """
    graph @g(%x: f32[3]) {
      state @w: f32[3]
      state @unread: f32[3]
      %a = exp(@w) : f32[3]
      %dead = exp(@unread) : f32[3]
      %b = neg(%a) : f32[3]
      %c = maximum(%x, %b) : f32[3]
      return %c
    }
    """
    graph, asked = parse(text), list[str]()

    def weight(name: str) -> Callable[[], Array]:
        return lambda: (asked.append(name), np.full(3, 2, np.float32))[1]

    result, values = fold_weights(graph, {v.name: weight(v.name) for v in graph.states})
    assert [node.primitive.name for node in result.nodes] == ["maximum"]
    assert list(values) == ["w.folded"]
    assert not asked
    np.testing.assert_allclose(values["w.folded"](), np.full(3, -np.exp(2)), rtol=1e-6)
    assert set(asked) == {"w"}


def test_a_constant_that_another_size_does_not_have_stays_outside_of_weights() -> None:
    text = """
    graph @g(%x: f32[2,3]) {
      state @w: f32[3]
      %k = constant() {value=array(f32[3], [1.0, 2.0, 3.0])} : f32[3]
      %a = mul(@w, %k) : f32[3]
      %b = add(%x, %a) : f32[2,3]
      return %b
    }
    """
    graph = parse(text)
    states = {"w": np.ones(3, np.float32)}
    assert [n.primitive.name for n in folded(graph, states)[0].nodes] == ["add"]
    result, values = folded(graph, states, steady=set())
    assert [n.primitive.name for n in result.nodes] == ["constant", "mul", "add"]
    assert set(values) == {"w"}
