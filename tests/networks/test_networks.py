"""The ten networks: they compile in every form, and learn one batch by heart."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls.ir.graph import walk
from graphls.ir.types import bfloat16, float16
from tests.networks.steps import FORMS, NETWORKS, build

EXPECTED = {"float32": set(), "bfloat16": {bfloat16}}
CASES = [(name, FORMS[number % len(FORMS)]) for number, name in enumerate(NETWORKS)]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_step_has_the_dtypes_of_its_form_and_learns(name: str, form: str) -> None:
    cell, inputs = build(name, form)
    step = graphls.compile(cell, *inputs)
    made = {v.type.dtype for node in walk(step.graph) for v in node.outputs}
    assert made & {float16, bfloat16} == EXPECTED.get(form, {float16})
    losses = [float(step(*inputs)[0]) for _ in range(20)]
    assert np.isfinite(losses).all() and min(losses[10:]) < losses[0]
