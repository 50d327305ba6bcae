"""How many workers are asked at once: fewer where threads only wait for each other."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import copy_context

import numpy as np
import pytest

from graphls.dataset.pipeline.workers import TERM, TRIAL, DatasetError, Job, Pace, Pool
from graphls.dataset.randomness import Key, generator

KEY = Key(1, 2, 3)


def answered(pace: Pace, seconds_together: float, seconds_alone: float, times: int) -> None:
    """Answers for a chunk of four rows each."""
    for _ in range(times):
        pace.adapt(4, seconds_alone if pace.crew == 1 else seconds_together)


ALL_TRIALS = 2 * (4 + TRIAL)


@pytest.mark.parametrize(("together", "alone", "crew"), [(0.004, 0.0005, 1), (0.0006, 0.0005, 4), (0.1, 0.0005, 4)])
def test_the_faster_number_of_threads_goes_on(together: float, alone: float, crew: int) -> None:
    pace = Pace(4, processes=False)
    answered(pace, together, alone, ALL_TRIALS)
    assert (pace.crew, pace.alone) == (crew, crew == 1)


def test_what_was_faster_is_tried_anew() -> None:
    pace = Pace(4, processes=False)
    answered(pace, 0.004, 0.0005, ALL_TRIALS + TERM)
    assert pace.crew == 4
    answered(pace, 0.0006, 0.0005, ALL_TRIALS)
    assert pace.crew == 4


@pytest.mark.parametrize(("workers", "processes"), [(4, True), (1, True)])
def test_processes_are_all_asked(workers: int, processes: bool) -> None:
    pace = Pace(workers, processes)
    answered(pace, 0.004, 0.0005, ALL_TRIALS)
    assert pace.crew == workers and not pace.alone


def drawn(row: int) -> tuple[int, int]:
    if row == 4000:
        raise ValueError("too far")
    return row, int(generator().integers(1000))


def made(pool: Pool, rows: Iterable[int]) -> list[tuple[int, int]]:
    """The results of rows, in a context of their own, as the thread of a pass has one: the pool enters rows in it."""
    return copy_context().run(lambda: list(pool.run(KEY, ((row, row) for row in rows))))


def test_rows_and_draws_are_the_same_alone_and_together() -> None:
    pool = Pool(Job(drawn, 3, False, "map", None))
    found = []
    for crew in (3, 1, 3):
        pool._pace = Pace(3, processes=False)
        pool._pace.crew = crew
        found.append(made(pool, range(600)))
    assert found[0] == found[1] == found[2]
    np.testing.assert_array_equal([row for row, _ in found[0]], np.arange(600))
    pool._pace.crew = 1
    with pytest.raises(DatasetError, match="map failed at row 4000: ValueError: too far"):
        made(pool, range(3990, 4010))
    pool.close()
