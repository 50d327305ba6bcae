"""Gradients that the pass builds agree with finite differences in float64, also through branches and twice."""

from __future__ import annotations

import numpy as np
import pytest

import graphls.passes  # noqa: F401
from graphls.ir import interpret, parse, verify
from graphls.ir.errors import GraphTypeError
from graphls.ir.graph import Graph
from graphls.passes.manager import parse_pipeline


def expanded(text: str, pipeline: str = "gradient") -> Graph:
    return verify(parse_pipeline(pipeline).run(parse(text)).graph)


def check(text: str, inputs: list[np.ndarray], value: int = 0, gradients: int = 1) -> None:
    """Output `value` is the scalar, the outputs behind it are its gradients by the first inputs."""
    for pipeline in ("gradient", "gradient, overflow, fold, cse, dce, order"):
        graph = expanded(text, pipeline)
        outputs, _ = interpret(graph, inputs)
        for index in range(gradients):
            direction = np.random.default_rng(index).normal(size=inputs[index].shape)
            step = 1e-6
            ends = []
            for sign in (1, -1):
                moved = list(inputs)
                moved[index] = inputs[index] + sign * step * direction
                ends.append(float(interpret(graph, moved)[0][value]))
            numeric = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose((outputs[1 + index] * direction).sum(), numeric, rtol=1e-5, atol=1e-8)


X = np.random.default_rng(3).uniform(0.5, 1.5, (3, 2))

CHAIN = """
graph @f(%x: f64[3,2], %b: f64[2]) {
  %one = constant() {value=array(f64[], [1.0])} : f64[]
  %s = add(%x, %b) : f64[3,2]
  %t = tanh(%s) : f64[3,2]
  %m = mul(%t, %x) : f64[3,2]
  %loss = sum(%m) {axis=none, keepdims=false} : f64[]
  %gx, %gb = gradient(%loss, %one, %x, %b) {of=1, wrt=2} : f64[3,2], f64[2]
  return %loss, %gx, %gb
}
"""


def test_a_chain_with_broadcasting() -> None:
    check(CHAIN, [X, X[0] * 0.3], gradients=2)


TWICE = """
graph @f(%x: f64[3,2]) {
  %one = constant() {value=array(f64[], [1.0])} : f64[]
  %t = exp(%x) : f64[3,2]
  %m = mul(%t, %x) : f64[3,2]
  %loss = sum(%m) {axis=none, keepdims=false} : f64[]
  %g = gradient(%loss, %one, %x) {of=1, wrt=1} : f64[3,2]
  %q = square(%g) : f64[3,2]
  %norm = sum(%q) {axis=none, keepdims=false} : f64[]
  %gg = gradient(%norm, %one, %x) {of=1, wrt=1} : f64[3,2]
  return %norm, %gg
}
"""


def test_a_gradient_of_a_gradient() -> None:
    check(TWICE, [X])


BRANCH = """
graph @f(%x: f64[3,2], %flag: bool[], %other: bool[]) {
  %one = constant() {value=array(f64[], [1.0])} : f64[]
  %e = exp(%x) : f64[3,2]
  %r, %i = cond(%flag) : f64[3,2], i64[] region {
    %a = mul(%e, %x) : f64[3,2]
    %inner = cond(%other) : f64[3,2] region {
      %b = mul(%a, %e) : f64[3,2]
      yield %b
    } region {
      yield %a
    }
    %n = constant() {value=array(i64[], [1])} : i64[]
    yield %inner, %n
  } region {
    %c = square(%x) : f64[3,2]
    %k = constant() {value=array(i64[], [2])} : i64[]
    yield %c, %k
  }
  %loss = sum(%r) {axis=none, keepdims=false} : f64[]
  %g = gradient(%loss, %one, %x) {of=1, wrt=1} : f64[3,2]
  return %loss, %g
}
"""


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("other", [True, False])
def test_through_nested_branches(flag: bool, other: bool) -> None:
    check(BRANCH, [X, np.array(flag), np.array(other)])


