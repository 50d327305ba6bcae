"""A profile as text, as HTML and as a trace: complete, nested, and safe for every name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.inspect.cell_tree import DEEPEST
from graphls.inspect.profile import trace
from graphls.ir import Graph, Location, Node, Value
from graphls.ir.errors import GraphFileError
from graphls.ir.registry import lookup
from graphls.ir.types import Type, float32
from graphls.profile import Memory, Profile
from graphls.runtime.kernels import Kernel, Run
from tests.diagnosis.networks import Net, X, Y, identity, scaled_cell
from tests.diagnosis.test_html import check, run_in_hostile_file
from tests.ir.graphs import HOSTILE
from tests.profile.steps import BACKENDS, STEPS, dropout

SCRIPT = "<script>alert('x')</script>"
LONG = "x" * 10_000
NAMES = [*HOSTILE, SCRIPT, LONG, "\u2066\u202e\u2069", "a.b", ".".join("a" * 5000)]


def made(name: str, seconds: float = 0.001) -> Profile:
    """A profile of one node whose value, cell and file have a name, and that ran twice in a step."""
    x, y = Value("x", Type(float32, (2,))), Value(name, Type(float32, (2,)))
    node = Node(lookup("exp"), (x,), (y,), scope=name, loc=Location(name, 3))
    graph = Graph(name, (x,), (), (node,), (), (y,))
    kernels = tuple(Kernel(node, "Exp", start, seconds, seconds) for start in (0.0, 2 * seconds))
    memory = Memory(16, 0, 8, 0, node, (), {node: 16})
    return Profile(graph, "NumPy", 4 * seconds, 3 * seconds, 1, 0, (Run(0.0, 4 * seconds, kernels),), memory)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_stay_in_their_row(name: str, tmp_path: Path) -> None:
    profile, plain = made(name), made("plain")
    text = str(profile)
    assert all(c.isprintable() or c == "\n" for c in text)
    cells = len(profile.by_cell)
    more = min(cells, 30) - len(plain.by_cell) + (cells > 30)
    assert text.count("\n") == str(plain).count("\n") + more
    assert max(map(len, text.splitlines())) < 400
    assert "<script>" not in profile._repr_html_()
    check(profile._repr_html_())
    profile.save_trace(tmp_path / "trace.json")
    check_trace(tmp_path / "trace.json")
    assert len(profile.by_cell) <= DEEPEST + 1


def test_shares_of_short_steps_are_the_profilers() -> None:
    told = "In a step of less than 1 ms the profiler's own time for every kernel dominates: shares are the profiler's."
    assert told in str(made("x", 1e-4)) and told in check(made("x", 1e-4)._repr_html_()).words
    assert "less than 1 ms" not in str(made("x", 1e-3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hostile_program_is_profiled(backend: str, tmp_path: Path) -> None:
    """Names that ONNX Runtime would write into its JSON as they are."""
    source = f"""
from graphls import nn, ops

