"""Step times of two networks, with and without loss scaling, and against PyTorch where it is installed.

All figures come from one run: the candidates take turns, and the ratios are medians of the rounds. Run it with
`make bench`; `pip install torch` adds the last columns.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import digits

import graphls
from graphls import nn

ROUNDS, SECONDS, PAIRS = 40, 0.1, 200
Step = Callable[[], Any]


class Perceptron(nn.Cell):
    """Three dense layers: 784, 1024, 1024, 10."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(
            nn.Dense(784, 1024), nn.ReLU(), nn.Dense(1024, 1024), nn.ReLU(), nn.Dense(1024, 10)
        )

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        return self.layers(x)


def graphls_step(network: nn.Cell, x: np.ndarray, y: np.ndarray, scaled: bool) -> Step:
    """A compiled step of momentum, with dynamic loss scaling or without."""
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(network.trainable_params(), 1e-6, 0.9)
    if scaled:
        cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**10, 2, 2000))
    else:
        cell = nn.TrainOneStepCell(loss, optimizer)
    step = graphls.compile(cell.set_train(), x, y)
    return lambda: step(x, y)


def torch_step(module: Any, x: np.ndarray, y: np.ndarray) -> Step:
    """The same step in PyTorch, eager, float32."""
    import torch

    optimizer = torch.optim.SGD(module.parameters(), 1e-6, momentum=0.9)
    images, labels = torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(images), labels).backward()
        optimizer.step()

    return step


def torch_modules() -> dict[str, Any]:
    """The two networks in PyTorch; empty where it is not installed."""
    try:
        from torch import nn as t
    except ImportError:
        return {}
    lenet = t.Sequential(
        t.Conv2d(1, 16, 3, padding=1, bias=False), t.ReLU(), t.MaxPool2d(2), t.Conv2d(16, 32, 3, padding=1, bias=False),
        t.ReLU(), t.MaxPool2d(2), t.Flatten(), t.Linear(128, 64), t.ReLU(), t.Linear(64, 10),
    )  # fmt: skip
    mlp = t.Sequential(t.Linear(784, 1024), t.ReLU(), t.Linear(1024, 1024), t.ReLU(), t.Linear(1024, 10))
    return {"digits": lenet, "perceptron": mlp}


def once(step: Step) -> float:
    """Milliseconds per step over a tenth of a second."""
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        step()
        count += 1
    return (time.perf_counter() - start) / count * 1000


def report(name: str, candidates: dict[str, Step]) -> None:
    """Let the candidates take turns and print medians and ratios to the first."""
    for step in candidates.values():
        once(step)
    rounds = [{label: once(step) for label, step in candidates.items()} for _ in range(ROUNDS)]
    first = next(iter(candidates))
    print(f"{name}")
    for label in candidates:
        median = statistics.median(r[label] for r in rounds)
        ratio = statistics.median(r[label] / r[first] for r in rounds)
        print(f"  {label:<34} {median:8.3f} ms   {ratio:5.2f} x")


def cost_of_scaling(make: Callable[[], nn.Cell], x: np.ndarray, y: np.ndarray) -> None:
    """Let a step with loss scaling and the same without it take short turns, and print the ratio for both dtypes."""
    for dtype in (graphls.float32, graphls.float16):
        plain, scaled = (graphls_step(make().to_float(dtype), x, y, scaled=s) for s in (False, True))
        pairs = [(burst(plain), burst(scaled)) for _ in range(PAIRS)][PAIRS // 10 :]
        lower, middle, upper = np.quantile([b / a for a, b in pairs], (0.25, 0.5, 0.75))
        print(f"  {dtype!r:<34} {middle:5.3f} x   half of the turns between {lower:.3f} and {upper:.3f}")


def burst(step: Step) -> float:
    """Seconds for a few steps, after one that is not counted."""
    step()
    start = time.perf_counter()
    for _ in range(10):
        step()
    return time.perf_counter() - start


def networks() -> dict[str, tuple[Callable[[], nn.Cell], np.ndarray, np.ndarray]]:
    """The two networks with a batch of 64 each."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 64).astype(np.int32)
    images = generator.random((64, 1, 8, 8), np.float32)
    rows = generator.random((64, 784), np.float32)
    return {"digits": (digits.LeNet, images, labels), "perceptron": (Perceptron, rows, labels)}


def main() -> None:
    """Measure every network."""
    modules = torch_modules()
    warnings.filterwarnings("ignore", message="Gradients in float32 need no loss scaling")
    for name, (make, x, y) in networks().items():
        candidates = {
            "float32": graphls_step(make(), x, y, scaled=False),
            "float32, loss scaling": graphls_step(make(), x, y, scaled=True),
            "float16": graphls_step(make().to_float(graphls.float16), x, y, scaled=False),
            "float16, loss scaling": graphls_step(make().to_float(graphls.float16), x, y, scaled=True),
        }
        if modules:
            candidates["PyTorch float32, eager"] = torch_step(modules[name], x, y)
        report(name, candidates)
    for name, (make, x, y) in networks().items():
        print(f"{name}: loss scaling / without it")
        cost_of_scaling(make, x, y)


if __name__ == "__main__":
    main()
