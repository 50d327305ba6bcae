"""Operator parallel: products of matrices with strategies, and a training step of `value_and_grad`."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.common.initializer import initializer
from mindspore.communication import get_group_size, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, full_batch=True)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.flatten = ops.Flatten()
        self.fc1_weight = ms.Parameter(initializer("normal", [64, 32], ms.float32))
        self.fc2_weight = ms.Parameter(initializer("normal", [32, 32], ms.float32))
        self.fc3_weight = ms.Parameter(initializer("normal", [16, 32], ms.float32))
        self.matmul1 = ops.MatMul().shard(((2, 4), (4, 1)))
        self.relu1 = ops.ReLU().shard(((4, 1),))
        self.matmul2 = ops.MatMul().shard(((1, 8), (8, 1)), out_strategy=((8, 1),))
        self.layer_norm = ops.LayerNorm().shard(((8, 1), (1,), (1,)))
        self.gamma, self.beta = ms.Parameter(ms.ops.ones(32)), ms.Parameter(ms.ops.zeros(32))
        self.softmax = ops.Softmax().shard(((2, 1),))
        self.add = ops.Add().shard(((2, 4), (4,)))
        self.matmul3 = ops.MatMul(transpose_b=True).shard(((4, 1), (2, 1)))

    def construct(self, x):  # type: ignore[no-untyped-def]
        x = self.relu1(self.matmul1(self.flatten(x), self.fc1_weight))
        x = self.layer_norm(self.matmul2(x, self.fc2_weight), self.gamma, self.beta)[0]
        x = self.add(self.softmax(x), self.beta)
        return self.matmul3(x, self.fc3_weight)


def create_dataset(batch_size: int):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 8, 8)).astype(np.float32), rng.integers(0, 16, 64).astype(np.int32)
    return ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(batch_size)


net = Network()
optimizer = nn.Momentum(net.trainable_params(), 1.0, 0.9)
loss_fn = nn.CrossEntropyLoss()


def forward_fn(data, target):  # type: ignore[no-untyped-def]
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)


@ms.jit
def train_step(inputs, targets):  # type: ignore[no-untyped-def]
    (loss_value, _), grads = grad_fn(inputs, targets)
    optimizer(grads)
    return loss_value


for _ in range(2):
    for image, label in create_dataset(32):
        print("loss:", float(train_step(image, label)))
print("ranks:", get_group_size())
