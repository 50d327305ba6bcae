"""Trials of `engine="auto"` with the engines that are installed: whichever they choose, the step is as without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphls
from benchmarks.peers import graphls_networks as networks
from graphls import nn
from graphls.runtime import engine_choice
from graphls.runtime.cache import Cache
from tests.backends.test_engine_choice import sessions_left_by_a_trial

X = np.random.default_rng(0).normal(size=(8, 1, 32, 32)).astype(np.float32)
Y = np.arange(8, dtype=np.int32) % 10


@pytest.fixture(autouse=True)
def own_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices in a folder of the test, by trials that take no longer than they must."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GRAPHLS_CACHE", raising=False)
    monkeypatch.setattr(engine_choice, "_unwritten", {})
    monkeypatch.setattr("graphls.runtime.engine_trial.SECONDS", 0.0)
    Cache.has_warned.clear()


def compiled(engine: str) -> graphls.Compiled:
    """A step with loss scaling of a network whose weights are the same in every call."""
    net = networks.lenet(10)
    random = np.random.default_rng(1)
    for parameter in net.get_parameters():
        parameter.set_data(graphls.Tensor(random.normal(size=parameter.shape).astype(np.float32) * 0.1))
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    scale = nn.DynamicLossScaleUpdateCell(2.0**10, 2, 3)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, scale)
    return graphls.compile(cell.set_train(), X, Y, engine=engine)


def trained(step: graphls.Compiled) -> tuple[list[bytes], list[bytes]]:
    """The bits of the results of some steps, and of the states behind them."""
    results = [np.asarray(result.asnumpy()).tobytes() for _ in range(4) for result in step(X, Y)]
    return results, [parameter.asnumpy().tobytes() for parameter in step.parameters.values()]


def test_a_step_that_was_tried_has_the_bits_of_one_that_was_not() -> None:
    step = compiled("auto")
    choice = step.engine_choice
    assert choice is not None
    assert {"onnxruntime", "onednn"} <= choice.seconds.keys()
    assert all(choice.seconds.values())
    assert trained(step) == trained(compiled(choice.engine))


@pytest.mark.parametrize("engine", ["onnxruntime", "onednn"])
def test_the_session_of_a_trial_is_closed_when_it_ends(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sessions_left_by_a_trial(compiled(engine)._step, monkeypatch, X, Y) == [None]
