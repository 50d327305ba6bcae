"""Data parallel training in the style of MindSpore 1: contexts, Model, and a directory of checkpoints for each rank."""

import os

import mindspore.dataset as ds
import mindspore.nn as nn
import numpy as np
from mindspore import Model, context
from mindspore.common import set_seed
from mindspore.communication.management import get_group_size, get_rank, init
from mindspore.context import ParallelMode
from mindspore.nn.metrics import Accuracy
from mindspore.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint
from mindspore.train.loss_scale_manager import FixedLossScaleManager

set_seed(1)


class LeNet(nn.Cell):
    def __init__(self, num_class=4):
        super(LeNet, self).__init__()
        self.conv = nn.Conv2d(1, 4, 3, pad_mode="valid")
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(4 * 3 * 3, num_class)

    def construct(self, x):
        return self.fc(self.flatten(self.pool(self.relu(self.conv(x)))))


def create_dataset(batch_size, shuffle):
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 66).astype(np.int32)
    images = random.normal(size=(66, 1, 8, 8)).astype(np.float32) * 0.1
    for image, label in zip(images, labels):
        image[0, label * 2 : label * 2 + 2] += 1
    data_set = ds.GeneratorDataset(
        list(zip(images, labels)), ["image", "label"], shuffle=shuffle, num_shards=get_group_size(), shard_id=get_rank()
    )
    return data_set.batch(batch_size, drop_remainder=shuffle)


if __name__ == "__main__":
    context.set_context(mode=context.GRAPH_MODE, device_target="GPU")
    init("nccl")
    rank = get_rank()
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        device_num=get_group_size(), global_rank=rank, parallel_mode=ParallelMode.DATA_PARALLEL, gradients_mean=True,
        parameter_broadcast=True, all_reduce_fusion_config=[2], enable_parallel_optimizer=True,
    )
    network = LeNet()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    opt = nn.Momentum(network.trainable_params(), 0.1, 0.9, loss_scale=1024.0)
    manager = FixedLossScaleManager(1024, drop_overflow_update=False)
    model = Model(network, loss, opt, metrics={"Accuracy": Accuracy()}, loss_scale_manager=manager)
    config = CheckpointConfig(save_checkpoint_steps=4, keep_checkpoint_max=2)
    path = os.path.join("ckpt", "ckpt_" + str(rank) + "/")
    callbacks = [LossMonitor(4), ModelCheckpoint(prefix="lenet", directory=path, config=config)]
    model.train(5, create_dataset(8, True), callbacks=callbacks, dataset_sink_mode=False)
    accuracy = model.eval(create_dataset(8, False), dataset_sink_mode=False)
    print(f"rank {rank} {accuracy}\n", end="", flush=True)
