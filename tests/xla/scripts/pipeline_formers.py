"""A transformer's steps as MindFormers trains it: blocks in stages, interleaved parts, float16, shards of the rows."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_rank, init
from mindspore.parallel._utils import _get_pipeline_stages

from graphls.nn import MFPipelineWithLossScaleCell

ms.set_context(mode=ms.GRAPH_MODE)
init()
config = {"pipeline_interleave": False, "pipeline_scheduler": "1f1b"}
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2, pipeline_config=config)
ms.set_auto_parallel_context(gradients_mean=True, dataset_strategy="data_parallel")
ms.set_auto_parallel_context(
    enable_parallel_optimizer=True, parallel_optimizer_config={"parallel_optimizer_threshold": 0}
)
ms.set_seed(1)


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((16,))
        self.inner, self.outer = nn.Dense(16, 32), nn.Dense(32, 16)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return x + self.outer(ops.gelu(self.inner(self.norm(x))))


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(24, 16)
        self.blocks = nn.CellList([Block() for _ in range(2)])
        self.head = nn.Dense(16, 24, has_bias=False)
        self.embedding.pipeline_stage = 0
        for number, block in enumerate(self.blocks):
            block.pipeline_stage = number
        self.head.pipeline_stage = 1
        self.embedding.embedding_table.add_pipeline_stage(self.head.pipeline_stage)
        self.loss = nn.CrossEntropyLoss()

    def construct(self, words, target):  # type: ignore[no-untyped-def]
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.loss(ops.cast(self.head(x), ms.float32).reshape(-1, 24), target.reshape(-1))


net = Network()
for block in net.blocks:
    block.to_float(ms.float16)
decayed = [p for p in net.trainable_params() if "norm" not in p.name and "bias" not in p.name]
other = [p for p in net.trainable_params() if "norm" in p.name or "bias" in p.name]
optimizer = nn.AdamWeightDecay([{"params": decayed, "weight_decay": 0.01}, {"params": other}], learning_rate=1e-2)
cell = nn.PipelineCell(nn.MicroBatchInterleaved(net, 2), micro_size=2)
scale = nn.DynamicLossScaleUpdateCell(2.0**22, 8, 100)
step = MFPipelineWithLossScaleCell(cell, optimizer, True, 1.0, scale_sense=scale, micro_batch_num=2)
step.set_train()

ranks = max(1, get_group_size() // _get_pipeline_stages())
rng = np.random.default_rng(0)
columns = tuple(rng.integers(0, 24, (64, 4)).astype(np.int32) for _ in range(2))
rows = ds.NumpySlicesDataset(columns, ["words", "target"], shuffle=False, num_shards=ranks, shard_id=get_rank())
rows = rows.batch(16 // ranks, drop_remainder=True)
print("steps:", rows.get_dataset_size())
for words, target in rows:
    loss, overflow, factor, rate, norm = step(words, target)
    print("loss:", float(loss), bool(overflow), float(factor), float(rate))
print("ranks:", get_group_size())