def test_a_gradient_of_a_gradient_through_a_branch() -> None:
    text = BRANCH.replace(
        "  return %loss, %g\n",
        "  %q = square(%g) : f64[3,2]\n  %norm = sum(%q) {axis=none, keepdims=false} : f64[]\n"
        "  %gg = gradient(%norm, %one, %x) {of=1, wrt=1} : f64[3,2]\n  return %norm, %gg\n",
    )
    check(text, [X, np.array(True), np.array(True)])


INSIDE = """
graph @f(%x: f64[3,2], %flag: bool[]) {
  %one = constant() {value=array(f64[], [1.0])} : f64[]
  %t = tanh(%x) : f64[3,2]
  %loss = sum(%t) {axis=none, keepdims=false} : f64[]
  %g = cond(%flag) : f64[3,2] region {
    %inner = gradient(%loss, %one, %x) {of=1, wrt=1} : f64[3,2]
    yield %inner
  } region {
    yield %x
  }
  return %loss, %g
}
"""


def test_a_gradient_taken_inside_a_branch() -> None:
    check(INSIDE, [X, np.array(True)])
    np.testing.assert_array_equal(interpret(expanded(INSIDE), [X, np.array(False)])[0][1], X)


CUSTOM = """
graph @f(%x: f64[3,2]) {
  %one = constant() {value=array(f64[], [1.0])} : f64[]
  %y = floor(%x) : f64[3,2]
  %z = custom_gradient(%y, %x) {outputs=1} : f64[3,2] region(%out: f64[3,2], %in: f64[3,2], %g: f64[3,2]) {
    %three = constant() {value=array(f64[], [3.0])} : f64[]
    %d = mul(%g, %three) : f64[3,2]
    yield %d
  }
  %loss = sum(%z) {axis=none, keepdims=false} : f64[]
  %gx = gradient(%loss, %one, %x) {of=1, wrt=1} : f64[3,2]
  return %loss, %gx
}
"""


def test_a_custom_gradient_replaces_the_true_one() -> None:
    (loss, gradient), _ = interpret(expanded(CUSTOM), [X])
    assert loss == np.floor(X).sum()
    np.testing.assert_array_equal(gradient, np.full((3, 2), 3.0))


def test_what_the_result_does_not_use_gets_zeros() -> None:
    text = CHAIN.replace("%s = add(%x, %b)", "%s = add(%x, %x)")
    outputs, _ = interpret(expanded(text), [X, X[0]])
    np.testing.assert_array_equal(outputs[2], np.zeros(2))


def test_constants_stop_the_gradient() -> None:
    """With %s as a constant, only the direct use of %x counts."""
    text = CHAIN.replace("gradient(%loss, %one, %x, %b)", "gradient(%loss, %one, %x, %b, %s)")
    outputs, _ = interpret(expanded(text), [X, X[0]])
    np.testing.assert_allclose(outputs[1], np.tanh(X + X[0]))


def test_backward_nodes_have_scope_and_line_of_their_forward() -> None:
    text = CHAIN.replace("%t = tanh(%s) : f64[3,2]", "%t = tanh(%s) : f64[3,2]  // forward net.act | model.py:7")
    made = [n for n in expanded(text).nodes if n.scope == "net.act" and n.phase == "backward"]
    assert made and all(str(n.loc) == "model.py:7" for n in made)


def test_all_missing_rules_are_reported_at_once() -> None:
    from graphls.ir.registry import _operations
    from graphls.primitives.primitive import Elementwise, f32, sample

    class NoRule(Elementwise):
        """The operand itself, without a gradient rule."""

        samples = (sample(f32(2)),)

        def numpy(self, x: np.ndarray) -> np.ndarray:
            return x

    try:
        text = CHAIN.replace("tanh(%s) : f64[3,2]", "no_rule(%s) : f64[3,2]  // forward | a.py:1")
        text = text.replace("mul(%t, %x) : f64[3,2]", "no_rule(%t) : f64[3,2]  // forward | b.py:2")
        with pytest.raises(GraphTypeError, match=r"no_rule \(a.py:1\); no_rule \(b.py:2\)"):
            expanded(text)
    finally:
        del _operations["no_rule"]
