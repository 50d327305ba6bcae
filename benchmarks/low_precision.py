"""Trainings by recipes of 8 and 4 bits beside bfloat16's: `python -m benchmarks.low_precision`.

Each training of a row has the same initial weights and the same data in the same order, and a process of its own. The
loss that counts is that of data which the training does not see, at its end. bfloat16 is the level O2; recipes round
the operands of products on top of it, or with `--base float32` of a network in float32. `--rows`, `--recipes` and
`--seeds` choose; results are lines of JSON in the file of `--output`, and a training whose line is there does not run
again. The worst row of the table comes first.

`--speed` instead times a training step of the transformer of benchmarks/peers by each recipe beside the same step in
float32, on the engine of `--engine`: all in one process, in turns. It says the least and the median of the steps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

import graphls
from benchmarks.peers import graphls_networks as networks
from benchmarks.peers.contenders import Contender
from benchmarks.peers.graphls_training import Training
from benchmarks.peers.rows import ROWS as PEERS
from benchmarks.peers.rows import Row as Peer
from graphls import amp, nn, ops
from graphls.base.text.tables import Table
from graphls.ir.types import Type
from graphls.passes.precision.recipes import RECIPES as BY_NAME

Batch = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Some(amp.NVFP4):
    """NVFP4 for some operands alone, each by its role and its product."""

    operands: tuple[tuple[str, str], ...] = ()

    def form(self, role: str, product: str, kind: Type, axes: tuple[int, ...]) -> amp.Form | None:
        return super().form(role, product, kind, axes) if (role, product) in self.operands else None


ACTIVATIONS, WEIGHTS = ("input", "forward"), ("weight", "forward")
OF_INPUTS = ("gradient", "input_gradient"), ("weight", "input_gradient")
OF_WEIGHTS = ("gradient", "weight_gradient"), ("input", "weight_gradient")
BACKWARD = Some(operands=(*OF_INPUTS, *OF_WEIGHTS))


@dataclass(frozen=True)
class Plan:
    """Recipes one after the other, each for a share of the steps, and the parts of a row that they keep.

    The last recipe is that of the evaluation, also where its share is 0.
    """

    recipes: tuple[tuple[amp.Recipe | None, float], ...]
    keeps: tuple[Literal["ends", "last_block"], ...] = ()


NVFP4 = (amp.NVFP4(), 1.0)
THEN_NONE = (amp.NVFP4(), 0.8), (None, 0.2)

RECIPES: dict[str, Plan] = {
    "none": Plan(((None, 1.0),)),
    "delayed": Plan(((amp.DelayedScaling(), 1.0),)),
    "current": Plan(((amp.CurrentScaling(), 1.0),)),
    "block": Plan(((amp.BlockScaling(), 1.0),)),
    "mxfp8": Plan(((amp.MXFP8(), 1.0),)),
    "nvfp4": Plan((NVFP4,)),
    "nvfp4 but the ends": Plan((NVFP4,), ("ends",)),
    "nvfp4 but the ends and the last block": Plan((NVFP4,), ("ends", "last_block")),
    "nvfp4, then none": Plan(THEN_NONE),
    "nvfp4 but the ends, then none": Plan(THEN_NONE, ("ends",)),
}
"""By name; "then none" ends the recipe behind 80 % of the steps, and the learning rate goes on to decay."""

CAUSES: dict[str, Plan] = {
    "nvfp4, evaluated in none": Plan((NVFP4, (None, 0.0))),
    "nvfp4, then its backward": Plan((THEN_NONE[0], (BACKWARD, 0.2))),
    "nvfp4 of the forward": Plan(((Some(operands=(ACTIVATIONS, WEIGHTS)), 1.0),)),
    "nvfp4 of activations": Plan(((Some(operands=(ACTIVATIONS,)), 1.0),)),
    "nvfp4 of weights": Plan(((Some(operands=(WEIGHTS,)), 1.0),)),
    "nvfp4 of the backward": Plan(((BACKWARD, 1.0),)),
    "nvfp4 of gradients of inputs": Plan(((Some(operands=OF_INPUTS), 1.0),)),
    "nvfp4 of gradients of weights": Plan(((Some(operands=OF_WEIGHTS), 1.0),)),
    "nvfp4 to the nearest": Plan(((amp.NVFP4(stochastic_rounding=False), 1.0),)),
    "nvfp4 without Hadamard": Plan(((amp.NVFP4(random_hadamard_transform=False), 1.0),)),
    "nvfp4 with lines": Plan(((amp.NVFP4(fp4_2d_quantization=False), 1.0),)),
}
"""Parts of NVFP4, to see which of them costs how much; they run where `--recipes` names them."""


@dataclass(frozen=True)
class Row:
    """A network, its batches, its training by Adam with a linear decay to zero, and the names of some of its cells.

    `ends` are the first and the last layer, or block, and `last_block` is the one before.
    """

    network: Callable[[], nn.Cell]
    data: Callable[[int, int], tuple[Iterator[Batch], list[Batch]]]
    batch: int
    steps: int
    learning_rate: float
    ends: tuple[str, ...]
    last_block: tuple[str, ...]


class Flat(nn.Cell):
    """Cross entropy of all places of a batch."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, x: graphls.Tensor, y: graphls.Tensor) -> graphls.Tensor:
        logits = ops.cast(self.network(x), graphls.float32)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def small_resnet() -> nn.Cell:
    """Three residual blocks for images of 8 x 8."""
    blocks = [networks.basic_block(16, 16, 1), networks.basic_block(16, 32, 2), networks.basic_block(32, 64, 2)]
    stem = [networks.convolution(1, 16, 3), nn.ReLU()]
    return nn.SequentialCell(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(64, 10))


