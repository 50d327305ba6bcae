"""Callbacks: the base class and the list of them, and those that print, stop and keep."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, train
from graphls.ir.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.train.callbacks import CallbackManager, InternalCallbackParam, _CallbackManager, _InternalCallbackParam
from graphls.train.callbacks.callback import NEW_HOOKS, OLD_HOOKS
from tests.train.standins import Loss, Mean, Recorder, Rows, line, linear


def context(**told: Any) -> train.RunContext:
    return train.RunContext(InternalCallbackParam(told))


# -- the base class and the list ------------------------------------------------------------------------------


def test_what_callbacks_are_told_is_a_dict_with_attributes() -> None:
    told = InternalCallbackParam(cur_step_num=3)
    told.own = 5
    assert told["own"] == told.own == told.get("own") == 5 and told.cur_step_num == 3
    assert not hasattr(told, "other") and told.get("other", 7) == 7
    del told.own
    assert "own" not in told
    assert _InternalCallbackParam is InternalCallbackParam and _CallbackManager is CallbackManager


def test_a_run_context_is_made_of_a_dict_and_remembers_the_wish_to_stop() -> None:
    told = {"a": 1}
    run = train.RunContext(told)
    assert run.original_args() is told and run.get_stop_requested() is False
    run.request_stop()
    assert run.get_stop_requested() is True
    with pytest.raises(GraphTypeError, match="should be dict type, but got <class 'int'>"):
        train.RunContext(3)


@pytest.mark.parametrize("hook", NEW_HOOKS)
def test_a_hook_calls_the_one_of_its_older_name(hook: str) -> None:
    old = hook.removeprefix("on_train_").removeprefix("on_eval_")
    seen: list[Any] = []
    kind = type("Old", (train.Callback,), {old: lambda self, run: seen.append(run)})
    run = context()
    getattr(kind(), hook)(run)
    assert seen == [run]
    both = type("Both", (kind,), {hook: lambda self, run: seen.append("new")})
    getattr(both(), hook)(run)
    assert seen == [run, "new"]


def test_all_hooks_reach_all_callbacks_in_their_order() -> None:
    seen: list[Any] = []

    class Named(train.Callback):
        def __init__(self, name: str) -> None:
            self.name = name

    for hook in (*OLD_HOOKS, *NEW_HOOKS):
        setattr(Named, hook, lambda self, run, hook=hook: seen.append((self.name, hook)))
    with pytest.warns(UserWarning, match="The callback 'Named' overrides begin, epoch_begin"):
        manager = CallbackManager((Named("a"), Named("b")))
    with manager:
        for hook in (*OLD_HOOKS, *NEW_HOOKS):
            getattr(manager, hook)(context())
    assert seen == [(name, hook) for hook in (*OLD_HOOKS, *NEW_HOOKS) for name in "ab"]


def test_old_hooks_are_called_in_training_and_evaluation_and_told_of_once() -> None:
    class Old(train.Callback):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def step_end(self, run_context: Any) -> None:
            self.seen.append(run_context.original_args().mode)

        def end(self, run_context: Any) -> None:
            self.seen.append("end")

    model, _ = linear(metrics={"mean": Mean()})
    old = Old()
    with pytest.warns(UserWarning, match="'Old' overrides step_end, end, which .* on_train_step_end, on_train_end") as w:
        model.train(1, Rows(*line(8)), old)
        model.eval(Rows(*line(4)), [old, Old()])
    assert len([one for one in w if "overrides" in str(one.message)]) == 1
    assert "test_callbacks.py" in w[0].filename
    assert old.seen == ["train", "train", "end", "eval", "end"]


def test_callbacks_of_the_package_use_no_old_hooks() -> None:
    kinds = [getattr(train, name) for name in train.__all__]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, train.Callback) and kind is not train.Callback:
            assert all(getattr(kind, hook) is getattr(train.Callback, hook) for hook in OLD_HOOKS)


def test_callbacks_are_left_in_reverse_order_and_told_of_the_error() -> None:
    seen: list[Any] = []

    class Managed(train.Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> Any:
            seen.append(("enter", self.name))
            if self.name == "fails":
                raise RuntimeError("at the door")
            return self

        def __exit__(self, *error: Any) -> None:
            seen.append(("exit", self.name, error[0]))

    with pytest.raises(KeyError), CallbackManager([Managed("a"), Managed("b")]):
        raise KeyError("inside")
    assert seen == [("enter", "a"), ("enter", "b"), ("exit", "b", KeyError), ("exit", "a", KeyError)]
    seen.clear()
    with pytest.raises(RuntimeError, match="at the door"), CallbackManager([Managed("a"), Managed("fails")]):
        pass
    assert seen == [("enter", "a"), ("enter", "fails"), ("exit", "a", RuntimeError)]


def test_what_is_no_callback_is_refused() -> None:
    for wrong in (3, [train.LossMonitor(), None], train.LossMonitor):
        with pytest.raises(GraphTypeError, match="is no Callback"):
            CallbackManager(wrong)


def test_lambda_callback_has_a_function_for_every_hook() -> None:
    seen: list[str] = []
    functions = {hook: lambda run, hook=hook: seen.append(hook) for hook in NEW_HOOKS}
    callback = train.LambdaCallback(**functions)
    for hook in NEW_HOOKS:
        getattr(callback, hook)(context())
        getattr(train.LambdaCallback(), hook)(context())
    assert seen == list(NEW_HOOKS)
    with pytest.raises(GraphTypeError, match="'on_train_end' of LambdaCallback is a function, not 3"):
        train.LambdaCallback(on_train_end=3)  # type: ignore[arg-type]


# -- LossMonitor ----------------------------------------------------------------------------------------------


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
    assert capsys.readouterr().out == f"Eval result: epoch 2, metrics: {seen[1]}\n"


def test_loss_monitor_takes_a_number_of_steps() -> None:
    with pytest.raises(GraphValueError, match="'per_print_times' must be int and must >= 0, but got '-1'"):
        train.LossMonitor(-1)
    with pytest.raises(GraphTypeError, match="'per_print_times' must be int"):
        train.LossMonitor(1.0)  # type: ignore[arg-type]


# -- TimeMonitor ----------------------------------------------------------------------------------------------

TIME = r"{} epoch time: ( *\d+\.\d{{3}}) ms, per step time: ( *\d+\.\d{{3}}) ms"


def test_time_monitor_prints_an_epoch_and_a_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("graphls.train.callbacks.time_monitor.time.perf_counter", lambda: now[0])

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
    monkeypatch.setattr("graphls.train.callbacks.time_monitor.time.perf_counter", lambda: now[0])

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
    monkeypatch.setattr("graphls.train.callbacks.time_monitor.time.perf_counter", lambda: next(now))
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


# -- EarlyStopping --------------------------------------------------------------------------------------------


def epochs_of(callback: train.Callback, values: list[Any], name: str = "eval_loss", **told: Any) -> int:
    """How many epochs run until a callback stops them, given what each one's evaluation gives."""
    run = context(train_network=nn.Dense(1, 1), eval_network=nn.Dense(1, 1), net_outputs=None, **told)
    callback.on_train_begin(run)
    for epoch, value in enumerate(values, 1):
        run.original_args().update(cur_epoch_num=epoch, eval_results={} if value is None else {name: value})
        callback.on_train_epoch_end(run)
        if run.get_stop_requested():
            break
    callback.on_train_end(run)
    return epoch


