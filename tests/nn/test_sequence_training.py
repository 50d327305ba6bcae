"""A transformer and an LSTM learn to read digits, in float32 and in float16 with loss scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.graph import walk

F32 = np.float32
TRAIN, BATCH = 1400, 100


class Transformer(nn.Cell):
    """The eight rows of an image as tokens, with a place of their own each."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Dense(8, 32)
        self.places = nn.Embedding(8, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.05, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm((32,)))
        self.head = nn.Dense(32, 10)

    def construct(self, images: Any) -> Any:
        tokens = self.embedding(images) + self.places(ops.arange(8))
        return self.head(ops.mean(self.encoder(tokens), 1))


class Recurrent(nn.Cell):
    """Two layers that read an image row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 32, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Dense(32, 10)

    def construct(self, images: Any) -> Any:
        rows, _ = self.lstm(images)
        return self.head(rows[:, -1])


def digits() -> tuple[Any, Any]:
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order].reshape(-1, 8, 8) / 16).astype(F32), labels[order].astype(np.int32)


def trained(make: Any, half: bool, epochs: int, rate: float) -> tuple[float, int, Any]:
    """The accuracy on images that were not trained on, how many steps were skipped, and the step."""
    images, labels = digits()
    graphls.set_seed(1)
    net = make()
    network = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Adam(net.trainable_params(), rate)
    cell: Any = nn.TrainOneStepCell(network, optimizer)
    if half:
        net.to_float(graphls.float16)
        cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.DynamicLossScaleUpdateCell(2**24, 2, 50))
    cell.set_train()
    step, skipped = graphls.compile(cell, images[:BATCH], labels[:BATCH]), 0
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(TRAIN)
        for batch in np.split(order, TRAIN // BATCH):
            result = step(images[batch], labels[batch])
            skipped += int(bool(result[1])) if half else 0
    net.set_train(False)
    found = np.argmax(net(images[TRAIN:]).asnumpy(), 1)
    return float(np.mean(found == labels[TRAIN:])), skipped, step


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
def test_a_transformer_reads_digits(half: bool) -> None:
    accuracy, skipped, step = trained(Transformer, half, 10, 5e-3)
    assert accuracy > 0.93
    assert (skipped > 0) is half
    made = {v.type.dtype for n in walk(step.graph) for v in n.outputs}
    assert (graphls.float16 in made) is half


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
def test_an_lstm_reads_digits(half: bool) -> None:
    accuracy, skipped, step = trained(Recurrent, half, 10, 2e-2)
    assert accuracy > 0.9
    assert (skipped > 0) is half
    assert sum(n.primitive.name == "scan" for n in walk(step.graph)) == 4
