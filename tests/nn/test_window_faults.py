"""Windows that users get wrong: each is a compile error with the sentence that fits and the user's own lines."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import VerifyError

MODES = ("outputs", "window")
BACKENDS = ("numpy", "onnxruntime")
X, Y = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)


class Interleaved(nn.TrainOneStepWithLossScaleCell):
    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        first, scale = self.start_overflow_check(loss, self.scale_sense)  # FIRST
        grads = self.grad(self.network, self.weights)(*inputs, scale)
        second, _ = self.start_overflow_check(first, scale)  # SECOND
        in_first = self.get_overflow_status(first, grads)
        in_second = self.get_overflow_status(second, grads)  # FAULT
        overflow = self.process_loss_scale(ops.logical_or(in_first, in_second))
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale


class OpensLate(nn.TrainOneStepWithLossScaleCell):
    """The gradients are there before the window opens, and are not looked at."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)  # FAULT
        grads = self.grad(self.network, self.weights)(*inputs, self.scale_sense)
        status, scale = self.start_overflow_check(grads, self.scale_sense)
        overflow = self.process_loss_scale(self.get_overflow_status(status, scale))  # READ
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale


class ClosesEarly(nn.TrainOneStepWithLossScaleCell):
    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)  # FIRST
        cond = self.get_overflow_status(status, loss)  # FAULT
        grads = self.grad(self.network, self.weights)(*inputs, scale)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale


class UpdatesAnyway(nn.TrainOneStepWithLossScaleCell):
    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, scale)
        overflow = self.process_loss_scale(self.get_overflow_status(status, grads))  # READ
        return ops.depend(loss, self.optimizer(grads)), overflow, scale  # FAULT


class ChecksHalf(nn.TrainOneStepWithLossScaleCell):
    """The last gradient is not looked at."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)  # FAULT
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, scale)
        overflow = self.process_loss_scale(self.get_overflow_status(status, grads[:1]))  # READ
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale


class AveragesAnyway(nn.MFTrainOneStepCell):
    """The update is skipped, what is written besides it is not."""

    def __init__(self, network: Any, optimizer: Any, scale_sense: Any) -> None:
        super().__init__(network, optimizer, scale_sense=scale_sense)
        self.norm = graphls.Parameter(np.float32(0), name="norm", requires_grad=False)

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, scale)
        overflow = self.process_loss_scale(self.get_overflow_status(status, grads))  # READ
        norm = ops.assign(self.norm, self.clip_grad_norm.norm(grads))  # FAULT
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, norm


def line(kind: type, mark: str) -> str:
    """Where a line of a class is marked, as messages name it."""
    lines, start = inspect.getsourcelines(kind)
    return f"tests/nn/test_window_faults.py:{start + next(i for i, text in enumerate(lines) if f'# {mark}' in text)}"


def made(kind: Any, scale: Any = None) -> Any:
    net = nn.Dense(4, 3)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    return kind(nn.WithLossCell(net, nn.MSELoss()), optimizer, scale or nn.DynamicLossScaleUpdateCell(16, 2, 3))


UNCOVERED = r"is written with %\S+ \({FAULT}\), which the status %\S+ \({READ}\) does not cover: its window closes"
FAULTS = [
    (Interleaved, r"The window of %\S+ \({SECOND}\) interleaves with that of %\S+ \({FIRST}\): read the status of one"),
    (OpensLate, UNCOVERED),
    (ClosesEarly, r"is checked here, but not computed inside the window of %\S+ \({FIRST}\)"),
    (UpdatesAnyway, r"is written \({FAULT}\) before the status %\S+ \({READ}\) is read, so no overflow can be skipped"),
    (ChecksHalf, UNCOVERED),
    (AveragesAnyway, r"@norm is written \({FAULT}\) before the status %\S+ \({READ}\) is read, so no overflow can be"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "text"), FAULTS)
def test_a_faulty_window_does_not_compile(kind: Any, text: str, mode: str) -> None:
    for mark in ("FIRST", "SECOND", "FAULT", "READ"):
        if f"{{{mark}}}" in text:
            text = text.replace(f"{{{mark}}}", r"\S*" + line(kind, mark).replace(".", r"\."))
    cell = made(kind)
    kept = {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}
    with pytest.raises(VerifyError, match=text) as caught:
        graphls.compile(cell, X, Y, backend="numpy", overflow_mode=mode)
    assert isinstance(caught.value, ValueError)
    assert line(kind, "FAULT") in str(caught.value)
    assert kept == {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


class TwoSteps(nn.Cell):
    """Two training steps, one after the other, as for two networks that train each other."""

    def __init__(self, kind: Any) -> None:
        super().__init__(auto_prefix=False)
        self.first, self.second = nn.Dense(4, 3, weight_init="ones"), nn.Dense(3, 3, weight_init="ones")
        together = nn.WithLossCell(nn.SequentialCell(self.first, self.second), nn.MSELoss())
        self.step_first = self.made(kind, nn.WithLossCell(self.first, nn.MSELoss()), self.first)
        self.step_second = self.made(kind, together, self.second)

    @staticmethod
    def made(kind: Any, loss: Any, trained: Any) -> Any:
        optimizer = nn.SGD(trained.trainable_params(), 0.01)
        return kind(loss, optimizer, nn.DynamicLossScaleUpdateCell(8, 2, 100))

    def construct(self, x: Any, y: Any) -> Any:
        return self.step_first(x, y), self.step_second(x, y)


class Automatic(nn.TrainOneStepWithLossScaleCell):
    """A step that leaves the windows to the compiler."""

    def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
        return graphls.Tensor(np.zeros(8, np.int32)), compute_input


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [nn.TrainOneStepWithLossScaleCell, Automatic])
def test_two_steps_in_one_cell(kind: Any, mode: str, backend: str) -> None:
    cell = TwoSteps(kind)
    step = graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)
    for part, before in zip(step(X, Y), (cell.first, cell.second), strict=True):
        assert not bool(part[1]) and float(part[2]) == 8 and before.weight.asnumpy().max() < 1
    kept = [p.asnumpy().tobytes() for p in cell.trainable_params()]
    broken = np.full_like(X, np.inf)
    assert [(bool(part[1]), float(part[2])) for part in step(broken, Y)] == [(True, 4.0)] * 2
    assert kept == [p.asnumpy().tobytes() for p in cell.trainable_params()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_the_step_that_overflows_is_skipped(backend: str) -> None:
    cell = TwoSteps(nn.TrainOneStepWithLossScaleCell)
    cell.second.weight.set_data(np.full((3, 3), 3e38, np.float32))
    (_, in_first, _), (_, in_second, scale) = graphls.compile(cell, X, Y, backend=backend)(X, Y)
    assert not bool(in_first) and bool(in_second) and float(scale) == 4
    assert cell.first.weight.asnumpy().max() < 1 and cell.second.weight.asnumpy().min() == np.float32(3e38)