@pytest.mark.parametrize(
    ("settings", "name", "values", "expected"),
    [
        ({}, "eval_loss", [3, 2, 2, 1], 3),
        ({}, "eval_loss", [3, 2, 1], 3),
        ({"patience": 2}, "eval_loss", [3, 4, 2, 2, 2, 2], 5),
        ({"patience": 2}, "eval_loss", [3, None, None, 3, None, 3, 3], 6),
        ({"min_delta": 0.5}, "eval_loss", [3, 2.4, 2.0, 1], 3),
        ({"monitor": "acc"}, "acc", [0.1, 0.2, 0.2, 0.3], 3),
        ({"monitor": "acc", "mode": "min"}, "acc", [0.3, 0.2, 0.1, 0.2], 4),
        ({"monitor": "gain", "mode": "max"}, "gain", [1, 2, 3, 3], 4),
        ({"baseline": 1.5, "patience": 2}, "eval_loss", [3, 2, 1], 2),
        ({"baseline": 2.5, "patience": 2}, "eval_loss", [3, 2, 1, 1, 1], 5),
        ({"patience": 3}, "eval_loss", [float("nan")] * 5, 3),
    ],
)
def test_early_stopping_stops_in_time(settings: Any, name: str, values: Any, expected: int) -> None:
    assert epochs_of(train.EarlyStopping(**settings), values, name) == expected


