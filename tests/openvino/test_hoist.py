"""The slope of a gelu is made in the forward pass, where only it and the result are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.runtime.openvino.hoist import hoistable_values

pytest.importorskip("openvino")
ROWS, SIZE = 128, 160


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.rise, self.fall = nn.Dense(SIZE, SIZE), nn.Dense(SIZE, SIZE)

    def construct(self, x: Any) -> Any:
        return ops.sum(ops.square(self.fall(ops.gelu(self.rise(x), "tanh"))))


def step_of(scaled: bool) -> Any:
    network = Network()
    optimizer = nn.SGD(network.trainable_params(), 1e-4)
    if scaled:
        return nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.FixedLossScaleUpdateCell(8))
    return nn.TrainOneStepCell(network, optimizer)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_result_and_the_slope_leave_the_kernel_that_makes_a_gelu(scaled: bool, parts: list[Any]) -> None:
    x = np.ones((ROWS, SIZE), np.float32)
    graphls.compile(step_of(scaled), x, engine="openvino")
    model = parts[0].compiled.get_runtime_model()
    kernels = [o for o in model.get_ops() if "sigmoid" in o.get_rt_info()["originalLayersNames"].astype(str).lower()]
    assert [len(kernel.outputs()) for kernel in kernels] == [2]
    assert len(hoistable_values(parts[0].graph)) == 1


@pytest.mark.parametrize("scaled", [False, True])
def test_numbers_are_those_of_numpy(scaled: bool) -> None:
    x = np.linspace(-9, 9, ROWS * SIZE, dtype=np.float32).reshape(ROWS, SIZE)
    found = []
    for options in ({"engine": "openvino"}, {"backend": "numpy"}):
        graphls.set_seed(1)
        step = graphls.compile(step_of(scaled), x, **options)
        losses = [np.float64((r[0] if scaled else r).asnumpy()) for r in (step(x), step(x))]
        found.append(losses)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_a_choice_that_never_holds_keeps_what_is_not_finite(parts: list[Any]) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2, *np.zeros(1 << 15)], np.float32)
    doubled = ops.value_and_grad(lambda x: ops.gelu(x, "tanh") * 2)
    values = [
        graphls.compile(lambda x: doubled(x), x, **options)(x)
        for options in ({"engine": "openvino"}, {"backend": "numpy"})
    ]
    assert hoistable_values(parts[0].graph)
    for found, wanted in zip(*values, strict=True):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5)
