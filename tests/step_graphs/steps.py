"""The steps: a small network of each kind with loss scaling and an optimizer, and their graphs behind all passes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphls
from graphls import nn, ops
from graphls.ir.graph import Graph
from graphls.ir.text import dump

HERE = Path(__file__).parent
RNG = np.random.default_rng(0)


class Block(nn.Cell):
    """A residual block of two convolutions with batch norm; the sum is cut off at 0."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.SequentialCell(
            nn.Conv2d(inputs, outputs, 3, stride, has_bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, has_bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.SequentialCell(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def construct(self, x: Any) -> Any:
        return ops.relu(self.first(x) + self.shortcut(x))


class Words(nn.Cell):
    """Scores of the next word by a transformer encoder or an LSTM over embedded words."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.table = nn.Embedding(11, 8)
        self.norm = nn.LayerNorm((8,))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.body = nn.LSTM(8, 8, batch_first=True) if kind == "lstm" else nn.TransformerEncoder(layer, 2)
        self.head = nn.Dense(8, 11)

    def construct(self, words: Any) -> Any:
        x = self.table(words)
        x = self.body(x)[0] if self.kind == "lstm" else self.body(x)
        return ops.reshape(self.head(self.norm(x)), (-1, 11))


def _lenet() -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(), nn.Dense(64, 16), nn.ReLU(), nn.Dense(16, 10)
    )


def _resnet() -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(1, 4, 3), Block(4, 4, 1), Block(4, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(8, 10)
    )


def _step(network: nn.Cell, optimizer: nn.Optimizer) -> nn.Cell:
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**12, 2, 100)).set_train()


def _images() -> tuple[Any, Any]:
    return RNG.normal(size=(2, 1, 8, 8)).astype(np.float32), np.int32([1, 2])


def _texts() -> tuple[Any, Any]:
    return RNG.integers(0, 11, (2, 5)).astype(np.int32), RNG.integers(0, 11, 10).astype(np.int32)


def _graph(network: nn.Cell, optimizer: Callable[[Any], nn.Optimizer], inputs: tuple[Any, Any]) -> Graph:
    network.to_float(graphls.float16)
    step = _step(network, optimizer(network.trainable_params()))
    return graphls.compile(step, *inputs, backend="numpy").graph


def _momentum(params: Any) -> nn.Optimizer:
    return nn.Momentum(params, learning_rate=0.1, momentum=0.9)


def _adam(params: Any) -> nn.Optimizer:
    return nn.AdamWeightDecay(params, learning_rate=nn.CosineDecayLR(0.0, 0.01, 100))


STEPS: dict[str, Callable[[], Graph]] = {
    "lenet": lambda: _graph(_lenet(), _momentum, _images()),
    "resnet": lambda: _graph(_resnet(), _momentum, _images()),
    "transformer": lambda: _graph(Words("transformer"), _adam, _texts()),
    "lstm": lambda: _graph(Words("lstm"), lambda p: nn.Adam(p, 0.01), _texts()),
}


def text_of(name: str) -> str:
    """The graph of a step as text, without the lines of source code."""
    return re.sub(r" \| [^|\n]*:\d+$", "", dump(STEPS[name]()), flags=re.MULTILINE)


def kept(name: str) -> str:
    """The text that is kept."""
    return gzip.decompress((HERE / f"{name}.ir.gz").read_bytes()).decode()


def keep(name: str) -> None:
    """Write the text of today."""
    (HERE / f"{name}.ir.gz").write_bytes(gzip.compress(text_of(name).encode(), 9, mtime=0))
