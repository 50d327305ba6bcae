"""Errors from inside a network say which cell they come from, where the user's line does not."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn
from graphls.context import GRAPH_MODE, PYNATIVE_MODE, set_context
from graphls.ir.errors import GraphlsError

X = Tensor(np.ones((2, 4), np.float32))


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(5, 6)

    def construct(self, x: Tensor) -> Tensor:
        return self.fc(x)


class Failing(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return x.reshape(3, 3)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(256, 10))
        self.blocks = nn.CellList([Block(), Block()])

    def construct(self, x: Tensor, by_block: bool = False) -> Any:
        return self.blocks[1](x) if by_block else self.body(x)


def line_of(text: str, cell: type[nn.Cell]) -> int:
    lines, start = inspect.getsourcelines(cell)
    return start + next(i for i, line in enumerate(lines) if text in line)


@pytest.fixture(params=(GRAPH_MODE, PYNATIVE_MODE), autouse=True)
def both_modes(request: pytest.FixtureRequest) -> Iterator[None]:
    set_context(mode=request.param)
    yield
    set_context(mode=GRAPH_MODE)


def message(call: Any) -> str:
    with pytest.raises(GraphlsError) as caught:
        call()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


def test_a_cell_in_a_container_is_named_with_the_line_that_made_it() -> None:
    made = f"test_cell_errors.py:{line_of('nn.Dense(256, 10)', Net)}"
    for call in (lambda: Net()(X), lambda: graphls.compile(Net(), X), lambda: graphls.value_and_grad(Net())(X)):
        text = message(call)
        assert text.startswith("body.2 Dense(256, 10), made at ") and f"{made}: matmul cannot multiply" in text
        assert text.endswith(f"test_cell_errors.py:{line_of('self.body(x)', Net)})")


def test_a_cell_in_a_list_and_around_it_are_named() -> None:
    text = message(lambda: Net()(X, True))
    assert text.startswith("blocks.1.fc Dense(5, 6), made at ")
    assert f"test_cell_errors.py:{line_of('nn.Dense(5, 6)', Block)}: matmul" in text


def test_code_of_the_user_is_told_by_its_line_alone() -> None:
    line = line_of("reshape", Failing)
    text = message(lambda: nn.SequentialCell(nn.ReLU(), nn.SequentialCell(Failing()))(X))
    assert "SequentialCell" not in text and "made at" not in text and text.endswith(f"test_cell_errors.py:{line})")


def test_a_cell_that_is_called_by_itself_needs_no_name() -> None:
    assert message(lambda: nn.Dense(3, 4)(X)).startswith("matmul cannot multiply")


def test_only_sizes_are_shown_of_a_cell() -> None:
    images = Tensor(np.ones((1, 4, 9, 9), np.float32))
    text = message(lambda: nn.SequentialCell(nn.Conv2d(3, 8, 5, has_bias=True))(images))
    assert text.startswith("0 Conv2d(3, 8, (5, 5)), made at ")
    text = message(lambda: nn.SequentialCell(nn.BatchNorm2d(3))(X))
    assert text.startswith("0 BatchNorm2d(3), made at ")
