"""Loops and branches of `construct`, their gradients and second derivatives are those of MindSpore's graph mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trace.control_flow_programs import PROGRAMS, measured

MEASURED: list[Any] = json.loads(Path(__file__).with_name("measured_control_flow.json").read_text())


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[case["program"] for case in MEASURED])
def test_a_program_gives_what_mindspore_gives(number: int) -> None:
    wanted = MEASURED[number]
    found = measured(number)
    assert wanted.pop("program") == PROGRAMS[number][0].__name__
    assert found.keys() == wanted.keys()
    for name, tensors in found.items():
        for (dtype, numbers), (expected_dtype, expected) in zip(tensors, wanted[name], strict=True):
            assert dtype == expected_dtype, name
            np.testing.assert_allclose(numbers, expected, rtol=1e-5, atol=1e-5, err_msg=name)
