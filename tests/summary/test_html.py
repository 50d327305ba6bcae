"""Summaries, steps, reports and cells as HTML and on a terminal: hostile names, widths, what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.base.text.plain import columns
from graphls.diagnosis import LossScaleMonitor
from tests.diagnosis.test_html import check
from tests.summary.test_summary import Branch, compiled, trained

F32 = np.float32
SCRIPT = "<script>alert('x')</script>"
HOSTILE = (f'"{SCRIPT}', "a\nb", "\u202eabc", "\x1b[31m", "漢字" * 30, "n" * 10_000, "a|b,c&amp;")


class Holder(nn.Cell):
    """A cell of any class name under any name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        kind = type(name, (nn.Dense,), {})
        self.insert_child_to_cell(name, kind(4, 4))
        self.held = name

    def construct(self, x: Any) -> Any:
        return self.name_cells()[self.held](x)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    step = trained(Holder(name), np.ones((2, 4), F32))
    found = step.summary()
    text = found.text(100)
    assert all(line.isprintable() for line in text.splitlines())
    assert found[f"network.net.{name}"].flops == 2 * 4 * 9
    for html in (found._repr_html_(), step._repr_html_(), Holder(name)._repr_html_()):
        words = check(html).words
        assert "\u202e" not in words and "\x1b" not in words
        assert ("script" not in name) or SCRIPT in words


class Deep(nn.Cell):
    """A cell in a cell in a cell."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inside_of_this_cell = Deep(depth - 1) if depth else nn.Dense(4, 4)

    def construct(self, x: Any) -> Any:
        return self.inside_of_this_cell(x)


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("make", [Branch, lambda: Deep(25), *(lambda n=n: Holder(n) for n in HOSTILE)])
def test_tables_fit_the_terminal(make: Any, width: int) -> None:
    text = trained(make(), np.ones((2, 4), F32)).summary().text(width)
    table, phases, _ = text.split("\n\n")
    assert max(map(columns, [*table.splitlines(), *phases.splitlines()])) <= width
    header, *lines = table.splitlines()
    ends = {columns(line) for line in lines}
    assert ends == {columns(header)}, "numbers stand in columns"


def test_the_terminal_gives_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compiled(Branch(), np.ones((2, 4), F32)).summary()
    monkeypatch.setenv("COLUMNS", "60")
    assert str(found) == found.text(60) != found.text(100)


def test_a_page_says_what_the_text_says() -> None:
    found = trained(Branch(), np.ones((2, 4), F32)).summary()
    words = check(found._repr_html_()).words
    assert all(item in words for cell in found for item in (cell.label, *cell.row))
    assert all(line in words for line in (*found.totals, "backward", "f32[2,64]"))
    assert found._repr_html_().count('scope="col"') == 6 + 5


def test_a_step_says_what_it_is() -> None:
    loss = nn.WithLossCell(nn.Dense(4, 1), nn.MSELoss())
    optimizer, scale = nn.SGD(loss.trainable_params(), 0.1), nn.FixedLossScaleUpdateCell(8.0)
    x, y = np.ones((2, 4), F32), np.ones((2, 1), F32)
    step = compiled(nn.TrainOneStepWithLossScaleCell(loss, optimizer, scale), x, y)
    words = check(step._repr_html_()).words
    nodes, states = step.graph.node_count, len(step.graph.states)
    assert words.startswith(f"TrainOneStepWithLossScaleCell: a compiled step of {nodes} nodes")
    assert "overflow windows1" in words and "inputsf32[2,4], f32[2,1]" in words
    assert f"states{states}, of which a step writes {len(step.graph.writes)}" in words and "_backbone Dense" in words


def test_a_report_says_how_the_step_ended() -> None:
    loss = nn.WithLossCell(nn.Dense(4, 1, weight_init="ones").to_float(graphls.float16), nn.MSELoss())
    manager = nn.DynamicLossScaleUpdateCell(2**10, 2, 100)
    x, y = np.ones((2, 4), F32), np.ones((2, 1), F32)
    cell = nn.TrainOneStepWithLossScaleCell(loss, nn.SGD(loss.trainable_params(), 0.0), manager)
    monitor = LossScaleMonitor(compiled(cell, x, y))
    good, bad = monitor.step(x, y)._repr_html_(), monitor.step(1e30 * x, y)._repr_html_()
    assert check(good).words.startswith("step 1: done") and "steps since overflow1" in check(good).words
    assert check(bad).words.startswith("step 2: skipped, because it overflowed") and "scale2^9" in check(bad).words


def test_a_cell_says_its_parameters() -> None:
    words = check(Branch()._repr_html_()).words
    assert words.startswith("Branch: 600 parameters, all trainable")
    assert "(small): Dense(" in words and "weight f32[64,4], bias f32[64]" in words
    assert check(nn.ReLU()._repr_html_()).words.startswith("ReLU: no parameters")