def digits(batch: int, seed: int, is_flat: bool = False) -> tuple[Iterator[Batch], list[Batch]]:
    """Batches of scikit-learn's digits without an end, and the last 360 images, which these do not have."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    images = images if is_flat else images.reshape(-1, 1, 8, 8)
    count, generator = len(images) - 360, np.random.default_rng(seed)

    def batches() -> Iterator[Batch]:
        while True:
            chosen = generator.permutation(count)
            for start in range(0, count - batch + 1, batch):
                part = chosen[start : start + batch]
                yield images[part], labels[part]

    held_out = [(images[at : at + 60], labels[at : at + 60]) for at in range(count, len(images), 60)]
    return batches(), held_out


NOISE = 0.3
"""The standard deviation of what is added to pixels from 0 to 1."""


def disturbed(batch: int, seed: int) -> tuple[Iterator[Batch], list[Batch]]:
    """Digits that are shifted by a pixel at most and have noise, so that some cannot be told apart.

    A network that reads them clean ends at a loss of 0.02, where a seed moves the loss by a third.
    """
    batches, held_out = digits(batch, seed)
    generator = np.random.default_rng((seed, 1))
    fixed = np.random.default_rng(0)
    return (
        ((_disturbed(images, generator), labels) for images, labels in batches),
        [(_disturbed(images, fixed), labels) for images, labels in held_out for _ in range(8)],
    )


def _disturbed(images: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each image shifted by its own number of pixels, with zeros behind it, and noise of a normal distribution."""
    count, _, height, width = images.shape
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows, columns = (generator.integers(0, 3, (count, 1, 1)) for _ in range(2))
    rows, columns = rows + np.arange(height)[:, None], columns + np.arange(width)
    shifted = wide[np.arange(count)[:, None, None], 0, rows, columns][:, None]
    return shifted + generator.standard_normal(images.shape, np.float32) * np.float32(NOISE)


LENGTH = 64


