"""Model.train with a ModelCheckpoint: stopped after any step and begun anew, it ends with the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.train.callbacks.callback import Callback
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint
from graphls.train.model import Model
from graphls.train.serialization import load_checkpoint, load_param_into_net
from tests.interrupting import interrupted_at, places_in

EPOCHS, SIZE = 2, 4
PLACES = 30


class Batches:
    """The contract of a dataset: every batch is a function of its number."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def get_dataset_size(self) -> int:
        return SIZE

    def get_init_step(self) -> int:
        return self.start

    def create_tuple_iterator(self, **options: Any) -> Epochs:
        return Epochs(self.start)


class Epochs:
    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[list[Any]]:
        while True:
            rng = np.random.default_rng(self.number)
            self.number += 1
            yield [rng.normal(size=(8, 4)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)]
            if self.number % SIZE == 0:
                return


def model(seed: int) -> Any:
    graphls.set_seed(seed)
    net = nn.SequentialCell(nn.Dense(4, 8), nn.BatchNorm1d(8), nn.Dropout(p=0.3), nn.Dense(8, 2))
    manager = graphls.DynamicLossScaleManager(2**18, 2, 3)
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    return Model(net, nn.MSELoss(), optimizer, amp_level="O2", loss_scale_manager=manager)


def state(trained: Any) -> dict[str, bytes]:
    return {p.name: p.asnumpy().tobytes() for p in trained.train_network.get_parameters()}


@pytest.mark.parametrize("in_sink_mode", [False, True])
def test_a_training_goes_on_from_every_checkpoint(tmp_path: Path, in_sink_mode: bool) -> None:
    config = CheckpointConfig(1, keep_checkpoint_max=99, append_info=["epoch_num", "step_num"], async_save=True)
    first = model(3)
    first.train(EPOCHS, Batches(), [ModelCheckpoint("net", str(tmp_path), config)], dataset_sink_mode=in_sink_mode)
    final, files = state(first), list(tmp_path.glob("*.ckpt"))
    assert len(files) == (EPOCHS if in_sink_mode else EPOCHS * SIZE)
    for file in files:
        second, found = model(99), load_checkpoint(file)
        load_param_into_net(second.train_network, found, strict_load=True)
        if int(found["step_num"]) < EPOCHS * SIZE:
            second.train(EPOCHS, Batches(int(found["step_num"])), dataset_sink_mode=in_sink_mode)
        assert state(second) == final


class Failing(Callback):
    def on_train_step_end(self, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == 6:
            raise ValueError("on purpose")


@pytest.mark.parametrize("is_first", [False, True])
def test_a_breakpoint_holds_the_steps_that_ran(tmp_path: Path, is_first: bool) -> None:
    config = CheckpointConfig(100, exception_save=True, append_info=["step_num"])
    callbacks = [Failing(), ModelCheckpoint("net", str(tmp_path), config)]
    broken = model(3)
    with pytest.raises(ValueError, match="on purpose"):
        broken.train(EPOCHS, Batches(), callbacks if is_first else callbacks[::-1])
    found = load_checkpoint(tmp_path / "net-2_2_breakpoint.ckpt")
    assert int(found["step_num"]) == 6
    assert {name: p.asnumpy().tobytes() for name, p in found.items() if name in state(broken)} == state(broken)


def saved(folder: Path) -> dict[int, dict[str, bytes]]:
    """The states in the checkpoints of a folder, by the numbers of their steps."""
    found = {int(entries.pop("step_num")): entries for entries in map(load_checkpoint, folder.glob("*.ckpt"))}
    return {step: {n: e.asnumpy().tobytes() for n, e in entries.items()} for step, entries in found.items()}


@pytest.mark.parametrize("in_sink_mode", [False, True])
def test_a_run_that_is_interrupted_anywhere_is_saved_with_the_number_of_its_last_step(
    tmp_path: Path, in_sink_mode: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)
    every = CheckpointConfig(1, keep_checkpoint_max=99, append_info=["step_num"])
    model(3).train(EPOCHS, Batches(), [ModelCheckpoint("net", str(tmp_path), every)])
    known = saved(tmp_path)
    trained, random = model(3), graphls.random.random_state()
    first = [(p, p.asnumpy()) for p in (*trained.train_network.get_parameters(), random)]
    last = CheckpointConfig(100, exception_save=True, append_info=["step_num"])
    trained.train(EPOCHS, Batches(), dataset_sink_mode=in_sink_mode)

    def run(folder: Path) -> None:
        callbacks = [ModelCheckpoint("net", str(folder), last)]
        trained.train(EPOCHS, Batches(), callbacks, dataset_sink_mode=in_sink_mode)

    found, most = set[int](), places_in(lambda: run(tmp_path / "whole"))
    for place in np.random.default_rng(5).integers(most, size=PLACES):
        for parameter, value in first:
            parameter.set_data(value)
        interrupted_at(int(place), partial(run, folder := tmp_path / str(place)))
        for step, states in saved(folder).items():
            assert states == known[step], f"torn at place {place}"
            found.add(step)
    assert len(found) >= (2 if in_sink_mode else 6)
