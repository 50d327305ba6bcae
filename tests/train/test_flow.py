"""What waits for what in a training: rows, the time of steps waiting for data, and of data for steps."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls import train
from graphls.dataset.pipeline import iterators
from graphls.dataset.pipeline.workers import LONGEST_CHUNK
from graphls.train import flow
from graphls.train.flow import FlowCounts
from graphls.train.run_page import load_record
from tests.train.standins import line, linear


class Clock:
    """A clock that only `wait` advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    for module in (flow, iterators):
        monkeypatch.setattr(module, "perf_counter", result)
    return result


def batches(clock: Clock) -> Any:
    """A source whose batches take two seconds each."""
    x, y = line(10)

    def source() -> Any:
        for start in range(0, 10, 4):
            clock.wait(2)
            yield x[start : start + 4], y[start : start + 4]

    return source


@pytest.mark.parametrize("sink", [False, True])
def test_rows_and_the_time_of_waiting_for_them_are_counted(sink: bool, clock: Clock) -> None:
    counts: list[FlowCounts] = []
    look = train.LambdaCallback(on_train_step_end=lambda run: counts.append(run.original_args().data_flow()))
    linear()[0].train(2, batches(clock), look, dataset_sink_mode=sink)
    assert [(one.rows, one.waited) for one in counts][-1] == (20, 12)
    if not sink:
        assert [one.rows for one in counts] == [4, 8, 10, 14, 18, 20]
        assert counts[4].since(counts[2]) == FlowCounts(8, 4.0)


def test_a_thread_that_is_ahead_counts_its_waiting(clock: Clock) -> None:
    channel = iterators._Channel(1)
    assert channel.has_permit()
    assert channel.idle_seconds == 0
    channel.permits = type("Slow", (), {"get": lambda self: clock.wait(3)})()  # type: ignore[assignment]
    assert not channel.has_permit()
    assert channel.idle_seconds == 3


def test_an_iterator_sums_the_waiting_of_all_passes() -> None:
    rows = ds.NumpySlicesDataset({"x": np.arange(4)}, shuffle=False).create_tuple_iterator(num_epochs=2)
    assert rows.idle_seconds == 0
    list(rows)
    first = rows.idle_seconds
    list(rows)
    assert rows.idle_seconds >= first >= 0


def test_texts_name_what_waits_more() -> None:
    assert FlowCounts(5000, 1.0).text(10) == "500 rows/s, steps wait 10 % for data"
    assert FlowCounts(123_456, 1.0, 9.0).text(10) == "12,346 rows/s, data wait 90 % for steps"
    assert FlowCounts(3, 0.5, 0.25).text(2) == "1.5 rows/s, steps wait 25 % for data"
    assert FlowCounts(3, 0.5, 0.25).text(2, is_short=True) == "1.5 rows/s, steps wait 25 %"
    assert FlowCounts(0, 0.0).text(0) == "0 rows/s, steps wait 0 % for data"


def test_a_report_has_the_rates_and_what_waits(tmp_path: Path, clock: Clock) -> None:
    report = train.RunReport(tmp_path)
    linear()[0].train(1, batches(clock), report)
    record = load_record(tmp_path / "run.json")
    assert [seconds for _, seconds in record.columns["waiting"]] == [2, 2, 2]
    assert [step for step, _ in record.columns["rows_per_second"]] == [1, 2, 3]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "rows/s, steps wait" in page
    assert "the step waits for data" in page
    for step in range(1, 4):
        report.add(step=step + 3, rows_per_second=100, waiting=0.5, step_time=0.5, data_waiting=0.75)
    assert "the step waits for data" in report.close().read_text(encoding="utf-8")


def test_a_report_of_read_ahead_data_shows_that_these_wait(tmp_path: Path) -> None:
    report = train.RunReport(tmp_path)
    for step in range(1, 4):
        report.add(step=step, rows_per_second=100, waiting=0.25, step_time=0.75, data_waiting=0.75)
    page = report.close().read_text(encoding="utf-8")
    assert "100 rows/s, data wait 75 % for steps" in page
    assert "data wait for the step" in page


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_are_decoded_while_a_step_runs_and_not_too_many(workers: int) -> None:
    made, ahead, reached = [0], [], threading.Event()

    def decode(x: Any) -> Any:
        made[0] += 1
        if made[0] >= 8:  # rows of the batch behind that of the first step
            reached.set()
        return x

    def in_a_step(run: Any) -> None:
        assert reached.wait(60), "no row is made while a step runs"
        ahead.append(made[0] - 4 * run.original_args().cur_step_num)

    x, y = line(400)
    rows = ds.NumpySlicesDataset({"x": x, "y": y}, shuffle=False).map(decode, "x", num_parallel_workers=workers)
    before = ds.config.get_prefetch_size()
    ds.config.set_prefetch_size(2)
    try:
        linear()[0].train(1, rows.batch(4), train.LambdaCallback(on_train_step_begin=in_a_step))
    finally:
        ds.config.set_prefetch_size(before)
    assert made[0] == 400
    assert max(ahead) <= 4 * 3 + workers * 2 * LONGEST_CHUNK
