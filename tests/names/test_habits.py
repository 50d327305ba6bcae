"""What people write who come from PyTorch is an error that says what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Tensor, nn, ops
from graphls.frontend.names import habits

X = Tensor(np.ones((4, 3), np.float32))
NETWORK = nn.Dense(3, 2)
IMAGE = Tensor(np.ones((2, 8, 8, 3), np.float32))
ONE_HOT = Tensor(np.eye(4, 3, dtype=np.float32))


class Forward(nn.Cell):
    def forward(self, x: Any) -> Any:
        return x


WRONG: dict[str, Callable[[], Any]] = {
    "nn.TrainOneStepCell": lambda: ops.sum(X).backward(),
    r"ops\.stop_gradient\(x\)": lambda: X.detach(),
    "a whole step has one device": lambda: NETWORK.cuda(),
    r"cell\.set_train\(False\)": lambda: NETWORK.eval(),
    r"use cell\.trainable_params\(\)": lambda: nn.Adam(NETWORK.parameters()),
    "takes the gradients and calls the optimizer": lambda: nn.SGD(NETWORK.trainable_params()).step(),
    "nothing to clear": lambda: nn.SGD(NETWORK.trainable_params()).zero_grad(),
    "Adam takes no argument 'lr': the learning rate is called learning_rate": lambda: nn.Adam([], lr=0.1),
    "takes no argument 'betas'": lambda: nn.Adam([], betas=(0.9, 0.99)),
    "Dense takes no argument 'bias': it is called has_bias": lambda: nn.Dense(3, 4, bias=False),
    "seem to have them last: transpose them": lambda: nn.Conv2d(3, 4, 3)(IMAGE),
    "use sparse=False for one-hot labels": lambda: nn.SoftmaxCrossEntropyWithLogits(sparse=True)(X, ONE_HOT),
    r"ops\.argmax\(labels, 1\)": lambda: nn.CrossEntropyLoss()(X, Tensor(np.eye(4, 3, dtype=np.int32))),
    r"first, and then called with tensors: ops\.ReLU\(\)\(x\)": lambda: ops.ReLU(X),
    r"called with tensors: ops\.Softmax\(\)\(x\)": lambda: ops.Softmax(X),
    "cuts one off": lambda: graphls.no_grad(),
    r"use graphls\.set_seed": lambda: graphls.manual_seed(1),
    r"graphls\.ops has no 'detach'; ops\.stop_gradient": lambda: ops.detach(X),
    r"nn has no 'Module'; networks are subclasses of nn\.Cell": lambda: nn.Module,
    r"graphls has no 'zeros'; use ops\.zeros": lambda: graphls.zeros(2),
    r"graphls has no 'Linear'; use nn\.Linear": lambda: graphls.Linear(2, 3),
    r"nn has no 'Parameter'; use graphls\.Parameter": lambda: nn.Parameter(X),
    r"nn has no 'relu'; did you mean 'ReLU'": lambda: nn.relu(X),
    r"nn has no 'lr_scheduler'; schedules are cells": lambda: nn.lr_scheduler,
    "dataset has no 'CsvDataset'; did you mean 'CSVDataset'": lambda: graphls.dataset.CsvDataset,
    r"no 'register_hook'; gradients are values": lambda: NETWORK.weight.register_hook(print),
    r"not be empty; cells in a plain list or dict are in no network": lambda: nn.Adam([]),
    "There is no metric 'f1'; did you mean 'F1'": lambda: graphls.train.get_metric_fn("f1"),
    r"use one of float16, .*, bool\.": lambda: X.to("cpu"),
    "rename its forward": lambda: Forward()(X),
    r"item\(\) takes a tensor of one element": lambda: f"{X:.2f}",
}


@pytest.mark.parametrize("advice", WRONG)
def test_advice(advice: str) -> None:
    with pytest.raises(GraphlsError, match=rf"{advice}.*\(tests/names/test_habits\.py"):
        WRONG[advice]()


def test_a_number_in_a_format() -> None:
    assert (f"{Tensor(1.25):.3f} {Tensor(3):d}", f"{Tensor([1, 2])}") == ("1.250 3", "[1 2]")


def test_advice_names_what_there_is_and_no_name_that_is_offered() -> None:
    optimizer = nn.Adam(NETWORK.trainable_params())
    for owner, table in ((X, habits.TENSOR), (NETWORK, habits.CELL), (optimizer, habits.OPTIMIZER), (ops, {})):
        assert not [name for name in table if hasattr(owner, name)]
    assert not [name for name in habits.PACKAGE if hasattr(graphls, name) or hasattr(nn, name)]
    for cell in ("set_train", "trainable_params", "parameters_and_names", "cells_and_names", "name_cells", "to_float"):
        assert hasattr(NETWORK, cell)
    for name in ("value_and_grad", "compile", "set_context", "set_seed", "Tensor", "Parameter", "dataset"):
        assert hasattr(graphls, name)


def test_signatures_are_those_of_init() -> None:
    class Mine(nn.Cell):
        def __init__(self, size: int, name: str = "x") -> None:
            super().__init__()

    assert str(inspect.signature(nn.Adam)).startswith("(params: ")
    assert list(inspect.signature(Mine).parameters) == ["size", "name"]
    assert list(inspect.signature(Mine(1).construct).parameters) == ["inputs", "options"]
    assert callable(Mine(1)) and inspect.signature(Mine(1)).parameters
