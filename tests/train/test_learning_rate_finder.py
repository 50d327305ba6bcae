"""The learning-rate finder: what it tries, what it gives back, and what it draws."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, train
from tests.train.standins import Rows, line, linear


def states(model: train.Model) -> list[Any]:
    return [p.asnumpy().tolist() for p in model.train_network.get_parameters()]


def test_it_tries_rising_rates_and_gives_every_state_back(capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = linear(0.3)
    model.train(1, Rows(*line(12)))  # so that there is a step and a counter to keep
    before = states(model)
    finder = train.LearningRateFinder(1e-4, 100.0, 40)
    model.train(50, Rows(*line(12), batch=12), finder)
    assert states(model) == before
    assert math.isclose(model.train_network.optimizer.learning_rate.item(), 0.3, rel_tol=1e-6)
    ratios = np.divide(finder.rates[1:], finder.rates[:-1])
    np.testing.assert_allclose(ratios, (100.0 / 1e-4) ** (1 / 39), rtol=1e-6)
    assert finder.rates[0] == 1e-4 and len(finder.rates) <= 40
    assert finder.suggestion is not None and 1e-2 < finder.suggestion < 2
    assert capsys.readouterr().out == finder.summary() + "\n"
    assert finder.summary().endswith(f"learning rates, the loss falls fastest at {finder.suggestion:.3g}.")
    again = train.LearningRateFinder(1e-4, 100.0, 40, verbose=False)
    model.train(50, Rows(*line(12), batch=12), again)
    assert again.losses == finder.losses
    assert capsys.readouterr().out == ""


def test_it_stops_where_the_loss_is_lost() -> None:
    model, _ = linear(0.3)
    finder = train.LearningRateFinder(1e-2, 1e6, 200, smoothing=0.0, verbose=False)
    model.train(100, Rows(*line(12)), finder)
    assert len(finder.rates) < 200 and finder.losses[-1] > 4 * min(finder.losses)


def test_a_run_that_fails_gives_its_states_back() -> None:
    def fail(run: Any) -> None:
        raise RuntimeError("stop here")

    model, _ = linear(0.3)
    before = states(model)
    finder = train.LearningRateFinder(verbose=False)
    with pytest.raises(RuntimeError, match="stop here"):
        model.train(9, Rows(*line(12)), [finder, train.LambdaCallback(on_train_step_end=fail)])
    assert states(model) == before


def test_too_few_epochs_are_told() -> None:
    model, _ = linear(0.3)
    finder = train.LearningRateFinder(steps=50, verbose=False)
    with pytest.warns(UserWarning, match="tried 3 of 50 rates; give the run more epochs"):
        model.train(1, Rows(*line(12)), finder)


def test_steps_that_are_skipped_count_for_nothing() -> None:
    net = nn.Dense(3, 2, weight_init="zeros")
    manager = graphls.FixedLossScaleManager(4.0)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    model = train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", loss_scale_manager=manager)
    x, y = line(8)
    x[:], y[:] = 1, 1  # all batches have one loss, so that none ends the search
    x[2:4] = np.inf
    finder = train.LearningRateFinder(1e-3, 1e-2, 4, verbose=False)
    model.train(1, Rows(x, y, batch=2, shuffle=False), finder)
    assert len(finder.rates) == 3 and np.isfinite(finder.losses).all()


def test_it_draws_a_page(tmp_path: Path) -> None:
    model, _ = linear(0.3)
    finder = train.LearningRateFinder(1e-4, 10.0, 20, verbose=False)
    model.train(9, Rows(*line(12)), finder)
    finder.write(tmp_path / "rates.html")
    text = (tmp_path / "rates.html").read_text()
    assert finder.summary() in text and text.count("<tr>") == len(finder.rates) + 1
    assert ">0.001</text>" in text  # a power of ten on the axis of rates
    assert finder._repr_html_() in text


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"lowest": 1.0, "highest": 0.1}, ValueError, "'lowest' must be below 'highest'"),
        ({"lowest": 0}, ValueError, "lowest"),
        ({"steps": 0}, ValueError, "steps"),
        ({"smoothing": 1.0}, ValueError, "smoothing"),
        ({"limit": 0.5}, ValueError, "limit"),
        ({"verbose": 1}, TypeError, "verbose"),
    ],
)
def test_what_does_not_fit(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        train.LearningRateFinder(**settings)


def test_rates_that_are_no_number_and_the_sink_mode_are_refused() -> None:
    with pytest.raises(ValueError, match="LearningRateFinder changes one learning rate that is a number"):
        linear([0.1, 0.2])[0].train(1, Rows(*line(12)), train.LearningRateFinder())
    with pytest.raises(ValueError, match="give dataset_sink_mode=False"):
        linear()[0].train(1, Rows(*line(12)), train.LearningRateFinder(), dataset_sink_mode=True)
