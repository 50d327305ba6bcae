"""LossMonitor and TimeMonitor: what they print, to the letter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import train
from graphls.ir.errors import GraphTypeError, GraphValueError
from tests.train.standins import Loss, Mean, Rows, context, line, linear


def test_loss_monitor_prints_the_mean_as_a_python_float(capsys: pytest.CaptureFixture[str]) -> None:
    loss = graphls.Tensor(np.float32(1.4183517694473267))
    train.LossMonitor().on_train_step_end(context(cur_epoch_num=1, cur_step_num=1, batch_num=4, net_outputs=loss))
    assert capsys.readouterr().out == "epoch: 1 step: 1, loss is 1.4183517694473267\n"
    vector = graphls.Tensor([1.0, 2.5])
    train.LossMonitor().on_train_step_end(context(cur_epoch_num=3, cur_step_num=9, batch_num=4, net_outputs=vector))
    assert capsys.readouterr().out == "epoch: 3 step: 1, loss is 1.75\n"


def test_loss_monitor_prints_the_first_of_a_tuple_in_the_digits_of_its_dtype(
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = (graphls.Tensor(np.float32(2.2883859)), graphls.Tensor(False), graphls.Tensor(1024.0))
    monitor = train.LossMonitor()
    monitor.on_train_step_end(context(cur_epoch_num=2, cur_step_num=8, batch_num=4, net_outputs=outputs))
    assert capsys.readouterr().out == "epoch: 2 step: 4, loss is 2.2883859\n"
    vector = (graphls.Tensor([1.0, 2.5]), graphls.Tensor(False), graphls.Tensor(1024.0))
    monitor.on_train_step_end(context(cur_epoch_num=3, cur_step_num=9, batch_num=4, net_outputs=vector))
    assert capsys.readouterr().out == "epoch: 3 step: 1, loss is 1.75\n"


@pytest.mark.parametrize(
    ("times", "steps"), [(1, [1, 2, 3, 4, 5, 6]), (2, [2, 4, 6]), (4, [4]), (7, []), (0, [])]
)
def test_loss_monitor_prints_every_so_many_steps(
    times: int, steps: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    linear()[0].train(2, Rows(*line(12)), train.LossMonitor(times))
    lines = capsys.readouterr().out.splitlines()
    expected = [f"epoch: {(s - 1) // 3 + 1} step: {(s - 1) % 3 + 1}, loss is " for s in steps]
    assert [re.sub(r"[\d.e-]+$", "", found) for found in lines] == expected


def test_loss_monitor_in_sink_mode_and_in_a_run_that_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    monitor = train.LossMonitor(4)
    model, _ = linear()
    model.train(3, Rows(*line(12)), monitor, dataset_sink_mode=True)
    model.train(5, Rows(*line(12)), monitor, initial_epoch=4)
    model.train(6, Rows(*line(12)), monitor, initial_epoch=4)
    starts = [found.split(",")[0] for found in capsys.readouterr().out.splitlines()]
    assert starts == ["epoch: 2 step: 3", "epoch: 6 step: 1"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_loss_monitor_stops_where_the_loss_is_no_number(value: float) -> None:
    outputs = graphls.Tensor(np.float32(value))
    text = (
        "In epoch: 2 step: 3, loss is NAN or INF, training process cannot continue, terminating training."
    )
    for given in (outputs, (outputs, graphls.Tensor(False), graphls.Tensor(1.0)), (outputs, graphls.Tensor(1.0))):
        for times in (0, 1):
            with pytest.raises(GraphValueError, match=re.escape(text)):
                train.LossMonitor(times).on_train_step_end(
                    context(cur_epoch_num=2, cur_step_num=7, batch_num=4, net_outputs=given)
                )


def test_loss_monitor_goes_on_where_the_step_was_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = (graphls.Tensor(np.float32(np.nan)), graphls.Tensor(True), graphls.Tensor(1.0))
    train.LossMonitor().on_train_step_end(context(cur_epoch_num=1, cur_step_num=1, batch_num=4, net_outputs=outputs))
    assert capsys.readouterr().out == "epoch: 1 step: 1, loss is nan\n"


def test_loss_monitor_prints_the_metrics_of_an_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = linear(metrics={"loss": Loss()})
    seen: list[Any] = []
    watch = train.LambdaCallback(on_train_epoch_end=lambda run: seen.append(run.original_args().metrics))
    model.fit(2, Rows(*line(8)), Rows(*line(8)), 2, [train.LossMonitor(0), watch])
    assert seen[0] == {} and set(seen[1]) == {"loss"}
    assert capsys.readouterr().out == f"Eval result: epoch 2, metrics: {{'loss': {float(seen[1]['loss'])}}}\n"


def test_loss_monitor_takes_a_number_of_steps() -> None:
    with pytest.raises(GraphValueError, match="'per_print_times' must be int and must >= 0, but got '-1'"):
        train.LossMonitor(-1)
    with pytest.raises(GraphTypeError, match="'per_print_times' must be int"):
        train.LossMonitor(1.0)  # type: ignore[arg-type]


TIME = r"{} epoch time: ( *\d+\.\d{{3}}) ms, per step time: ( *\d+\.\d{{3}}) ms"


def test_time_monitor_prints_an_epoch_and_a_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("graphls.train.callbacks.monitors.time.perf_counter", lambda: now[0])

    def pass_time(seconds: float) -> Any:
        return lambda run: now.__setitem__(0, now[0] + seconds)

    monitor = train.TimeMonitor()
    slow = train.LambdaCallback(on_train_step_end=pass_time(0.150679), on_eval_step_end=pass_time(1.0))
    model, _ = linear(metrics={"mean": Mean()})
    model.fit(1, Rows(*line(12)), Rows(*line(8)), callbacks=[monitor, slow])
    assert capsys.readouterr().out == (
        "Eval epoch time: 2000.000 ms, per step time: 1000.000 ms\n"
        "Train epoch time: 452.037 ms, per step time: 150.679 ms\n"
    )


def test_time_monitor_tells_the_time_spent_on_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("graphls.train.callbacks.monitors.time.perf_counter", lambda: now[0])

    class Slow(Rows):
        def create_tuple_iterator(self, *args: Any, **options: Any) -> Any:
            rows = super().create_tuple_iterator(*args, **options)

            class Late:
                def __iter__(self) -> Any:
                    for row in rows:
                        now[0] += 0.25
                        yield row

            return Late()

    work = train.LambdaCallback(on_train_step_begin=lambda run: now.__setitem__(0, now[0] + 0.75))
    linear()[0].train(1, Slow(*line(8)), [train.TimeMonitor(data_time=True), work])
    expected = "Train epoch time: 2000.000 ms, per step time: 1000.000 ms, data time: 250.000 ms\n"
    assert capsys.readouterr().out == expected


def test_time_monitor_uses_its_data_size_where_the_run_does_not_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 1.0, 2.0, 5.0, 6.0])
    monkeypatch.setattr("graphls.train.callbacks.monitors.time.perf_counter", lambda: next(now))
    monitor = train.TimeMonitor(data_size=4)
    monitor.on_train_epoch_begin(context())
    monitor.on_train_epoch_end(context(mode="train"))
    assert capsys.readouterr().out == "Train epoch time: 1000.000 ms, per step time: 250.000 ms\n"
    with pytest.raises(GraphTypeError, match="'data_size' must be int"):
        monitor = train.TimeMonitor()
        monitor.on_train_epoch_begin(context())
        monitor.on_train_epoch_end(context(mode="train"))


def test_time_monitor_in_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    linear()[0].train(2, Rows(*line(8)), train.TimeMonitor(), dataset_sink_mode=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(re.fullmatch(TIME.format("Train"), found) for found in lines)


def test_time_monitor_checks_its_arguments() -> None:
    with pytest.raises(GraphValueError, match="'data_size' must be int and must > 0"):
        train.TimeMonitor(0)
    with pytest.raises(GraphTypeError, match="'data_time' must be bool"):
        train.TimeMonitor(data_time=1)  # type: ignore[arg-type]
