"""Model.eval, Model.predict and Model.fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops, train
from tests.train.standins import BACKENDS, Loss, Mean, Moded, Recorder, Rows, line, linear


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_evaluation_updates_metrics_with_prediction_and_label_and_loss_with_the_loss(backend: str) -> None:
    mean, loss = Mean(), Loss()
    model, net = linear(metrics={"mean": mean, "loss": loss})
    x, y = line(6)
    results = model.eval(Rows(x, y, shuffle=False))
    prediction = x @ net.weight.asnumpy().T + net.bias.asnumpy()
    assert [len(row) for row in mean.seen] == [2, 2] and [len(row) for row in loss.seen] == [1, 1]
    np.testing.assert_allclose(np.concatenate([row[0] for row in mean.seen]), prediction, rtol=1e-5)
    np.testing.assert_array_equal(np.concatenate([row[1] for row in mean.seen]), y)
    losses = [np.mean((prediction[i] - y[i]) ** 2) for i in (slice(0, 4), slice(4, 6))]
    assert results["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert set(results) == {"mean", "loss"} and mean.cleared == 1


def test_hooks_of_evaluation_in_their_order() -> None:
    model, _ = linear(metrics={"mean": Mean()})
    recorder = Recorder(lambda told: (told.cur_step_num, told.batch_num, told.mode))
    seen: list[Any] = []
    watch = train.LambdaCallback(on_eval_end=lambda context: seen.append(dict(context.original_args())))
    rows = Rows(*line(6))
    results = model.eval(rows, [recorder, watch], dataset_sink_mode=True)
    step = ["on_eval_step_begin", "on_eval_step_end"]
    assert recorder.names() == [
        "enter", "on_eval_begin", "on_eval_epoch_begin", *step, *step, "on_eval_epoch_end", "on_eval_end", "exit"
    ]  # fmt: skip
    assert recorder.calls[5] == ("on_eval_step_begin", 2, 2, "eval")
    (told,) = seen
    assert told["metrics"] == results and told["eval_network"] is model.eval_network
    assert told["valid_dataset"] is rows and told["dataset_sink_mode"] is True and len(told["net_outputs"]) == 3
    assert rows.iterators[-1].is_stopped


def test_an_evaluation_network_with_and_without_indexes() -> None:
    class Evaluating(nn.Cell):
        def __init__(self, net: Any) -> None:
            super().__init__()
            self.net = net

        def construct(self, x: Any, y: Any, extra: Any) -> Any:
            return y, extra, ops.mean(x), self.net(x)

    net = nn.Dense(3, 2)
    rows = Rows(*line(4), np.full((4, 1), 7, np.float32))
    mean, loss, own = Mean(), Loss(), Mean()
    own.indexes = [1]  # type: ignore[attr-defined]
    error = train.MAE().set_indexes([0, 3])
    metrics = {"mean": mean, "loss": loss, "own": own, "error": error}
    found: Any = train.Model(net, metrics=metrics, eval_network=Evaluating(net), eval_indexes=[2, 3, 0])
    found = found.eval(rows)
    x, y = line(4)
    prediction = x @ net.weight.asnumpy().T + net.bias.asnumpy()
    assert found["error"] == pytest.approx(np.abs(prediction - y).sum() / len(y), rel=1e-5)
    assert [a.shape for a in mean.seen[0]] == [(4, 2), (4, 2)]
    assert [a.shape for a in loss.seen[0]] == [()] and len(own.seen[0]) == 4
    every = Mean()
    train.Model(net, metrics={"all": every}, eval_network=Evaluating(net)).eval(rows)
    assert [a.shape for a in every.seen[0]] == [(4, 2), (4, 1), (), (4, 2)]


def test_a_stop_in_an_evaluation_ends_it() -> None:
    mean = Mean()
    model, _ = linear(metrics={"mean": mean})
    model.eval(Rows(*line(12)), train.LambdaCallback(on_eval_step_end=lambda context: context.request_stop()))
    assert len(mean.seen) == 1


def test_prediction_takes_arrays_tensors_and_nests_and_changes_nothing() -> None:
    net = Moded()
    model = train.Model(net)
    net.set_train()
    x = line(5)[0]
    assert (model.predict(x).asnumpy() == 0).all() and not net.training
    assert (model.predict(graphls.Tensor(x)).asnumpy() == 0).all()

    class Pair(nn.Cell):
        def construct(self, pair: Any, scale: Any) -> Any:
            return pair[0] * scale, pair[1]

    first, second = train.Model(Pair()).predict((x, x + 1), 2.0)
    np.testing.assert_array_equal(first.asnumpy(), x * 2)
    np.testing.assert_array_equal(second.asnumpy(), x + 1)


@pytest.mark.parametrize(("frequency", "expected"), [(1, [1, 2, 3, 4]), (2, [2, 4]), ([1, 4], [1, 4]), (5, [])])
def test_fit_evaluates_after_the_epochs_that_it_is_told(frequency: Any, expected: list[int]) -> None:
    model, _ = linear(metrics={"loss": Loss()})
    results: dict[int, Any] = {}
    watch = train.LambdaCallback(
        on_train_epoch_end=lambda context: results.update(
            {context.original_args().cur_epoch_num: context.original_args().eval_results}
        )
    )
    model.fit(4, Rows(*line(8)), Rows(*line(6)), frequency, watch)
    assert [epoch for epoch, found in results.items() if found] == expected
    for found in filter(None, results.values()):
        assert set(found) == {"loss", "eval_loss"} and found["eval_loss"] == pytest.approx(found["loss"])


def test_what_callbacks_are_told_in_an_evaluation_of_fit_and_after_it() -> None:
    model, _ = linear(metrics={"mean": Mean()})
    recorder = Recorder(lambda told: (told.mode, told.cur_step_num, told.batch_num, told.dataset_sink_mode))
    model.fit(1, Rows(*line(12)), Rows(*line(8)), callbacks=recorder, valid_dataset_sink_mode=True)
    assert recorder.names()[9:] == [
        "on_eval_begin", "on_eval_epoch_begin", "on_eval_step_begin", "on_eval_step_end", "on_eval_step_begin",
        "on_eval_step_end", "on_eval_epoch_end", "on_eval_end", "on_train_epoch_end", "on_train_end", "exit",
    ]  # fmt: skip
    assert recorder.calls[9][1:] == ("eval", 0, 2, True) and recorder.calls[14][1:] == ("eval", 2, 2, True)
    assert recorder.calls[17][1:] == ("train", 3, 3, False)


def test_a_stop_in_an_evaluation_of_fit_ends_training() -> None:
    model, _ = linear(metrics={"mean": Mean()})
    recorder = Recorder()
    stop = train.LambdaCallback(on_eval_end=lambda context: context.request_stop())
    model.fit(5, Rows(*line(8)), Rows(*line(8)), callbacks=[stop, recorder])
    assert recorder.names().count("on_train_epoch_end") == 1 and recorder.names()[-2:] == ["on_train_end", "exit"]


def test_fit_trains_as_train_does() -> None:
    one, first = linear(metrics={"mean": Mean()})
    two, second = linear()
    one.fit(2, Rows(*line(10)), Rows(*line(6)))
    two.train(2, Rows(*line(10)))
    assert first.weight.asnumpy().tobytes() == second.weight.asnumpy().tobytes()
    one.fit(1, Rows(*line(10)))


def test_metrics_by_name() -> None:
    model, net = linear(metrics={"mse", "loss", "mae"})
    x, y = line(8)
    results = model.eval(Rows(x, y))
    prediction = x @ net.weight.asnumpy().T + net.bias.asnumpy()
    assert list(results) == ["loss", "mae", "mse"]
    assert results["mae"] == pytest.approx(np.abs(prediction - y).sum() / len(y), rel=1e-5)
    with pytest.raises(KeyError, match=r"There is no metric 'msee'; did you mean 'mse'.*test_model_evaluation\.py"):
        train.Model(net, nn.MSELoss(), metrics=["msee"])


def test_numbers_of_metrics_of_ones_own_are_those_of_python() -> None:
    class Numbers(Mean):
        def eval(self) -> Any:
            return {"mean": np.float64(0.5), "several": [np.int64(3), np.ones(2)]}

    seen: list[Any] = []
    watch = train.LambdaCallback(on_eval_end=lambda context: seen.append(context.original_args().eval_results))
    model, _ = linear(metrics={"numbers": Numbers()})
    found = model.eval(Rows(*line(6)), watch)["numbers"]
    assert repr(found) == "{'mean': 0.5, 'several': [3, array([1., 1.])]}"
    assert repr(seen[0]["numbers"]) == repr(found)
