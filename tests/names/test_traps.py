"""Calls that mean another thing in PyTorch warn at the user's line where the value looks so, and only there."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.compat.mint import nn as mint_nn
from graphls.frontend.names.traps import TRAPS
from tools.traps import PAGE, filled

COLUMN, ROW = (graphls.Tensor(np.ones(shape, np.float32)) for shape in ((8, 1), 8))
X = graphls.Tensor(np.ones((1, 2, 4, 4), np.float32))


class Windows(nn.MaxPool2d):
    """A class of the user's with a default of its own."""

    def __init__(self) -> None:
        super().__init__(2)


TRAPPED: dict[str, Callable[[], Any]] = {
    r"Dropout\(0.1\) keeps 10% of .*; write p=0.1 to drop 10%": lambda: nn.Dropout(0.1),
    "MaxPool2d of kernel_size=2 moves by 1, .*; write stride=2": lambda: nn.MaxPool2d(2),
    "MaxPool3d of kernel_size=2 moves by 1": lambda: nn.MaxPool3d(kernel_size=2),
    r"AvgPool1d of kernel_size=3 moves by 1": lambda: nn.AvgPool1d(3),
    r"AvgPool2d of kernel_size=\(2, 2\) moves": lambda: nn.AvgPool2d((2, 2), ceil_mode=True),
    "Windows of kernel_size=2 moves by 1": Windows,
    "avg_pool2d of kernel_size=2 moves by 1": lambda: ops.avg_pool2d(X, 2),
    "avg_pool1d of kernel_size=4 moves by 1": lambda: ops.avg_pool1d(X[0], 4),
    "BatchNorm2d with momentum=0.1 keeps 10% .* is 1 - 0.1 here": lambda: nn.BatchNorm2d(2, momentum=0.1),
    "BatchNorm1d with momentum=0.01 keeps 1% of": lambda: nn.BatchNorm1d(2, 1e-5, 0.01),
    "SyncBatchNorm with momentum=0.1": lambda: nn.SyncBatchNorm(2, momentum=0.1),
    r"mse_loss broadcasts predictions \(8, 1\) and labels \(8,\) to \(8, 8\)": lambda: nn.MSELoss()(COLUMN, ROW),
    r"huber_loss broadcasts predictions \(8,\) and": lambda: ops.huber_loss(ROW, COLUMN),
    "l1_loss broadcasts": lambda: graphls.compile(lambda x: ops.l1_loss(x, x[:, 0]), COLUMN),
}
MEANT: list[Callable[[], Any]] = [
    lambda: [nn.Dropout(), nn.Dropout(0.5), nn.Dropout(0.9), nn.Dropout(keep_prob=0.1), nn.Dropout(p=0.1)],
    lambda: [nn.Dropout(0.5, 0.1), nn.TransformerEncoderLayer(4, 2, 8, 0.1)],
    lambda: [nn.MaxPool2d(2, 2), nn.MaxPool2d(3, 1), nn.MaxPool2d(3, stride=1), nn.MaxPool2d(3, pad_mode="same")],
    lambda: [nn.MaxPool2d(), nn.AvgPool2d(1), nn.MaxPool2d((1, 1)), ops.avg_pool2d(X, 2, 1), ops.max_pool2d(X, 2)],
    lambda: [nn.BatchNorm2d(2), nn.BatchNorm2d(2, momentum=0.5), nn.BatchNorm2d(2, momentum=0.0)],
    lambda: [nn.MSELoss()(COLUMN, COLUMN), nn.MSELoss()(COLUMN, COLUMN[:1]), ops.l1_loss(COLUMN, COLUMN[0, 0])],
    lambda: [mint_nn.BatchNorm2d(2, momentum=0.9), mint_nn.MaxPool2d(2), mint_nn.Dropout(0.1)],
]


@pytest.mark.parametrize("text", TRAPPED)
def test_a_value_that_looks_like_the_other_meaning_warns_at_its_line(text: str) -> None:
    with pytest.warns(UserWarning, match=text) as told:
        TRAPPED[text]()
    place = f"test_traps.py:{told[0].lineno})"
    assert len(told) == 1 and told[0].filename == __file__ and place in str(told[0].message)


@pytest.mark.parametrize("calls", MEANT)
def test_what_is_meant_says_nothing(calls: Callable[[], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls()


def test_each_place_warns_once() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            nn.Dropout(0.2)
        nn.Dropout(0.2)
    assert len(told) == 2


def test_wrong_arguments_are_told_as_before_and_signatures_stay() -> None:
    with pytest.raises(graphls.GraphlsError, match="unexpected keyword argument 'rate'"):
        nn.Dropout(rate=0.1)
    with warnings.catch_warnings(), pytest.raises(ValueError, match="'momentum' must be a number in"):
        warnings.simplefilter("error")
        nn.BatchNorm2d(2, momentum=1.5)
    assert [*inspect.signature(nn.Dropout).parameters] == ["keep_prob", "p", "dtype"]


def test_the_page_has_all_of_them() -> None:
    page = Path(PAGE).read_text(encoding="utf-8")
    assert filled(page) == page, "run `python -m tools.traps`"
    assert all(f"| {trap.call} |" in page for trap in TRAPS)
