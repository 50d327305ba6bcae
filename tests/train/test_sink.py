"""dataset_sink_mode: many steps in one call, with the same numbers and hooks around all of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops, train
from graphls.frontend.tensors.random import random_state
from graphls.ir.errors import GraphValueError
from graphls.step.repeated import RepeatedStep
from graphls.train import runner
from tests.train.standins import BACKENDS, Recorder, Rows, line, linear


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of steps of all calls that run several."""
    counts: list[int] = []
    original = RepeatedStep.__call__

    def counted(self: RepeatedStep, *inputs: Any) -> Any:
        counts.append(self.count)
        return original(self, *inputs)

    monkeypatch.setattr(RepeatedStep, "__call__", counted)
    return counts


class Net(nn.Cell):
    """Dropout, batch normalisation and float16."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(3, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(p=0.4)
        self.last = nn.Dense(8, 2)

    def construct(self, x: Any) -> Any:
        return self.last(self.dropout(ops.relu(self.norm(self.first(x)))))


def dropping() -> train.Model:
    graphls.set_seed(5)
    net = Net()
    manager = graphls.DynamicLossScaleManager(2.0**22, 2, 3)
    optimizer = nn.Adam(net.trainable_params(), [0.1, 0.05, 0.02, 0.01])
    return train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", loss_scale_manager=manager)


def bits(model: train.Model) -> list[bytes]:
    return [p.asnumpy().tobytes() for p in (*model.train_network.get_parameters(), random_state())]


@pytest.mark.filterwarnings("ignore:The list of 4 learning rates")
@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
@pytest.mark.parametrize("sink_size", [-1, 2, 5])
def test_the_numbers_are_those_of_single_steps(backend: str, sink_size: int, calls: list[int]) -> None:
    rows = partial(Rows, *line(22), batch=4)
    sunk = dropping()
    epochs = 3 if sink_size == -1 else 5
    sunk.train(epochs, rows(), dataset_sink_mode=True, sink_size=sink_size)
    found = bits(sunk)
    assert calls
    plain = dropping()
    steps = 18 if sink_size == -1 else 5 * sink_size
    stop = train.LambdaCallback(
        on_train_step_end=lambda c: c.request_stop() if c.original_args().cur_step_num == steps else None
    )
    plain.train(9, rows(), stop)
    assert bits(plain) == found


def test_hooks_are_called_once_for_the_steps_of_an_epoch() -> None:
    model, _ = linear()
    recorder = Recorder(lambda told: (told.cur_step_num, told.batch_num, told.dataset_sink_mode))
    model.train(2, Rows(*line(22)), recorder, dataset_sink_mode=True)
    assert recorder.calls == [
        ("enter",), ("on_train_begin", 0, 6, True),
        ("on_train_epoch_begin", 0, 6, True), ("on_train_step_begin", 0, 6, True), ("on_train_step_end", 6, 6, True),
        ("on_train_epoch_end", 6, 6, True),
        ("on_train_epoch_begin", 6, 6, True), ("on_train_step_begin", 6, 6, True), ("on_train_step_end", 12, 6, True),
        ("on_train_epoch_end", 12, 6, True), ("on_train_end", 12, 6, True), ("exit",),
    ]  # fmt: skip


def test_a_sink_size_is_the_number_of_steps_of_an_epoch_and_rows_go_on() -> None:
    model, _ = linear()
    recorder = Recorder(lambda told: (told.get("cur_epoch_num"), told.cur_step_num, told.batch_num, told.epoch_num))
    rows = Rows(*line(12))
    model.train(4, rows, recorder, dataset_sink_mode=True, sink_size=2)
    ends = [call[1:] for call in recorder.calls if call[0] == "on_train_step_end"]
    assert ends == [(1, 2, 2, 4), (2, 4, 2, 4), (3, 6, 2, 4), (4, 8, 2, 4)]
    assert len(rows.iterators) == 1 and rows.iterators[0].epoch == 3 and rows.iterators[0].is_stopped


def test_what_the_last_step_returned_is_what_callbacks_are_told() -> None:
    model, _ = linear()
    single, _ = linear()
    told, expected = (Recorder(lambda told: (told.net_outputs, told.train_dataset_element)) for _ in range(2))
    model.train(1, Rows(*line(16)), told, dataset_sink_mode=True)
    single.train(1, Rows(*line(16)), expected)
    last, element = next(call[1:] for call in told.calls if call[0] == "on_train_step_end")
    assert element == () and last.shape == ()
    assert float(last) == float(expected.calls[-4][1])


def test_rows_of_other_shapes_have_calls_of_their_own(calls: list[int]) -> None:
    model, _ = linear()
    model.train(2, Rows(*line(22), shuffle=False), dataset_sink_mode=True)
    assert calls == [5, 5]


def test_a_call_is_bounded_in_steps_and_in_memory(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MOST_STEPS", 4)
    linear()[0].train(1, Rows(*line(40)), dataset_sink_mode=True)
    assert calls == [4, 4, 2]
    monkeypatch.setattr(runner, "MOST_BYTES", 3 * (4 * 3 * 4 + 4 * 2 * 4 + 4))
    linear()[0].train(1, Rows(*line(40)), dataset_sink_mode=True)
    assert calls[3:] == [3, 3, 3]


def test_random_arrays_count_into_the_memory_of_a_call() -> None:
    small = graphls.compile(lambda v: ops.sum(v * ops.uniform((4, 4), 0.0, 1.0)), np.float32(1))
    large = graphls.compile(lambda v: ops.sum(v * ops.uniform((1024, 1024), 0.0, 1.0)), np.float32(1))
    assert runner.steps_in_a_call(small, 256) == 256 and runner.steps_in_a_call(large, 256) == 15
    assert runner.steps_in_a_call(small, 300) == 150 and runner.steps_in_a_call(small, 3) == 3


def test_few_lengths_are_compiled(calls: list[int]) -> None:
    class Ragged(Rows):
        """Groups of equal rows that are ever longer."""

        def get_dataset_size(self) -> int:
            return 65

        def create_tuple_iterator(self, *args: Any, **options: Any) -> Any:
            x, y = self.columns
            lengths = [n for group in range(2, 12) for n in [3 + group % 2] * group]
            return [[x[:n], y[:n]] for n in lengths]

    model, _ = linear()
    model.train(1, Ragged(*line(8)), dataset_sink_mode=True)
    assert calls == [2, 3, 4, 5, 6, 7, 8, 9]
    single, _ = linear()
    single.train(1, Ragged(*line(8)))
    assert bits(single) == bits(model)


def test_a_step_that_cannot_run_in_a_call_of_many_runs_alone(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raise GraphValueError("It has its reasons.")

    monkeypatch.setattr(graphls.Compiled, "repeated", refuse)
    model, _ = linear()
    recorder = Recorder(lambda told: (told.cur_step_num,))
    with pytest.warns(UserWarning, match="run one by one. It has its reasons") as caught:
        model.train(2, Rows(*line(16)), recorder, dataset_sink_mode=True)
    assert len(caught) == 1 and not calls
    ends = [call[1:] for call in recorder.calls if call[0] == "on_train_step_end"]
    assert ends == [(4,), (8,)]
    single, _ = linear()
    single.train(2, Rows(*line(16)))
    assert bits(single) == bits(model)


def test_a_learning_rate_that_a_callback_sets_holds_without_a_new_compilation(calls: list[int]) -> None:
    model, net = linear()
    model.train(1, Rows(*line(16)), train.LearningRateScheduler(lambda rate, step: 0.0), dataset_sink_mode=True)
    before = model._runner.repeated
    momentum = [p for p in model.train_network.get_parameters() if p.name.startswith("moments")]
    for parameter in momentum:
        parameter.set_data(np.zeros(parameter.shape, np.float32))
    weight = net.weight.asnumpy()
    model.train(1, Rows(*line(16)), dataset_sink_mode=True)
    np.testing.assert_array_equal(net.weight.asnumpy(), weight)
    assert model._runner.repeated is before and sum(map(len, before.values())) == 1 and calls == [4, 4]
