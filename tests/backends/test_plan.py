"""Steps in several segments: the numbers of one session, states of one step whatever fails, and threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.errors import GraphKeyError, GraphRuntimeError, VerifyError
from graphls.ir.graph import walk
from graphls.ir.parse import parse
from graphls.ir.plan import flattened, is_plan, plan_of
from graphls.passes import Pipeline
from graphls.passes.schedule.partition import Partition
from graphls.passes.schedule.plans import verify_plan
from graphls.runtime.plan import PlanSession

X, Y = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4), np.arange(16, dtype=np.int32) % 3


class Network(nn.Cell):
    """A network with statistics, which the first segment writes, and a random mask."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Dense(4, 8), nn.BatchNorm1d(8), nn.Dense(8, 3)
        self.drop = nn.Dropout(p=0.25)

    def construct(self, x: Any) -> Any:
        return self.last(self.drop(self.norm(self.first(x))))


def trained(is_plan: bool, monkeypatch: pytest.MonkeyPatch, **options: Any) -> graphls.Compiled:
    """A step with loss scaling, in segments or in one session, from the same seed."""
    graphls.set_seed(3)
    least = 0 if is_plan else 1 << 60
    monkeypatch.setattr("graphls.runtime.target.Partition", lambda engine, skips: Partition(engine, skips, least))
    network = Network()
    criterion = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    loss = nn.WithLossCell(network.to_float(graphls.float16), criterion)
    manager = nn.DynamicLossScaleUpdateCell(2.0**24, 2, 3)
    optimizer = nn.Adam(network.trainable_params(), 0.05)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, manager).set_train()
    return graphls.compile(cell, X, Y, **options)


