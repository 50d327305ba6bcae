"""Steps that bundles are made of: the demo's, a transformer with dropout, an LSTM, MindFormers' step, and a low one."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphls
from examples.digits import BATCH, LeNet, load, make_step
from graphls import amp, nn, ops

Array = np.ndarray[Any, Any]
Case = tuple[graphls.Compiled, list[dict[str, Array]]]
"""A step, and the inputs of several batches by name."""


def digits() -> Case:
    """The demo: float16 with a scale that is far too high at first, so that steps are skipped."""
    images, labels, _, _ = load()
    batches = [{"data": images[i : i + BATCH], "label": labels[i : i + BATCH]} for i in range(0, 20 * BATCH, BATCH)]
    step = graphls.compile(make_step(LeNet().to_float(graphls.float16)), *batches[0].values())
    return step, batches


class Transformer(nn.Cell):
    """Two layers with dropout, over words, to the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(32, 16)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True), num_layers=2
        )
        self.head = nn.Dense(16, 32)

    def construct(self, words: graphls.Tensor) -> graphls.Tensor:
        return ops.reshape(self.head(self.layers(self.words(words))), (-1, 32))


def transformer() -> Case:
    words = np.random.default_rng(1).integers(0, 32, (4, 9)).astype(np.int32)
    network = Transformer()
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    step = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), [0.02, 0.05, 0.01], 0.9)).set_train()
    data, label = np.ascontiguousarray(words[:, :-1]), np.ascontiguousarray(words[:, 1:].reshape(-1))
    return graphls.compile(step, data, label), [{"data": data, "label": label}]


class Tagger(nn.Cell):
    """An LSTM over a sequence, with the loss inside."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Dense(8, 3)

    def construct(self, sequence: graphls.Tensor, tags: graphls.Tensor) -> graphls.Tensor:
        logits = self.head(self.lstm(sequence)[0])
        return ops.cross_entropy(ops.reshape(logits, (-1, 3)), tags)


def lstm() -> Case:
    rng = np.random.default_rng(2)
    sequence, tags = rng.normal(size=(5, 7, 6)).astype(np.float32), rng.integers(0, 3, 35).astype(np.int32)
    network = Tagger()
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    return graphls.compile(step, sequence, tags), [{"sequence": sequence, "tags": tags}]


def mindformers() -> Case:
    """Float16, clipped gradients, a scale that overflows and doubles."""
    rng = np.random.default_rng(3)
    data, label = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)
    network = nn.SequentialCell(nn.Dense(6, 12), nn.Tanh(), nn.Dropout(p=0.1), nn.Dense(12, 2))
    network.to_float(graphls.float16)
    loss = nn.WithLossCell(network, nn.MSELoss())
    scale = nn.DynamicLossScaleUpdateCell(2**20, 2, 30)
    optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=0.01)
    step = nn.MFTrainOneStepCell(loss, optimizer, use_clip_grad=True, scale_sense=scale).set_train()
    return graphls.compile(step, data, label), [{"data": data, "label": label}]


def low() -> Case:
    """Products of 8 and 4 bits: scales as states, blocks with powers of two, and gradients rounded at random."""
    rng = np.random.default_rng(4)
    data, label = rng.normal(size=(16, 6)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32)
    network = nn.SequentialCell(nn.Dense(6, 24), nn.ReLU(), nn.Dense(24, 20), nn.ReLU(), nn.Dense(20, 3))
    for layer, recipe in {0: amp.DelayedScaling(amax_history_len=3), 2: amp.MXFP8(), 4: amp.NVFP4()}.items():
        network[layer].to_float(recipe)
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    step = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    return graphls.compile(step, data, label), [{"data": data, "label": label}]


CASES = {"digits": digits, "transformer": transformer, "lstm": lstm, "mindformers": mindformers, "low": low}
