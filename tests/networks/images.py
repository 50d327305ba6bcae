"""Networks of images: LeNet, ResNet-18 and a U-Net, each in its full structure with few channels."""

from __future__ import annotations

from typing import Any

from graphls import nn, ops
from tests.step_graphs.steps import Block


def perceptron() -> nn.Cell:
    """Three dense layers."""
    return nn.SequentialCell(nn.Dense(12, 16), nn.ReLU(), nn.Dense(16, 16), nn.Tanh(), nn.Dense(16, 5))


def lenet() -> nn.Cell:
    """Two convolutions with pooling and three dense layers, for images of 1 x 12 x 12."""
    return nn.SequentialCell(
        nn.Conv2d(1, 3, 5, pad_mode="same", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(3, 6, 3, pad_mode="valid", has_bias=True), nn.ReLU(), nn.AvgPool2d(2, 2),
        nn.Flatten(), nn.Dense(24, 12), nn.ReLU(), nn.Dense(12, 8), nn.ReLU(), nn.Dense(8, 5),
    )  # fmt: skip


def resnet18() -> nn.Cell:
    """A stem, four stages of two residual blocks each and a head: 18 layers with weights, for images of 3 x 16 x 16."""
    stages = [(4, 4, 1), (4, 4, 1), (4, 6, 2), (6, 6, 1), (6, 8, 2), (8, 8, 1), (8, 10, 2), (10, 10, 1)]
    return nn.SequentialCell(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, pad_mode="same"),
        *(Block(*sizes) for sizes in stages), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dense(10, 5),
    )  # fmt: skip


def _double(inputs: int, outputs: int) -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Cell):
    """Two steps down and two up, each joined with what was there on the way down; a score for every pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = _double(1, 3), _double(3, 4), _double(4, 6)
        self.pool = nn.MaxPool2d(2, 2)
        self.widen2 = nn.Conv2dTranspose(6, 4, 2, 2, has_bias=True)
        self.widen1 = nn.Conv2dTranspose(4, 3, 2, 2, has_bias=True)
        self.up2, self.up1 = _double(8, 4), _double(6, 3)
        self.head = nn.Conv2d(3, 1, 1, has_bias=True)

    def construct(self, x: Any) -> Any:
        first = self.down1(x)
        second = self.down2(self.pool(first))
        y = self.widen2(self.bottom(self.pool(second)))
        y = self.widen1(self.up2(ops.concat((second, y), 1)))
        return self.head(self.up1(ops.concat((first, y), 1)))
