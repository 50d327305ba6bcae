"""Recompute: blocks that run again in the backward, of operators with layouts, and a cell that devices divide."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, init
from mindspore.parallel import Layout

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.AUTO_PARALLEL, search_mode="sharding_propagation")
init()
ms.set_seed(1)
layout = Layout((2, 4), ("dp", "mp"))


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Dense(16, 64), nn.Dense(64, 16)
        self.up.matmul.shard((layout("dp", "None"), layout("mp", "None")))
        self.down.matmul.shard((layout("dp", "mp"), layout("None", "mp")), out_strategy=(layout("dp", "None"),))

    def construct(self, x):  # type: ignore[no-untyped-def]
        return x + self.down(ops.tanh(self.up(x)))


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([Block() for _ in range(2)])
        for block in self.blocks:
            block.recompute()
        self.head = nn.Dense(16, 1)
        self.head_shard = self.head.shard(in_strategy=((8, 1),), out_strategy=((8, 1),))

    def construct(self, x):  # type: ignore[no-untyped-def]
        for block in self.blocks:
            x = block(x)
        return self.head_shard(x)


net = Network()
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.AdamWeightDecay(net.trainable_params(), 0.01))
step.set_train()
rng = np.random.default_rng(0)
x, y = (ms.Tensor(rng.normal(size=(16, size)).astype(np.float32)) for size in (16, 1))
for _ in range(4):
    print("loss:", float(step(x, y)))
print("ranks:", get_group_size())
