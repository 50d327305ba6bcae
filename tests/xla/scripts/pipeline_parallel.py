"""Pipeline parallel: layers in two stages by their pipeline_stage, and a training step of `value_and_grad`."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, init
from mindspore.nn.utils import no_init_parameters
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import PipelineGradReducer

ms.set_context(mode=ms.GRAPH_MODE)
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


with no_init_parameters():
    net = Network()
    optimizer = nn.SGD(net.trainable_params(), 1e-2)
net.layer1.pipeline_stage = 0
net.relu1.pipeline_stage = 0
net.layer2.pipeline_stage = 0
net.relu2.pipeline_stage = 1
net.layer3.pipeline_stage = 1


def create_dataset(batch_size: int):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 8, 8)).astype(np.float32), rng.integers(0, 16, 64).astype(np.int32)
    return ds.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(batch_size)


net_with_loss = nn.PipelineCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), 4)
net_with_loss.set_train()


def forward_fn(inputs, target):  # type: ignore[no-untyped-def]
    return net_with_loss(inputs, target)


grad_fn = ops.value_and_grad(forward_fn, None, optimizer.parameters)
pp_grad_reducer = PipelineGradReducer(optimizer.parameters, opt_shard=False)


@ms.jit
def train_one_step(inputs, target):  # type: ignore[no-untyped-def]
    loss, grads = grad_fn(inputs, target)
    grads = pp_grad_reducer(grads)
    optimizer(grads)
    return loss, grads


parallel_step = AutoParallel(train_one_step, parallel_mode="semi_auto")
parallel_step.pipeline(stages=2, scheduler="1f1b")
for _ in range(2):
    for data, label in create_dataset(32):
        loss_output, _ = parallel_step(data, label)
        print("loss:", float(loss_output))
print("ranks:", get_group_size())
