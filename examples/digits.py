"""Train a small convolutional network on handwritten digits, in float16 with dynamic loss scaling, on a CPU.

Run it with `make demo`. It opens the page of the run, and leaves one that shows the step, every stage of it, and the
step as ONNX in out/demo/.
"""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import graphls
from graphls import nn, ops
from graphls.train import RunReport

BATCH, EPOCHS, TEST_IMAGES = 64, 24, 360


class LeNet(nn.Cell):
    """Two convolutions and two dense layers for images of 8 x 8; it returns float32 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(128, 64)
        self.fc2 = nn.Dense(64, 10)

    def construct(self, images: graphls.Tensor) -> graphls.Tensor:
        x = self.pool(self.relu(self.conv1(images)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.relu(self.fc1(self.flatten(x)))
        return ops.cast(self.fc2(x), graphls.float32)


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images as float32 [n, 1, 8, 8] in 0..1 and labels as int32: training first, then a fixed test split."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return images[train], labels[train], images[test], labels[test]


def make_step(network: nn.Cell) -> nn.Cell:
    """One training step: float16 inside, float32 weights, a loss scale that starts far too high."""
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.1, momentum=0.9)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**24, 2, 100)).set_train()


def train(
    step: graphls.Compiled, images: np.ndarray, labels: np.ndarray, console: Console, report: RunReport
) -> int:
    """Run all epochs and return how many steps were skipped."""
    shuffle = np.random.default_rng(1)
    batches = len(labels) // BATCH
    skipped = 0
    columns = [
        TextColumn("epoch {task.fields[epoch]:>2}"),
        BarColumn(),
        TextColumn("step {task.completed}/{task.total}  loss {task.fields[loss]:.4f}"),
        TextColumn("scale 2^{task.fields[scale]:.0f}  skipped {task.fields[skipped]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=EPOCHS * batches, epoch=1, loss=np.nan, scale=24, skipped=0)
        for epoch in range(1, EPOCHS + 1):
            for rows in np.split(shuffle.permutation(len(labels))[: batches * BATCH], batches):
                loss, overflow, scale = step(images[rows], labels[rows])
                skipped += bool(overflow)
                report.add(loss=loss, overflow=overflow, scale=scale)
                progress.update(
                    task, advance=1, epoch=epoch, loss=float(loss), scale=np.log2(float(scale)), skipped=skipped
                )
    return skipped


def show(page: Path, console: Console) -> None:
    """Say where the page of the run is, and open it where somebody sits in front of a screen."""
    console.print(f"see the run in {page}")
    has_screen = sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if has_screen and console.is_terminal and "CI" not in os.environ:
        webbrowser.open(page.resolve().as_uri())


def page() -> tuple[graphls.Compiled, dict[str, np.ndarray]]:
    """The step before any training, and the digits, for `make web`: the page trains by itself."""
    graphls.set_seed(1)
    images, labels, test_images, test_labels = load()
    step = graphls.compile(make_step(LeNet().to_float(graphls.float16)), images[:BATCH], labels[:BATCH])
    return step, {"images": images, "labels": labels, "test_images": test_images, "test_labels": test_labels}


def main() -> None:
    """Compile, train, test, dump."""
    console = Console()
    graphls.set_seed(1)
    images, labels, test_images, test_labels = load()
    network = LeNet().to_float(graphls.float16)
    start = time.perf_counter()
    step = graphls.compile(make_step(network), images[:BATCH], labels[:BATCH])
    console.print(f"compiled {step.graph.node_count} nodes in {time.perf_counter() - start:.2f} s")
    report = RunReport("out/demo/run", title="The demo: digits in float16")
    skipped = train(step, images, labels, console, report)
    network.set_train(False)
    correct = network(test_images).asnumpy().argmax(1) == test_labels
    console.print(f"test accuracy {correct.mean():.4f} on {len(correct)} images, {skipped} steps skipped")
    step.dump(Path("out/demo"))
    report.evaluated({"test accuracy": correct.mean()})
    report.show("Gradients of the last batch, times the scale", step.gradient_ranges(images[:BATCH], labels[:BATCH]))
    profile = step.profile(images[:BATCH], labels[:BATCH])
    report.show("Where the time of a step goes", profile.plot(), profile)
    step.show(Path("out/demo/index.html"), profile, step.record(images[:BATCH], labels[:BATCH]))
    show(report.close(), console)
    console.print("see the step with its times and values in out/demo/index.html;")
    console.print("every stage is there as text and DOT, and the step as ONNX")


if __name__ == "__main__":
    main()
