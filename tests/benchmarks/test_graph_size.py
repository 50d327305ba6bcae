"""The measurement of graphs by their size goes through every phase of each shape."""

from __future__ import annotations

import pytest

from benchmarks.graph_size import SHAPES, measure
from graphls.context import reset_context


@pytest.mark.parametrize("shape", SHAPES)
def test_every_phase_of_a_small_graph_is_measured(shape: str) -> None:
    try:
        found = measure(shape, 200, "onnxruntime", {"first step", "written to the cache"})
    finally:
        reset_context()
    assert found["nodes"] > 50 and {"trace", "partition", "lowering", "first step", "written to the cache"} <= {*found}
