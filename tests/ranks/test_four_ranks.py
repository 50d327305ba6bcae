"""Four ranks, which start once for all that is tried on so many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ranks.running import each_ended_well, needs_ranks
from tests.ranks.test_shards import STEPS
from tests.ranks.test_sync_batch_norm import SAME
from tests.ranks.test_training import TRAINED


@needs_ranks
@pytest.mark.slow
def test_four_ranks(tmp_path: Path) -> None:
    """Batches are joined, also by some of the ranks, states are divided, and training is that of one process."""
    same = SAME.format(cases=["pairs", "some", "unequal"])
    found = each_ended_well(4, tmp_path, same=same, shards=(STEPS, "accumulated"), trained=(TRAINED, "scaled", "20"))
    assert found["same"] == ["same"] * 4
    # More than two ranks may be added up in another order, as may norms.
    assert found["shards"][0].replace("False", "True") == "accumulated True True [] accu_grads adam_m adam_v ema"
    assert len(set(found["trained"])) == 1 and found["trained"][0].split()[0] == "3"
