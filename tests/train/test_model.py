"""Model.train: its loop against one written by hand, the hooks on the way, and going on with a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops, train
from graphls.ir.errors import GraphValueError
from graphls.train.callbacks import InternalCallbackParam
from tests.train.standins import BACKENDS, Mean, Moded, Recorder, Rows, line, linear


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
        "eval_results", "metrics", "completed_steps", "data_flow", "explain_precision",
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
    with pytest.raises(GraphValueError, match="continues after step 5, which is in the epoch that 'initial_epoch' 1"):
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


def test_a_model_shares_compiled_steps_with_calls_of_its_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, net = linear()
    x, y = line(4)
    model.train(1, Rows(x, y))
    model.predict(x)
    monkeypatch.setattr("graphls.api.compile", None)
    before = net.weight.asnumpy()
    model.train_network.set_train()(graphls.Tensor(x), graphls.Tensor(y))
    assert (net.weight.asnumpy() != before).any()
    net.set_train(False)(x)