class Hostile(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.insert_child_to_cell('{SCRIPT.replace("'", '"')}\\n"}}', net)

    def construct(self, x):
        return ops.exp(list(self.name_cells().values())[0](x))
"""
    names = run_in_hostile_file(source, tmp_path)
    net = names["Hostile"](Net(identity, name='"}]\\_kernel_time"\u202e权重'))
    step = graphls.compile(scaled_cell(net), X, Y, backend=backend)
    profile = step.profile(X, Y, steps=2)
    assert all(kernel.node is not None for run in profile.runs for kernel in run.kernels)
    assert any("script" in row.name for row in profile.by_cell)
    words = check(profile._repr_html_()).words
    assert "script" in words and "<b>.py" in words
    profile.save_trace(tmp_path / "trace.json")
    check_trace(tmp_path / "trace.json")


def check_trace(path: Path, has_segments: bool = False, communicates: bool = False) -> list[dict[str, Any]]:
    """The slices of a trace, which is valid, and whose slices nest on each track."""
    text = path.read_text(encoding="ascii")
    events = json.loads(text)
    assert len(text.splitlines()) == len(events) + 2
    slices = [e for e in events if e["ph"] == "X"]
    missing = ["segments"] * (not has_segments) + ["communication"] * (not communicates)
    tracks = [track for track in trace.TRACKS if track not in missing]
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == tracks
    for track in range(1, len(trace.TRACKS) + 1):
        check_nesting([(e["ts"], e["ts"] + e["dur"]) for e in slices if e["tid"] == track])
    return slices


def check_nesting(spans: list[tuple[float, float]]) -> None:
    ends: list[float] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        assert start >= 0 and end >= start
        while ends and ends[-1] <= start + 1e-3:
            ends.pop()
        assert not ends or end <= ends[-1] + 1e-3
        ends.append(end)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STEPS)
def test_traces_are_valid(name: str, backend: str, tmp_path: Path) -> None:
    step, inputs = STEPS[name](backend)
    profile = step.profile(*inputs, steps=2)
    profile.save_trace(tmp_path / "new" / "trace.json")
    slices = check_trace(tmp_path / "new" / "trace.json")
    kernels = [e for e in slices if trace.TRACKS[e["tid"] - 1] == "kernels"]
    assert len(kernels) == sum(len(run.kernels) for run in profile.runs)
    told = {"node", "operator", "cell", "phase", "line", "inputs", "outputs"}
    assert all({*e["args"]} == (told if e["name"] != "Identity" else {"operator"}) for e in kernels)
    assert [e["name"] for e in slices if trace.TRACKS[e["tid"] - 1] == "steps"] == ["step 1", "step 2"]
    phases = {e["name"] for e in slices if trace.TRACKS[e["tid"] - 1] == "phases"}
    assert phases == {e["args"].get("phase") for e in kernels} - {None} and "forward" in phases


def test_slices_of_cells_go_on_as_long_as_kernels_share_them() -> None:
    profile = made("net")
    node = profile.graph.nodes[0]
    paths = ["a.b", "a.b", "a.c", "a", "", "a.c"]
    nodes = [Node(node.primitive, node.inputs, node.outputs, scope=path) for path in paths]
    kernels = tuple(Kernel(n, "Exp", i / 1e6, 5e-7, 5e-7) for i, n in enumerate(nodes))
    events = json.loads(b"".join(trace.trace_parts("g", [Run(0, 1e-5, kernels)])))
    cells = sorted((e["ts"], -e["dur"], e["name"]) for e in events if e.get("cat") == "cells")
    assert cells == [(0, -3.5, "a"), (0, -1.5, "b"), (2, -0.5, "c"), (5, -0.5, "a"), (5, -0.5, "c")]


def test_sums_of_times_may_be_off_by_a_rounding() -> None:
    node = made("net").graph.nodes[0]
    update = Node(node.primitive, node.inputs, node.outputs, phase="update")
    assert 0.1 + 0.2 > 0.3
    kernels = (Kernel(node, "Exp", 0.1, 0.2, 0.2), Kernel(update, "Exp", 0.3, 0.1, 0.1))
    events = json.loads(b"".join(trace.trace_parts("g", [Run(0, 1, kernels)])))
    assert [e["name"] for e in events if e.get("cat") == "phases"] == ["forward", "update"]


def test_a_trace_has_whole_steps_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = made("net").runs[0]
    for most, steps in ((1, 1), (2, 1), (4, 2), (5, 2), (100, 3)):
        monkeypatch.setattr(trace, "MOST_KERNELS", most)
        text = b"".join(trace.trace_parts("g", [run, run, run])).decode()
        assert sum(e["name"].startswith("step ") for e in json.loads(text)) == steps


def test_a_trace_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="cannot be written"):
        made("net").save_trace(tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_text_and_the_page_say_the_same(backend: str) -> None:
    step, inputs = dropout(backend)
    profile = step.profile(*inputs, steps=2)
    words = check(profile._repr_html_()).words
    text = str(profile)
    for line in text.splitlines():
        assert all(part.strip() in words for part in line.split("  ") if part.strip())
    assert text.splitlines()[0].startswith("A step takes ")
    for phase in ("forward", "backward", "check", "update", "(in no node)"):
        assert f"\n{phase}" in text
    assert "network" in text and "matmul" in text and "steps.py:" in text and "By liveness a step holds at most" in text
    assert repr(profile).startswith("<Profile of @TrainOneStepWithLossScaleCell: ")


def test_cells_are_a_tree_with_those_inside() -> None:
    step, inputs = dropout("numpy")
    rows = step.profile(*inputs, steps=1).by_cell
    assert [(row.name, row.depth) for row in rows[:5]] == [
        ("", 0), ("network", 1), ("_backbone", 2), ("0", 3), ("1", 3)
    ]  # fmt: skip
    inside = [row for row in rows if row.depth == 3]
    assert sum(row.seconds for row in inside) <= rows[2].seconds + 1e-9 <= rows[0].seconds + 2e-9
    assert all(row.seconds == pytest.approx(sum(row.phases.values())) for row in rows)


def test_rows_beyond_the_longest_are_summed_up() -> None:
    net = nn.SequentialCell(*[nn.Dense(2, 2) for _ in range(40)])
    x = np.ones((1, 2), np.float32)
    profile = graphls.compile(net, x, backend="numpy").profile(x, steps=1)
    text = str(profile)
    assert "The 30 longest of 41 cells:" in text
    assert f"({len(profile.by_node) - 12} more)" in text
