"""Pipeline parallel: layers in two stages by their pipeline_stage, and a training step of `value_and_grad`."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, pipeline_stages=2)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1, self.relu1 = nn.Dense(64, 32), nn.ReLU()
        self.layer2, self.relu2 = nn.Dense(32, 32), nn.ReLU()
        self.layer3 = nn.Dense(32, 16)

    def construct(self, x):  # type: ignore[no-untyped-def]
        x = self.relu1(self.layer1(self.flatten(x)))
        x = self.relu2(self.layer2(x))
        return self.layer3(x)


net = Network()
net.layer1.pipeline_stage = 0
net.relu1.pipeline_stage = 0
net.layer2.pipeline_stage = 0
net.relu2.pipeline_stage = 1
net.layer3.pipeline_stage = 1


def create_dataset(batch_size: int):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 8, 8)).astype(np.float32), rng.integers(0, 16, 64).astype(np.int32)
    return ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(batch_size)


optimizer = nn.SGD(net.trainable_params(), 1e-2)
net_with_loss = nn.PipelineCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), 4)
net_with_loss.set_train()


def forward_fn(inputs, target):  # type: ignore[no-untyped-def]
    return net_with_loss(inputs, target)


grad_fn = ops.value_and_grad(forward_fn, None, optimizer.parameters)
pp_grad_reducer = nn.PipelineGradReducer(optimizer.parameters)


@ms.jit
def train_one_step(inputs, target):  # type: ignore[no-untyped-def]
    loss, grads = grad_fn(inputs, target)
    grads = pp_grad_reducer(grads)
    optimizer(grads)
    return loss, grads


for _ in range(2):
    for data, label in create_dataset(32):
        loss_output, _ = train_one_step(data, label)
        print("loss:", float(loss_output))
print("ranks:", get_group_size())
