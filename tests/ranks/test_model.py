"""`Model` on ranks: shards of datasets, metrics of all of them, decisions that are the same, and who writes files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import graphls as gl
from graphls import nn, train
from tests.ranks.running import ended_well, needs_ranks

TRAINED = """
    from contextlib import redirect_stdout
    from io import StringIO
    from graphls import dataset, train

    set_auto_parallel_context(
        parallel_mode="data_parallel", gradients_mean=True, enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    random = np.random.default_rng(0)
    ROWS = [(x, x[:3] @ np.eye(3, 2, dtype=np.float32)) for x in random.normal(size=(13, 4)).astype(np.float32)]

    def shard(batch, shuffle=False):
        data = dataset.GeneratorDataset(ROWS, ["x", "y"], shuffle=shuffle, num_shards=SIZE, shard_id=RANK)
        return data.batch(batch)

    def made():
        net = nn.Dense(4, 2, weight_init="ones", bias_init="zeros")
        optimizer = nn.Adam(net.trainable_params(), 0.05)
        return train.Model(net, nn.MSELoss(), optimizer, metrics={"mae", "mse", "loss"})

    # Shards: together they are all rows, and equally many.
    own = [row[0].tobytes() for row in shard(1, True).create_tuple_iterator(output_numpy=True)]
    sampled = dataset.GeneratorDataset(ROWS, ["x", "y"], sampler=dataset.DistributedSampler(SIZE, RANK, True))
    assert len(own) == shard(1).get_dataset_size() == sampled.get_dataset_size() == 7
    for found in (own, [row[0].reshape(1, 4).tobytes() for row in sampled.create_tuple_iterator(output_numpy=True)]):
        gathered = collectives.AllGather()(gl.Tensor(np.frombuffer(b"".join(found), np.float32).reshape(-1, 4)))
        assert {row.tobytes() for row in gathered.asnumpy()} == {row[0].tobytes() for row in ROWS}

    # Metrics are those of one process on all rows, with 7 rows on one rank and 6 on the other.
    model = made()
    results = model.eval(shard(1))
    alone = model.eval(dataset.GeneratorDataset(ROWS, ["x", "y"], shuffle=False).batch(1))
    assert all(abs(results[name] - alone[name]) < 1e-6 for name in alone), (results, alone)

    # All ranks stop after the same epoch, with the states of the first, and one of them writes.
    class Worse(train.Callback):
        def on_train_epoch_end(self, run_context):
            told = run_context.original_args()
            told.eval_results["mine"] = float(told.cur_epoch_num * (1 if RANK == 0 else -2))

    stopping = train.EarlyStopping("mine", patience=3, mode="max", restore_best_weights=True)
    written, mine = train.ModelCheckpoint("all", "common"), train.ModelCheckpoint("own", f"rank_{RANK}")
    shown = StringIO()
    with redirect_stdout(shown):
        monitors = train.LossMonitor(100, rank=0), train.Progress()
        model.fit(9, shard(4), shard(4), callbacks=[Worse(), stopping, written, mine, *monitors])
    result = model.train_network.optimizer.global_step.asnumpy().tolist()
    assert written.latest_ckpt_file_name.endswith("common/all-4_2.ckpt"), written.latest_ckpt_file_name
    assert ("epoch 1/9" in shown.getvalue()) == (RANK == 0)
    print(stopping.stopped_epoch, result)

    # A run that goes on has the bits of one that was not stopped.
    whole, begun, later = made(), made(), made()
    whole.train(4, shard(4))
    begun.train(2, shard(4), callbacks=train.ModelCheckpoint("half", "common"))
    collectives.Barrier()()
    kept = train.load_checkpoint("common/half-2_2.ckpt")
    train.load_param_into_net(later.train_network, kept)
    rest = shard(4)
    rest.set_init_step(4)
    later.train(4, rest)
    for one, other in zip(whole.train_network.get_parameters(), later.train_network.get_parameters()):
        assert one.asnumpy().tobytes() == other.asnumpy().tobytes(), one.name
"""


@needs_ranks
def test_shards_metrics_decisions_and_checkpoints(tmp_path: Path) -> None:
    lines = ended_well(2, TRAINED, tmp_path)
    assert lines == ["4 [2]"] * 2
    files = {name: sorted(os.listdir(tmp_path / name)) for name in ("common", "rank_0", "rank_1")}
    steps = [f"{epoch}_{step}" for epoch in range(1, 5) for step in (1, 2)]
    own = sorted(["own-graph.meta", *(f"own-{step}.ckpt" for step in steps[-5:])])
    assert files == {
        "common": sorted([
            "all-graph.meta", *(f"all-{step}.ckpt" for step in steps[-5:]),
            "half-graph.meta", *(f"half-{step}.ckpt" for step in steps[:4]),
        ]),
        "rank_0": own,
        "rank_1": own,
    }  # fmt: skip
    assert (tmp_path / "rank_0/own-4_2.ckpt").read_bytes() == (tmp_path / "rank_1/own-4_2.ckpt").read_bytes()
    # A process alone goes on from that file.
    net = nn.Dense(4, 2)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.05))
    kept = train.load_checkpoint(tmp_path / "common/half-2_2.ckpt")
    assert train.load_param_into_net(step, kept) == ([], [])
    assert all(p.asnumpy().tobytes() == kept[p.name].asnumpy().tobytes() for p in step.get_parameters())
    step(gl.Tensor(np.ones((3, 4), np.float32)), gl.Tensor(np.ones((3, 2), np.float32)))
