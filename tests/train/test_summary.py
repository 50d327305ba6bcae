"""Event files: what TensorBoard reads of them."""

from __future__ import annotations

import struct
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import graphls
from graphls import nn, train
from graphls.ir.errors import GraphFileError, GraphlsError
from graphls.train.callbacks import InternalCallbackParam
from tests.train.standins import Loss, Rows, file_size_limit, line, linear


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
        (lambda: train.SummaryCollector("x", 1, 4, {"collect_graph": 1}), ValueError, "'collect_graph'"),
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


WRONG_VALUES = [
    ("scalar", "a", np.ones(3)), ("scalar", "a", "x"), ("scalar", "a", None), ("scalar", "a", 1j), ("scalar", 3, 1.0),
    ("scalar", None, 1.0), ("scalar", "", 1.0), ("histogram", "a", ["x"]), ("histogram", "a", np.zeros(0)),
    ("histogram", "a", [[1], [1, 2]]), ("histogram", "a", object()), ("image", "a", np.ones((3, 3))),
    ("image", "a", "x"), ("image", "a", np.ones((1, 5, 3, 3))), ("image", "a", np.ones((0, 3, 3, 3))), ([], "a", 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "value"), WRONG_VALUES)
def test_values_that_no_file_shows(tmp_path: Path, kind: Any, name: Any, value: Any) -> None:
    with train.SummaryRecord(tmp_path) as record, pytest.raises(GraphlsError, match=r"test_summary\.py"):
        record.add_value(kind, name, value)


@pytest.mark.parametrize("step", ["x", None, 1.5, True, -1, 2**70])
def test_steps_are_numbers_from_zero_on(tmp_path: Path, step: Any) -> None:
    with train.SummaryRecord(tmp_path) as record, pytest.raises(GraphlsError, match="The step of a summary is"):
        record.record(step)


@pytest.mark.parametrize("directory", ["file", "file/below", "a\0b", "n" * 300])
def test_directories_that_cannot_be_made(tmp_path: Path, directory: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GraphFileError, match="cannot be written"):
        train.SummaryRecord(f"{tmp_path}/{directory}")


@pytest.mark.parametrize("wanted", [{"histogram_regular": "("}, {"histogram_regular": 3}, {"collect_metric": 3}])
def test_what_cannot_be_collected_is_said_at_once(tmp_path: Path, wanted: dict[str, Any]) -> None:
    with pytest.raises(GraphlsError, match=r"histogram_regular|collect_metric"):
        train.SummaryCollector(tmp_path, collect_specified_data=wanted)


def test_a_full_disk_ends_the_training_with_an_error(tmp_path: Path) -> None:
    collector = train.SummaryCollector(tmp_path, collect_freq=1)
    with file_size_limit(2**10), pytest.raises(GraphFileError, match="File too large"):
        linear()[0].train(200, Rows(*line(12)), [collector])


def test_a_closed_record_says_so_and_two_of_one_second_are_two_files(tmp_path: Path) -> None:
    records = [train.SummaryRecord(tmp_path) for _ in range(2)]
    for record, value in zip(records, (1.0, 2.0), strict=True):
        record.add_value("scalar", "a", value)
        record.record(0)
        record.close()
        record.close()
        record.add_value("scalar", "a", value)
        with pytest.raises(GraphlsError, match="is closed; open another"):
            record.record(1)
    assert len(list(tmp_path.iterdir())) == 2


def test_pictures_are_clipped_and_histograms_have_bars(tmp_path: Path) -> None:
    with train.SummaryRecord(tmp_path) as record:
        record.add_value("image", "i", np.array([np.nan, -1, 0.5, 2]).reshape(1, 1, 2, 2))
        record.add_value("histogram", "h", np.array([-3.0, 0.0, 2.0, 2.0]))
        record.record(0)
    found = events(tmp_path)
    pixels = np.asarray(Image.open(BytesIO(found["i"][0].image.encoded_image_string)))
    assert pixels.reshape(4, -1)[:, 0].tolist() == [0, 0, 127, 255]
    bars = found["h"][0].histo
    assert (bars.num, bars.sum, sum(bars.bucket)) == (4, 1.0, 4)
