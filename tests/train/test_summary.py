"""Event files: what TensorBoard reads of them."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, train
from graphls.ir.errors import GraphlsError
from graphls.train.callbacks import InternalCallbackParam
from tests.train.standins import Loss, Rows, line, linear


def events(folder: Path) -> dict[str, dict[int, Any]]:
    """The values of all event files by tag and step, read record by record."""
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, dict[int, Any]] = {}
    for path in folder.iterdir():
        data = path.read_bytes()
        at = 0
        while at < len(data):
            (length,) = struct.unpack("<Q", data[at : at + 8])
            event = Event.FromString(data[at + 12 : at + 12 + length])
            at += 16 + length
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value
    return found


def scalars(folder: Path, tag: str) -> dict[int, float]:
    return {step: value.simple_value for step, value in events(folder)[tag].items()}


def test_losses_and_learning_rates_are_written_every_so_many_steps(tmp_path: Path) -> None:
    losses: dict[int, float] = {}

    def keep(run: Any) -> None:
        told = run.original_args()
        losses[told.cur_step_num] = float(told.net_outputs)

    collector = train.SummaryCollector(tmp_path, collect_freq=2)
    scheduler = train.LearningRateScheduler(lambda rate, step: 0.5 if step >= 2 else rate)
    linear()[0].train(2, Rows(*line(12)), [train.LambdaCallback(on_train_step_end=keep), collector, scheduler])
    assert scalars(tmp_path, "loss") == {step: losses[step] for step in (1, 3, 5)}
    assert scalars(tmp_path, "learning_rate") == pytest.approx({1: 0.1, 3: 0.5, 5: 0.5})
    assert set(events(tmp_path)) == {"loss", "learning_rate"}


def test_the_scale_of_a_step_with_loss_scaling_and_results_of_evaluations(tmp_path: Path) -> None:
    net = nn.Dense(3, 2)
    optimizer = nn.SGD(net.trainable_params(), [0.1] * 10)
    manager = graphls.DynamicLossScaleManager(64, 2, 2)
    model = train.Model(net, nn.MSELoss(), optimizer, {"mse": Loss()}, amp_level="O3", loss_scale_manager=manager)
    collector = train.SummaryCollector(tmp_path, collect_freq=1)
    model.fit(2, Rows(*line(8)), Rows(*line(8)), callbacks=collector)
    assert scalars(tmp_path, "loss_scale") == {1: 64, 2: 128, 3: 128, 4: 256}
    assert set(scalars(tmp_path, "mse")) == {2, 4} == set(scalars(tmp_path, "eval_loss"))
    assert "learning_rate" not in events(tmp_path)


def test_histograms_of_the_parameters_that_are_named(tmp_path: Path) -> None:
    model, _ = linear()
    collector = train.SummaryCollector(
        tmp_path, 1, 4, {"histogram_regular": "^wei"}, keep_default_action=False, collect_tensor_freq=3
    )
    model.train(2, Rows(*line(12)), collector)
    found = events(tmp_path)
    assert set(found) == {"weight"} and set(found["weight"]) == {1, 4}
    histogram = found["weight"][4].histo
    assert histogram.num == 6 and histogram.min <= histogram.max


def test_in_sink_mode_what_is_due_is_written_after_each_epoch(tmp_path: Path) -> None:
    linear()[0].train(3, Rows(*line(12)), train.SummaryCollector(tmp_path, 4), dataset_sink_mode=True)
    assert set(scalars(tmp_path, "loss")) == {3, 9}


def test_the_file_is_closed_where_training_fails(tmp_path: Path) -> None:
    def fail(run: Any) -> None:
        raise RuntimeError("here")

    collector = train.SummaryCollector(tmp_path, 1)
    with pytest.raises(RuntimeError, match="here"):
        linear()[0].train(1, Rows(*line(12)), [collector, train.LambdaCallback(on_train_step_end=fail)])
    assert set(scalars(tmp_path, "loss")) == {1}
    with pytest.raises(RuntimeError, match="give it to a Model as a callback"):
        told = InternalCallbackParam(cur_step_num=9, net_outputs=None, train_network=nn.Dense(1, 1))
        collector.on_train_step_end(train.RunContext(told))


def test_a_record_writes_values_of_three_kinds(tmp_path: Path) -> None:
    with train.SummaryRecord(tmp_path) as record:
        record.add_value("scalar", "a", graphls.Tensor(2.5))
        record.add_value("histogram", "b", np.arange(10))
        record.add_value("image", "c", np.zeros((1, 3, 4, 5), np.float32))
        record.record(7)
        record.add_value("scalar", "a", 3)
        record.record(8)
        record.flush()
    found = events(tmp_path)
    assert scalars(tmp_path, "a") == {7: 2.5, 8: 3.0}
    assert found["b"][7].histo.num == 10 and found["b"][7].histo.sum == 45
    image = next(value[7].image for tag, value in found.items() if tag.startswith("c"))
    assert (image.height, image.width) == (4, 5)
    with pytest.raises(ValueError, match="one of 'scalar', 'histogram', 'image', not 'graph'"):
        record.add_value("graph", "g", 1)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: train.SummaryCollector("x", 0), ValueError, "'collect_freq' must be int and must > 0"),
        (lambda: train.SummaryCollector("x", collect_tensor_freq=0), ValueError, "'collect_tensor_freq'"),
        (lambda: train.SummaryCollector("x", 1, 4, [1]), TypeError, "'collect_specified_data' is a dict"),
        (lambda: train.SummaryCollector("x", 1, 4, {"a": 1}), ValueError, "'histogram_regular', and no 'a'"),
        (lambda: train.SummaryCollector("x", 1, 4, {"collect_graph": 1}), ValueError, "cannot collect 'collect_graph'"),
    ],
)
def test_wrong_settings(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert isinstance(caught.value, GraphlsError)
    train.SummaryCollector("x", 1, 4, {"collect_graph": False})


def test_without_tensorboardx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(RuntimeError, match=r'pip install "graphls\[train\]"'):
        train.SummaryRecord(tmp_path)