def states(step: graphls.Compiled) -> dict[str, bytes]:
    return {name: parameter.asnumpy().tobytes() for name, parameter in step.parameters.items()}


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
def test_segments_give_the_bits_of_one_session(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(False, monkeypatch, backend=backend)
    known = [([t.asnumpy().tobytes() for t in whole(X, Y)], states(whole)) for _ in range(30)]
    step = trained(True, monkeypatch)
    assert isinstance(step._session, PlanSession) and not isinstance(whole._session, PlanSession)
    flags = []
    for results, after in known:
        given = step(X, Y)
        flags.append(bool(given[1].asnumpy()))
        if backend == "onnxruntime":
            assert [t.asnumpy().tobytes() for t in given] == results
            assert states(step) == after
    assert 2 < sum(flags) < 20, "steps are skipped and steps are not"


def test_a_skipped_step_runs_no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(True, monkeypatch)
    _, update = step._session.branches
    counts: list[str] = []
    for part in update:
        monkeypatch.setattr(part, "begin", lambda fed, begin=part.begin: (counts.append("update"), begin(fed))[1])
    flags = [bool(step(X, Y)[1].asnumpy()) for _ in range(20)]
    assert len(counts) == flags.count(False) > 0


def test_parameters_and_moments_are_written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(True, monkeypatch)
    in_place = {w.state.name for w in step.plan.graph.writes if w.in_place}
    assert {n for n in step.parameters if n.endswith(("weight", "bias"))} <= in_place
    assert "norm.moving_mean" not in in_place
    assert all(isinstance(step.parameters[name].storage.current, np.ndarray) for name in step.parameters)


def test_the_plan_holds_every_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(True, monkeypatch)
    flat = flattened(step.plan.graph)
    assert not is_plan(flat)
    kept = [n.primitive.name for n in walk(flat) if not n.primitive.is_constant]
    assert sorted(kept) == sorted(n.primitive.name for n in walk(step.graph) if not n.primitive.is_constant)
    text = str(step.plan)
    assert "2 if false" in text and "swapped" in text and "The host reads" in text
    assert list(step.stages)[-1].endswith("_partition")


def test_a_step_of_one_segment_says_so() -> None:
    step = graphls.compile(nn.Dense(4, 3), X)
    assert [row.engine for row in step.plan.segments] == ["onnxruntime"]
    assert "1 segment\n" in str(step.plan) and not list(step.stages)[-1].endswith("_partition")


@pytest.mark.parametrize("at", ["before", "update"])
def test_a_failure_leaves_states_of_one_step_or_says_so(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(True, monkeypatch)
    while bool(step(X, Y)[1].asnumpy()):
        pass
    session = step._session
    part = session.first[0] if at == "before" else session.branches[1][-1]
    before, ticks, begin = states(step), step.version.ticks, part.begin

    def broken(fed: Any) -> Any:
        begin(fed)
        return partial_that_raises()

    monkeypatch.setattr(part, "begin", broken)
    with pytest.raises(GraphRuntimeError, match="could not run the step"):
        step(X, Y)
    assert step.version.ticks == ticks
    monkeypatch.undo()
    if at == "before":
        assert states(step) == before
    else:
        with pytest.raises(GraphRuntimeError, match="may be that of half a step"):
            states(step)


def partial_that_raises() -> Any:
    from functools import partial

    return partial(int, "no number")


def test_threads_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, together = (trained(True, monkeypatch) for _ in range(2))
    for _ in range(40):
        alone(X, Y)
    graphls.set_seed(3)
    threads = [threading.Thread(target=lambda: [together(X, Y) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together.version.ticks == 40
    assert {n: v for n, v in states(together).items() if n != "random_state"} == {
        n: v for n, v in states(alone).items() if n != "random_state"
    }


def test_a_plan_that_overwrites_too_early_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    step = trained(True, monkeypatch)
    graph = step.plan.graph
    marked = graph.replace(writes=tuple(replace(w, in_place=True) for w in graph.writes))
    with pytest.raises(VerifyError, match="before a segment has read its old value, or before a segment that may"):
        verify_plan(step.graph, marked)
    assert plan_of(graph).swapped


def test_an_engine_that_is_not_there_is_named() -> None:
    with pytest.raises(GraphKeyError, match="There is no engine 'onnxruntim'; did you mean 'onnxruntime'"):
        graphls.compile(nn.Dense(4, 3), X, engine="onnxruntim")


@pytest.mark.parametrize("engine", ["numpy"])
def test_another_engine_gives_the_same(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trained(True, monkeypatch)
    known = [[t.asnumpy() for t in first(X, Y)] for _ in range(12)]
    other = trained(True, monkeypatch, engine=engine)
    assert {row.engine for row in other.plan.segments} == {engine}
    for results in known:
        for given, wanted in zip(other(X, Y), results, strict=True):
            np.testing.assert_allclose(given.asnumpy(), wanted, rtol=2e-3)


def test_a_plan_parses_and_prints_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphls.ir import dump, parse

    graph = trained(True, monkeypatch).plan.graph
    assert dump(parse(dump(graph))) == dump(graph)
    assert Pipeline((Partition(),)).run(graph).graph is graph


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_a_plan_differs_from_the_graph_by_its_segments(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(True, monkeypatch, engine=engine)
    last, plan = list(step.stages.values())[-2:]
    found = last.diff(plan)
    assert [n.primitive.name for n in found.added] == ["segment"] * 3
    assert not (found.removed or found.changed or found.inputs or found.states or found.outputs)
    assert all(a and b and a.in_place != b.in_place for a, b in found.writes), "but states may have two buffers now"
    assert str(found).startswith("Nodes: 3 added, 0 removed, 0 changed")


def test_a_plan_is_drawn_as_boxes_of_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphls.inspect.viz.dot import to_dot
    from graphls.inspect.viz.svg import to_svg
    from graphls.inspect.viz.tree import Group, grouped

    graph = trained(True, monkeypatch).plan.graph
    first, condition = (c for c in grouped(graph).children if isinstance(c, Group))
    assert (first.label, condition.label) == ("onnxruntime segment", "cond")
    branches = [region.children for region in condition.children if isinstance(region, Group)]
    inside = [[c.label for c in branch if isinstance(c, Group) and c.kind == "node"] for branch in branches]
    assert inside == [["onnxruntime segment"], ["onnxruntime segment"]]
    assert "onnxruntime segment" in to_dot(graph) and "onnxruntime segment" in to_svg(graph)


def cut(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let every graph be so large that it is cut."""
    monkeypatch.setattr("graphls.passes.schedule.cut.MOST_LOOKUPS", 0)
    monkeypatch.setattr("graphls.passes.schedule.cut.MOST_NODES", most)


@pytest.mark.parametrize(("scaled", "most"), [(False, 10), (True, 10), (True, 1)])
def test_a_step_that_is_large_is_cut_and_gives_the_bits_of_one_session(
    scaled: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step() -> graphls.Compiled:
        if scaled:
            return trained(True, monkeypatch)
        graphls.set_seed(3)
        loss = nn.WithLossCell(Network(), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        return graphls.compile(nn.TrainOneStepCell(loss, nn.Adam(loss.trainable_params(), 0.05)).set_train(), X, Y)

    def bits(step: graphls.Compiled) -> list[Any]:
        return [([np.asarray(r).tobytes() for r in np.atleast_1d(step(X, Y))], states(step)) for _ in range(8)]

    whole = bits(step())
    cut(monkeypatch, most)
    found = step()
    segments = plan_of(Partition(least=0).run(found.graph)).segments
    assert len(segments) > 5 and max(len(s.graph.nodes) for s in segments) < 40
    assert bits(found) == whole


def test_large_steps_are_cut_and_others_are_not() -> None:
    def chain(length: int, outputs: int) -> Any:
        lines = [f"  %y{i} = exp(%x) : f32[2]  // forward" for i in range(length)]
        returned = ", ".join(f"%y{i}" for i in range(outputs))
        return parse("\n".join(["graph @g(%x: f32[2]) {", *lines, f"  return {returned}", "}"]))

    assert Partition().run(chain(600, 600)).nodes[0].primitive.name == "exp"
    cut_into = plan_of(Partition().run(chain(2300, 2300))).segments
    assert [len(s.graph.nodes) for s in cut_into] == [2000, 300]


def test_pieces_of_a_large_plan_write_states_in_place_where_nothing_reads_them_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut(monkeypatch, 10)
    step = trained(True, monkeypatch)
    swapped = plan_of(Partition(least=0).run(step.graph)).swapped
    assert not swapped & {p.name for p in step.parameters.values() if p.requires_grad}
