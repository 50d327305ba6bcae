"""Networks and steps whose overflows are known in advance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphls
from graphls import nn, ops

F32 = np.float32
BACKENDS = ["numpy", "onnxruntime"]
MODES = ["outputs", "window"]
X, Y = np.ones((2, 4), F32), np.zeros((2, 3), F32)


class Net(nn.Cell):
    """A function of x @ weight in a dtype, cast to float32; every element of x @ weight is 4 for ones."""

    def __init__(self, function: Callable[[Any], Any], dtype: Any = graphls.float16, name: str = "weight") -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones((4, 3), F32), name=name)
        self.function = function
        if dtype is not None:
            self.to_float(dtype)

    def construct(self, x: Any) -> Any:
        return ops.cast(self.function(ops.matmul(x, self.weight)), graphls.float32)


def scaled_cell(net: Any, scale: float = 2.0**24, manager: Any = None, loss: Any = None) -> Any:
    """A training step of a network with loss scaling, by a cell that halves the scale unless another is given."""
    manager = manager if manager is not None else nn.DynamicLossScaleUpdateCell(scale, 2, 100)
    network = nn.WithLossCell(net, loss or nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepWithLossScaleCell(network, optimizer, manager)


def scaled_step(function: Callable[[Any], Any], backend: str, mode: str = "outputs", **options: Any) -> Any:
    """A compiled step of Net with loss scaling."""
    net = Net(function, options.pop("dtype", graphls.float16))
    return graphls.compile(scaled_cell(net, **options), X, Y, backend=backend, overflow_mode=mode)


def state_bytes(step: Any) -> dict[str, bytes]:
    """Every bit of every state of a step."""
    return {name: p.asnumpy().tobytes() for name, p in step.parameters.items()}


def skips_at(step: Any, scale: float, *inputs: Any) -> bool:
    """Whether a step is skipped at a scale; its parameters are put back, its scale is not."""
    before = {name: p.asnumpy() for name, p in step.parameters.items()}
    step.parameters["scale_sense"].set_data(np.array(scale, F32))
    skipped = bool(step(*inputs)[1])
    for name, array in before.items():
        step.parameters[name].set_data(array)
    return skipped


def identity(x: Any) -> Any:
    return x


