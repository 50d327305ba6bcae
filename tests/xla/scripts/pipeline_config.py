"""Pipeline parallel by AutoParallel: stages by the names of cells, operators that each stage divides, and a Model."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops, train
from mindspore.communication import get_group_size, init
from mindspore.parallel import sync_pipeline_shared_parameters
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import Pipeline

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_seed(1)


class Block(nn.Cell):
    def __init__(self, size: int) -> None:
        super().__init__()
        rng = np.random.default_rng(size)
        self.up = ms.Parameter(ms.Tensor(rng.normal(size=(16, size)).astype(np.float32) / 4), name="up")
        self.down = ms.Parameter(ms.Tensor(rng.normal(size=(size, 16)).astype(np.float32) / 4), name="down")
        self.column = ops.MatMul().shard(((2, 1), (1, 2)))
        self.tanh = ops.Tanh().shard(((2, 2),))
        self.row = ops.MatMul().shard(((2, 2), (2, 1)))

    def construct(self, x):  # type: ignore[no-untyped-def]
        return x + self.row(self.tanh(self.column(x, self.up)), self.down)


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.block1, self.block2, self.head = Block(32), Block(24), nn.Dense(16, 4)
        self.block2.recompute()

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.head(self.block2(self.block1(x)))


net = Network()
net_with_loss = nn.WithLossCell(net, nn.MSELoss())
stages = {"_backbone.block1": 0, "_backbone.block2": 1, "_backbone.head": 1}
parallel_net = AutoParallel(Pipeline(net_with_loss, 4, stage_config=stages), parallel_mode="semi_auto")
parallel_net.dataset_strategy("full_batch")
parallel_net.pipeline(stages=2, scheduler="1f1b")
parallel_net.hsdp(threshold=0)

rng = np.random.default_rng(0)
columns = rng.normal(size=(64, 16)).astype(np.float32), rng.normal(size=(64, 4)).astype(np.float32)
rows = ds.NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(16)


class PrintLoss(train.Callback):
    def step_end(self, run_context):  # type: ignore[no-untyped-def]
        print("loss:", float(run_context.original_args().net_outputs))


model = train.Model(parallel_net, optimizer=nn.Momentum(net.trainable_params(), 0.02, 0.9))
model.train(1, rows, callbacks=[PrintLoss()], dataset_sink_mode=False)
sync_pipeline_shared_parameters(net)
result = net(ms.Tensor(columns[0]))
print("loss:", float(nn.MSELoss()(result, ms.Tensor(columns[1]))))
print("ranks:", get_group_size())
