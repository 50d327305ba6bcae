"""The graphs of whole training steps are those that are kept (`python -m tests.step_graphs` keeps others)."""

from __future__ import annotations

import pytest

from graphls.inspect.diff.diff import diff
from graphls.ir.parse import parse
from tests.step_graphs.steps import STEPS, kept


@pytest.mark.parametrize("name", STEPS)
def test_the_graph_of_a_step_is_the_one_that_is_kept(name: str) -> None:
    difference = diff(parse(kept(name)), STEPS[name]())
    assert not difference, str(difference)
