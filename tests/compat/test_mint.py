"""`mindspore.mint` gives what PyTorch 2.13 gave for the same calls, which `mint_calls.record` has printed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import Tensor
from tests.compat.mint_calls import calls, summary

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("mint.json").read_text(encoding="utf-8"))


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("name", RECORDED)
def test_a_call_gives_what_torch_gave(name: str) -> None:
    modules = map(importlib.import_module, ("mindspore.mint", "mindspore.mint.nn.functional", "mindspore.mint.nn"))
    found = summary(calls(*modules, tensor=Tensor)[name](), lambda each: each.asnumpy())
    assert [row[0] for row in found] == [row[0] for row in RECORDED[name]]
    np.testing.assert_allclose([row[1:] for row in found], [row[1:] for row in RECORDED[name]], 1e-4, 1e-4)


@pytest.mark.usefixtures("mindspore")
def test_batch_normalisation_takes_moving_statistics_until_it_is_set_to_training() -> None:
    """Cells of MindSpore 2.10 do not train until they are told to, those of mint too: its documentation's numbers."""
    mint = importlib.import_module("mindspore.mint")
    x = Tensor(np.float32([[0.7, 0.5, 0.5, 0.6], [0.5, 0.4, 0.6, 0.9]]))
    norm = mint.nn.BatchNorm1d(4)
    expected = [[0.6999965, 0.4999975, 0.4999975, 0.59999704], [0.4999975, 0.399998, 0.59999704, 0.89999545]]
    np.testing.assert_allclose(norm(x).asnumpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.abs(norm.set_train()(x).asnumpy()), np.ones((2, 4)), atol=2e-3)
    np.testing.assert_array_equal(mint.nn.Dropout(0.5)(x).asnumpy(), x.asnumpy())
