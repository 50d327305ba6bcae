"""Gradients in bfloat16 are no further from float32 than those of PyTorch's autocast."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers.gradients import distances
from benchmarks.peers.rows import QUICK_ROWS

DRAWS = 16
AUTOCAST = {"mlp": 0.0045971, "lenet": 0.0428386, "transformer": 0.0089303, "lstm": 0.0032578}
"""Means over 16 draws of `python -m benchmarks.peers.torch_gradients ROW quick 16`, PyTorch 2.13.0 with AMX."""
NOISE = 1.005
"""Sums in another order round a few numbers to the other side."""


@pytest.mark.parametrize("name", AUTOCAST)
def test_they_are_no_further_from_float32_than_those_of_autocast(name: str) -> None:
    way = "auto" if name == "transformer" else "to_float"
    found = distances(QUICK_ROWS[name], DRAWS, [way])[way]
    assert np.mean(found) <= AUTOCAST[name] * NOISE
