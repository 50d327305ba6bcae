"""The training flow by sections: dataset, network, loss, optimizer, gradients, one step, the complete training.

On scikit-learn's handwritten digits, on a CPU, in seconds: `python examples/training_flow.py`. docs/training_flow.md
shows every section beside the same in PyTorch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import graphls
from graphls import Tensor, nn, ops
from graphls import dataset as ds
from graphls.dataset import transforms, vision
from graphls.train import (
    CheckpointConfig,
    LossMonitor,
    Model,
    ModelCheckpoint,
    TimeMonitor,
    load_checkpoint,
    load_param_into_net,
)

BATCH, EPOCHS, TEST_IMAGES = 32, 8, 360


# 1. The dataset: an object with a length and items by index.


class Digits:
    """Handwritten digits: images uint8 (8, 8, 1) of 0 to 255 and labels int32, the training or the test part."""

    def __init__(self, usage: str) -> None:
        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(digits.target))
        rows = order[:TEST_IMAGES] if usage == "test" else order[TEST_IMAGES:]
        self.images = (digits.images[rows] * (255 / 16)).astype(np.uint8)[..., None]
        self.labels = digits.target[rows].astype(np.int32)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.images[index], self.labels[index]


def make_dataset(usage: str) -> ds.Dataset:
    """Batches of images float32 (BATCH, 1, 8, 8) of 0 to 1 and labels int32 (BATCH,); shuffled for training."""
    dataset = ds.GeneratorDataset(Digits(usage), column_names=["image", "label"], shuffle=usage == "train")
    dataset = dataset.map([vision.Rescale(1 / 255, 0.0), vision.HWC2CHW()], input_columns="image")
    dataset = dataset.map(transforms.TypeCast(graphls.int32), input_columns="label")
    return dataset.batch(BATCH, drop_remainder=usage == "train")


def show_dataset(dataset: ds.Dataset) -> None:
    """Both iterators: rows as dicts by column, and as lists."""
    row = next(iter(dataset.create_dict_iterator(num_epochs=1)))
    print("a batch by name:", {name: (column.shape, column.dtype) for name, column in row.items()})
    image, label = next(iter(dataset.create_tuple_iterator(num_epochs=1)))
    print("a batch by position:", image.shape, label.shape, f"; {dataset.get_dataset_size()} batches an epoch")


# 2. The forward network.


class LeNet(nn.Cell):
    """Two convolutions and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(128, 64)
        self.fc2 = nn.Dense(64, 10)

    def construct(self, images: Tensor) -> Tensor:
        x = self.pool(self.relu(self.conv1(images)))
        x = self.pool(self.relu(self.conv2(x)))
        return self.fc2(self.relu(self.fc1(self.flatten(x))))


# 3. The loss, and 4. the optimizer.


def make_loss() -> nn.Cell:
    return nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")


def make_optimizer(network: nn.Cell) -> nn.Optimizer:
    return nn.Momentum(network.trainable_params(), learning_rate=0.05, momentum=0.9)


# 5 and 6. Forward and backward: a gradient is a function derived from a network, with respect to inputs or weights.


class GradientOfInputs(nn.Cell):
    """The gradient with respect to every input, for a result that weighs `sens`."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network
        self.gradient = ops.GradOperation(get_all=True, sens_param=True)

    def construct(self, images: Tensor, sens: Tensor) -> Any:
        return self.gradient(self.network)(images, sens)


class GradientOfWeights(nn.Cell):
    """The gradients of a loss with respect to the weights."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.weights = graphls.ParameterTuple(network.trainable_params())
        self.gradient = ops.GradOperation(get_by_list=True)

    def construct(self, images: Tensor, labels: Tensor) -> Any:
        return self.gradient(self.network, self.weights)(images, labels)


def show_gradients(network: nn.Cell, images: Tensor, labels: Tensor) -> None:
    """Prints the shapes and norms of the gradients of the images and of the weights."""
    ones = ops.ones((len(images), 10))
    (of_images,) = GradientOfInputs(network)(images, ones)
    print("gradient of the logits with respect to the images:", of_images.shape)
    of_weights = GradientOfWeights(nn.WithLossCell(network, make_loss()))(images, labels)
    for weight, gradient in zip(network.trainable_params(), of_weights, strict=True):
        print(f"  {weight.name:<22}{gradient.shape!s:<16} norm {float(ops.norm(gradient)):.4f}")


# 7. The update: one step of training, written out. `depend` makes the loss wait for the optimizer.


class OneStep(nn.Cell):
    """Forward, backward from `sens`, update; it returns the loss."""

    def __init__(self, network: nn.Cell, optimizer: nn.Optimizer, sens: float = 1.0) -> None:
        super().__init__(auto_prefix=False)
        self.network = network.set_grad()
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.gradient = ops.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens

    def construct(self, images: Tensor, labels: Tensor) -> Tensor:
        loss = self.network(images, labels)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        gradients = self.gradient(self.network, self.weights)(images, labels, sens)
        return ops.depend(loss, self.optimizer(gradients))


def train_by_hand(dataset: ds.Dataset) -> None:
    """Trains for one epoch with a hand-written step and loop."""
    network = LeNet()
    step = OneStep(nn.WithLossCell(network, make_loss()), make_optimizer(network)).set_train()
    losses = [float(step(images, labels)) for images, labels in dataset.create_tuple_iterator(num_epochs=1)]
    print(f"by hand: loss {losses[0]:.4f} in the first step, {losses[-1]:.4f} in the last of the epoch")


# The complete training: Model combines network, loss and optimizer, and calls callbacks.


def train_by_model(train: ds.Dataset, test: ds.Dataset, folder: Path) -> float:
    """All epochs, a checkpoint after each, and the accuracy of a network that is loaded from the last."""
    network = LeNet()
    model = Model(network, make_loss(), make_optimizer(network), metrics={"accuracy"})
    steps = train.get_dataset_size()
    checkpoints = ModelCheckpoint("lenet", str(folder), CheckpointConfig(save_checkpoint_steps=steps))
    model.train(EPOCHS, train, callbacks=[LossMonitor(steps), TimeMonitor(), checkpoints])
    fresh = LeNet()
    load_param_into_net(fresh, load_checkpoint(checkpoints.latest_ckpt_file_name))
    accuracy = Model(fresh, make_loss(), metrics={"accuracy"}).eval(test)["accuracy"]
    print(f"test accuracy {accuracy:.4f} of the network in {Path(checkpoints.latest_ckpt_file_name).name}")
    return float(accuracy)


def main(folder: str = "out/training_flow") -> float:
    """Every section in turn; returns the accuracy on the test images."""
    graphls.set_seed(1)
    train, test = make_dataset("train"), make_dataset("test")
    show_dataset(train)
    images, labels = next(iter(train.create_tuple_iterator(num_epochs=1)))
    show_gradients(LeNet(), images, labels)
    train_by_hand(train)
    return train_by_model(train, test, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