def test_early_stopping_watches_the_loss_of_training() -> None:
    callback = train.EarlyStopping("loss")
    run = context(train_network=nn.Dense(1, 1))
    callback.on_train_begin(run)
    for epoch, loss in enumerate([3.0, 2.0, 2.5], 1):
        run.original_args().update(cur_epoch_num=epoch, net_outputs=(graphls.Tensor([loss, loss]), None, None))
        callback.on_train_epoch_end(run)
        assert run.get_stop_requested() == (epoch == 3)


def test_early_stopping_restores_the_best_weights_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    model, net = linear(0.05, metrics={"mean": Mean()})
    weights: dict[int, bytes] = {}
    values = iter([3.0, 1.0, 2.0, 2.0, 2.0])

    def evaluate(run: Any) -> None:
        told = run.original_args()
        weights[told.cur_epoch_num] = net.weight.asnumpy().tobytes()
        told.eval_results = {"eval_loss": next(values)}

    stop = train.EarlyStopping(patience=2, verbose=True, restore_best_weights=True)
    watch = train.LambdaCallback(on_train_epoch_end=evaluate)
    model.fit(9, Rows(*line(8)), Rows(*line(8)), callbacks=[watch, stop])
    assert sorted(weights) == [1, 2, 3, 4] and len(set(weights.values())) == 4
    assert net.weight.asnumpy().tobytes() == weights[2]
    assert capsys.readouterr().out == (
        "Restoring model weights from the end of the best epoch: 2.\nEpoch 00004: early stopping\n"
    )


def test_early_stopping_without_verbose_prints_nothing_and_keeps_the_last_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert epochs_of(train.EarlyStopping(), [1, 1]) == 2
    assert capsys.readouterr().out == ""


def test_a_number_that_is_not_there_is_told() -> None:
    with pytest.warns(UserWarning, match="there is no 'acc' to monitor; those known are 'loss', 'eval_loss'"):
        assert epochs_of(train.EarlyStopping("acc"), [1, 1]) == 2
    model, _ = linear()
    with pytest.warns(UserWarning, match="there is no 'eval_loss' to monitor; those known are 'loss'"):
        model.train(2, Rows(*line(8)), train.EarlyStopping())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epochs_of(train.EarlyStopping(), [None, 1])


# -- ReduceLROnPlateau and LearningRateScheduler --------------------------------------------------------------


def rates_of(values: list[Any], rate: float = 1.0, **settings: Any) -> list[float]:
    net = nn.Dense(1, 1)
    optimizer = nn.SGD(net.trainable_params(), rate)
    callback = train.ReduceLROnPlateau(**settings)
    seen = []
    run = context(optimizer=optimizer, train_network=net, eval_network=net, net_outputs=None)
    callback.on_train_begin(run)
    for epoch, value in enumerate(values, 1):
        results = {} if value is None else {settings.get("monitor", "eval_loss"): value}
        run.original_args().update(cur_epoch_num=epoch, eval_results=results)
        callback.on_train_epoch_end(run)
        seen.append(float(optimizer.learning_rate))
    return seen


