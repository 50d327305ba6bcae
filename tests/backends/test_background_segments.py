"""Segments that communicate while others compute: the numbers of one rank, and states of one step whatever happens.

Another rank that gives the same is put in place of MPI.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import graphls
from graphls import nn, ops
from graphls.distributed import collectives
from graphls.distributed.communication_thread import NAME
from graphls.distributed.world import ALONE, WORLD, Group, Ranks
from graphls.inspect.profile.trace import TRACKS
from graphls.passes.schedule.partition import Partition
from graphls.runtime.context.parallel import preserved_parallel_context, set_auto_parallel_context
from tests.interrupting import assert_states_are_of_one_step
from tests.profile.test_report import check_trace

X, Y = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.linspace(0, 1, 16, dtype=np.float32).reshape(8, 2)
COUNT = 3


class Twin:
    """What a communicator with a rank that gives the same does."""

    def __init__(self) -> None:
        self.before: Callable[[Any], None] = lambda array: None
        self.threads: list[str] = []

    def allgather(self, item: object) -> list[object]:
        return [item, item]

    def Ibarrier(self) -> None:
        """All are here."""

    def Ibcast(self, array: Any, root: int) -> None:
        """All have the same."""

    def Iallreduce(self, sent: Any, result: Any, op: str) -> None:
        if sent is MPI.IN_PLACE:
            return  # of what both are about to do, which is the same
        self.threads.append(threading.current_thread().name)
        self.before(result)
        result[...] = 2 * (result if sent is None else sent)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Twin]:
    comm = Twin()
    monkeypatch.setattr(Ranks, "groups", {WORLD: Group(WORLD, (0, 1), 0, ("", ""), comm)})
    monkeypatch.setattr(collectives, "_operation", str)
    monkeypatch.setattr(collectives, "in_place", lambda: None)
    monkeypatch.setattr("graphls.runtime.target.Partition", lambda engine, skips: Partition(engine, skips, bucket=0))
    with preserved_parallel_context():
        yield comm


class Network(nn.Cell):
    """Layers that are made in another order than they are used in."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.first, self.middle = nn.Dense(8, 2), nn.Dense(4, 8), nn.Dense(8, 8)

    def construct(self, x: Any, y: Any) -> Any:
        return ops.square(self.last(ops.tanh(self.middle(ops.tanh(self.first(x))))) - y).mean()


def trained(scaled: bool = False) -> graphls.Compiled:
    """A step whose gradients travel by layers, in float16 where they are scaled."""
    set_auto_parallel_context(
        parallel_mode="data_parallel", gradients_mean=True, all_reduce_fusion_config=[2, 4], comm_fusion={}
    )
    graphls.set_seed(1)
    network = Network()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    if not scaled:
        return graphls.compile(nn.TrainOneStepCell(network, optimizer), X, Y)
    manager = nn.DynamicLossScaleUpdateCell(2.0**20, 2, 3)
    cell = nn.TrainOneStepWithLossScaleCell(network.to_float(graphls.float16), optimizer, manager)
    return graphls.compile(cell, X, Y)


def states(step: graphls.Compiled) -> list[bytes]:
    return [parameter.asnumpy().tobytes() for parameter in step.parameters.values()]


