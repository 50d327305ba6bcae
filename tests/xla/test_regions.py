"""Conditions and loops of XLA give what the interpreter gives, and say which node has an index out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, Tensor, nn, ops
from graphls.frontend.tensors.pytree import leaves
from graphls.ir import interpret, parse
from graphls.ir.errors import GraphIndexError
from graphls.runtime.xla.tracing import takes, traced

jax = pytest.importorskip("jax")

SCAN = """
graph @main(%h: f32[2], %x: f32[4,2], %w: f32[2]) {
  %last, %all, %more = scan(%h, %x) {carries=1, length=4, reverse=REVERSE} : f32[2], f32[4,2], f32[4,2]
  region(%c: f32[2], %e: f32[2]) {
    %p = mul(%c, %w) : f32[2]
    %s = add(%p, %e) : f32[2]
    yield %s, %p, %c
  }
  return %last, %all, %more
}
"""
NESTED = """
graph @main(%h: f32[2], %x: f32[4,2], %w: f32[2]) {
  %zero = constant() {value=array(f32[], [0])} : f32[]
  %one = constant() {value=array(i32[], [1])} : i32[]
  %rows = scan(%x) {carries=0, length=4} : f32[4] region(%e: f32[2]) {
    %sum, %count = scan(%zero, %one, %e) {carries=2, length=2} : f32[], i32[] region(%a: f32[], %n: i32[], %v: f32[]) {
      %larger = greater(%v, %a) : bool[]
      %next = cond(%larger) : f32[] region {
        %added = add(%a, %v) : f32[]
        yield %added
      } region {
        yield %a
      }
      %m = add(%n, %one) : i32[]
      yield %next, %m
    }
    %weighted = mul(%e, %w) : f32[2]
    %total = sum(%weighted) {axis=none, keepdims=false} : f32[]
    %t = add(%sum, %total) : f32[]
    yield %t
  }
  return %rows
}
"""
WHILE = """
graph @main(%h: f32[2], %x: f32[4,2], %w: f32[2]) {
  %zero = constant() {value=array(i32[], [0])} : i32[]
  %one = constant() {value=array(i32[], [1])} : i32[]
  %bound = constant() {value=array(f32[], [BOUND])} : f32[]
  %v, %n = while_loop(%h, %zero) : f32[2], i32[] region(%a: f32[2], %i: i32[]) {
    %s = sum(%a) {axis=none, keepdims=false} : f32[]
    %p = less(%s, %bound) : bool[]
    yield %p
  } region(%b: f32[2], %j: i32[]) {
    %square = mul(%b, %b) : f32[2]
    %more = add(%square, %w) : f32[2]
    %k = add(%j, %one) : i32[]
    yield %more, %k
  }
  return %v, %n
}
"""
GRAPHS = {
    "scan": SCAN.replace("REVERSE", "false"),
    "reverse": SCAN.replace("REVERSE", "true"),
    "nested": NESTED,
    "while": WHILE.replace("BOUND", "50"),
    "no iteration": WHILE.replace("BOUND", "-50"),
    "halves": SCAN.replace("REVERSE", "false").replace("f32", "f16"),
    "whole numbers": SCAN.replace("REVERSE", "true").replace("f32", "i64"),
}

GATHER = """
graph @main(%x: f32[4,2], %i: i32[5]) {
  %zero = constant() {value=array(f32[2], [0, 0])} : f32[2]
  LOOP
  return %y
}
"""
IN_SCAN = """%y = scan(%zero, %i) {carries=1, length=5} : f32[2] region(%c: f32[2], %k: i32[]) {
    %r = gather(%x, %k) {axis=0} : f32[2]
    %s = add(%c, %r) : f32[2]
    yield %s
  }"""
IN_BODY = """%start = constant() {value=array(i32[], [0])} : i32[]
  %one = constant() {value=array(i32[], [1])} : i32[]
  %five = constant() {value=array(i32[], [5])} : i32[]
  %y, %n = while_loop(%zero, %start) : f32[2], i32[] region(%a: f32[2], %b: i32[]) {
    %p = less(%b, %five) : bool[]
    yield %p
  } region(%c: f32[2], %j: i32[]) {
    %k = gather(%i, %j) {axis=0} : i32[]
    %r = gather(%x, %k) {axis=0} : f32[2]
    %s = add(%c, %r) : f32[2]
    %next = add(%j, %one) : i32[]
    yield %s, %next
  }"""
IN_CONDITION = """%start = constant() {value=array(i32[], [0])} : i32[]
  %one = constant() {value=array(i32[], [1])} : i32[]
  %three = constant() {value=array(i32[], [3])} : i32[]
  %n = while_loop(%start) : i32[] region(%b: i32[]) {
    %k = gather(%i, %b) {axis=0} : i32[]
    %r = gather(%x, %k) {axis=0} : f32[2]
    %s = sum(%r) {axis=none, keepdims=false} : f32[]
    %t = cast(%s) {dtype=i32} : i32[]
    %p = less(%t, %three) : bool[]
    yield %p
  } region(%j: i32[]) {
    %next = add(%j, %one) : i32[]
    yield %next
  }
  %f = cast(%n) {dtype=f32} : f32[]
  %y = add(%zero, %f) : f32[2]"""
IN_BRANCH = """%k0 = slice(%i) {starts=[2], stops=[3], steps=[1]} : i32[1]
  %k = reshape(%k0) {shape=[]} : i32[]
  %four = constant() {value=array(i32[], [4])} : i32[]
  %b = less(%k, %four) : bool[]
  %y = cond(%b) : f32[2] region {
    yield %zero
  } region {
    %r = gather(%x, %k) {axis=0} : f32[2]
    yield %r
  }"""


class Chosen(nn.Cell):
    """A weight that one branch replaces, and that a loop of unknown length in the other multiplies by."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(np.array([0.5, -1.25], np.float32), name="w")

    def construct(self, x: Any, n: Any) -> Any:
        total, first = x * 0.5, x[0] * 0.5
        if first < x[1]:
            self.w = self.w * 0.5 + x
        else:
            for _ in range(n):
                first, total = first * 0.5 + ops.sum(self.w) * 0.125, self.w * x[0]
        return ops.sum(total) * first


