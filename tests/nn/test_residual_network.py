"""A residual network with batch normalisation learns scikit-learn's digits in seconds, in float32 and in float16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import graphls
from graphls import amp, nn

BATCH, EPOCHS, TEST_IMAGES, ACCURACY = 64, 4, 360, 0.97


class Block(nn.Cell):
    """Two convolutions whose result is added to the input, or to a projection of it where the size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.shortcut: nn.Cell = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.SequentialCell(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def construct(self, x: Any) -> Any:
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.relu(y + self.shortcut(x))


class Residual(nn.Cell):
    """A stem and three blocks for images of 8 x 8, then the mean over each channel and one dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.SequentialCell(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.SequentialCell(Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2))
        self.pool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.head = nn.Dense(32, 10)

    def construct(self, x: Any) -> Any:
        return self.head(self.flatten(self.pool(self.blocks(self.stem(x)))))


def digits() -> tuple[Any, Any, Any, Any]:
    found = load_digits()
    images, labels = (found.images / 16).astype(np.float32)[:, None], found.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return images[train], labels[train], images[test], labels[test]


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_it_learns_digits(level: str) -> None:
    graphls.set_seed(1)
    network = Residual()
    images, labels, test_images, test_labels = digits()
    shuffle, batches, skipped = np.random.default_rng(1), len(labels) // BATCH, 0
    rates = nn.cosine_decay_lr(0.001, 0.1, EPOCHS * batches, batches, EPOCHS)
    optimizer = nn.Momentum(network.trainable_params(), rates, 0.9, weight_decay=1e-4)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    cell = amp.build_train_network(network, optimizer, loss, level=level).set_train()
    step = graphls.compile(cell, images[:BATCH], labels[:BATCH])
    for _ in range(EPOCHS):
        for rows in np.split(shuffle.permutation(len(labels))[: batches * BATCH], batches):
            result = step(images[rows], labels[rows])
            skipped += level == "O2" and bool(result[1])
    predict = graphls.compile(network.set_train(False), test_images)
    found = predict(test_images).asnumpy().argmax(1)
    assert (found == test_labels).mean() > ACCURACY
    halves = [v for n in step.graph.nodes for v in n.outputs if v.type.dtype is graphls.float16]
    assert bool(halves) == (level == "O2")
    assert skipped < EPOCHS * batches / 2
