"""Steps of several kinds, each on both backends, to be profiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphls
from graphls import nn, ops

F32 = np.float32
BACKENDS = ["numpy", "onnxruntime"]
Built = tuple[graphls.Compiled, tuple[Any, ...]]


def trained(network: Any, x: Any, y: Any, backend: str, scale: float = 2.0**10, half: bool = True) -> Built:
    """A step of a network with loss scaling."""
    if half:
        network.to_float(graphls.float16)
    loss = nn.WithLossCell(network, nn.MSELoss())
    optimizer = nn.Momentum(loss.trainable_params(), 0.1, 0.9)
    manager = nn.DynamicLossScaleUpdateCell(scale, 2, 100)
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, manager).set_train()
    return graphls.compile(cell, x, y, backend=backend), (x, y)


def dropout(backend: str, scale: float = 2.0**10) -> Built:
    """Dense layers in float16 with dropout."""
    net = nn.SequentialCell(nn.Dense(4, 6), nn.ReLU(), nn.Dropout(p=0.5), nn.Dense(6, 3))
    return trained(net, np.ones((2, 4), F32), np.zeros((2, 3), F32), backend, scale)


def images(backend: str) -> Built:
    """Convolutions that ONNX Runtime fuses and lays out anew."""
    convolution, norm = nn.Conv2d(1, 8, 3, has_bias=True), nn.BatchNorm2d(8)
    net = nn.SequentialCell(convolution, nn.ReLU(), nn.MaxPool2d(2, 2), norm, nn.Flatten(), nn.Dense(128, 3))
    return trained(net, np.ones((2, 1, 8, 8), F32), np.zeros((2, 3), F32), backend, half=False)


def attention(backend: str) -> Built:
    """A transformer layer, whose products and slices ONNX Runtime fuses."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")
    return trained(layer, np.ones((2, 3, 8), F32), np.zeros((2, 3, 8), F32), backend, half=False)


class Recurrent(nn.Cell):
    """An LSTM, which is a scan."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)

    def construct(self, x: Any) -> Any:
        return self.lstm(x)[0]


def recurrent(backend: str) -> Built:
    """A recurrent network in float16."""
    return trained(Recurrent(), np.ones((2, 6, 4), F32), np.zeros((2, 6, 5), F32), backend)


def branches(backend: str) -> Built:
    """An `if` on a traced bool inside of another."""

    def function(x: Any) -> Any:
        if ops.sum(x) > 0:
            return ops.exp(x) if x[0] > 10 else ops.tanh(x)
        return -x

    x = np.ones(8, F32)
    return graphls.compile(function, x, backend=backend), (x,)


def loop(backend: str) -> Built:
    """A while loop that runs three times."""

    def function(x: Any) -> Any:
        return ops.while_loop(lambda v: ops.sum(v) < 50.0, lambda v: v * 2, x)

    x = np.ones(8, F32)
    return graphls.compile(function, x, backend=backend), (x,)


def accumulation(backend: str) -> Built:
    """A step that updates its parameters every third time, with clipping and averages."""
    net = nn.Dense(4, 3)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    settings = {"gradient_accumulation_steps": 3, "use_clip_grad": True, "ema_decay": 0.9}
    cell = nn.MFTrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, **settings)
    x, y = np.ones((2, 4), F32), np.zeros((2, 3), F32)
    return graphls.compile(cell, x, y, backend=backend), (x, y)


STEPS: dict[str, Callable[[str], Built]] = {
    "dropout": dropout,
    "images": images,
    "attention": attention,
    "recurrent": recurrent,
    "branches": branches,
    "loop": loop,
    "accumulation": accumulation,
}
