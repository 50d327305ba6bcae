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
