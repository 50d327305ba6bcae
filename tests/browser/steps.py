"""Training steps whose pages the tests open: the demo, a deep transformer, and one where every name is hostile."""

from __future__ import annotations

from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np

import graphls
from graphls import nn, ops

DIGITS = Path(__file__).parents[2] / "examples" / "digits.py"


def load_module(path: Path, name: str) -> ModuleType:
    """The module of a file, whatever the file is called."""
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def training_step(network: nn.Cell, loss: nn.Cell, optimizer: nn.Cell) -> nn.Cell:
    """A training step with loss scaling."""
    manager = nn.DynamicLossScaleUpdateCell(2**24, 2, 100)
    return nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(network, loss), optimizer, manager).set_train()


@cache
def digits_step() -> graphls.Compiled:
    """The training step of the demo, for ONNX Runtime; it has not run yet."""
    digits = load_module(DIGITS, "digits")
    graphls.set_seed(1)
    images, labels = np.zeros((digits.BATCH, 1, 8, 8), np.float32), np.zeros(digits.BATCH, np.int32)
    return graphls.compile(digits.make_step(digits.LeNet().to_float(graphls.float16)), images, labels)


class Transformer(nn.Cell):
    """A classifier of sequences: an embedding, `layers` encoder layers, and a head for the mean over time."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, batch_first=True)
        self.embedding = nn.Dense(8, width)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm((width,)))
        self.head = nn.Dense(width, 10)

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        x = self.encoder(self.embedding(x))
        return ops.cast(self.head(x.mean(1)), graphls.float32)


@cache
def transformer_step(layers: int = 12, backend: str = "numpy") -> graphls.Compiled:
    """A training step of a transformer in float16, with Adam; 12 layers have 4,100 nodes, those in regions included."""
    graphls.set_seed(1)
    network = Transformer(layers, 32).to_float(graphls.float16)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    cell = training_step(network, loss, nn.Adam(network.trainable_params(), 1e-3))
    x, y = np.zeros((4, 8, 8), np.float32), np.zeros(4, np.int32)
    return graphls.compile(cell, x, y, backend=backend)
