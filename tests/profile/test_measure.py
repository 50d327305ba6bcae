"""Every kernel belongs to a node, what is measured adds up, and the step itself is left alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.inspect.profile.measure import PlainCopy
from graphls.ir import walk
from graphls.ir.errors import GraphRuntimeError, GraphValueError
from graphls.runtime.kernels import Run
from graphls.runtime.onnxruntime import profiled
from tests.profile.steps import BACKENDS, F32, STEPS, dropout, loop

ROOT = Path(__file__).parent.parent.parent


def state_bytes(step: Any) -> dict[str, bytes]:
    return {name: p.asnumpy().tobytes() for name, p in step.parameters.items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STEPS)
def test_every_kernel_is_that_of_a_node(name: str, backend: str) -> None:
    step, inputs = STEPS[name](backend)
    profile = step.profile(*inputs, steps=3)
    assert profile.steps == profile.requested == 3
    nodes = set(walk(step.graph))
    others = {(k.node, k.operator) for run in profile.runs for k in run.kernels if k.node not in nodes}
    assert others <= {(None, "Identity")}, "only copies of inputs and states, which are outputs, belong to no node"
    assert profile.node_seconds.keys() == nodes
    ran = {k.node for run in profile.runs for k in run.kernels}
    free = {"constant", "depend", "stop_gradient", "check_labels", "overflow_start"}
    silent = [n for n in step.graph.nodes if n not in ran and n.primitive.name not in free]
    assert backend == "onnxruntime" or silent == []
    assert len(silent) * 3 < len(step.graph.nodes)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STEPS)
def test_the_shares_add_up(name: str, backend: str) -> None:
    step, inputs = STEPS[name](backend)
    profile = step.profile(*inputs, steps=2)
    rest = profile.other_seconds / profile.counted_seconds
    known = sum(kernel.node is not None for run in profile.runs for kernel in run.kernels)
    for rows in (profile.by_phase, profile.by_primitive, profile.by_node, profile.by_cell[:1]):
        assert sum(row.share for row in rows) + rest == pytest.approx(1)
        assert sum(row.kernels for row in rows) == pytest.approx(known / 2)
    assert all(seconds >= 0 for seconds in profile.node_seconds.values())
    assert sum(row.nodes for row in profile.by_primitive) == len(profile.node_seconds)


def test_shares_are_those_of_a_step_without_the_profiler() -> None:
    step, inputs = STEPS["dropout"]("numpy")
    profile = step.profile(*inputs, steps=2)
    nodes = sum(profile.node_seconds.values())

    def measured(under: float, without: float) -> tuple[float, float, float]:
        found = replace(profile, step_seconds=under * nodes, unprofiled_seconds=without * nodes)
        assert f"itself takes {1000 * found.profiler_seconds:.3f} ms, in no share" in str(found)
        return found.profiler_seconds / nodes, found.other_seconds / nodes, sum(row.share for row in found.by_phase)

    assert measured(3, 1.5) == pytest.approx((1.5, 0.5, 1 / 1.5))
    assert measured(1.25, 2) == pytest.approx((0, 0.25, 0.8)), "another load of the machine, not a profiler"
    assert measured(3, 0.5) == pytest.approx((2, 0, 1)), "nodes keep their own time"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["dropout", "branches", "loop", "recurrent", "accumulation"])
def test_inner_time_is_not_counted_twice(name: str, backend: str) -> None:
    step, inputs = STEPS[name](backend)
    profile = step.profile(*inputs, steps=2)
    inner = {n for node in step.graph.nodes for region in node.regions for n in walk(region)}
    for run in profile.runs:
        assert any(k.node in inner for k in run.kernels)
        rounded = 1e-6 * len(run.kernels)  # ONNX Runtime tells when each begins and how long it takes in microseconds
        assert sum(k.own_seconds for k in run.kernels) <= covered(run) + rounded <= run.seconds + 2 * rounded


def covered(run: Run) -> float:
    """The seconds in which a kernel ran, counted once where kernels run inside of others.

    The condition that a loop tries before its first iteration is in the loop's region and runs in front of the loop.
    """
    seconds, end = 0.0, 0.0
    for kernel in sorted(run.kernels, key=lambda k: k.start):
        seconds += max(0.0, kernel.start + kernel.seconds - max(kernel.start, end))
        end = max(end, kernel.start + kernel.seconds)
    return seconds


@pytest.mark.parametrize("backend", BACKENDS)
def test_nodes_of_a_loop_run_as_often_as_it_turns(backend: str) -> None:
    step, inputs = loop(backend)
    profile = step.profile(*inputs, steps=2)
    calls = {row.primitive: row.kernels for row in profile.by_primitive}
    assert calls["mul"] == 3 and calls["while_loop"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["dropout", "recurrent", "accumulation"])
def test_no_state_changes_and_the_next_step_has_the_same_bits(name: str, backend: str) -> None:
    def bits(profiles: bool) -> list[Any]:
        graphls.set_seed(7)
        step, inputs = STEPS[name](backend)
        step(*inputs)
        found = [state_bytes(step)]
        if profiles:
            step.profile(*inputs, steps=2)
            assert state_bytes(step) == found[0]
        for _ in range(3):
            found += [t.asnumpy().tobytes() for t in step(*inputs) if t is not None]
        return [*found, state_bytes(step)]

    assert bits(profiles=True) == bits(profiles=False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_skipped_steps_are_counted(backend: str) -> None:
    step, inputs = dropout(backend, scale=2.0**60)
    profile = step.profile(*inputs, steps=4)
    assert profile.skipped == 4 and "4 of 4 steps overflowed and were skipped." in str(profile)
    fitting, inputs = dropout(backend, scale=2.0)
    assert fitting.profile(*inputs, steps=2).skipped == 0


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "2", None, np.zeros(2)])
def test_a_number_of_steps_is_one_from_1_on(steps: Any) -> None:
    step, inputs = dropout("numpy")
    with pytest.raises(GraphValueError, match=r"number of steps from 1 on.*test_measure.py"):
        step.profile(*inputs, steps=steps)


def test_numbers_of_steps_may_be_of_numpy() -> None:
    step, inputs = dropout("onnxruntime")
    assert step.profile(*inputs, steps=np.int64(1)).steps == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_inputs_raise_as_in_a_call(backend: str) -> None:
    step, (x, y) = dropout(backend)
    with pytest.raises(GraphValueError):
        step.profile(x[:1], y)
    with pytest.raises(TypeError):
        step.profile(x)


def test_nothing_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    step, inputs = dropout("onnxruntime")
    step.profile(*inputs, steps=1)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(profiled.ProfiledSession, "run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        step.profile(*inputs, steps=1)
    assert list(tmp_path.iterdir()) == []


def test_a_full_profile_gives_the_steps_that_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    step, inputs = dropout("onnxruntime")
    whole = profiled.ProfiledSession.runs
    monkeypatch.setattr(profiled.ProfiledSession, "runs", lambda self, path: whole(self, path)[:3])
    profile = step.profile(*inputs, steps=5)
    assert (profile.steps, profile.requested) == (1, 5)
    assert "The profile of ONNX Runtime was full after 1 of 5 steps." in str(profile)
    monkeypatch.setattr(profiled.ProfiledSession, "runs", lambda self, path: whole(self, path)[:2])
    with pytest.raises(GraphRuntimeError, match="more operators than the profile of ONNX Runtime holds"):
        step.profile(*inputs, steps=5)


def test_the_names_of_a_plain_copy_are_numbers() -> None:
    step, _ = STEPS["accumulation"]("numpy")
    copy = PlainCopy(step.graph)
    values = [v for n in walk(copy.graph) for v in n.outputs]
    originals = [v for n in walk(step.graph) for v in n.outputs]
    assert all(v.name[0] == "v" and v.name[1:].isdigit() for v in (*values, *copy.graph.states))
    assert {n.scope for n in walk(copy.graph)} == {""}
    assert [copy.nodes[n].primitive for n in walk(copy.graph)] == [n.primitive for n in walk(step.graph)]
    assert [v.type for v in values] == [v.type for v in originals] and {*values}.isdisjoint(originals)


def test_who_does_not_ask_pays_nothing() -> None:
    code = """
import sys
import numpy as np
import graphls
x = np.ones(3, np.float32)
graphls.compile(lambda x: x + 1, x)(x)
print(*sys.modules)
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    lazy = ("graphls.profile", "graphls.runtime.onnxruntime.profiled", "graphls.runtime.kernels")
    assert [name for name in run.stdout.split() if name.startswith(lazy)] == []


class Adding(nn.Cell):
    """A cell without loss scaling that returns a nest."""

    def __init__(self) -> None:
        super().__init__()
        self.total = graphls.Parameter(np.zeros(3, F32), name="total")

    def construct(self, x: Any) -> Any:
        self.total = self.total + x
        return {"total": self.total, "constant": 3}


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_without_loss_scaling_and_with_any_outputs(backend: str) -> None:
    cell = Adding()
    x = np.ones(3, F32)
    step = graphls.compile(cell, x, backend=backend)
    profile = step.profile(x, steps=2)
    assert profile.skipped == 0 and cell.total.asnumpy().tolist() == [0, 0, 0]
    assert [row.primitive for row in profile.by_primitive] == ["add"]
    empty = graphls.compile(lambda x: x, x, backend=backend).profile(x, steps=1)
    assert empty.peak == x.nbytes and empty.live == () and "in no node" in str(empty)
