"""Gradient accumulation: micro-batches in a semi-automatic network, with a dynamic loss scale, and AutoParallel."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, init
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import GradAccumulation

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(3)
        self.table = ms.Parameter(ms.Tensor(rng.normal(size=(24, 16)).astype(np.float32)), name="table")
        self.weight = ms.Parameter(ms.Tensor(rng.normal(size=(2, 16, 8)).astype(np.float32)), name="weight")
        self.gather = ops.Gather().shard(((8, 1), (1, 1)))
        self.transpose = ops.Transpose().shard(((4, 2, 1),))
        self.product = ops.BatchMatMul().shard(((2, 2, 1), (2, 1, 2)))
        self.reduce = ops.ReduceMean().shard(((1, 4, 2),))

    def construct(self, words):  # type: ignore[no-untyped-def]
        x = self.transpose(self.gather(self.table, words, 0), (1, 0, 2))
        return self.reduce(self.product(x, self.weight), 0)


class WithLoss(nn.Cell):
    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network, self.loss = network, nn.MSELoss()

    def construct(self, words, target):  # type: ignore[no-untyped-def]
        return self.loss(self.network(words), target)


net = AutoParallel(GradAccumulation(WithLoss(Network()), 4), parallel_mode="semi_auto")
net.dataset_strategy("full_batch")
net.hsdp(threshold=0, optimizer_level="level2")
scale = nn.DynamicLossScaleUpdateCell(2.0**12, 2, 100)
optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
step = nn.TrainOneStepWithLossScaleCell(net, optimizer, scale_sense=scale)
rng = np.random.default_rng(0)
words = ms.Tensor(rng.integers(0, 24, (16, 2)).astype(np.int32))
target = ms.Tensor(rng.normal(size=(16, 8)).astype(np.float32))
for _ in range(4):
    loss, overflow, _ = step(words, target)
    print("loss:", float(loss), bool(overflow))
print("ranks:", get_group_size())
