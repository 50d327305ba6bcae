"""Data parallel training in the style of MindSpore 2: a function of value and gradients, and a reducer, by hand."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layers = nn.SequentialCell(nn.Dense(8 * 8, 32), nn.ReLU(), nn.Dense(32, 4))

    def construct(self, x):
        return self.layers(self.flatten(x))


def create_dataset(batch_size):
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 64).astype(np.int32)
    images = (np.eye(4, 64, dtype=np.float32)[labels] * 2 + random.normal(size=(64, 64)) * 0.1).astype(np.float32)
    rows = [(image.reshape(1, 8, 8), label) for image, label in zip(images, labels)]
    data_set = ds.GeneratorDataset(
        rows, ["image", "label"], shuffle=False, num_shards=get_group_size(), shard_id=get_rank()
    )
    return data_set.batch(batch_size)


net = Network()
loss_fn = nn.CrossEntropyLoss()
optimizer = nn.SGD(net.trainable_params(), 1.0)


def forward_fn(data, target):
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
grad_reducer = nn.DistributedGradReducer(optimizer.parameters)

losses = []
for epoch in range(3):
    for image, label in create_dataset(32 // get_group_size()):
        (loss_value, _), grads = grad_fn(image, label)
        grads = grad_reducer(grads)
        optimizer(grads)
        losses.append(float(loss_value))
    reduced = ops.AllReduce()(ms.Tensor(losses[-1], ms.float32)) / get_group_size()
    print(f"rank {get_rank()} epoch {epoch} loss {float(reduced):.4f}\n", end="", flush=True)

assert losses[-1] < losses[0] * 0.8
if get_rank() == 0:
    ms.save_checkpoint(net, "loop.ckpt")
