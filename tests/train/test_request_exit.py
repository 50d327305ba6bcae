"""OnRequestExit: the end of a run that the process is asked for."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from graphls import train
from graphls.frontend.tensors.random import random_state
from graphls.ir.errors import GraphlsError
from tests.train.standins import Mean, Recorder, Rows, line, linear


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is given to save_checkpoint, in place of the function."""
    calls: list[Any] = []

    def save_checkpoint(save_obj: Any, ckpt_file_name: str, append_dict: Any = None) -> None:
        calls.append((save_obj, ckpt_file_name, append_dict))

    monkeypatch.setattr("graphls.train.callbacks.stopping.save_checkpoint", save_checkpoint)
    return calls


def kill_at(step: int, sig: Any = signal.SIGTERM) -> train.Callback:
    def kill(run: Any) -> None:
        if run.original_args().cur_step_num == step:
            os.kill(os.getpid(), sig)

    return train.LambdaCallback(on_train_step_begin=kill, on_eval_step_begin=kill)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_training_after_its_step_and_saves(sig: Any, saved: list[Any], tmp_path: Path) -> None:
    before = signal.getsignal(sig)
    model, _ = linear()
    recorder = Recorder(lambda told: (told.cur_step_num,))
    callback = train.OnRequestExit(file_name="LeNet", directory=tmp_path / "new", sig=sig)
    model.train(3, Rows(*line(12)), [callback, kill_at(5, sig), recorder])
    assert recorder.calls[-4:] == [("on_train_step_end", 5), ("on_train_epoch_end", 5), ("on_train_end", 5), ("exit",)]
    assert signal.getsignal(sig) is before
    ((network, path, entries),) = saved
    assert network is model.train_network and path == str(tmp_path / "new" / "LeNet_train.ckpt")
    assert entries == {"epoch_num": 2, "step_num": 5, "random_state": random_state()}
    assert (tmp_path / "new").is_dir()
    model.train(1, Rows(*line(12)), callback)
    assert len(saved) == 1


def test_without_a_request_nothing_is_saved(saved: list[Any], tmp_path: Path) -> None:
    recorder = Recorder(lambda told: (told.cur_step_num,))
    linear()[0].train(2, Rows(*line(12)), [train.OnRequestExit(directory=tmp_path), recorder])
    assert not saved and recorder.calls[-2] == ("on_train_end", 6)


def test_without_save_ckpt_training_only_stops(saved: list[Any]) -> None:
    recorder = Recorder(lambda told: (told.cur_step_num,))
    callbacks = [train.OnRequestExit(save_ckpt=False, save_mindir=False), kill_at(2), recorder]
    linear()[0].train(2, Rows(*line(12)), callbacks)
    assert not saved and recorder.calls[-2] == ("on_train_end", 2)


def test_a_file_asks_for_the_end(saved: list[Any], tmp_path: Path) -> None:
    config = tmp_path / "exit.json"

    def write(run: Any) -> None:
        step = run.original_args().cur_step_num
        texts = {2: '{"Gracef', 3: json.dumps({"GracefulExit": 0}), 4: json.dumps([1]), 5: '{"GracefulExit": 1}'}
        if step in texts:
            config.write_text(texts[step], encoding="utf-8")

    recorder = Recorder(lambda told: (told.cur_step_num,))
    callback = train.OnRequestExit(config_file=config, directory=tmp_path)
    linear()[0].train(3, Rows(*line(12)), [train.LambdaCallback(on_train_step_begin=write), callback, recorder])
    assert recorder.calls[-2] == ("on_train_end", 5) and len(saved) == 1


def test_an_evaluation_ends_likewise(saved: list[Any], tmp_path: Path) -> None:
    mean = Mean()
    model, _ = linear(metrics={"mean": mean})
    model.eval(Rows(*line(12)), [train.OnRequestExit(directory=tmp_path), kill_at(2)])
    assert len(mean.seen) == 2
    assert saved == [(model.eval_network, str(tmp_path / "Net_eval.ckpt"), {})]


def test_an_evaluation_in_fit_ends_training(saved: list[Any], tmp_path: Path) -> None:
    mean = Mean()
    model, _ = linear(metrics={"mean": mean})
    kill = train.LambdaCallback(on_eval_step_begin=lambda run: os.kill(os.getpid(), signal.SIGTERM))
    recorder = Recorder()
    model.fit(3, Rows(*line(8)), Rows(*line(12)), callbacks=[train.OnRequestExit(directory=tmp_path), kill, recorder])
    assert len(mean.seen) == 1 and recorder.names().count("on_train_epoch_end") == 1
    assert [entry[0] for entry in saved] == [model.train_network]


def test_outside_of_the_main_thread_it_says_so() -> None:
    errors: list[Exception] = []

    def run() -> None:
        try:
            linear()[0].train(1, Rows(*line(4)), train.OnRequestExit())
        except GraphlsError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    (error,) = errors
    assert isinstance(error, RuntimeError) and "Only the main thread gets signals" in str(error)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: train.OnRequestExit(save_ckpt=1), TypeError, "'save_ckpt' must be bool"),
        (lambda: train.OnRequestExit(save_mindir=None), TypeError, "'save_mindir' must be bool"),
        (lambda: train.OnRequestExit(file_name=""), TypeError, "'file_name' of OnRequestExit is a string, not ''"),
        (lambda: train.OnRequestExit(sig=signal.SIGHUP), ValueError, "'sig' of OnRequestExit is SIGTERM or SIGINT"),
    ],
)
def test_wrong_settings(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        make()
    assert isinstance(caught.value, GraphlsError)
