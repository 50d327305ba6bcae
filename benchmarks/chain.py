"""Compile time of chains of Dense+ReLU cells: it must grow in proportion to their length."""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import numpy as np

import graphls
from graphls import nn
from graphls.passes import parse_pipeline
from graphls.passes.windows import verify_windows


def step_of(length: int) -> nn.Cell:
    """A training step with loss scaling over `length` pairs of Dense and ReLU."""
    cells = [cell for _ in range(length) for cell in (nn.Dense(8, 8), nn.ReLU())]
    loss = nn.WithLossCell(nn.SequentialCell(cells), nn.MSELoss())
    optimizer = nn.Momentum(loss.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**16, 2, 100))


def measure(length: int) -> list[str]:
    """Seconds for tracing, passes, lowering and the runtime's own session, and their sum per cell."""
    from graphls.api import DEFAULT_PASSES
    from graphls.backends.onnx import lower
    from graphls.backends.ort import OrtSession

    cell = step_of(length)
    x = np.zeros((4, 8), np.float32)
    times = [time.perf_counter()]
    traced = graphls.trace_graph(cell, x, x)
    times.append(time.perf_counter())
    graph = parse_pipeline(DEFAULT_PASSES.format(mode="outputs")).run(traced.graph).graph
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
    """Print one row per length."""
    print("cells  nodes  trace  passes  lower  session  own ms/cell")
    for length in map(int, sys.argv[1:] or ("300", "1000", "3000")):
        print("  ".join(measure(length)), flush=True)


if __name__ == "__main__":
    main()
