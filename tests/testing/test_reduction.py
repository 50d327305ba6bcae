"""Graphs cut to what a fault needs, and functions that may end their process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, ops
from graphls.ir.graph import Graph, walk
from graphls.ir.parse import parse
from graphls.ir.text import dump
from graphls.testing import Ending, reduce_graph, run_apart

GRAPH = """
graph @main(%x: f32[3], %p: bool[]) {
  state @w: f32[3]
  state @v: f32[3]
  %a = add(%x, @w) : f32[3]
  %b = sin(%a) : f32[3]
  %c = cond(%p) : f32[3] region {
    %d = exp(%b) : f32[3]
    %e = mul(%d, %a) : f32[3]
    yield %e
  } region {
    yield %b
  }
  %f = cos(%c) : f32[3]
  %g = sub(%f, @v) : f32[3]
  @w <- %f
  @v <- %g
  return %g, %c
}
"""


def names(graph: Graph) -> list[str]:
    return [node.primitive.name for node in walk(graph)]


def test_only_what_the_predicate_needs_is_left() -> None:
    small = reduce_graph(parse(GRAPH), lambda g: "cos" in names(g))
    assert dump(small) == dump(parse("graph @main(%c: f32[3]) {\n  %f = cos(%c) : f32[3]\n  return %f\n}"))


def test_a_node_in_a_branch_is_taken_out_of_it() -> None:
    small = reduce_graph(parse(GRAPH), lambda g: "exp" in names(g))
    assert names(small) == ["exp"] and len(small.inputs) == 1 and not small.states


def test_a_condition_stays_where_it_is_needed() -> None:
    small = reduce_graph(parse(GRAPH), lambda g: {"cond", "mul"} <= set(names(g)))
    assert sorted(names(small)) == ["cond", "mul"]
    assert [len(n.outputs) for n in small.nodes if n.primitive.name == "cond"] == [1]


def test_writes_stay_where_they_are_needed() -> None:
    small = reduce_graph(parse(GRAPH), lambda g: any(w.state.name == "v" for w in g.writes))
    assert [v.name for v in small.states] == ["v"] and not small.nodes and not small.outputs


def test_what_the_predicate_does_not_hold_for_is_refused_in_one_sentence() -> None:
    with pytest.raises(GraphlsError, match="does not hold for the graph @main"):
        reduce_graph(parse(GRAPH), lambda g: False)


def test_a_predicate_that_raises_does_not_hold_and_attempts_are_bounded() -> None:
    asked = []

    def predicate(graph: Graph) -> bool:
        asked.append(graph)
        if "sin" not in names(graph):
            raise GraphlsError("no sine")
        return True

    assert names(reduce_graph(parse(GRAPH), predicate)) == ["sin"]
    asked.clear()
    reduce_graph(parse(GRAPH), predicate, attempts=3)
    assert len(asked) == 3


def test_graphs_of_real_steps_are_reduced() -> None:
    def step(x: Any) -> Any:
        return ops.grad(lambda x: ops.sum(ops.scan(lambda c, x: (c * x, ops.tanh(c)), x[0], x)[1]))(x)

    graph = graphls.compile(step, np.ones((3, 2), np.float32)).graph
    small = reduce_graph(graph, lambda g: "scan" in names(g) and "mul" in names(g))
    assert names(small).count("scan") == 1 and len(names(small)) <= 4


def die(graph: Graph) -> None:
    if "exp" in names(graph):
        os.kill(os.getpid(), signal.SIGKILL)


def count(graph: Graph) -> int:
    return len(graph.nodes)


def refuse(graph: Graph) -> None:
    raise ValueError("no")


def wait(graph: Graph) -> None:
    time.sleep(60)


def test_a_death_is_an_ending_and_can_be_reduced() -> None:
    graph = parse(GRAPH)
    assert run_apart(die, graph) == Ending("died", "SIGKILL")
    assert run_apart(count, graph) == Ending("returned", "5")
    assert run_apart(refuse, graph) == Ending("raised", "ValueError: no")
    assert run_apart(wait, graph, seconds=0.2).kind == "hung"
    assert names(reduce_graph(graph, lambda g: run_apart(die, g).kind == "died")) == ["exp"]


def test_a_process_can_be_spawned() -> None:
    assert run_apart(count, parse(GRAPH), start="spawn") == Ending("returned", "5")
    with pytest.raises(GraphlsError, match="does not start a process"):
        run_apart(count, parse(GRAPH), start="teleport")


SCRIPT = """
import os
from graphls import parse
from graphls.testing import run_apart
print(run_apart(lambda graph: os.abort(), parse("graph @g(%x: f32[2]) { return %x }")))
"""


def test_a_death_that_is_asked_for_prints_nothing() -> None:
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", SCRIPT], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Ending(kind='died', text='SIGABRT')\n", "")
