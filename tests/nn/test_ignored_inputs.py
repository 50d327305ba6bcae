"""Under loss scaling, a network whose forward ignores what its backward reads is a legal step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

X = np.ones(3, np.float32)


class Ignores(nn.Cell):
    def construct(self, a: Any, b: Any) -> Any:
        return a * 2.0

    def bprop(self, a: Any, b: Any, out: Any, sensitivity: Any) -> Any:
        return sensitivity * b, sensitivity * a


class IgnoresOfTwo(nn.Cell):
    def construct(self, a: Any, b: Any) -> Any:
        return a * 2.0, a + 1.0

    def bprop(self, a: Any, b: Any, out: Any, sensitivity: Any) -> Any:
        return sensitivity[0] * b + sensitivity[1], sensitivity[1] * a * b


def first_of_two(a: Any, b: Any) -> Any:
    return ops.add(*IgnoresOfTwo()(a, b))


def masked(a: Any, b: Any) -> Any:
    return ops.where(graphls.Tensor(np.ones(3, bool)), a, b * b)


def chosen(a: Any, b: Any) -> Any:
    return ops.cond(graphls.Tensor(True), lambda: a, lambda: b * b)


KINDS: dict[str, Callable[[], Any]] = {
    "bprop": Ignores,
    "bprop of two results": lambda: first_of_two,
    "mask": lambda: masked,
    "branch": lambda: chosen,
}


class Net(nn.Cell):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.w = graphls.Parameter(X.copy(), name="w")
        self.v = graphls.Parameter(X * np.float32(0.5), name="v")
        self.inner = KINDS[kind]()

    def construct(self, x: Any) -> Any:
        return ops.sum(self.inner(self.w * x, ops.exp(self.v)))


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_with_loss_scaling_gives_what_one_without_gives(kind: str, mode: str, backend: str) -> None:
    nets = Net(kind), Net(kind)
    plain, scaled = (nn.SGD(net.trainable_params(), 0.1) for net in nets)
    step = graphls.compile(nn.TrainOneStepCell(nets[0], plain), X, backend=backend)
    cell = nn.TrainOneStepWithLossScaleCell(nets[1], scaled, nn.FixedLossScaleUpdateCell(4.0))
    other = graphls.compile(cell, X, backend=backend, overflow_mode=mode)
    for _ in range(2):
        assert float(step(X)) == pytest.approx(float(other(X)[0]))
    for expected, found in zip(nets[0].trainable_params(), nets[1].trainable_params(), strict=True):
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-6)
