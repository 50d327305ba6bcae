"""How cells show: the tree of MindSpore, with shapes and counts of parameters behind a #."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

F32 = np.float32
HOSTILE = ('"<script>alert(1)</script>', "a\nb", "\u202eabc", "\x1b[31m", "漢字", "n" * 10_000)


def without_remarks(text: str) -> str:
    return re.sub(r"  # .*", "", text)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.scale = graphls.Parameter(np.ones((), np.float16))
        self.offset = graphls.Parameter(np.ones(3, F32), requires_grad=False)
        self.fc = nn.Dense(4, 3)
        self.act = nn.ReLU()
        self.tail = nn.SequentialCell(nn.Dense(3, 2, has_bias=False), nn.Dropout(p=0.5))


def test_a_network() -> None:
    text = repr(Net())
    assert text == """\
Net(  # 25 parameters, 22 trainable: scale f16[], offset f32[3]
  (fc): Dense(input_channels=4, output_channels=3, has_bias=True)  # 15 parameters: weight f32[3,4], bias f32[3]
  (act): ReLU()
  (tail): SequentialCell(  # 6 parameters
    (0): Dense(input_channels=3, output_channels=2, has_bias=False)  # 6 parameters: weight f32[2,3]
    (1): Dropout(p=0.5)
  )
)"""
    assert without_remarks(text).splitlines()[0] == "Net("
    assert str(Net()) == text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (nn.ReLU(), "ReLU()"),
        (nn.Dropout(p=0.5), "Dropout(p=0.5)"),
        (
            nn.Dense(1, 1, has_bias=False),
            "Dense(input_channels=1, output_channels=1, has_bias=False)  # 1 parameter, all trainable: weight f32[1,1]",
        ),
    ],
)
def test_one_cell_is_one_line(cell: nn.Cell, text: str) -> None:
    assert repr(cell) == text


class Shared(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.SequentialCell(nn.Dense(2, 2))
        self.again = self.first
        self.leaf = self.first[0]
        self.tied = nn.Dense(2, 2)
        self.tied.weight = self.first[0].weight


def test_what_is_shared_counts_once() -> None:
    assert repr(Shared()).splitlines() == [
        "Shared(  # 8 parameters, all trainable",
        "  (first): SequentialCell(  # 6 parameters",
        "    (0): Dense(input_channels=2, output_channels=2, has_bias=True)"
        "  # 6 parameters: weight f32[2,2], bias f32[2]",
        "  )",
        "  (again): SequentialCell(...)  # the same cell as first",
        "  (leaf): Dense(input_channels=2, output_channels=2, has_bias=True)  # the same cell as first.0",
        "  (tied): Dense(input_channels=2, output_channels=2, has_bias=True)"
        "  # 2 parameters: weight f32[2,2] (counted at first.0.weight), bias f32[2]",
        ")",
    ]


def test_a_cell_inside_of_itself_ends() -> None:
    cell = nn.Cell(auto_prefix=False)
    cell.inner = nn.Cell(auto_prefix=False)
    cell.inner.outer = cell
    assert "(outer): Cell(...)  # the same cell as the whole" in repr(cell)


def test_cells_that_share_and_share_stay_linear() -> None:
    cell: nn.Cell = nn.Dense(2, 2)
    for _ in range(40):
        outer = nn.Cell(auto_prefix=False)
        outer.a, outer.b = cell, cell
        cell = outer
    assert len(repr(cell).splitlines()) <= 3 * 40 + 2


def test_a_training_step_counts_weights_and_moments() -> None:
    network = nn.WithLossCell(Net(), nn.MSELoss())
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9))
    lines = repr(step).splitlines()
    (optimizer,) = (line for line in lines if "(optimizer)" in line)
    assert "parameters (f16[], f32[3,4], f32[3], f32[2,3]) (counted elsewhere)" in optimizer
    assert "# 25 parameters: " in optimizer and "moments (f32[], f32[3,4], f32[3], f32[2,3])" in optimizer
    total = sum(p.size for p in {id(p): p for p in step.get_parameters()}.values())
    assert lines[0].startswith(f"TrainOneStepCell(  # {total} parameters, 22 trainable") and total == 50
    alone = repr(nn.Momentum([graphls.Parameter(np.ones(2, F32), name=f"p{i}") for i in range(9)], 0.1, 0.9))
    assert "parameters of 9 tensors, " in alone and "counted elsewhere" not in alone


def test_a_class_may_say_its_own_text() -> None:
    class Quiet(nn.Dense):
        def __repr__(self) -> str:
            return "Quiet\nover two lines"

    class Loud(nn.SequentialCell):
        def __repr__(self) -> str:
            return super().__repr__().upper()

    net = nn.SequentialCell(Quiet(2, 2), Loud(nn.Dense(2, 2), nn.ReLU()))
    lines = repr(net).splitlines()
    assert lines[0] == "SequentialCell(  # 12 parameters, all trainable"
    assert lines[1:3] == ["  (0): Quiet", "  over two lines  # 6 parameters"]
    assert lines[3].startswith("  (1): LOUD(  # 6 PARAMETERS, ALL TRAINABLE") and lines[-2].startswith("  )")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_on_their_line(name: str) -> None:
    cell = nn.Cell()
    cell.insert_child_to_cell(name, nn.Dense(2, 2))
    cell.insert_param_to_cell(name + "_", graphls.Parameter(np.ones(2, F32)))
    kind = type(name, (nn.Cell,), {})()
    lines = repr(cell).splitlines()
    assert len(lines) == 3 and all(line.isprintable() for line in lines) and max(map(len, lines)) < 1000
    assert repr(kind).isprintable()


@pytest.mark.parametrize("make", [Net, Shared, lambda: nn.TransformerEncoderLayer(8, 2, 16)])
def test_counts_of_lines_add_up(make: Any) -> None:
    cell = make()
    lines = repr(cell).splitlines()
    total = sum(p.size for p in cell.get_parameters())
    assert f"# {total:,} parameters" in lines[0]
    own = [int(found[1].replace(",", "")) for line in lines[1:] if (found := re.match(r"  \(.*# ([\d,]+) p", line))]
    inner = [line for line in lines[1:] if re.match(r"  \(", line)]
    held = sum(p.size for p in cell.get_parameters(expand=False))
    assert sum(own) + held == total and len(own) <= len(inner)