def codes() -> np.ndarray:
    """The characters of Python's manual, which comes with Python, as numbers."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
    letters = {letter: code for code, letter in enumerate(sorted(set(text)))}
    return np.array([letters[letter] for letter in text], np.int32)


def characters(batch: int, seed: int) -> tuple[Iterator[Batch], list[Batch]]:
    """Batches of the first nine tenths of the manual without an end, and 24 of the last tenth."""
    text = codes()
    first, generator = len(text) * 9 // 10, np.random.default_rng(seed)

    def batches(start: int, stop: int, generator: np.random.Generator) -> Iterator[Batch]:
        while True:
            places = generator.integers(start, stop - LENGTH - 1, batch)[:, None] + np.arange(LENGTH)
            yield text[places], text[places + 1]

    others = batches(first, len(text), np.random.default_rng(1))
    return batches(0, first, generator), [next(others) for _ in range(24)]


def gpt() -> nn.Cell:
    """A causal transformer on characters of 5 million parameters."""
    vocabulary = int(codes().max()) + 1
    return Characters(vocabulary, width=256, heads=4, layers=6)


class Characters(nn.Cell):
    """Layers as GPT-2's, between embeddings and a dense layer."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(vocabulary, width), nn.Embedding(LENGTH, width)
        self.layers = nn.SequentialCell(*[Layer(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm((width,), epsilon=1e-5)
        self.head = nn.Dense(width, vocabulary, has_bias=False)

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        return self.head(self.norm(self.layers(self.letters(x) + self.places(ops.arange(LENGTH)))))


class Layer(nn.Cell):
    """Attention and a perceptron, each behind a layer normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm((width,), epsilon=1e-5), nn.LayerNorm((width,), epsilon=1e-5)
        self.qkv, self.out = nn.Dense(width, 3 * width), nn.Dense(width, width)
        self.up, self.down = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = (part.swapaxes(1, 2) for part in qkv.unbind(2))
        attended = ops.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.swapaxes(1, 2).reshape(batch, length, width))
        return x + self.down(ops.gelu(self.up(self.norm2(x))))


ROWS: dict[str, Row] = {
    "perceptron": Row(
        lambda: networks.mlp(64, 256, 10),
        lambda batch, seed: digits(batch, seed, is_flat=True),
        64,
        600,
        1e-3,
        ("0", "4"),
        ("2",),
    ),
    "resnet": Row(small_resnet, disturbed, 64, 400, 2e-3, ("0.0", "7"), ("4.*",)),
    "gpt": Row(gpt, characters, 4, 2000, 5e-4, ("layers.0.*", "head"), ("layers.5.*",)),
}


def phases(row: Row, plan: Plan, steps: int) -> Iterator[tuple[amp.Recipe | None, int]]:
    """The recipes of a training one after the other, and how many steps each has."""
    kept = tuple(name for part in plan.keeps for name in getattr(row, part))
    start, total = 0, 0.0
    for recipe, share in plan.recipes:
        total += share
        stop = round(steps * total)
        yield recipe and replace(recipe, keep=kept), stop - start
        start = stop


def train(row: Row, plan: Plan, base: str, seed: int, engine: str, steps: int | None) -> dict[str, Any]:
    """Train; returns the losses and the seconds of a step."""
    graphls.set_seed(seed)
    steps = steps or row.steps
    network = row.network()
    count = sum(parameter.size for parameter in network.trainable_params())
    if base == "bfloat16":
        amp.auto_mixed_precision(network, "O2", graphls.bfloat16)
    batches, held_out = row.data(row.batch, seed)
    loss = Flat(network)
    rates = [row.learning_rate * min(1, (step + 1) / 50) * (1 - step / steps) for step in range(steps)]
    cell = nn.TrainOneStepCell(loss, nn.Adam(network.trainable_params(), learning_rate=rates)).set_train()
    example, losses, seconds = next(batches), list[float](), 0.0
    for recipe, number in phases(row, plan, steps):
        amp.auto_mixed_precision(network, recipe)
        step = graphls.compile(cell, *example, engine=engine)
        start = time.perf_counter()
        losses += [float(np.asarray(step(*next(batches)))) for _ in range(number)]
        seconds += (time.perf_counter() - start) / steps
    loss.set_train(False)
    final = float(np.mean([np.asarray(loss(*batch)) for batch in held_out]))
    last, curve = float(np.mean(losses[-50:])), losses[:: max(1, steps // 100)]
    return {"final": final, "last": last, "parameters": count, "seconds": seconds, "losses": curve}


def measured(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def table(lines: list[dict[str, Any]]) -> str:
    """The mean over the seeds of the final losses and of their ratio to the base's, with its standard error.

    The worst ratio comes first.
    """
    finals: dict[tuple[str, str, str], dict[int, float]] = {}
    for line in lines:
        finals.setdefault((line["row"], line["base"], line["recipe"]), {})[line["seed"]] = line["final"]
    rows = []
    for (row, base, recipe), by_seed in finals.items():
        beside = finals.get((row, "bfloat16", "none"), {})
        seeds = sorted(by_seed.keys() & beside.keys())
        if seeds:
            ours, others = (np.array([each[seed] for seed in seeds]) for each in (by_seed, beside))
            ratios = 100 * (ours / others - 1)
            error = f"{ratios.std(ddof=1) / len(seeds) ** 0.5:.2f} %" if len(seeds) > 1 else ""
            means = f"{ours.mean():.4f}", f"{others.mean():.4f}", f"{ratios.mean():+.2f} %"
            rows.append((ratios.mean(), [row, recipe, base, *means, error, str(len(seeds))]))
    lines_of_table = [cells for _, cells in sorted(rows, reverse=True)]
    header = ("row", "recipe", "over", "loss", "bfloat16", "more", "error", "seeds")
    return "\n".join(Table(header, lines_of_table).lines())


def speed(row: Peer, engine: str, recipes: Sequence[str], steps: int) -> str:
    """A table of the seconds of a step in float32 and by recipes, the slowest first; the steps take turns."""
    trainings = {name: Training(row, Contender(name, "graphls", name, engine)) for name in ("float32", *recipes)}
    times: dict[str, list[float]] = {name: [] for name in trainings}
    for training in trainings.values():
        training.set_values()
        for _ in range(2):
            float(training.step())
    for _ in range(steps):
        for name, training in trainings.items():
            start = time.perf_counter()
            float(training.step())
            times[name].append(1000 * (time.perf_counter() - start))
    least, median = ({name: float(of(t)) for name, t in times.items()} for of in (np.min, np.median))
    rows = [
        [name, f"{least[name]:.1f}", f"{least[name] / least['float32']:.2f}",
         f"{median[name]:.1f}", f"{median[name] / median['float32']:.2f}"]
        for name in sorted(least, key=least.__getitem__, reverse=True)
    ]  # fmt: skip
    return "\n".join(Table(("on " + engine, "least ms", "x float32", "median ms", "x float32"), rows).lines())


def _run_alone(key: dict[str, Any], options: argparse.Namespace) -> None:
    """One training in a process of its own, which writes its line."""
    command = [sys.executable, "-m", "benchmarks.low_precision", "--here", "--engine", options.engine]
    names = {"row": "--rows", "base": "--base", "recipe": "--recipes", "seed": "--seeds"}
    for name, value in key.items():
        command += [names[name], str(value)]
    command += ["--output", str(options.output), *(["--steps", str(options.steps)] if options.steps else [])]
    subprocess.run(command, check=True)


def main(arguments: list[str]) -> None:
    """Run the trainings that have no line yet, one at a time, and print the table."""
    parser, plans = argparse.ArgumentParser("python -m benchmarks.low_precision", description=__doc__), RECIPES | CAUSES
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=list(plans))
    parser.add_argument("--base", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--steps", type=int, help="fewer than the row has")
    parser.add_argument("--output", type=Path, default=Path("out/low_precision.jsonl"))
    parser.add_argument("--here", action="store_true", help="all in this process")
    parser.add_argument("--speed", action="store_true", help="times of steps instead of trainings")
    options = parser.parse_args(arguments)
    if options.speed:
        timed = [name for name in options.recipes if name in BY_NAME]
        print(speed(PEERS["transformer"], options.engine, timed, options.steps or 15))
        return
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for row, seed, recipe in product(options.rows, options.seeds, options.recipes):
        key = {"row": row, "base": options.base, "recipe": recipe, "seed": seed}
        if any(key.items() <= line.items() for line in measured(options.output)):
            continue
        if not options.here:
            _run_alone(key, options)
            continue
        result = train(ROWS[row], plans[recipe], options.base, seed, options.engine, options.steps)
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**key, **result}) + "\n")
        print(row, options.base, recipe, seed, result["final"], f"{result['seconds']:.4f} s", flush=True)
    if not options.here:
        print(table(measured(options.output)))


if __name__ == "__main__":
    main(sys.argv[1:])
