"""Networks that tests export, and what their files give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn
from graphls.train import export

F32 = np.float32


class Residual(nn.Cell):
    """Convolutions with batch normalisation before and behind them, in a sum with what they take."""

    def __init__(self, channels: int, groups: int = 1) -> None:
        super().__init__()
        self.before = nn.BatchNorm2d(channels)
        self.first = nn.Conv2d(channels, channels, 3, padding=1, pad_mode="pad", group=groups)
        self.behind = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 1, has_bias=True)
        self.activation = nn.HSwish()

    def construct(self, x: Any) -> Any:
        return x + self.second(self.activation(self.behind(self.first(self.before(x)))))


def convolutional() -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(3, 4, 3, pad_mode="valid"), nn.BatchNorm2d(4), nn.ReLU(), Residual(4), Residual(4, 2),
        nn.MaxPool2d(2, 2), nn.Dropout(p=0.5), nn.Flatten(), nn.Dense(64, 10), nn.BatchNorm1d(10), nn.Softmax(),
    )  # fmt: skip


class Encoder(nn.Cell):
    """Embedding, attention, layer normalisation and GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Dense(8, 5)

    def construct(self, x: Any) -> Any:
        return self.head(self.encoder(self.embedding(x)).mean(1))


class Recurrent(nn.Cell):
    """All kinds of recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 5, batch_first=True)
        self.plain = nn.RNN(5, 6, batch_first=True, nonlinearity="relu", has_bias=False)

    def construct(self, x: Any) -> Any:
        x, _ = self.lstm(x)
        x, last = self.gru(x)
        return self.plain(x)[0], last


def groups() -> nn.Cell:
    return nn.SequentialCell(nn.GroupNorm(2, 4), nn.GELU(), nn.InstanceNorm2d(4), nn.PReLU(4), nn.AvgPool2d(2, 2))


IMAGES, ROWS = (3, 10, 10), (3, 3)
NETWORKS: dict[str, tuple[Any, tuple[int, ...], Any]] = {
    "convolutional": (convolutional, IMAGES, F32),
    "encoder": (Encoder, (6,), np.int32),
    "recurrent": (Recurrent, ROWS, F32),
    "groups": (groups, (4, 6, 6), F32),
}


def rows(shape: tuple[int, ...], dtype: Any, batch: int) -> Any:
    """Inputs of a network."""
    numbers = np.random.default_rng(batch)
    return numbers.integers(0, 20, (batch, *shape)).astype(dtype) if dtype is np.int32 else numbers.normal(
        size=(batch, *shape)
    ).astype(dtype)  # fmt: skip


def made(name: str) -> nn.Cell:
    """A network in evaluation mode, whose normalisations have seen something."""
    network: nn.Cell = NETWORKS[name][0]()
    numbers = np.random.default_rng(3)
    for parameter in network.get_parameters():
        if any(part in parameter.name for part in ("moving", "gamma", "beta", "bias")):
            parameter.set_data(graphls.Tensor((numbers.random(parameter.shape) + 0.5).astype(F32)))
    network.set_train(False)
    return network


def declared(shape: tuple[int, ...], dtype: Any) -> graphls.Tensor:
    """An input with any number of rows."""
    return graphls.Tensor(shape=[None, *shape], dtype=graphls.float32 if dtype is F32 else graphls.int32)


def written(folder: Path, network: Any, *inputs: Any, **options: Any) -> onnx.ModelProto:
    """The model that a network is exported as, to net.onnx, which is valid."""
    export(network, *inputs, file_name=folder / "net", file_format="ONNX", **options)
    onnx.checker.check_model(str(folder / "net.onnx"), full_check=True)
    return onnx.load(folder / "net.onnx")


def kinds(model: onnx.ModelProto) -> Counter[str]:
    """How many operators of each kind a model has."""
    return Counter(node.op_type for node in model.graph.node)


def session(folder: Path) -> Any:
    """What runs net.onnx."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(3)
    return runtime.InferenceSession(str(folder / "net.onnx"), providers=["CPUExecutionProvider"])


def assert_gives(found: Any, network: Any, *inputs: Any, tolerance: float = 1e-5) -> None:
    """Assert that a session gives what the network gives, relative to the largest number."""
    given = {info.name: array for info, array in zip(found.get_inputs(), inputs, strict=True)}
    expected = graphls.frontend.tensors.pytree.leaves(graphls.compile(network, *inputs)(*inputs))
    for mine, theirs in zip(expected, found.run(None, given), strict=True):
        array = mine.asnumpy()
        np.testing.assert_allclose(theirs, array, rtol=0, atol=tolerance * max(1e-3, np.abs(array).max()))


