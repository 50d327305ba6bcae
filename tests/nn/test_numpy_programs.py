"""Training steps and optimizers against a NumPy program, over many steps of which some overflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.nn import descent
from tests.nn.numpy_training import FACTORS, MASK, DynamicScale, FixedScale, Network, Training, batches, initial_weights

STEPS = 50
RATES = [0.005] * 20 + [0.002] * 20


class Net(nn.Cell):
    """The network of the NumPy program, with its loss."""

    def __init__(self, half: bool, seed: int) -> None:
        super().__init__()
        for name, value in initial_weights(seed).items():
            setattr(self, name, graphls.Parameter(value, name=name))
        if half:
            self.to_float(graphls.float16)

    def construct(self, x: Any, y: Any) -> Any:
        units = ops.square(ops.matmul(x, self.w1) + self.b1)
        counted = ops.where(MASK, units, 0.0) * graphls.Tensor(FACTORS, units.dtype)
        outputs = ops.matmul(counted, self.w2) * self.gamma
        return ops.mean(ops.square(ops.cast(outputs, graphls.float32) - ops.cast(y, graphls.float32)))


def single(number: float) -> float:
    """A number as float32 holds it."""
    return float(np.float32(number))


BETAS = {"beta1": single(0.9), "beta2": single(0.99)}
OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sgd": (nn.SGD, descent.SGD, {}),
    "sgd momentum": (nn.SGD, descent.SGD, {"momentum": 0.9, "weight_decay": 0.01}),
    "sgd dampening": (nn.SGD, descent.SGD, {"momentum": 0.8, "dampening": 0.3}),
    "sgd nesterov": (nn.SGD, descent.SGD, {"momentum": 0.9, "nesterov": True}),
    "momentum": (nn.Momentum, descent.Momentum, {"momentum": 0.9}),
    "momentum decay": (nn.Momentum, descent.Momentum, {"momentum": 0.9, "weight_decay": 0.02}),
    "momentum nesterov": (nn.Momentum, descent.Momentum, {"momentum": 0.9, "use_nesterov": True}),
    "adam": (nn.Adam, descent.Adam, BETAS),
    "adam decay": (nn.Adam, descent.Adam, {**BETAS, "weight_decay": 0.05, "eps": 1e-3}),
    "adam nesterov": (nn.Adam, descent.Adam, {**BETAS, "use_nesterov": True}),
    "adam amsgrad": (nn.Adam, descent.Adam, {**BETAS, "use_amsgrad": True}),
}


@dataclass(frozen=True)
class Case:
    """A training step, made with the scale that training starts with, and the settings of its program."""

    make: Callable[[Any, Any, float], nn.Cell]
    program: dict[str, Any]
    is_dynamic: bool = False

    def scale(self, start: float) -> FixedScale:
        return DynamicScale(start, 2, WINDOW) if self.is_dynamic else FixedScale(self.program["scale"])


def dynamic(net: Any, optimizer: Any, start: float, **settings: Any) -> nn.Cell:
    kind = nn.MFTrainOneStepCell if settings else nn.TrainOneStepWithLossScaleCell
    return kind(net, optimizer, scale_sense=nn.DynamicLossScaleUpdateCell(start, 2, WINDOW), **settings)


def formers(program: dict[str, Any], **settings: Any) -> Case:
    return Case(partial(dynamic, **settings), program, is_dynamic=True)


WINDOW = 6
PLAIN: dict[str, Case] = {
    "plain": Case(lambda n, o, _: nn.TrainOneStepCell(n, o), {"scale": 1.0, "skips": False}),
    "sens": Case(lambda n, o, _: nn.TrainOneStepCell(n, o, 8.0), {"scale": 8.0, "skips": False}),
}
SCALED: dict[str, Case] = {
    "fixed": Case(
        lambda n, o, _: nn.TrainOneStepWithLossScaleCell(n, o, nn.FixedLossScaleUpdateCell(64.0)), {"scale": 64.0}
    ),
    "tensor": Case(lambda n, o, _: nn.TrainOneStepWithLossScaleCell(n, o, graphls.Tensor([16.0])), {"scale": 16.0}),
    "number": Case(lambda n, o, _: nn.MFTrainOneStepCell(n, o, scale_sense=32), {"scale": 32.0}),
    "dynamic": Case(dynamic, {}, is_dynamic=True),
    "clip": formers({"limit": 2.0}, use_clip_grad=True, max_grad_norm=2.0),
    "accumulation": formers({"accumulates": 2}, gradient_accumulation_steps=2),
    "ema": formers({"ema_decay": 0.8}, ema_decay=0.8),
    "everything": formers(
        {"limit": 0.5, "accumulates": 3, "ema_decay": 0.9},
        use_clip_grad=True,
        max_grad_norm=0.5,
        gradient_accumulation_steps=3,
        ema_decay=0.9,
        local_norm=True,
    ),
}
STEP_CELLS = {**PLAIN, **SCALED}


def pair(step: str, optimizer: str, half: bool, watches: bool = False) -> tuple[nn.Cell, Any, Training]:
    """A training step, its network, and the NumPy program of both."""
    case, (make_optimizer, reference, options) = STEP_CELLS[step], OPTIMIZERS[optimizer]
    start = 2.0**18 if half else 2.0**122
    shared = {"loss_scale": 8.0} if step == "sens" else {}
    net = Net(half, seed=1)
    own = {name.removeprefix("use_"): value for name, value in options.items() if name != "weight_decay"}
    decay = options.get("weight_decay", 0.0)
    references = [
        reference(p.asnumpy(), RATES, 0.0 if p.name == "gamma" else decay, **shared, **own)
        for p in net.trainable_params()
    ]
    cell = case.make(net, make_optimizer(net.trainable_params(), learning_rate=RATES, **options, **shared), start)
    settings = {name: value for name, value in case.program.items() if name != "scale"}
    return cell, net, Training(Network(half), references, case.scale(start), watches=watches, **settings)


def breaks(number: int, rng: Any) -> bool:
    """Where the update can be skipped, one batch in five is broken."""
    return bool(rng.random() < 0.2)


def breaks_late(number: int, rng: Any) -> bool:
    """Where nothing is skipped, the end is."""
    return number == STEPS - 2


def same(found: Any, expected: Any) -> None:
    """Within a millionth of the largest element; infinities and nan in the same places."""
    finite = np.isfinite(expected)
    assert (np.isfinite(found) == finite).all()
    if finite.any():
        assert np.abs(found[finite] - expected[finite]).max() <= 1e-6 * np.abs(expected[finite]).max()


def follow(cell: Any, net: Any, program: Training, backend: str, mode: str) -> list[bool]:
    """Run both, compare after each step; returns the overflows."""
    data = batches(2, STEPS, breaks if program.skips else breaks_late)
    step = graphls.compile(cell, *data[0], backend=backend, overflow_mode=mode)
    overflows = []
    for x, y in data:
        loss, overflow, scale, norm = program.step(x, y)
        found = step(x, y)
        found = found if program.skips else (found,)
        np.testing.assert_allclose(found[0].asnumpy(), loss, rtol=1e-5, atol=1e-6)
        if program.skips:
            assert (bool(found[1]), found[2].asnumpy().reshape(()).item()) == (overflow, scale)
        if program.limit is not None:
            np.testing.assert_allclose(found[4].asnumpy(), np.float32(norm), rtol=1e-5)
        for parameter, reference in zip(net.trainable_params(), program.optimizer, strict=True):
            same(parameter.asnumpy(), reference.w)
        overflows.append(overflow)
    for shadow, average in zip(cell.ema.averages if program.ema_decay else (), program.averages, strict=False):
        same(shadow.asnumpy(), average)
    assert cell.optimizer.global_step.asnumpy().tolist() == [program.optimizer[0].t]
    assert program.optimizer[0].t >= 3 and sum(overflows) >= 5 * program.skips
    return overflows


PAIRS = [(s, o) for i, s in enumerate(STEP_CELLS) for j, o in enumerate(OPTIMIZERS) if (i + j) % 3 == 0]
"""Every step with three optimizers or more, and every optimizer with three steps or more."""


@pytest.mark.parametrize(("step", "optimizer"), PAIRS)
def test_float32(step: str, optimizer: str) -> None:
    follow(*pair(step, optimizer, half=False), "onnxruntime", "outputs")


@pytest.mark.parametrize("step", STEP_CELLS)
def test_float32_on_numpy_and_in_the_other_mode(step: str) -> None:
    follow(*pair(step, "adam decay", half=False), "numpy", "outputs")
    follow(*pair(step, "momentum", half=False), "onnxruntime", "window")


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("step", SCALED)
def test_float16(step: str, mode: str) -> None:
    for optimizer, backend in (("adam", "onnxruntime"), ("momentum nesterov", "numpy")):
        follow(*pair(step, optimizer, half=True, watches=mode == "window"), backend, mode)


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_float16_with_every_optimizer(optimizer: str, mode: str) -> None:
    follow(*pair("dynamic", optimizer, half=True, watches=mode == "window"), "onnxruntime", mode)


def test_a_window_sees_what_the_gradients_do_not() -> None:
    """The scale stays where the hidden unit's gradient is finite, which is lower."""
    found = {}
    for mode in ("outputs", "window"):
        cell, net, program = pair("dynamic", "sgd", half=True, watches=mode == "window")
        overflows = follow(cell, net, program, "onnxruntime", mode)
        found[mode] = sum(overflows), float(cell.scale_sense)
    assert found["window"][0] > found["outputs"][0] and found["window"][1] < found["outputs"][1]
