"""Threads, forked processes and Ctrl-C: what holds with every engine, where kernels are those of oneDNN."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.engines import runs_python
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onednn import blocked
from graphls.runtime.onednn.library import OPENMP
from graphls.runtime.onednn.part import OnednnPart
from tests.interrupting import assert_states_are_of_one_step
from tests.sharing.test_forks import in_child

F32 = np.float32
X = np.random.default_rng(0).normal(size=(4, 3, 12, 12)).astype(F32)
Y = np.ones((4, 5), F32)
FORKS = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


def images() -> Any:
    """A training of convolutions, whose kernels have memory of their own for what is between."""
    graphls.set_seed(1)
    layers = nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2), nn.Flatten()
    net = nn.SequentialCell(*layers, nn.Dense(576, 5))
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.01, 0.9))
    return cell.set_train()


def losses(step: Any, count: int = 5) -> list[float]:
    return [float(step(X, Y)) for _ in range(count)]


def compiled(cell: Any = None) -> Any:
    return graphls.compile(cell or images(), X, Y, engine="onednn")


def test_threads_that_compile_and_train_at_once_give_what_one_gives() -> None:
    expected, cells = losses(compiled(), 10), [images() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        steps = list(pool.map(compiled, cells))
        np.testing.assert_allclose(list(pool.map(losses, steps)), [expected[:5]] * 4, rtol=1e-4)
    # On another thread, where those above have ended; a thread of another count adds in another order.
    np.testing.assert_allclose([losses(step) for step in steps], [expected[5:]] * 4, rtol=1e-4)


def test_a_step_is_freed_on_another_thread_than_it_was_compiled_on() -> None:
    expected, own = losses(compiled()), compiled()
    others = [compiled()]
    thread = threading.Thread(target=others.clear)
    thread.start()
    thread.join()
    assert losses(own) == expected


@FORKS
def test_children_compute_what_their_parent_does() -> None:
    step = compiled()
    losses(step)
    first, again = in_child(lambda: (losses(step), in_child(lambda: losses(step)))), losses(step, 10)
    np.testing.assert_allclose([*first[0], *first[1]], again, rtol=1e-4)
    np.testing.assert_allclose(in_child(lambda: losses(compiled())), losses(compiled()), rtol=1e-4)


@FORKS
def test_a_thread_of_a_child_computes() -> None:
    step = compiled()
    losses(step)

    def work() -> list[float]:
        with ThreadPoolExecutor(1) as pool:
            return [*pool.submit(losses, step).result(), *losses(step)]

    np.testing.assert_allclose(in_child(work), losses(step, 10), rtol=1e-4)


def most_threads() -> int:
    """The threads that kernels of this thread may compute on."""
    count: int = CDLL(OPENMP).omp_get_max_threads()
    return count


def on_a_thread(function: Callable[[], Any], count: int) -> Any:
    """What a function gives on a thread of its own, for which OpenMP starts this many threads."""

    def work() -> Any:
        CDLL(OPENMP).omp_set_num_threads(count)
        return function()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_steps_compute_on_the_threads_that_the_context_allowed() -> None:
    def counts() -> list[int]:
        steps = []
        for limit in (2, 30, 1, 0):
            graphls.set_context(runtime_num_threads=limit)
            steps.append(compiled())
        graphls.reset_context()
        steps.append(compiled())
        return [(losses(step), most_threads())[1] for step in (*steps, *steps)]

    try:
        assert on_a_thread(counts, 3) == [2, 3, 1, 3, 3] * 2
    finally:
        graphls.reset_context()


def test_states_are_reordered_on_as_many_threads_as_their_step_computes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    move = blocked.move
    monkeypatch.setattr(blocked, "move", lambda *memories: (counts.append(most_threads()), move(*memories)))

    def work() -> None:
        graphls.set_context(runtime_num_threads=1)
        step = compiled()
        graphls.reset_context()
        start = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
        for _ in range(2):
            losses(step, 1)
            for name, value in start.items():
                step.parameters[name].set_data(value)
        losses(step, 1)
        states(step)

    try:
        on_a_thread(work, 3)
    finally:
        graphls.reset_context()
    assert len(counts) >= 3 and {*counts} == {1}


def test_without_a_limit_threads_are_those_of_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    step = compiled()
    monkeypatch.setattr("graphls.runtime.onednn.library.OPENMP", "none.so")  # which nothing loads
    assert np.isfinite(losses(step)).all()


@FORKS
def test_a_child_computes_alone_also_where_the_context_allows_more() -> None:
    def count() -> int:
        losses(step)
        return most_threads()

    graphls.set_context(runtime_num_threads=2)
    try:
        step = compiled()
        losses(step)
        assert in_child(lambda: (count(), on_a_thread(count, 3))) == (1, 1)
    finally:
        graphls.reset_context()


def _in_pool(x: Any) -> list[float]:
    return _network(x).asnumpy().ravel().tolist()


_network = nn.Conv2d(3, 4, 3)


@FORKS
def test_a_pool_of_forked_processes_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    graphls.set_context(engine="onednn")
    try:
        rows = X[:, None]
        expected = [_in_pool(graphls.Tensor(row)) for row in rows]
        with get_context("fork").Pool(2) as pool:
            results = pool.map_async(_in_pool, [graphls.Tensor(row) for row in rows]).get(120)
        np.testing.assert_allclose(results, expected, rtol=1e-4, atol=1e-6)
    finally:
        graphls.reset_context()


def scaled() -> Any:
    """A training with loss scaling, of few states: a step that is interrupted binds all of them again."""
    graphls.set_seed(1)
    layers = nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Dense(576, 5)
    loss = nn.WithLossCell(nn.SequentialCell(*layers), nn.MSELoss())
    update = nn.Momentum(loss.trainable_params(), 0.01, 0.9)
    return nn.TrainOneStepWithLossScaleCell(loss, update, nn.DynamicLossScaleUpdateCell(2.0**127, 2, 3)).set_train()


def test_only_segments_of_which_the_plan_knows_it_run_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C there may end the step, so states are overwritten behind it."""
    parts: list[OnednnPart] = []
    compile_part = OnednnPart._compile
    monkeypatch.setattr(OnednnPart, "_compile", lambda part: (parts.append(part), compile_part(part)))
    monkeypatch.setattr("graphls.runtime.target.Partition", lambda engine, skips: Partition(engine, skips, 0))
    for made in (images, scaled):
        graphls.compile(made(), X, Y, engine="onednn")
    assert len(parts) == 4
    for part in parts:
        assert runs_python(part.segment) or not any(call.runs_python for call in part.program.calls)


def states(step: Any) -> dict[str, bytes]:
    return {name: parameter.asnumpy().tobytes() for name, parameter in step.parameters.items()}


@pytest.mark.parametrize("least", [0, 1 << 60], ids=["in-segments", "as-one"])
@pytest.mark.parametrize("made", [images, scaled])
def test_a_step_that_is_interrupted_anywhere_leaves_the_states_of_one_step(
    made: Any, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphls.runtime.target.Partition", lambda engine, skips: Partition(engine, skips, least))
    step = graphls.compile(made(), X, Y, engine="onednn")
    for _ in range(4):
        step(X, Y)
    is_held = made is scaled and least > 0  # new states wait in second buffers for the flag
    assert any(write.in_place for write in step._session.plan.graph.writes) is not is_held
    every = 5 if is_held else 2  # of 3600 places, nearly all of which bind one state after the other
    assert_states_are_of_one_step(step, lambda: step(X, Y), states, every)