@pytest.mark.parametrize("scaled", [False, True])
def test_steps_are_those_of_one_rank(scaled: bool, twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(scaled)
    # Where the update runs without knowing the flag, the exchange of that waits for nobody, either.
    assert twin.threads == [] and len(step._session.background_segments) in (COUNT - 1, COUNT)
    with monkeypatch.context() as alone:
        alone.setattr(Ranks, "groups", {WORLD: ALONE})
        known = trained(scaled)
    for _ in range(12):
        given, expected = step(X, Y), known(X, Y)
        for a, b in zip(*((t if isinstance(t, tuple) else (t,)) for t in (given, expected)), strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
    for name, parameter in step.parameters.items():
        np.testing.assert_allclose(parameter.asnumpy(), known.parameters[name].asnumpy(), rtol=1e-5, atol=1e-7)
    assert set(twin.threads) == {NAME} and len(twin.threads) == 12 * (COUNT + scaled)


def test_what_is_made_first_travels_first_while_the_rest_is_computed(twin: Twin) -> None:
    step = trained()
    sizes: list[int] = []
    computed, waited = threading.Event(), []
    parts = step._session.first
    number = next(i for i in step._session.background_segments)
    begin = parts[number + 1].begin
    parts[number + 1].begin = lambda fed: (computed.set(), begin(fed))[1]

    def before(array: Any) -> None:
        sizes.append(array.size)
        waited.append(computed.wait(300))  # the first one ends only when the segment behind it has begun

    twin.before = before
    step(X, Y)
    assert waited == [True] * COUNT
    assert sizes == [18, 72, 40], "those of `last`, `middle` and `first`"
    assert step.plan.overlaps == (
        "Segment 1 communicates (72 B) while 2 to 5 run; 6 waits for it.",
        "Segment 3 communicates (288 B) while 4 to 5 run; 6 waits for it.",
    )


def test_an_error_of_that_thread_has_the_line_and_changes_nothing(twin: Twin) -> None:
    step, known = trained(), trained()
    before, calls = states(step), []

    def fail(array: Any) -> None:
        calls.append(array)
        if len(calls) == 2:
            raise RuntimeError("the network is down")

    twin.before = fail
    with pytest.raises(RuntimeError, match=r"MPI could not run all_reduce of .*: the network is down.*segments.py:\d+"):
        step(X, Y)
    assert states(step) == before
    twin.before = lambda array: None
    for _ in range(2):
        step(X, Y), known(X, Y)
    assert states(step) == states(known)


def test_an_error_beside_it_is_told_and_the_next_step_waits_for_what_is_left(twin: Twin) -> None:
    step, known = trained(), trained()
    part, busy = step._session.first[2], []
    began, going = threading.Event(), threading.Event()
    begin = part.begin

    def broken(fed: Any) -> Any:
        began.wait(300)
        raise ValueError("broken")

    def slow(array: Any) -> None:
        began.set()
        going.wait(300)
        busy.append(array.size)

    twin.before, part.begin = slow, broken
    with pytest.raises(ValueError, match="broken"):
        step(X, Y)
    assert not busy
    part.begin, twin.before = begin, lambda array: None
    threading.Timer(0.05, going.set).start()
    step(X, Y), known(X, Y)
    assert busy == [18] and states(step) == states(known)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_step_that_is_interrupted_anywhere_has_states_of_one_step(scaled: bool, twin: Twin) -> None:
    step = trained(scaled)
    for _ in range(9):
        step(X, Y)
    assert_states_are_of_one_step(step, lambda: step(X, Y), states, 3)


def test_a_profile_tells_bytes_and_what_was_waited_for(twin: Twin, tmp_path: Path) -> None:
    step = trained()
    twin.before = lambda array: time.sleep(0.002)
    profile = step.profile(X, Y, steps=3)
    assert [row.bytes for row in profile.by_collective] == [72, 288, 160]
    assert all(0 < row.waited <= row.seconds for row in profile.by_collective)
    assert profile.by_collective[-1].waited == profile.by_collective[-1].seconds, "nothing runs beside the last one"
    assert 0 < profile.hidden_seconds < sum(row.seconds for row in profile.by_collective)
    assert sum(row.seconds - row.hidden for row in profile.by_segment) < profile.step_seconds
    assert "Ranks communicate for" in str(profile) and "waited ms" in str(profile)
    profile.save_trace(tmp_path / "trace.json")
    slices = check_trace(tmp_path / "trace.json", has_segments=True, communicates=True)
    track = TRACKS.index("communication") + 1
    assert len([e for e in slices if e["tid"] == track and e["name"] == "all_reduce"]) == 6
