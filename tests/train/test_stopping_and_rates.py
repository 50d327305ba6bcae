"""EarlyStopping, ReduceLROnPlateau and LearningRateScheduler."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, train
from graphls.ir.errors import GraphlsError, GraphValueError
from tests.train.standins import Mean, Rows, context, line, linear


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
        (lambda: train.EarlyStopping(baseline="1"), TypeError, "the type of 'baseline' should be 'float'"),
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
    assert isinstance(caught.value, GraphlsError) and "test_stopping_and_rates.py" in str(caught.value)
