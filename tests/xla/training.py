"""A training with loss scaling that processes of a mesh run, and how tests start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphls
from graphls import nn
from graphls.distributed.launch import free_port

ROOT = Path(__file__).parent.parent.parent
ROWS, STEPS, SPOILED = 32, 8, 3
Row = tuple[float, bool, float]


def cell_of(seed: int = 1, is_divided: bool = False, parts: int = 0) -> nn.TrainOneStepWithLossScaleCell:
    """A step with loss scaling of two layers, whose weights the mesh axis "model" may divide.

    With `parts` of a batch they are two stages of a pipeline.
    """
    graphls.set_seed(seed)
    net = nn.SequentialCell(nn.Dense(20, 64), nn.ReLU(), nn.Dense(64, 8))
    if is_divided:
        net[0].weight.sharding, net[0].bias.sharding = ("model", None), ("model",)
        net[2].weight.sharding = (None, "model")
    loss: nn.Cell = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    if parts:
        net[0].pipeline_stage, net[2].pipeline_stage = 0, 1
        loss = nn.GradAccumulationCell(loss, parts)
    optimizer = nn.Adam(net.trainable_params(), 0.01)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2.0**10, 2, 3))


def batch(number: int) -> tuple[Any, Any]:
    """The rows of a step; in one of them the last row overflows, which one device has."""
    draw = np.random.default_rng(number)
    x = draw.normal(size=(ROWS, 20)).astype(np.float32)
    if number == SPOILED:
        x[-1] = 3e38
    return x, draw.integers(0, 8, ROWS).astype(np.int32)


def compiled(cell: Any, mesh: graphls.Mesh | None, zero: int = 0) -> Any:
    """The step for batches of all rows."""
    return graphls.compile(cell, *batch(0), engine="xla", mesh=mesh, zero=zero)


def trained(step: Any, first: int = 0, last: int = STEPS, own: slice = slice(None)) -> list[Row]:
    """Losses, overflow flags and scales of steps, on these rows of each batch."""
    rows = [step(*(array[own] for array in batch(number))) for number in range(first, last)]
    return [tuple(value.asnumpy().item() for value in row) for row in rows]


def started(count: int, program: Path, *arguments: str, **variables: str) -> list[subprocess.Popen[str]]:
    """So many processes of a program, which meet at a port of this machine."""
    common = {**os.environ, "PYTHONPATH": str(ROOT), "GRAPHLS_COORDINATOR": f"127.0.0.1:{free_port()}", **variables}
    common["GRAPHLS_PROCESSES"] = str(count)
    command = [sys.executable, "-W", "ignore", str(program), *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": program.parent}
    each = [{**common, "GRAPHLS_PROCESS": str(number)} for number in range(count)]
    return [subprocess.Popen(command, env=environment, **pipes) for environment in each]


def ended(processes: list[subprocess.Popen[str]], timeout: float = 300) -> list[tuple[int, str, str]]:
    """The codes of processes and what they wrote; what has not ended in the time is killed, and fails the test."""
    try:
        written = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, written, strict=True)]
