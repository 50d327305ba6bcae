"""A training that is stopped, saved and begun anew goes on with the bits of one that was not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.frontend.tensors.random import random_state
from graphls.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
from tests.nn.test_optimizers_in_steps import BACKENDS, KINDS, RATES

F32 = np.float32
STEPS, STOPS = 8, (1, 5)
Step = Callable[..., Any]


class Net(nn.Cell):
    """Dropout, batch normalisation, and float16 that overflows where the scale is large."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(4, 8).to_float(graphls.float16)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(p=0.4)
        self.outer = nn.Dense(8, 4).to_float(graphls.float16)

    def construct(self, x: Any) -> Any:
        return self.outer(self.dropout(self.norm(self.inner(x)))).astype(graphls.float32)


def batch(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    return rng.normal(size=(6, 4)).astype(F32), rng.normal(size=(6, 4)).astype(F32)


def training(kind: str, backend: str, rate: str = "number", build: Any = None) -> tuple[nn.Cell, Step]:
    net = Net()
    optimizer = KINDS[kind][0](net.trainable_params(), RATES[rate]())
    network = nn.WithLossCell(net, nn.MSELoss())
    manager = nn.DynamicLossScaleUpdateCell(2.0**19, 2, 2)
    cell = (build or nn.TrainOneStepWithLossScaleCell)(network, optimizer, manager)
    cell.set_train()
    return cell, graphls.compile(cell, *batch(0), backend=backend)


def results(outputs: Any) -> list[bytes]:
    return [tensor.asnumpy().tobytes() for tensor in outputs if tensor is not None]


def state(cell: nn.Cell) -> dict[str, bytes]:
    return {p.name: p.asnumpy().tobytes() for p in (*cell.get_parameters(), random_state())}


def whole_run(made: tuple[nn.Cell, Step], folder: Path, format: str = "ckpt") -> tuple[list[list[bytes]], int]:
    """The results of every step, saved after each; and how many steps overflowed."""
    cell, step = made
    found, overflows = [], 0
    for number in range(STEPS):
        outputs = step(*batch(number))
        overflows += bool(outputs[1])
        found.append(results(outputs))
        save_checkpoint(cell, folder / str(number + 1), append_dict={"random_state": random_state()}, format=format)
    return found, overflows


def rest_of_run(made: tuple[nn.Cell, Step], file: Path, start: int) -> list[list[bytes]]:
    """The results from a saved step on; the new step has run before, so what it has bound is out of date."""
    cell, step = made
    step(*batch(100))
    missing, superfluous = load_param_into_net(cell, load_checkpoint(file), strict_load=True)
    assert missing == [] and superfluous == []
    return [results(step(*batch(number))) for number in range(start, STEPS)]


def assert_resumes(folder: Path, make: Callable[[], tuple[nn.Cell, Step]], format: str = "ckpt") -> None:
    graphls.set_seed(3)
    first = make()
    expected, overflows = whole_run(first, folder, format)
    final = state(first[0])
    assert 0 < overflows < STEPS
    graphls.set_seed(99)
    second = make()
    for stop in STOPS:
        graphls.set_seed(99)
        assert rest_of_run(second, folder / f"{stop}.{format}", stop) == expected[stop:]
        assert state(second[0]) == final


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimizer_resumes_bit_for_bit(tmp_path: Path, kind: str) -> None:
    assert_resumes(tmp_path, lambda: training(kind, BACKENDS[sorted(KINDS).index(kind) % 2]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "rate"), [("Momentum", "list"), ("Adam", "cell")])
def test_schedules_resume(tmp_path: Path, backend: str, kind: str, rate: str) -> None:
    assert_resumes(tmp_path, lambda: training(kind, backend, rate), "safetensors")


@pytest.mark.parametrize("backend", BACKENDS)
def test_accumulated_gradients_averages_and_windows_that_adapt_resume(tmp_path: Path, backend: str) -> None:
    def build(network: nn.Cell, optimizer: nn.Cell, _: Any) -> nn.Cell:
        manager = nn.AdaptiveLossScaleUpdateCell(2.0**18, 2, 2, 8, 2)
        return nn.MFTrainOneStepCell(
            network, optimizer, True, 0.5, manager, gradient_accumulation_steps=2, ema_decay=0.9, local_norm=False
        )

    assert_resumes(tmp_path, lambda: training("AdamW", backend, build=build))


def test_every_optimizer_of_the_package_is_tried() -> None:
    public = {getattr(nn, name) for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    offered = {kind for kind in public if issubclass(kind, nn.Optimizer)} - {nn.Optimizer}
    tried = {type(make([graphls.Parameter(np.ones((2, 2), F32), name="w")], 0.1)) for make, _ in KINDS.values()}
    assert tried == offered


def test_dropout_does_not_resume_without_the_random_state(tmp_path: Path) -> None:
    graphls.set_seed(3)
    expected, _ = whole_run(training("Adam", "numpy"), tmp_path)
    graphls.set_seed(99)
    cell, step = training("Adam", "numpy")
    parameters = load_checkpoint(tmp_path / "5.ckpt", net=cell, filter_prefix="random_state")
    assert "random_state" not in parameters
    assert results(step(*batch(5))) != expected[5]


IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
import graphls
from tests.train import test_resume as t
graphls.set_seed(12345)
made = t.training("Adam", "onnxruntime")
t.rest_of_run(made, Path(sys.argv[1]), 5)
t.save_checkpoint(made[0], sys.argv[2], append_dict={"random_state": t.random_state()})
"""


def test_a_new_process_resumes(tmp_path: Path) -> None:
    graphls.set_seed(3)
    whole_run(training("Adam", "onnxruntime"), tmp_path)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path / "5.ckpt"), str(tmp_path / "other.ckpt")]
    subprocess.run(command, cwd=root, check=True, timeout=600)
    assert (tmp_path / "other.ckpt").read_bytes() == (tmp_path / f"{STEPS}.ckpt").read_bytes()
