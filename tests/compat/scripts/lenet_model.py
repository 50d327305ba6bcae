"""LeNet in the style of MindSpore 1: datasets, Model.train with callbacks, a checkpoint, and Model.eval."""

import argparse
import os

import mindspore.dataset as ds
import mindspore.dataset.transforms.c_transforms as C
import mindspore.dataset.vision.c_transforms as CV
import mindspore.nn as nn
import numpy as np
from mindspore import Model, Tensor, context, load_checkpoint, load_param_into_net
from mindspore.common import dtype as mstype
from mindspore.common import set_seed
from mindspore.common.initializer import TruncatedNormal
from mindspore.nn.metrics import Accuracy
from mindspore.ops import operations as P
from mindspore.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint, TimeMonitor
from mindspore.train.loss_scale_manager import FixedLossScaleManager
from sklearn.datasets import load_digits


def conv(in_channels, out_channels, kernel_size, stride=1, padding=0):
    weight = TruncatedNormal(0.1)
    return nn.Conv2d(
        in_channels, out_channels, kernel_size=kernel_size, stride=stride, padding=padding,
        weight_init=weight, has_bias=False, pad_mode="valid",
    )


def fc_with_initialize(input_channels, out_channels):
    return nn.Dense(input_channels, out_channels, TruncatedNormal(0.06), TruncatedNormal(0.02))


class LeNet5(nn.Cell):
    def __init__(self, num_class=10, channel=1):
        super(LeNet5, self).__init__()
        self.num_class = num_class
        self.conv1 = conv(channel, 6, 5)
        self.conv2 = conv(6, 16, 5)
        self.fc1 = fc_with_initialize(16 * 5 * 5, 120)
        self.fc2 = fc_with_initialize(120, 84)
        self.fc3 = fc_with_initialize(84, self.num_class)
        self.relu = P.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.reshape = P.Reshape()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.reshape(x, (P.Shape()(x)[0], -1))
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


class Digits:
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


def create_dataset(images, labels, batch_size, repeat_size=1):
    dataset = ds.GeneratorDataset(Digits(images, labels), ["image", "label"], shuffle=False)
    operations = [CV.Resize((32, 32)), CV.Rescale(1.0 / 255.0, 0.0), CV.HWC2CHW()]
    dataset = dataset.map(operations=C.TypeCast(mstype.int32), input_columns="label")
    dataset = dataset.map(operations=operations, input_columns="image")
    dataset = dataset.shuffle(buffer_size=len(images))
    return dataset.batch(batch_size, drop_remainder=True).repeat(repeat_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt_path", type=str, default="./ckpt")
    parser.add_argument("--epoch_size", type=int, default=2)
    args = parser.parse_args()
    context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
    set_seed(1)
    digits = load_digits()
    images, labels = (digits.images * 15.9).astype(np.uint8)[..., None], digits.target

    network = LeNet5()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9, loss_scale=1024.0)
    manager = FixedLossScaleManager(1024.0, drop_overflow_update=False)
    metrics = {"Accuracy": Accuracy()}
    model = Model(network, loss, optimizer, metrics=metrics, amp_level="O0", loss_scale_manager=manager)

    train = create_dataset(images[:1500], labels[:1500], 50)
    steps = train.get_dataset_size()
    config = CheckpointConfig(save_checkpoint_steps=steps, keep_checkpoint_max=2)
    saving = ModelCheckpoint(prefix="lenet", directory=args.ckpt_path, config=config)
    callbacks = [TimeMonitor(steps), saving, LossMonitor(10)]
    model.train(args.epoch_size, train, callbacks=callbacks, dataset_sink_mode=False)

    restored = LeNet5()
    path = os.path.join(args.ckpt_path, f"lenet-{args.epoch_size}_{steps}.ckpt")
    load_param_into_net(restored, load_checkpoint(path))
    model = Model(restored, loss, metrics=metrics)
    print(model.eval(create_dataset(images[1500:], labels[1500:], 27), dataset_sink_mode=False))
    print(model.predict(Tensor(np.zeros((1, 1, 32, 32), np.float32))).shape)
