"""History and Progress."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, train
from graphls.train.skips import SkippedSteps
from tests.train.standins import Loss, Recorder, Rows, line, linear


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
    start = r"/4: 2 steps in \d+\.\d s \([\d.,e+]+ rows/s, steps wait \d+ % for data\), loss"
    assert re.fullmatch(rf"epoch 3{start} [\d.e-]+", first)
    assert re.fullmatch(rf"epoch 4{start} [\d.e-]+, eval_loss [\d.e-]+, loss [\d.e-]+", second)


def test_progress_counts_skipped_steps() -> None:
    net = nn.Dense(3, 2)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    manager = graphls.FixedLossScaleManager(4.0)
    model = train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", loss_scale_manager=manager)
    x, y = line(8)
    x[2:4] = np.inf
    log = io.StringIO()
    model.train(1, Rows(x, y, batch=2, shuffle=False), train.Progress(log))
    assert ", 1 skipped\n" in log.getvalue()


def test_progress_names_the_scale_to_begin_with_where_most_steps_were_skipped() -> None:
    net = nn.Dense(3, 2)
    optimizer = nn.SGD(net.trainable_params(), 0.01)
    manager = graphls.DynamicLossScaleManager()
    model = train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", loss_scale_manager=manager)
    log = io.StringIO()
    model.train(2, Rows(*line(32), batch=2, shuffle=False), train.Progress(log))
    first, second = log.getvalue().splitlines()
    found = re.search(r"(\d+) skipped, begin with the loss scale (\d+), the power of two that held last$", first)
    assert found is not None and int(found[2]) == 2 ** (24 - int(found[1]))
    assert "skipped" not in second


@pytest.mark.filterwarnings("ignore:.* steps overflowed and were skipped")
def test_progress_gives_no_advice_where_a_dynamic_scale_starts() -> None:
    """The first of two steps is skipped, and the second is taken with the scale that the first has left."""

    def lines(scale: float, steps: int) -> list[str]:
        net = nn.Dense(3, 2, weight_init="ones")
        optimizer, manager = nn.SGD(net.trainable_params(), 1e-6), graphls.DynamicLossScaleManager(scale)
        model = train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", loss_scale_manager=manager)
        x, y = line(2)
        log = io.StringIO()
        rows = Rows(np.tile(x, (steps, 1)), np.tile(y, (steps, 1)), batch=2, shuffle=False)
        model.train(2, rows, train.Progress(log))
        return log.getvalue().splitlines()

    found = re.search(r"begin with the loss scale (\d+),", lines(2.0**24, 12)[0])
    assert found is not None
    first, second = lines(2.0 * int(found[1]), 2)
    assert first.endswith(", 1 skipped") and "skipped" not in second
    assert lines(8.0 * int(found[1]), 3)[0].endswith(", 3 skipped")


@pytest.mark.parametrize(
    ("first", "outcomes", "advice"),
    [
        (None, [(True, 512.0), (False, 512.0)], "512, the power of two that held last"),
        (1024.0, [(True, 512.0), (False, 512.0)], "512, the power of two that held last"),
        (1024.0, [(False, 1024.0), (True, 512.0)], "1024, the power of two that held last"),
        (1024.0, [(True, 1024.0), (False, 1024.0)], "below 1024"),
        (None, [(True, 512.0), (True, 256.0), (False, 512.0)], "256, the power of two that held last"),
        (None, [(True, 8.0), (True, 8.0), (False, 8.0)], "below 8"),
        (None, [(True, 8.0), (False, 8.0), (False, 8.0)], ""),
    ],
)
def test_the_scale_to_begin_with_is_that_of_the_last_step_taken(first: Any, outcomes: Any, advice: str) -> None:
    counts = SkippedSteps(first)
    for skipped, scale in outcomes:
        counts.after(skipped, scale)
    assert counts.advice().startswith(f"begin with the loss scale {advice}") if advice else not counts.advice()


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
    assert re.search(r"epoch 1/1: 3 steps in \d+\.\d s \([\d.,e+]+ rows/s, steps wait \d+ % for data\), loss", text)
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
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(RuntimeError, match=r'pip install "graphls\[train\]"'):
        linear()[0].train(1, Rows(*line(12)), train.Progress(Terminal()))
