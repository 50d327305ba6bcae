"""The cost of feeding training steps from a dataset: Python time per batch, and step rates against a batch in memory.

The candidates take turns in one process; ratios are medians of the rounds. Run it with `python benchmarks/feeding.py`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import digits

import graphls
import graphls.dataset as ds
from graphls import nn
from graphls.dataset.pipeline.node import Run

BATCH, ROUNDS = 32, 40


class Items:
    """Images and integer labels, one by one."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.images[index], int(self.labels[index])


def seconds(work: Callable[[], Any]) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def python_per_batch(dataset: ds.Dataset) -> float:
    """The median of the microseconds of processor time to make a batch, without another thread."""
    run, size = Run(dataset), dataset.get_dataset_size()

    def pass_time() -> float:
        start = time.thread_time()
        for _ in dataset.stream(run, 0):
            pass
        return time.thread_time() - start

    return statistics.median(pass_time() for _ in range(ROUNDS)) / size * 1e6


def step_times(step: graphls.Compiled, dataset: ds.Dataset) -> tuple[float, float]:
    """The median milliseconds of a step on a batch in memory, and the median ratio of one fed by the dataset."""
    iterator, size = dataset.create_tuple_iterator(), dataset.get_dataset_size()
    x, y = next(dataset.create_tuple_iterator())

    def from_memory() -> None:
        for _ in range(size):
            step(x, y)

    def from_dataset() -> None:
        for batch in iterator:
            step(*batch)

    pairs = [(seconds(from_memory), seconds(from_dataset)) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs) / size * 1e3, statistics.median(b / a for a, b in pairs)


def make_steps() -> dict[str, nn.Cell]:
    """The demo's step, and its network in float32 without loss scaling, whose faster step suffers more from feeding."""
    network = digits.LeNet()
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    plain = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), 1e-6, 0.9)).set_train()
    return {"demo": digits.make_step(digits.LeNet().to_float(graphls.float16)), "float32": plain}


def main() -> None:
    """Print a table of two steps and three datasets with the same rows."""
    graphls.set_seed(1)
    images, labels, _, _ = digits.load()
    labels = labels.astype(np.int64)
    rows = ds.GeneratorDataset(Items(images, labels), ["image", "label"])
    candidates = {
        "items": rows.batch(BATCH, drop_remainder=True),
        "items and a map": rows.map(lambda image: image * 2 - 1).batch(BATCH, drop_remainder=True),
        "slices": ds.NumpySlicesDataset((images, labels)).batch(BATCH, drop_remainder=True),
    }
    print(f"{'step':9} {'dataset':16} {'us/batch':>9} {'step ms':>9} {'fed/in memory':>14}")
    for kind, cell in make_steps().items():
        step = graphls.compile(cell, images[:BATCH], labels[:BATCH])
        for name, dataset in candidates.items():
            cost = python_per_batch(dataset)
            in_memory, ratio = step_times(step, dataset)
            print(f"{kind:9} {name:16} {cost:9.0f} {in_memory:9.2f} {ratio:14.3f}")


if __name__ == "__main__":
    main()
