"""Model: its training loop against one written by hand, the hooks on the way, and what it refuses."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops, train
from graphls.ir.errors import GraphlsError, GraphValueError
from graphls.train.callbacks import InternalCallbackParam
from tests.train.standins import Loss, Mean, Recorder, Rows, line, linear

BACKENDS = ["numpy", "onnxruntime"]


@pytest.fixture
def backend(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("graphls.api.compile", partial(graphls.compile, backend=request.param))
    return str(request.param)


def by_hand(rows: Rows, epochs: int) -> tuple[list[float], np.ndarray[Any, Any]]:
    """Losses and weights of the same training, as a NumPy program in float64."""
    _, net = linear()
    w, b = (p.asnumpy().astype(np.float64) for p in (net.weight, net.bias))
    vw, vb = np.zeros_like(w), np.zeros_like(b)
    losses = []
    iterator = rows.create_tuple_iterator(num_epochs=epochs, output_numpy=True)
    for _ in range(epochs):
        for x, y in iterator:
            error = x @ w.T + b - y
            losses.append(float(np.mean(error**2)))
            slope = 2 * error / error.size
            vw, vb = 0.9 * vw + slope.T @ x, 0.9 * vb + slope.sum(0)
            w, b = w - 0.1 * vw, b - 0.1 * vb
    return losses, w


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_training_is_the_loop_that_it_stands_for(backend: str) -> None:
    model, net = linear()
    recorder = Recorder(lambda told: (None if told.net_outputs is None else float(told.net_outputs.asnumpy()),))
    model.train(3, Rows(*line(10)), recorder)
    losses, weight = by_hand(Rows(*line(10)), 3)
    found = [call[1] for call in recorder.calls if call[0] == "on_train_step_end"]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    np.testing.assert_allclose(net.weight.asnumpy(), weight, rtol=1e-5)


def test_a_step_is_compiled_once_for_each_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    original = graphls.compile

    def counting(*args: Any, **options: Any) -> Any:
        compiled.append([a.shape for a in args[1:]])
        return original(*args, **options)

    monkeypatch.setattr("graphls.api.compile", counting)
    model, _ = linear(metrics={"mean": Mean()})
    rows, valid = Rows(*line(10)), Rows(*line(8))
    model.build(rows, valid)
    assert compiled == [[(4, 3), (4, 2)], [(4, 3), (4, 2)]]
    model.fit(3, rows, valid)
    model.train(1, rows)
    model.eval(valid)
    assert compiled[2:] == [[(2, 3), (2, 2)]]


def test_hooks_of_training_in_their_order() -> None:
    model, _ = linear()
    recorder = Recorder(lambda told: (told.cur_step_num, told.get("cur_epoch_num")))
    model.train(2, Rows(*line(8)), recorder)
    step = ["on_train_step_begin", "on_train_step_end"]
    epoch = ["on_train_epoch_begin", *step, *step, "on_train_epoch_end"]
    assert recorder.names() == ["enter", "on_train_begin", *epoch, *epoch, "on_train_end", "exit"]
    assert recorder.calls[1:8] == [
        ("on_train_begin", 0, None), ("on_train_epoch_begin", 0, 1), ("on_train_step_begin", 1, 1),
        ("on_train_step_end", 1, 1), ("on_train_step_begin", 2, 1), ("on_train_step_end", 2, 1),
        ("on_train_epoch_end", 2, 1),
    ]  # fmt: skip
    assert recorder.calls[-2:] == [("on_train_end", 4, 2), ("exit",)]


def test_what_callbacks_are_told_in_training() -> None:
    seen: list[InternalCallbackParam] = []
    model, net = linear(loss_scale_manager=None)
    recorder = Recorder(lambda told: seen.append(InternalCallbackParam(told)) or ())
    rows = Rows(*line(8), shuffle=False)
    model.train(3, rows, [recorder], initial_epoch=1)
    told = seen[3]
    assert set(told) == {
        "train_network", "epoch_num", "batch_num", "mode", "loss_fn", "optimizer", "parallel_mode", "device_number",
        "train_dataset", "list_callback", "train_dataset_element", "network", "cur_step_num", "cur_epoch_num",
        "dataset_sink_mode", "net_outputs", "last_save_ckpt_step", "latest_ckpt_file", "loss_scale_mananger",
        "eval_results", "metrics",
    }  # fmt: skip
    assert told.train_network is model.train_network and isinstance(told.train_network, nn.TrainOneStepCell)
    assert told.network is net and model.predict_network is net and model.eval_network is None
    assert (told.epoch_num, told.batch_num, told.mode, told.dataset_sink_mode) == (2, 2, "train", False)
    assert isinstance(told.optimizer, nn.Momentum) and isinstance(told.loss_fn, nn.MSELoss)
    assert told.train_dataset is rows and told.list_callback == [recorder]
    assert (told.parallel_mode, told.device_number, told.loss_scale_mananger) == ("stand_alone", 1, None)
    assert told.last_save_ckpt_step is None and told.latest_ckpt_file is None
    element = told["train_dataset_element"]
    assert all(isinstance(t, graphls.Tensor) for t in element)
    np.testing.assert_array_equal(element[0].asnumpy(), line(8)[0][:4])
    assert told.net_outputs.shape == () and told.get("unknown") is None
    with pytest.raises(AttributeError, match=r"no 'cur_step' here.*did you mean 'cur_step_num'"):
        _ = told.cur_step


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("on_train_step_end", [(1, 1)]),
        ("on_train_epoch_end", [(1, 1), (1, 2), (1, 3)]),
        ("on_train_epoch_begin", [(1, 1)]),
    ],
)
def test_a_wish_to_stop_is_honoured_after_a_step_and_after_an_epoch(hook: str, expected: list[Any]) -> None:
    model, _ = linear()
    stop = train.LambdaCallback(**{hook: lambda context: context.request_stop()})
    recorder = Recorder(lambda told: (told.get("cur_epoch_num"), told.cur_step_num))
    rows = Rows(*line(12))
    model.train(4, rows, [stop, recorder])
    assert [call[1:] for call in recorder.calls if call[0] == "on_train_step_end"] == expected
    assert recorder.names()[-3:] == ["on_train_epoch_end", "on_train_end", "exit"]
    assert rows.iterators[-1].is_stopped


def test_a_callback_that_raises_leaves_the_run_through_every_exit() -> None:
    def fail(context: Any) -> None:
        raise RuntimeError("from a callback")

    model, _ = linear()
    recorder, rows = Recorder(), Rows(*line(12))
    with pytest.raises(RuntimeError, match="from a callback"):
        model.train(1, rows, [recorder, train.LambdaCallback(on_train_step_end=fail)])
    assert recorder.names()[-2:] == ["on_train_step_end", "exit"]
    assert rows.iterators[-1].is_stopped


def test_training_goes_on_from_an_epoch() -> None:
    model, _ = linear()
    recorder = Recorder(lambda told: (told.get("cur_epoch_num"), told.cur_step_num, told.epoch_num))
    model.train(4, Rows(*line(12)), recorder, initial_epoch=2)
    ends = [call[1:] for call in recorder.calls if call[0] == "on_train_step_end"]
    assert ends == [(3, 7, 2), (3, 8, 2), (3, 9, 2), (4, 10, 2), (4, 11, 2), (4, 12, 2)]


@pytest.mark.parametrize("initial_epoch", [0, 1])
@pytest.mark.parametrize("sink", [False, True])
def test_a_run_stopped_in_the_middle_of_an_epoch_goes_on_with_the_same_bits(initial_epoch: int, sink: bool) -> None:
    whole, net = linear()
    whole.train(3, Rows(*line(12)))
    expected = net.weight.asnumpy().tobytes()

    first, _ = linear()
    stop = train.LambdaCallback(
        on_train_step_end=lambda context: context.request_stop() if context.original_args().cur_step_num == 5 else None
    )
    first.train(3, Rows(*line(12)), stop)
    second, net = linear()
    for old, new in zip(first.train_network.get_parameters(), second.train_network.get_parameters(), strict=True):
        new.set_data(old)
    rows = Rows(*line(12))
    rows.set_init_step(5)
    second.build(rows)
    recorder = Recorder(lambda told: (told.get("cur_epoch_num"), told.cur_step_num, told.epoch_num))
    second.train(3, rows, recorder, dataset_sink_mode=sink, initial_epoch=initial_epoch)
    ends = [call[1:] for call in recorder.calls if call[0] == "on_train_step_end"]
    assert ends == ([(2, 6, 2), (3, 9, 2)] if sink else [(2, 6, 2), (3, 7, 2), (3, 8, 2), (3, 9, 2)])
    assert net.weight.asnumpy().tobytes() == expected


def test_an_initial_epoch_that_contradicts_the_dataset_is_refused() -> None:
    model, _ = linear()
    rows = Rows(*line(12))
    rows.set_init_step(5)
    with pytest.raises(GraphValueError, match="goes on after step 5, which is in the epoch that 'initial_epoch' 1"):
        model.train(3, rows, initial_epoch=2)
    with pytest.raises(GraphValueError, match="'epoch' is 1, 'initial_epoch' is 1"):
        model.train(1, rows)


def test_a_network_that_gives_its_loss_takes_rows_of_any_width() -> None:
    class Whole(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(3, 2)

        def construct(self, x: Any, y: Any, weight: Any) -> Any:
            return ops.mean(ops.square(self.fc(x) - y) * weight)

    net = Whole()
    model = train.Model(net, optimizer=nn.SGD(net.trainable_params(), 0.1))
    before = net.fc.weight.asnumpy()
    x, y = line(8)
    model.train(1, Rows(x, y, np.ones((8, 1), np.float32)))
    assert (net.fc.weight.asnumpy() != before).all()


def test_a_step_of_ones_own_is_run_as_it_is() -> None:
    net = nn.Dense(3, 2)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    model = train.Model(step)
    before = net.weight.asnumpy()
    model.train(1, Rows(*line(8)))
    assert model.train_network is step and step.training and (net.weight.asnumpy() != before).all()


def test_with_a_loss_alone_the_loss_is_computed_and_nothing_trained() -> None:
    net = nn.Dense(3, 2)
    before = net.weight.asnumpy()
    recorder = Recorder(lambda told: (told.net_outputs,))
    train.Model(net, nn.MSELoss()).train(1, Rows(*line(4), shuffle=False), recorder)
    x, y = line(4)
    loss = float(np.mean((x @ before.T + net.bias.asnumpy() - y) ** 2))
    assert float(recorder.calls[-2][1]) == pytest.approx(loss, rel=1e-5)
    np.testing.assert_array_equal(net.weight.asnumpy(), before)


class Moded(nn.Cell):
    """Gives its input in training and zeros in evaluation, and has a part that a user may freeze."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(3, 2)
        self.inner = nn.Dropout(p=0.5)

    def construct(self, x: Any) -> Any:
        return self.fc(x) if self.training else self.fc(x) * 0


