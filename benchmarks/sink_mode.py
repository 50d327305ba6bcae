"""Training by `Model.train`, step by step and with the steps of an epoch in few calls (`dataset_sink_mode`).

Both take turns in one process on rows that are held in memory, compared with the compiled step called in a bare loop.
Run it with `python benchmarks/sink_mode.py`.
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
from graphls import nn, train

ROUNDS = 15


class InMemory:
    """Rows that are there already, as a dataset."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def get_dataset_size(self) -> int:
        return len(self.rows)

    def create_tuple_iterator(self, **options: Any) -> list[tuple[Any, ...]]:
        return self.rows


def perceptron() -> tuple[train.Model, list[tuple[Any, ...]]]:
    """Two dense layers of 16 and 3 on 4 numbers, Adam, batch 32; 256 rows."""
    generator = np.random.default_rng(0)
    rows = [tuple(generator.normal(size=(32, n)).astype(np.float32) for n in (4, 3)) for _ in range(256)]
    net = nn.SequentialCell(nn.Dense(4, 16, activation="tanh"), nn.Dense(16, 3))
    return train.Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 1e-4)), rows


def lenet(half: bool) -> tuple[train.Model, list[tuple[Any, ...]]]:
    """The network of the demo, momentum, batch 64; 22 rows. In float16 with loss scaling."""
    images, labels, _, _ = digits.load()
    rows = [(images[i : i + 64], labels[i : i + 64]) for i in range(0, 22 * 64, 64)]
    net = digits.LeNet()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), 1e-6, 0.9)
    settings: dict[str, Any] = {}
    if half:
        settings = {"amp_level": "O3", "loss_scale_manager": graphls.DynamicLossScaleManager(2**10, 2, 2000)}
    return train.Model(net, loss, optimizer, **settings), rows


def report(name: str, model: train.Model, rows: list[tuple[Any, ...]]) -> None:
    """One line: microseconds of a step, medians of the rounds."""
    dataset = InMemory(rows)
    step = graphls.compile(model.train_network, *rows[0])
    ways: dict[str, Callable[[], Any]] = {
        "bare loop": lambda: [step(*row) for row in rows],
        "Model": lambda: model.train(1, dataset),
        "Model, sink mode": lambda: model.train(1, dataset, dataset_sink_mode=True),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(ROUNDS + 1):
        for way, work in ways.items():
            start = time.perf_counter()
            work()
            if turn:
                times[way].append((time.perf_counter() - start) / len(rows) * 1e6)
    medians = {way: statistics.median(values) for way, values in times.items()}
    print(f"{name:28}" + "".join(f"{way}: {value:8.1f} us   " for way, value in medians.items()))


def main() -> None:
    """All networks."""
    report("perceptron 4-16-3", *perceptron())
    report("digits, float32", *lenet(half=False))
    report("digits, float16, scaling", *lenet(half=True))


if __name__ == "__main__":
    main()
