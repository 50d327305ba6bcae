"""Model, shuffled data, random transforms, dropout, batch norm, loss scaling: a run goes on with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from graphls import nn
from graphls.dataset.randomness import generator
from graphls.train import Callback, CheckpointConfig, Model, ModelCheckpoint, load_checkpoint, load_param_into_net
from tests.nn.test_optimizers_in_steps import KINDS
from tests.train.test_resume import Net

ROWS, BATCH, EPOCHS = 22, 4, 2
STEPS = ROWS // BATCH


class Rows:
    """Rows that are functions of their numbers."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        draws = np.random.default_rng(index)
        return draws.normal(size=4).astype(np.float32), draws.normal(size=4).astype(np.float32)


def noisy(x: Any) -> Any:
    return (x + 0.1 * generator().normal(size=x.shape)).astype(np.float32)


def dataset(workers: int = 1) -> ds.Dataset:
    rows = ds.GeneratorDataset(Rows(), ["x", "y"], num_parallel_workers=workers, python_multiprocessing=False)
    return rows.map(noisy, "x", num_parallel_workers=workers).batch(BATCH, drop_remainder=True)


def model(kind: str, seed: int) -> Model:
    graphls.set_seed(seed)
    net = Net()
    optimizer = KINDS[kind][0](net.trainable_params(), 0.1)
    manager = graphls.DynamicLossScaleManager(2**19, 2, 2)
    return Model(net, nn.MSELoss(), optimizer, amp_level="O0", loss_scale_manager=manager)


class Losses(Callback):
    """The losses of all steps by their numbers, and how many steps were skipped."""

    def __init__(self) -> None:
        self.losses: dict[int, bytes] = {}
        self.skipped = 0

    def on_train_step_end(self, run_context: Any) -> None:
        parameters = run_context.original_args()
        loss, overflow, *_ = parameters.net_outputs
        self.losses[parameters.cur_step_num] = loss.asnumpy().tobytes()
        self.skipped += bool(overflow)


def state(trained: Model) -> dict[str, bytes]:
    return {p.name: p.asnumpy().tobytes() for p in trained.train_network.get_parameters()}


@pytest.mark.parametrize("kind", sorted(KINDS)[::4])
def test_a_run_goes_on_from_the_middle_of_an_epoch(tmp_path: Path, kind: str) -> None:
    """At eight of the nine steps; tests/train/test_resume.py has all optimizers."""
    config = CheckpointConfig(1, keep_checkpoint_max=99, append_info=["epoch_num", "step_num"])
    whole, first = Losses(), model(kind, 3)
    first.train(EPOCHS, dataset(), [whole, ModelCheckpoint("net", str(tmp_path), config)])
    assert len(set(whole.losses.values())) == EPOCHS * STEPS and 0 < whole.skipped < EPOCHS * STEPS
    stop = 1 + sorted(KINDS).index(kind) % (EPOCHS * STEPS - 1)
    rest, second, rows = Losses(), model(kind, 99), dataset(workers=2)
    found = load_checkpoint(next(f for f in tmp_path.glob("*.ckpt") if int(load_checkpoint(f)["step_num"]) == stop))
    assert load_param_into_net(second.train_network, found, strict_load=True)[0] == []
    rows.set_init_step(int(found["step_num"]))
    second.train(EPOCHS, rows, [rest])
    assert rest.losses == {step: loss for step, loss in whole.losses.items() if step > stop}
    assert state(second) == state(first)