def test_the_network_is_in_training_in_each_step_whatever_callbacks_do() -> None:
    net = Moded()
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.0), {"mean": Mean()})
    rows, modes = Rows(*line(8)), []

    def disturb(context: Any) -> None:
        modes.append(net.training)
        assert (model.predict(line(2)[0]).asnumpy() == 0).all()
        model.eval(rows)
        assert not net.training

    losses = Recorder(lambda told: (told.net_outputs,))
    model.train(2, rows, [train.LambdaCallback(on_train_step_end=disturb), losses])
    assert modes == [True] * 4
    zero = [float(np.mean(line(8)[1] ** 2))]
    assert all(float(c[1]) not in zero for c in losses.calls if c[0] == "on_train_step_end")


def test_a_part_that_is_frozen_stays_frozen() -> None:
    net = Moded()
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
    net.inner.set_train(False)
    model.train(1, Rows(*line(8)))
    assert net.training and not net.inner.training


# -- evaluation and prediction --------------------------------------------------------------------------------


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
    metrics = {"mean": mean, "loss": loss, "own": own}
    train.Model(net, metrics=metrics, eval_network=Evaluating(net), eval_indexes=[2, 3, 0]).eval(rows)
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


# -- fit ------------------------------------------------------------------------------------------------------


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


# -- wrong uses -----------------------------------------------------------------------------------------------

