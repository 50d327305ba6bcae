"""What a process knows of the steps on divided states."""

from __future__ import annotations

import pytest

from graphls.base.sharing.storage import Version
from graphls.distributed import reading


class Session:
    """What has a clock."""


def test_steps_of_sessions_that_have_gone_count_and_their_clocks_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_counted", (0, ()))
    stays, clock = Session(), Version()
    reading.count_steps(stays, clock)
    for number in range(50):
        session, own = Session(), Version()
        reading.count_steps(session, own)
        own.ticks += 2
        clock.ticks += 1
        del session
        assert reading._steps() == 3 * (number + 1)
        assert len(reading._counted[1]) <= 2
