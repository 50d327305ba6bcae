"""Files that released versions have written: this version reads them, and a training goes on from them.

`python -m tests.files.test_released` writes those of a new version, beside the others, which stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint

FOLDER = Path(__file__).with_name("released")
VERSIONS = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.exists() else []
CHECKPOINTS = ("step.ckpt", "step.safetensors")
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
Y = np.linspace(1, 0, 8, dtype=np.float32).reshape(4, 2)


def training() -> nn.Cell:
    """A step with dropout, an optimizer with two moments, a schedule and dynamic loss scaling."""
    graphls.set_seed(5)
    net = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Dropout(p=0.25), nn.Dense(4, 2))
    loss = nn.WithLossCell(net.to_float(graphls.float16), nn.MSELoss())
    optimizer = nn.Adam(net.trainable_params(), nn.ExponentialDecayLR(0.1, 0.9, 2))
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2.0**10, 2, 2)).set_train()


def results(step: Any, count: int = 3) -> list[list[float]]:
    return [[float(value) for value in step(X, Y)] for _ in range(count)]


def write(folder: Path) -> None:
    """Write a graph as text, a bundle, and checkpoints in both formats, with what the next steps return."""
    folder.mkdir(parents=True)
    cell = training()
    step = graphls.compile(cell, X, Y)
    results(step)
    (folder / "step.ir").write_text(str(step.graph), encoding="utf-8")
    step.export(folder / "bundle")
    for name in CHECKPOINTS:
        state = {"random_state": graphls.random.random_state()}
        save_checkpoint(cell, folder / name, append_dict=state, format=name.partition(".")[2])
    (folder / "next.json").write_text(json.dumps(results(step)) + "\n")


@pytest.fixture(params=VERSIONS)
def released(request: pytest.FixtureRequest) -> Path:
    return FOLDER / str(request.param)


def expected(folder: Path) -> Any:
    """What the next steps return: the same overflow flags and scales, and losses up to roundings of other kernels."""
    return pytest.approx(np.array(json.loads((folder / "next.json").read_text())), rel=2e-3)


def test_there_are_files_of_this_version() -> None:
    assert graphls.__version__ in VERSIONS


def test_text_is_read_and_written_as_it_was(released: Path) -> None:
    text = (released / "step.ir").read_text(encoding="utf-8")
    assert str(graphls.parse(text)) == text


def test_a_bundle_trains_on(released: Path) -> None:
    assert np.array(results(graphls.load_step(released / "bundle"))) == expected(released)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_training_goes_on_from_a_checkpoint(released: Path, name: str) -> None:
    """Every parameter has the name that it had, those of the optimizer and of the loss scale included."""
    cell = training()
    missing, unused = load_param_into_net(cell, load_checkpoint(released / name), strict_load=True)
    assert not missing and not unused
    assert np.array(results(graphls.compile(cell, X, Y))) == expected(released)


if __name__ == "__main__":
    write(FOLDER / graphls.__version__)
