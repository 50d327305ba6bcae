"""What two ranks run for several tests, one program after the other, as to start them takes longer than most."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.ranks.running import Ran, each_ended_well

PARTS = ("collectives", "sync_batch_norm", "training", "shards", "recipes")


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What all programs write that the tests of some modules have in `TWO_RANKS`, and where they ran."""
    folder: Path = tmp_path_factory.mktemp("two_ranks")
    programs = {}
    for part in PARTS:
        programs |= import_module(f"tests.ranks.test_{part}").TWO_RANKS
    return Ran(folder, each_ended_well(2, folder, **programs))
