"""Nothing waits for a step before its result is read: reads of what a device holds are counted.

The device is one that this test makes up: its buffers lie in host memory, but only DeviceBuffers lead to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base.sharing.storage import Storage
from graphls.runtime.buffers import DeviceBuffer
from tests.cuda.double import make_up_a_gpu

F32 = np.float32
STEPS = 20


class Net(nn.Cell):
    """A network with a random mask and moving averages, and its loss."""

    def __init__(self, keeps_all: bool) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 8)
        self.bn = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(p=0.0 if keeps_all else 0.5)
        self.out = nn.Dense(8, 3)

    def construct(self, x: Any, y: Any) -> Any:
        return ops.mean(ops.square(self.out(self.drop(self.bn(self.fc(x)))) - y))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows with every read of a buffer of the device, which the fixture makes up."""
    make_up_a_gpu(monkeypatch)
    found: list[str] = []
    read = DeviceBuffer.numpy
    monkeypatch.setattr(DeviceBuffer, "numpy", lambda buffer: found.append("read") or read(buffer))
    return found


MANAGERS: dict[str, Any] = {
    "dynamic": lambda: nn.DynamicLossScaleUpdateCell(16, 2, 3),
    "fixed": lambda: nn.FixedLossScaleUpdateCell(16),
    "tensor": lambda: graphls.Tensor([16.0]),
}
EXTRAS: dict[str, Any] = {
    "base": None,
    "formers": {},
    "everything": {"use_clip_grad": True, "local_norm": True, "gradient_accumulation_steps": 2, "ema_decay": 0.9},
}


def training_step(manager: str, extra: str, keeps_all: bool) -> Any:
    net = Net(keeps_all)
    optimizer = nn.Adam(net.trainable_params(), [0.01, 0.02, 0.03])
    scale = MANAGERS[manager]()
    if EXTRAS[extra] is None:
        return nn.TrainOneStepWithLossScaleCell(net, optimizer, scale).set_train()
    return nn.MFTrainOneStepCell(net, optimizer, scale_sense=scale, **EXTRAS[extra]).set_train()


def batches() -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    made = [(rng.normal(size=(6, 4)).astype(F32), rng.normal(size=(6, 3)).astype(F32)) for _ in range(STEPS)]
    made[7][0][2, 1] = np.inf
    return made


@pytest.mark.parametrize("keeps_all", [True, False], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("manager", MANAGERS)
def test_a_device_is_waited_for_only_by_who_reads(manager: str, extra: str, keeps_all: bool, reads: list[str]) -> None:
    cell = training_step(manager, extra, keeps_all)
    data = batches()
    step = graphls.compile(cell, *data[0], device="cuda")
    results = [step(x, y) for x, y in data]
    assert reads == []
    overflows = [bool(result[1]) for result in results]
    assert len(reads) == STEPS and overflows[7]
    assert [bool(result[1]) for result in results] == overflows and len(reads) == STEPS
    scale = float(cell.scale_sense)
    assert len(reads) == STEPS + 1 and scale == float(results[-1][2])


def test_the_random_state_is_read_again_only_after_somebody_has_set_it(reads: list[str]) -> None:
    data = batches()
    graphls.set_seed(1)
    step = graphls.compile(training_step("dynamic", "base", keeps_all=False), *data[0], device="cuda")
    for x, y in data:
        step(x, y)
    graphls.set_seed(2)
    for x, y in data:
        step(x, y)
    assert reads == []


def test_a_called_cell_does_not_wait_either(reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHLS_DEVICE", "cuda")
    cell = training_step("dynamic", "base", keeps_all=False)
    data = [tuple(map(graphls.Tensor, batch)) for batch in batches()]
    for x, y in data[:3]:
        cell(x, y)
    assert reads == []


@pytest.mark.parametrize("extra", EXTRAS)
def test_no_state_is_read_on_a_cpu_either(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batches()
    step = graphls.compile(training_step("dynamic", extra, keeps_all=False), *data[0])
    step(*data[0])
    found: list[Storage] = []
    read = Storage.read
    monkeypatch.setattr(Storage, "read", lambda storage: found.append(storage) or read(storage))
    for x, y in data[1:]:
        step(x, y)
    assert found == []
