"""LeNet in the style of MindSpore 2: value_and_grad, a hand-written loop and dynamic loss scaling."""

import argparse

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.amp import DynamicLossScaler, all_finite, auto_mixed_precision
from mindspore.common.initializer import Normal
from sklearn.datasets import load_digits


class LeNet5(nn.Cell):
    def __init__(self, num_class=10, num_channel=1):
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(16 * 5 * 5, 120)
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, num_class, weight_init=Normal(0.02))
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def batches(images, labels, size):
    order = np.random.permutation(len(images))
    for start in range(0, len(order) - size + 1, size):
        rows = order[start : start + size]
        yield Tensor(images[rows]), Tensor(labels[rows])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--scale", type=float, default=2.0**10)
    options = parser.parse_args()
    ms.set_seed(1)
    np.random.seed(1)
    digits = load_digits()
    images = np.kron(digits.images / 16, np.ones((4, 4)))[:, None].astype(np.float32)
    labels = digits.target.astype(np.int32)

    net = auto_mixed_precision(LeNet5(), "O2")
    loss_fn = nn.CrossEntropyLoss()
    optimizer = nn.Adam(net.trainable_params(), learning_rate=0.004)
    loss_scaler = DynamicLossScaler(scale_value=options.scale, scale_factor=2, scale_window=50)

    def forward_fn(data, label):
        logits = net(data)
        loss = loss_fn(logits, label)
        return loss_scaler.scale(loss), logits

    grad_fn = ms.value_and_grad(forward_fn, None, optimizer.parameters, has_aux=True)

    def train_step(data, label):
        (loss, _), grads = grad_fn(data, label)
        loss = loss_scaler.unscale(loss)
        is_finite = all_finite(grads)
        if is_finite:
            grads = loss_scaler.unscale(grads)
            optimizer(grads)
        loss_scaler.adjust(is_finite)
        return loss, is_finite

    skipped = 0
    for epoch in range(options.epochs):
        net.set_train()
        for step, (data, label) in enumerate(batches(images[:1500], labels[:1500], 50)):
            loss, is_finite = train_step(data, label)
            skipped += not is_finite
            if step % 10 == 0:
                print(f"epoch: {epoch} step: {step} loss: {float(loss.asnumpy()):.4f}")
    net.set_train(False)
    predicted = net(Tensor(images[1500:])).argmax(axis=1)
    accuracy = ops.equal(predicted, Tensor(labels[1500:])).astype(ms.float32).mean()
    print(f"skipped: {skipped} scale: {float(loss_scaler.scale_value)}")
    print(f"accuracy: {float(accuracy):.3f}")


if __name__ == "__main__":
    main()
