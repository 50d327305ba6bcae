"""What a process knows of the steps on divided states."""

from __future__ import annotations

import pytest

from graphls.base.sharing.storage import Version
from graphls.distributed import shard_reads


class Session:
    """What has a clock."""


def test_steps_of_sessions_that_have_gone_count_and_their_clocks_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_reads, "_counted", (0, ()))
    stays, clock = Session(), Version()
    shard_reads.count_steps(stays, clock)
    for number in range(50):
        session, own = Session(), Version()
        shard_reads.count_steps(session, own)
        own.ticks += 2
        clock.ticks += 1
        del session
        assert shard_reads._steps() == 3 * (number + 1)
        assert len(shard_reads._counted[1]) <= 2
