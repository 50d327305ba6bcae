"""LeNet as MindSpore 1.x trains it on Ascend: MNIST files, Model.train in sink mode with callbacks, and evaluation."""

import argparse
import os
import struct

import mindspore.dataset as ds
import mindspore.dataset.transforms.c_transforms as C
import mindspore.dataset.vision.c_transforms as CV
import mindspore.nn as nn
import numpy as np
from mindspore import Parameter, Tensor, context
from mindspore.common import dtype as mstype
from mindspore.common import set_seed
from mindspore.dataset.vision import Inter
from mindspore.nn.metrics import Accuracy
from mindspore.ops import composite as CC
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.train import Model
from mindspore.train.callback import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, TimeMonitor
from mindspore.train.serialization import load_checkpoint, load_param_into_net


def write_mnist(folder, images, labels):
    """The two files of MNIST's format: a magic number, sizes, and bytes."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "train-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 2051, *images.shape) + images.tobytes())
    with open(os.path.join(folder, "train-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 2049, len(labels)) + labels.tobytes())


def make_digits(count):
    """Bars at ten angles, which is what a class is here, with noise."""
    rng = np.random.RandomState(3)
    labels = rng.randint(0, 10, count).astype(np.uint8)
    y, x = np.mgrid[-14:14, -14:14] + 0.5
    angles = labels * np.pi / 10
    away = np.abs(np.cos(angles)[:, None, None] * y - np.sin(angles)[:, None, None] * x)
    images = np.where(away < 3, 220, 20) + rng.randint(-15, 16, (count, 28, 28))
    return images.astype(np.uint8), labels


def create_dataset(data_path, batch_size=32, repeat_size=1, num_parallel_workers=1, shuffle=False):
    mnist_ds = ds.MnistDataset(data_path, shuffle=shuffle)
    resize_height, resize_width = 32, 32
    rescale, shift = 1.0 / 255.0, 0.0
    rescale_nml, shift_nml = 1 / 0.3081, -1 * 0.1307 / 0.3081
    resize_op = CV.Resize((resize_height, resize_width), interpolation=Inter.LINEAR)
    rescale_nml_op = CV.Rescale(rescale_nml, shift_nml)
    rescale_op = CV.Rescale(rescale, shift)
    hwc2chw_op = CV.HWC2CHW()
    type_cast_op = C.TypeCast(mstype.int32)
    mnist_ds = mnist_ds.map(operations=type_cast_op, input_columns="label", num_parallel_workers=num_parallel_workers)
    for operation in (resize_op, rescale_op, rescale_nml_op, hwc2chw_op):
        mnist_ds = mnist_ds.map(
            operations=operation, input_columns="image", num_parallel_workers=num_parallel_workers
        )
    mnist_ds = mnist_ds.batch(batch_size, drop_remainder=True)
    return mnist_ds.repeat(repeat_size)


class LeNet5(nn.Cell):
    def __init__(self, num_class=10, num_channel=1):
        super(LeNet5, self).__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(16 * 5 * 5, 120, weight_init="normal")
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, num_class)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.reshape = P.Reshape()
        self.shape = P.Shape()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.reshape(x, (self.shape(x)[0], -1))
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


class WithLossCell(nn.Cell):
    """What the model zoo writes by itself to have the loss in float32."""

    def __init__(self, backbone, loss_fn):
        super(WithLossCell, self).__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn
        self.cast = P.Cast()

    def construct(self, data, label):
        output = self._backbone(data)
        return self._loss_fn(self.cast(output, mstype.float32), label)


class TrainForwardBackward(nn.Cell):
    def __init__(self, network, optimizer, sens=1.0):
        super(TrainForwardBackward, self).__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.network.add_flags(defer_inline=True)
        self.weights = optimizer.parameters
        self.optimizer = optimizer
        self.grad = CC.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens

    def construct(self, *inputs):
        weights = self.weights
        loss = self.network(*inputs)
        sens = P.Fill()(P.DType()(loss), P.Shape()(loss), self.sens)
        grads = self.grad(self.network, weights)(*inputs, sens)
        return F.depend(loss, self.optimizer(grads))


class LossKeeper(Callback):
    def __init__(self):
        super(LossKeeper, self).__init__()
        self.losses = []

    def step_end(self, run_context):
        cb_params = run_context.original_args()
        self.losses.append(float(np.mean(cb_params.net_outputs.asnumpy())))

    def epoch_end(self, run_context):
        cb_params = run_context.original_args()
        print("epoch %d: step %d" % (cb_params.cur_epoch_num, cb_params.cur_step_num))


def dynamic_lr(base_lr, steps):
    return np.array([base_lr * min(1.0, (i + 1) / 5.0) for i in range(steps)], np.float32)


def filled(net, seed):
    """The same first weights everywhere."""
    rng = np.random.RandomState(seed)
    for param in net.get_parameters():
        bound = np.sqrt(3.0 / np.prod(param.shape[1:])) if len(param.shape) > 1 else 0.0
        param.set_data(Tensor(rng.uniform(-bound, bound, param.shape).astype(np.float32)))
    return net


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="MindSpore LeNet Example")
    parser.add_argument("--device_target", type=str, default="Ascend", choices=["Ascend", "GPU", "CPU"])
    parser.add_argument("--data_path", type=str, default="./Data")
    parser.add_argument("--ckpt_path", type=str, default="./ckpt")
    parser.add_argument("--dataset_sink_mode", type=lambda text: text == "True", default=True)
    args = parser.parse_args()
    context.set_context(mode=context.GRAPH_MODE, device_target=args.device_target, save_graphs=False)
    set_seed(1)
    write_mnist(os.path.join(args.data_path, "train"), *make_digits(320))

    network = filled(LeNet5(10), 1)
    net_loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    ds_train = create_dataset(os.path.join(args.data_path, "train"))
    steps = ds_train.get_dataset_size()
    net_opt = nn.Momentum(network.trainable_params(), Tensor(dynamic_lr(0.01, 2 * steps)), 0.9)
    config_ck = CheckpointConfig(save_checkpoint_steps=steps, keep_checkpoint_max=10)
    ckpoint_cb = ModelCheckpoint(prefix="checkpoint_lenet", directory=args.ckpt_path, config=config_ck)
    model = Model(TrainForwardBackward(WithLossCell(network, net_loss), net_opt))
    keeper = LossKeeper()
    callbacks = [TimeMonitor(steps), ckpoint_cb, LossMonitor(steps), keeper]
    model.train(2, ds_train, callbacks=callbacks, dataset_sink_mode=args.dataset_sink_mode)
    print("final loss: %.6f" % keeper.losses[-1])

    restored = LeNet5(10)
    param_dict = load_checkpoint(os.path.join(args.ckpt_path, "checkpoint_lenet-2_%d.ckpt" % steps))
    assert isinstance(param_dict["conv1.weight"], Parameter)
    load_param_into_net(restored, param_dict)
    evaluated = Model(restored, net_loss, metrics={"Accuracy": Accuracy()})
    acc = evaluated.eval(create_dataset(os.path.join(args.data_path, "train")), dataset_sink_mode=False)
    print("============== Accuracy: %.4f ==============" % acc["Accuracy"])
