"""Compile time of chains of Dense+ReLU cells: its own part grows in proportion to their length."""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import numpy as np

import graphls
from graphls import nn
from graphls.passes import parse_pipeline
from graphls.passes.windows import verify_windows


def chain_of(length: int) -> nn.Cell:
    """`length` pairs of Dense and ReLU."""
    return nn.SequentialCell([cell for _ in range(length) for cell in (nn.Dense(8, 8), nn.ReLU())])


def step_of(length: int) -> nn.Cell:
    """A training step with loss scaling over the chain."""
    loss = nn.WithLossCell(chain_of(length), nn.MSELoss())
    optimizer = nn.Momentum(loss.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**16, 2, 100))


def measure(cell: nn.Cell, length: int, inputs: int) -> list[str]:
    """Seconds for tracing, passes, lowering and the runtime's own session, and their sum per cell."""
    from graphls.api import DEFAULT_PASSES
    from graphls.backends.onnx import lower
    from graphls.backends.onnxruntime.ort import OrtSession

    x = [np.zeros((4, 8), np.float32)] * inputs
    times = [time.perf_counter()]
    traced = graphls.trace_graph(cell, *x)
    times.append(time.perf_counter())
    graph = parse_pipeline(DEFAULT_PASSES).run(traced.graph).graph
    verify_windows(graph)
    times.append(time.perf_counter())
    lower(graph).model.SerializeToString()
    times.append(time.perf_counter())
    OrtSession(graph, traced.parameters)
    times.append(time.perf_counter())
    parts = [b - a for a, b in pairwise(times)]
    parts[3] -= parts[2]
    own = sum(parts[:3])
    return [str(length), str(len(graph.nodes)), *(f"{p:.2f}" for p in parts), f"{own / length * 1000:.2f}"]


def main() -> None:
    """Print one row per length, for the chain alone and for its training step."""
    lengths = [int(n) for n in sys.argv[1:] or ("300", "1000", "3000")]
    for name, make, inputs in (("chain", chain_of, 1), ("training step", step_of, 2)):
        print(f"{name}\ncells  nodes  trace  passes  lower  session  own ms/cell")
        for length in lengths:
            print("  ".join(measure(make(length), length, inputs)), flush=True)


if __name__ == "__main__":
    main()
