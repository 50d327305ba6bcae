"""The training steps of the ten networks, in every form of mixed precision, with dynamic loss scaling.

    cell, inputs = build("resnet18", "O2")
    step = graphls.compile(cell, *inputs)
    step(*batch("resnet18", seed=1))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphls
from graphls import amp, nn, ops
from tests.networks import images, sequences
from tests.networks.sequences import LENGTH, WORDS

BATCH = 4
FORMS = ("float32", "float16", "O2", "O3", "bfloat16")

Arrays = tuple[np.ndarray[Any, Any], ...]
Draw = Callable[[np.random.Generator], Arrays]
Optimizer = Callable[[Any, Any], nn.Optimizer]


class Pretraining(nn.Cell):
    """The loss of a BERT: that of the masked words and that of the next sentence."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network

    def construct(self, words: Any, parts: Any, is_padding: Any, masked: Any, hidden: Any, follows: Any) -> Any:
        scores, next_scores = self.network(words, parts, is_padding, masked)
        return ops.cross_entropy(scores, hidden) + ops.cross_entropy(next_scores, follows)


class Translation(nn.Cell):
    """The loss of a translator."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network

    def construct(self, words: Any, written: Any, wanted: Any) -> Any:
        return ops.cross_entropy(self.network(words, written), wanted)


class Balanced(nn.Cell):
    """The loss of a mixture of experts, with a little for using them unevenly."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network

    def construct(self, words: Any, wanted: Any) -> Any:
        scores, uneven = self.network(words)
        return ops.cross_entropy(ops.cast(scores, graphls.float32), wanted) + 0.01 * uneven


def classes(network: nn.Cell) -> nn.Cell:
    """The loss of scores of classes."""
    return nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))


def _pixels(network: nn.Cell) -> nn.Cell:
    return nn.WithLossCell(network, nn.BCEWithLogitsLoss())


def labelled(*shape: int) -> Draw:
    """Normal numbers of a shape, and one of five classes for each."""

    def draw(rng: np.random.Generator) -> Arrays:
        return rng.normal(size=(BATCH, *shape)).astype(np.float32), integers(rng, 5, BATCH)

    return draw


def integers(rng: np.random.Generator, count: int, *shape: int) -> np.ndarray[Any, Any]:
    """Integers below a count."""
    return rng.integers(0, count, shape).astype(np.int32)


def _pictures(rng: np.random.Generator) -> Arrays:
    x = rng.normal(size=(2, 1, 8, 8)).astype(np.float32)
    return x, (x > 0.3).astype(np.float32)


def _words(rng: np.random.Generator) -> Arrays:
    return integers(rng, WORDS, BATCH, LENGTH), integers(rng, WORDS, BATCH * LENGTH)


def _sentences(rng: np.random.Generator) -> Arrays:
    return integers(rng, WORDS, BATCH, LENGTH), *_words(rng)


def _pairs(rng: np.random.Generator) -> Arrays:
    words, parts = integers(rng, WORDS, BATCH, LENGTH), np.sort(integers(rng, 2, BATCH, LENGTH), 1)
    is_padding = np.arange(LENGTH) >= rng.integers(4, LENGTH + 1, (BATCH, 1))
    masked = np.stack([rng.permutation(4)[:2] for _ in range(BATCH)]).astype(np.int32)
    return words, parts, is_padding, masked, integers(rng, WORDS, BATCH * 2), integers(rng, 2, BATCH)


def momentum(parameters: Any, rate: Any) -> nn.Optimizer:
    """Momentum with a small decay."""
    return nn.Momentum(parameters, rate, 0.9, weight_decay=1e-3)


def adam(parameters: Any, rate: Any) -> nn.Optimizer:
    """Adam."""
    return nn.Adam(parameters, rate)


def _decay(parameters: Any, rate: Any) -> nn.Optimizer:
    """AdamW, without decay of what has one axis only."""
    flat = [p for p in parameters if len(p.shape) < 2]
    wide = [p for p in parameters if len(p.shape) >= 2]
    groups = [{"params": wide, "weight_decay": 0.01}, {"params": flat, "weight_decay": 0.0}]
    return nn.AdamWeightDecay(groups, rate)


def _layerwise(parameters: Any, rate: Any) -> nn.Optimizer:
    return nn.Lamb(parameters, rate, weight_decay=0.01)


@dataclass(frozen=True)
class Network:
    """A network, the loss around it, its optimizer by (parameters, rate), its rate, and how its inputs are drawn."""

    make: Callable[[], nn.Cell]
    loss: Callable[[nn.Cell], nn.Cell]
    optimizer: Optimizer
    rate: Any
    draw: Draw
    is_mindformers: bool = False


NETWORKS = {
    "mlp": Network(images.perceptron, classes, momentum, 0.1, labelled(12)),
    "lenet": Network(images.lenet, classes, momentum, 0.1, labelled(1, 12, 12)),
    "transformer": Network(sequences.Classifier, classes, _decay, 0.01, labelled(LENGTH, 5)),
    "resnet18": Network(images.resnet18, classes, momentum, 0.05, labelled(3, 16, 16)),
    "lstm": Network(sequences.Recurrent, classes, adam, 0.01, labelled(LENGTH, 5)),
    "gpt": Network(sequences.GPT, classes, _decay, 0.01, _words),
    "bert": Network(sequences.BERT, Pretraining, _decay, 0.01, _pairs, is_mindformers=True),
    "unet": Network(images.UNet, _pixels, adam, 0.01, _pictures),
    "attention": Network(sequences.Translator, Translation, adam, 0.01, _sentences),
    "mixture": Network(sequences.Mixture, Balanced, _layerwise, 0.01, _words),
}


def batch(name: str, seed: int = 0) -> Arrays:
    """Inputs of a step of a network."""
    return draw(name, np.random.default_rng(seed))


def draw(name: str, rng: np.random.Generator) -> Arrays:
    """Inputs of a step of a network, from a generator."""
    return NETWORKS[name].draw(rng)


def build(
    name: str, form: str, *, rate: Any = None, scale: float = 2.0**12, factor: int = 2, window: int = 3
) -> tuple[nn.Cell, Arrays]:
    """The training step of a network in one of FORMS, and inputs for it.

    "float16" and "bfloat16" compute the loss in 16 bits, too; "O2" and "O3" are those of automatic mixed precision.
    The loss scale begins as `scale`, which an overflow divides and `window` steps without one multiply by `factor`.
    """
    return training_step(NETWORKS[name], form, nn.DynamicLossScaleUpdateCell(scale, factor, window), rate), batch(name)


def training_step(kind: Network, form: str, manager: Any, rate: Any = None) -> nn.Cell:
    """The training step of a network in one of FORMS, whose loss scale a cell manages; a rate replaces its own."""
    graphls.set_seed(1)
    network = _in_form(kind.make(), form)
    optimizer = kind.optimizer(network.trainable_params(), kind.rate if rate is None else rate)
    loss = kind.loss(network)
    if kind.is_mindformers:
        step: nn.Cell = nn.MFTrainOneStepCell(loss, optimizer, use_clip_grad=True, scale_sense=manager, local_norm=True)
    else:
        step = nn.TrainOneStepWithLossScaleCell(loss, optimizer, manager)
    return step.set_train()


def _in_form(network: nn.Cell, form: str) -> nn.Cell:
    if form in ("O2", "O3"):
        return amp.auto_mixed_precision(network, form)
    return network if form == "float32" else network.to_float(getattr(graphls, form))