@pytest.mark.parametrize(
    ("settings", "values", "expected"),
    [
        ({"patience": 1, "factor": 0.5}, [2, 1, 1, 1, 0], [1, 1, 0.5, 0.25, 0.25]),
        ({"patience": 2, "factor": 0.5}, [2, 2, 2, 2, 2], [1, 1, 0.5, 0.5, 0.25]),
        ({"patience": 1, "factor": 0.5, "cooldown": 2}, [2, 2, 2, 2, 2], [1, 0.5, 0.5, 0.25, 0.25]),
        ({"patience": 1, "factor": 0.5, "min_lr": 0.3}, [2, 2, 2, 2], [1, 0.5, 0.3, 0.3]),
        ({"patience": 1, "factor": 0.5, "min_delta": 0.5}, [2, 1.6, 1.2], [1, 0.5, 0.5]),
        ({"patience": 1, "factor": 0.5, "monitor": "acc"}, [1, 2, 2], [1, 1, 0.5]),
        ({"patience": 1, "factor": 0.5}, [2, None, 2], [1, 1, 0.5]),
        ({"patience": 0, "factor": 0.5}, [2, 1, 1], [1, 1, 0.5]),
    ],
)
def test_reduce_on_plateau(settings: Any, values: Any, expected: list[float]) -> None:
    assert rates_of(values, **settings) == pytest.approx(expected)


def test_reduce_on_plateau_prints(capsys: pytest.CaptureFixture[str]) -> None:
    rates_of([1, 1], 0.5, patience=1, verbose=True)
    assert capsys.readouterr().out == "Epoch 00002: ReduceLROnPlateau reducing learning rate to 0.05.\n"


def test_a_learning_rate_scheduler_is_asked_after_each_step_and_holds_in_the_next() -> None:
    asked: list[Any] = []

    def function(rate: float, step: int) -> float:
        asked.append((rate, step))
        return 0.1 if step == 1 else 0.0

    model, net = linear(0.2)
    weights: list[bytes] = []
    model.train_network.optimizer.momentum.set_data(np.float32(0))
    watch = train.LambdaCallback(on_train_step_end=lambda run: weights.append(net.weight.asnumpy().tobytes()))
    model.train(2, Rows(*line(8)), [train.LearningRateScheduler(function), watch])
    assert asked == [(0.2, 1), (0.1, 2), (0.0, 3), (0.0, 4)]
    assert weights[0] != weights[1] == weights[2] == weights[3]
    assert len(model._runner.cache.steps) == 1 and all(len(s) == 1 for s in model._runner.cache.steps.values())


