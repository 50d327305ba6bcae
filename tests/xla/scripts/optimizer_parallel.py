"""Optimizer parallel: a Model whose data, states and weights all ranks divide, over shards of a dataset."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, train
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)
config = {"parallel_optimizer_threshold": 0, "optimizer_level": "level3"}
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
ms.set_auto_parallel_context(enable_parallel_optimizer=True, parallel_optimizer_config=config)
init()
ms.set_seed(1)

net = nn.SequentialCell(nn.Flatten(), nn.Dense(64, 32), nn.ReLU(), nn.Dense(32, 16))
net[1].weight.parallel_optimizer = False
rng = np.random.default_rng(0)
columns = rng.normal(size=(128, 8, 8)).astype(np.float32), rng.integers(0, 16, 128).astype(np.int32)
rows = ds.NumpySlicesDataset(columns, ["image", "label"], num_shards=get_group_size(), shard_id=get_rank())
rows = rows.batch(32 // get_group_size(), drop_remainder=True)
print("steps:", rows.get_dataset_size())
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")


class PrintLoss(train.Callback):
    def step_end(self, run_context):  # type: ignore[no-untyped-def]
        print("loss:", float(run_context.original_args().net_outputs))


model = train.Model(net, loss_fn=loss, optimizer=nn.Adam(net.trainable_params(), 1e-2))
model.train(1, rows, callbacks=[PrintLoss()], dataset_sink_mode=False)
print("ranks:", get_group_size())