@pytest.mark.parametrize("first", [0.5, 4])
def test_a_state_is_that_of_all_engines_of_a_step(first: float) -> None:
    """The gradient of a while loop keeps its iterations in stacks, which XLA does not take."""
    x, n = Tensor(np.array([first, 0.75], np.float32)), Tensor(3, graphls.int64)
    found = []
    for engine in ("xla", "numpy"):
        cell = Chosen()
        step = graphls.compile(ops.value_and_grad(cell, 0, cell.trainable_params()), x, n, engine=engine)
        results = [leaf.asnumpy() for _ in range(3) for leaf in leaves(step(x, n))]
        found.append([*results, cell.w.asnumpy()])
        assert len({segment.engine for segment in step.plan.segments}) == (2 if engine == "xla" else 1)
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-6)


OPTIONS = {"xla_allow_excess_precision": False}


def run(graph: Any, arrays: list[Any]) -> tuple[list[Any], bool, list[Any]]:
    """The results of a graph in XLA, whether all indices in it are in range, and the nodes that are tested."""
    assert all(map(takes, graph.nodes))
    tested: list[Any] = []

    def function(*arrays: Any) -> Any:
        results, _, holds, checks = traced(jax, graph, arrays)
        tested.extend(node for node, _ in checks)
        return results, holds

    with jax.enable_x64(True):
        results, holds = jax.jit(function).lower(*arrays).compile(OPTIONS)(*arrays)
    return results, bool(holds), tested


@pytest.mark.parametrize("name", GRAPHS)
def test_a_region_gives_in_xla_what_it_gives_in_the_interpreter(name: str) -> None:
    graph = parse(GRAPHS[name])
    x = np.array([[1, -2], [3, 5], [-1, 4], [2, 2]]) / 2
    numbers = zip((np.array([1, 2]), x, np.array([3, -1])), graph.inputs, strict=True)
    arrays = [a.astype(v.type.dtype.numpy) for a, v in numbers]
    results, holds, tested = run(graph, arrays)
    assert holds and not tested
    for result, expected in zip(results, interpret(graph, arrays)[0], strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(result), expected)


LOOPS = {"scan": IN_SCAN, "body": IN_BODY, "condition": IN_CONDITION, "branch": IN_BRANCH}


@pytest.mark.parametrize("place", LOOPS)
@pytest.mark.parametrize("third", [1, -4, 4, -5])
def test_an_index_in_a_region_is_tested_where_it_is_used(place: str, third: int) -> None:
    graph = parse(GATHER.replace("LOOP", LOOPS[place]))
    arrays = [np.array([[1, -2], [3, -5], [4, 1], [0, 0]], np.float32), np.array([0, 3, third, -1, 2], np.int32)]
    results, holds, tested = run(graph, arrays)
    try:
        expected = interpret(graph, arrays)[0]
    except GraphIndexError:
        assert not holds and third in (4, -5)
    else:
        assert holds
        np.testing.assert_array_equal(np.asarray(results[0]), expected[0])
    assert len(tested) == 1
    if place in ("scan", "branch"):
        assert tested[0].primitive.name == "gather"  # the only one in the region, and not the loop