NET = nn.Dense(3, 2)
LOSS = nn.MSELoss()


def optimizer() -> Any:
    return nn.SGD(NET.trainable_params(), 0.1)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: train.Model("net"), TypeError, "The argument 'network' must be a Cell, but got 'net'"),
        (lambda: train.Model(NET, "loss", optimizer()), TypeError, "'loss_fn' must be a Cell"),
        (lambda: train.Model(NET, "loss"), TypeError, "takes cells, not str"),
        (lambda: train.Model(NET, LOSS, "sgd"), TypeError, "'optimizer' must be an Optimizer"),
        (lambda: train.Model(NET, LOSS, foo=1), ValueError, "'keep_batchnorm_fp32'.* but got 'foo'"),
        (
            lambda: train.Model(NET, LOSS, loss_scale_manager=graphls.FixedLossScaleManager()),
            ValueError,
            "The argument 'optimizer' can not be None when set 'loss_scale_manager'",
        ),
        (
            lambda: train.Model(NET, LOSS, amp_level="O2"),
            ValueError,
            "The argument 'optimizer' can not be None when set 'amp_level'",
        ),
        (lambda: train.Model(NET, LOSS, optimizer(), amp_level="O7"), ValueError, "The 'level' should be in"),
        (lambda: train.Model(NET, LOSS, optimizer(), boost_level="O1"), ValueError, "no boost"),
        (lambda: train.Model(NET, LOSS, optimizer(), acc_level="O1"), ValueError, "no boost"),
        (lambda: train.Model(NET, LOSS, boost_config_dict={"a": 1}), ValueError, "'boost_config_dict' is empty"),
        (lambda: train.Model(NET, metrics={"mean": Mean()}), ValueError, "'eval_network' or 'loss_fn' must not be"),
        (lambda: train.Model(NET, LOSS, metrics={"mean": 3}), TypeError, "has clear, update and eval, and 3 has not"),
        (lambda: train.Model(NET, LOSS, metrics="acc"), TypeError, "a dict of metrics or a set of names"),
        (
            lambda: train.Model(NET, metrics={"mean": Mean()}, eval_network="net"),
            TypeError,
            "'eval_network' must be a Cell",
        ),
        (
            lambda: train.Model(NET, metrics={"mean": Mean()}, eval_network=NET, eval_indexes=[0, 1]),
            ValueError,
            r"length of it must be three. But got 'eval_indexes' \[0, 1\]",
        ),
        (lambda: train.Model(NET, LOSS).eval(Rows(*line())), ValueError, "'metrics' of Model can not be None or empty"),
        (
            lambda: train.Model(NET, LOSS).fit(1, Rows(*line()), Rows(*line())),
            RuntimeError,
            "'metrics' of Model can not be None or empty",
        ),
        (lambda: train.Model(NET, LOSS).build(), ValueError, "a 'train_dataset', a 'valid_dataset' or both"),
        (lambda: linear()[0].train(0, Rows(*line())), ValueError, "'epoch' must be int and must > 0, but got '0'"),
        (lambda: linear()[0].train(-1, Rows(*line())), ValueError, "'epoch' must be int and must > 0"),
        (lambda: linear()[0].train(1.0, Rows(*line())), TypeError, "'epoch' must be int"),
        (
            lambda: linear()[0].train(2, Rows(*line()), initial_epoch=2),
            ValueError,
            "the parameter 'epoch' must bigger than parameter 'initial_epoch', but got the parameter 'epoch' is 2, "
            "'initial_epoch' is 2",
        ),
        (lambda: linear()[0].train(2, Rows(*line()), initial_epoch=-1), ValueError, "'initial_epoch' must be int"),
        (
            lambda: linear()[0].train(1, Rows(*line(0))),
            ValueError,
            "There is no valid data in dataset, please check dataset file firstly",
        ),
        (lambda: linear(metrics={"m": Mean()})[0].eval(Rows(*line(0))), ValueError, "There is no valid data"),
        (lambda: linear()[0].train(1, [1, 2]), TypeError, r"takes a dataset, and list has no get_dataset_size\(\)"),
        (
            lambda: linear()[0].train(1, Rows(*line(), line()[0])),
            ValueError,
            "When 'loss_fn' is not None, 'train_dataset' should return two elements, but got 3, please",
        ),
        (
            lambda: linear(metrics={"m": Mean()})[0].eval(Rows(line()[0])),
            ValueError,
            "'valid_dataset' should return two elements, but got 1",
        ),
        (lambda: linear()[0].train(1, Rows(*line()), "callback"), TypeError, "'callback' is no Callback"),
        (lambda: linear()[0].train(1, Rows(*line()), dataset_sink_mode=1), TypeError, "must be bool"),
        (lambda: linear()[0].train(1, Rows(*line()), sink_size=0), ValueError, "must be -1 or positive, but got 0"),
        (lambda: linear()[0].train(1, Rows(*line()), sink_size=2.0), TypeError, "'sink_size' must be int"),
        (
            lambda: linear(metrics={"m": Mean()})[0].fit(1, Rows(*line()), Rows(*line()), 0),
            ValueError,
            "'valid_frequency' must be int and must > 0",
        ),
        (
            lambda: linear(metrics={"m": Mean()})[0].fit(1, Rows(*line()), Rows(*line()), "1"),
            TypeError,
            "'valid_frequency' must be int",
        ),
    ],
)
def test_wrong_uses(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert isinstance(caught.value, GraphlsError)
    assert "test_model.py" in str(caught.value)


def test_a_dataset_whose_epochs_are_empty_is_refused() -> None:
    class Empty(Rows):
        def get_dataset_size(self) -> int:
            return 3

    empty = Empty(*(column[:0] for column in line()), batch=4)
    empty.create_tuple_iterator = lambda **options: []  # type: ignore[method-assign,assignment,return-value]
    for sink_mode, sink_size in ((False, -1), (True, -1), (True, 2)):
        with pytest.raises(GraphValueError, match="There is no valid data"):
            linear()[0].train(1, empty, dataset_sink_mode=sink_mode, sink_size=sink_size)
    with pytest.raises(GraphValueError, match="There is no valid data"):
        linear()[0].build(empty)


def test_an_eval_network_that_gives_too_little_is_refused() -> None:
    class Two(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return x, y

    class One(nn.Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return {"x": x}

    rows = Rows(*line())
    with pytest.raises(ValueError, match="must be >= 3, but got 2"):
        train.Model(NET, metrics={"m": Mean()}, eval_network=Two(), eval_indexes=[0, 1, 2]).eval(rows)
    with pytest.raises(TypeError, match="a tensor or a tuple, not dict"):
        train.Model(NET, metrics={"m": Mean()}, eval_network=One()).eval(rows)


def test_metrics_by_name_come_from_the_metrics_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    module = types.ModuleType("graphls.train.metrics")
    made: list[str] = []

    def get_metric_fn(name: str) -> Any:
        made.append(name)
        return Mean()

    module.get_metric_fn = get_metric_fn  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "graphls.train.metrics", module)
    model = train.Model(NET, LOSS, metrics={"mse", "acc"})
    assert set(model.eval(Rows(*line()))) == {"acc", "mse"} and made == ["acc", "mse"]
