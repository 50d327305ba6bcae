"""A small training that saves after every step: `python -m tests.train.checkpointed_training FOLDER [LIMIT]`.

It begins with the newest checkpoint of the folder, prints the number of each step after it has been saved, and ends
before the step LIMIT.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import graphls
from graphls import nn
from graphls.train.callbacks.callback import InternalCallbackParam, RunContext
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint
from graphls.train.serialization import load_checkpoint, load_param_into_net

EPOCH = 10


def batch(number: int) -> tuple[Any, Any]:
    """The batch of a step, from 0."""
    rng = np.random.default_rng(number)
    return rng.normal(size=(8, 4)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)


def training(backend: str = "numpy") -> tuple[nn.Cell, Any]:
    """A train network and its compiled step."""
    net = nn.SequentialCell(nn.Dense(4, 16), nn.ReLU(), nn.Dropout(p=0.2), nn.Dense(16, 2))
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    cell.set_train()
    return cell, graphls.compile(cell, *batch(0), backend=backend)


def told(cell: nn.Cell) -> Any:
    """What callbacks are told before the first step."""
    return InternalCallbackParam(
        train_network=cell, cur_step_num=0, cur_epoch_num=1, batch_num=EPOCH, last_save_ckpt_step=None
    )


def run(cell: nn.Cell, step: Any, callback: Any, steps: range) -> Iterator[int]:
    """The steps, counted from 0, with the hooks of a training; yields the number of each when it is over."""
    parameters = told(cell)
    parameters.cur_step_num = steps.start
    context = RunContext(parameters)
    with callback:
        callback.on_train_begin(context)
        for number in steps:
            parameters.cur_step_num, parameters.cur_epoch_num = number + 1, number // EPOCH + 1
            callback.on_train_step_begin(context)
            parameters.net_outputs = step(*batch(number))
            callback.on_train_step_end(context)
            yield number + 1
        callback.on_train_end(context)


def complete(folder: Path) -> list[Path]:
    """The checkpoints of a folder, oldest first; raises where one of them cannot be read."""
    files = list(folder.glob("*.ckpt"))
    return sorted(files, key=lambda file: int(load_checkpoint(file)["step_num"]))


def main(folder: Path, limit: int) -> None:
    graphls.set_seed(11)
    cell, step = training()
    files, done = complete(folder), 0
    if files:
        parameters = load_checkpoint(files[-1])
        load_param_into_net(cell, parameters)
        done = int(parameters["step_num"])
    config = CheckpointConfig(keep_checkpoint_max=2, append_info=["step_num"])
    callback = ModelCheckpoint("net", folder, config)
    for number in run(cell, step, callback, range(done, limit)):
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10**9)