@pytest.mark.parametrize("rate", [[0.1, 0.2], nn.ExponentialDecayLR(0.1, 0.9, 4)])
@pytest.mark.parametrize(
    "callback",
    [train.LearningRateScheduler(lambda rate, step: 0.0), train.ReduceLROnPlateau("loss", patience=0)],
)
def test_a_schedule_cannot_be_set_by_a_callback(rate: Any, callback: Any) -> None:
    net = nn.Dense(3, 2)
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), rate))
    with pytest.raises(GraphValueError, match="changes one learning rate that is a number"):
        model.train(4, Rows(np.full((8, 3), np.inf, np.float32), line(8)[1]), callback)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: train.EarlyStopping(3), TypeError, "'monitor' must be a string"),
        (lambda: train.EarlyStopping(mode="up"), ValueError, "'mode' must be one of 'auto', 'min', 'max'"),
        (lambda: train.EarlyStopping(min_delta=-1), ValueError, "'min_delta' must be float and must >= 0"),
        (lambda: train.EarlyStopping(patience=-1), ValueError, "'patience' must be int and must >= 0"),
        (lambda: train.EarlyStopping(patience=1.5), TypeError, "'patience' must be int"),
        (lambda: train.EarlyStopping(verbose=1), TypeError, "'verbose' must be bool"),
        (lambda: train.EarlyStopping(baseline="1"), TypeError, "'baseline' must be a number"),
        (lambda: train.EarlyStopping(restore_best_weights=0), TypeError, "'restore_best_weights' must be bool"),
        (lambda: train.ReduceLROnPlateau(factor=1.0), ValueError, r"'factor' must be in \(0, 1\)"),
        (lambda: train.ReduceLROnPlateau(cooldown=-1), ValueError, "'cooldown' must be int"),
        (lambda: train.ReduceLROnPlateau(min_lr=-1), ValueError, "'min_lr' must be float"),
        (lambda: train.ReduceLROnPlateau(monitor=1), TypeError, "For 'ReduceLROnPlateau', the 'monitor'"),
        (lambda: train.LearningRateScheduler(0.1), TypeError, "must be a function, but got 0.1"),
    ],
)
def test_wrong_settings(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert isinstance(caught.value, GraphlsError) and "test_callbacks.py" in str(caught.value)


# -- History and Progress -------------------------------------------------------------------------------------


def test_history_keeps_each_epoch() -> None:
    model, _ = linear(metrics={"loss": Loss()})
    history, last = train.History(), []
    watch = train.LambdaCallback(on_train_epoch_end=lambda run: last.append(float(run.original_args().net_outputs)))
    model.fit(3, Rows(*line(8)), Rows(*line(8)), 2, [history, watch])
    assert history.epoch == {"epoch": [1, 2, 3]}
    assert history.history["net_output"] == last
    assert set(history.history) == {"net_output", "eval_loss", "loss"} and len(history.history["eval_loss"]) == 1
    model.train(1, Rows(*line(8)), history)
    assert history.epoch == {"epoch": [1]} and set(history.history) == {"net_output"}


def test_progress_writes_a_line_for_each_epoch_into_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = linear(metrics={"loss": Loss()})
    model.fit(4, Rows(*line(8)), Rows(*line(8)), 2, train.Progress(), initial_epoch=2)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"epoch 3/4: 2 steps in \d+\.\d s, loss [\d.e-]+", first)
    assert re.fullmatch(r"epoch 4/4: 2 steps in \d+\.\d s, loss [\d.e-]+, eval_loss [\d.e-]+, loss [\d.e-]+", second)


def test_progress_counts_skipped_steps() -> None:
    net = nn.Dense(3, 2)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    manager = graphls.FixedLossScaleManager(4.0)
    model = train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", loss_scale_manager=manager)
    x, y = line(8)
    x[2:4] = np.inf
    log = io.StringIO()
    model.train(1, Rows(x, y, batch=2, shuffle=False), train.Progress(log))
    assert ", 1 skipped" in log.getvalue()


def test_progress_shows_a_bar_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    recorder = Recorder()
    progress = train.Progress(terminal)
    linear()[0].train(1, Rows(*line(12)), [progress, recorder])
    text = terminal.getvalue()
    assert "epoch 1/1" in text and "/3" in text
    assert re.search(r"epoch 1/1: 3 steps in \d+\.\d s, loss", text)
    assert progress._bar is not None and progress._bar.progress is None


def test_a_bar_is_removed_where_training_fails() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def fail(run: Any) -> None:
        raise RuntimeError("in the middle")

    progress = train.Progress(Terminal())
    with pytest.raises(RuntimeError, match="in the middle"):
        linear()[0].train(1, Rows(*line(12)), [progress, train.LambdaCallback(on_train_step_end=fail)])
    assert progress._bar is not None and progress._bar.progress is None


def test_a_bar_without_rich_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(RuntimeError, match=r'pip install "graphls\[train\]"'):
        linear()[0].train(1, Rows(*line(12)), train.Progress(Terminal()))
