"""The reference interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls.primitives  # noqa: F401
from graphls.ir import Node, interpret, parse, verify

STEP = verify(
    parse("""\
graph @step(%x: f32[2]) {
  state @w: f32[2]
  state @n: i32[]
  state @kept: f32[]
  %y = mul(%x, @w) : f32[2]
  %one = constant() {value=array(i32[], [1])} : i32[]
  %m = add(@n, %one) : i32[]
  @w <- %y
  @n <- %m in place
  return %y, @n
}
""")
)


def states() -> dict[str, Any]:
    return {"w": np.float32([2, 3]), "n": np.array(4, np.int32), "kept": np.float32(9)}


def test_outputs_and_states_after_the_step() -> None:
    outputs, after = interpret(STEP, [np.float32([10, 10])], states())
    assert [a.tolist() for a in outputs] == [[20, 30], 4]
    assert {name: a.tolist() for name, a in after.items()} == {"w": [20, 30], "n": 5, "kept": 9}


def test_what_is_passed_in_stays_as_it_was() -> None:
    given, held = np.float32([10, 10]), states()
    interpret(STEP, [given], held)
    np.testing.assert_equal(given, np.float32([10, 10]))
    np.testing.assert_equal(held, states())


@pytest.mark.parametrize(
    ("inputs", "changes", "message"),
    [
        ([], {}, "@step takes 1 inputs, not 0"),
        ([np.zeros(2, np.float32)] * 2, {}, "@step takes 1 inputs, not 2"),
        ([np.zeros(2)], {}, r"'x' takes f32\[2\], not f64\[2\]"),
        ([np.zeros(3, np.float32)], {}, r"'x' takes f32\[2\], not f32\[3\]"),
        ([np.zeros(2, np.float32)], {"n": np.array(4)}, r"'n' takes i32\[\], not i64\[\]"),
    ],
)
def test_arrays_that_do_not_fit(inputs: list[Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interpret(STEP, inputs, states() | changes)


def test_states_that_are_missing() -> None:
    with pytest.raises(ValueError, match="states that are not given: w, kept"):
        interpret(STEP, [np.zeros(2, np.float32)], {"n": np.array(4, np.int32)})


BRANCHES = verify(
    parse("""\
graph @g(%c: bool[], %d: bool[], %x: f32[]) {
  %y = cond(%c) : f32[] region {
    %i = cond(%d) : f32[] region {
      %p = square(%x) : f32[]
      yield %p
    } region {
      yield %x
    }
    %q = neg(%i) : f32[]
    yield %q
  } region {
    %a = abs(%x) : f32[]
    yield %a
  }
  return %y
}
""")
)


@pytest.mark.parametrize(
    ("c", "d", "expected", "seen"),
    [
        (True, True, -9.0, ["square", "cond", "neg", "cond"]),
        (True, False, 3.0, ["cond", "neg", "cond"]),
        (False, True, 3.0, ["abs", "cond"]),
    ],
)
def test_only_the_chosen_branch_runs(c: bool, d: bool, expected: float, seen: list[str]) -> None:
    watched: list[str] = []

    def watch(node: Node, results: tuple[Any, ...]) -> None:
        watched.append(node.primitive.name)
        assert len(results) == len(node.outputs)

    (y,), _ = interpret(BRANCHES, [np.array(c), np.array(d), np.float32(-3)], watch=watch)
    assert (float(y), watched) == (expected, seen)


@pytest.mark.parametrize(("kind", "expected"), [("f16", np.inf), ("bf16", 900), ("f32", 900)])
def test_a_half_is_rounded_behind_every_node(kind: str, expected: float) -> None:
    graph = verify(
        parse(f"""\
graph @g(%x: {kind}[]) {{
  %big = mul(%x, %x) : {kind}[]
  %small = constant() {{value=array({kind}[], [0.010009765625])}} : {kind}[]
  %y = mul(%big, %small) : {kind}[]
  return %y
}}
""")
    )
    dtype = graph.inputs[0].type.dtype.numpy
    (y,), _ = interpret(graph, [np.array(300, dtype)])
    assert y.dtype == dtype
    assert float(y) == pytest.approx(expected, rel=0.02)


def test_tokens_and_overflow() -> None:
    graph = verify(
        parse("""\
graph @g(%x: f32[2]) {
  %t = overflow_start() : token
  %y = square(%x) after(%t) : f32[2]
  %o = overflow_get(%t, %y) : bool[]
  return %o
}
""")
    )
    assert bool(interpret(graph, [np.float32([1, 1e30])])[0][0]) is True
    assert bool(interpret(graph, [np.float32([1, 2])])[0][0]) is False
