"""Compile time by size of the graph: processor seconds of every phase from the trace to the page, and their growth.

`python -m benchmarks.graph_size SHAPE NODES...` measures one shape of graph at some sizes, each in a process of its
own, and prints a row for each phase; the last column is the exponent of the growth from the smallest size to the
largest. `--engine` and `--only PHASE,...` choose; without arguments it lists the shapes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import graphls
from graphls import Tensor, nn, ops
from graphls.context import set_context

Example = tuple[Callable[..., object], tuple[object, ...]]
X = np.ones((4, 8), np.float32)


def chain(nodes: int) -> Example:
    """One value after another."""

    def step(x: Tensor) -> Tensor:
        for number in range(nodes):
            x = ops.tanh(x) if number % 2 else ops.sin(x)
        return x

    return step, (X,)


def tree(nodes: int) -> Example:
    """Leaves that are added in pairs."""

    def step(x: Tensor) -> Tensor:
        level = [ops.sin(x + float(number)) for number in range(nodes // 4)]
        while len(level) > 1:
            level = [a + b for a, b in zip(level[::2], level[1::2], strict=False)] + level[len(level) // 2 * 2 :]
        return level[0]

    return step, (X,)


def fan(nodes: int) -> Example:
    """One value with many readers, and one result that concatenates all of theirs."""

    def step(x: Tensor) -> Tensor:
        return ops.concat([ops.sin(x * float(number)) for number in range(nodes // 3)])

    return step, (X,)


def results(nodes: int) -> Example:
    """Many inputs and as many outputs."""

    def step(*inputs: Tensor) -> list[Tensor]:
        return [ops.sin(x) for x in inputs]

    return step, (X[0, :1],) * nodes


class Loop(nn.Cell):
    """A recurrent cell in a loop of Python."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length, self.cell = length, nn.GRUCell(8, 8)

    def construct(self, x: Tensor, state: Tensor) -> Tensor:
        """The last state."""
        for _ in range(self.length):
            state = self.cell(x, state)
        return state


class Nested(nn.Cell):
    """Conditions in loops in conditions: `depth` of them, each with two layers."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layer = nn.Dense(8, 8)
        self.inner = Nested(depth - 1) if depth else nn.Dense(8, 8)

    def construct(self, x: Tensor) -> Tensor:
        """The innermost value, where conditions hold."""
        x = self.layer(x)
        return ops.cond(ops.sum(x) > 0, lambda: ops.fori_loop(0, 2, lambda i, y: self.inner(y), x), lambda: x)


def trained(cell: nn.Cell, *inputs: Any, label: Any = X, optimizer: str = "Momentum", scaled: bool = True) -> Example:
    """A training step of a cell, with loss scaling where it is wanted."""
    loss = nn.WithLossCell(cell, nn.MSELoss())
    rate = {"learning_rate": 0.1, "momentum": 0.9} if optimizer == "Momentum" else {"learning_rate": 0.1}
    update = getattr(nn, optimizer)(loss.trainable_params(), **rate)
    scale = nn.DynamicLossScaleUpdateCell(2**16, 2, 100)
    step = nn.TrainOneStepWithLossScaleCell(loss, update, scale) if scaled else nn.TrainOneStepCell(loss, update)
    return step, (*inputs, label)


def dense(nodes: int, optimizer: str, scaled: bool) -> Example:
    """A training step of Dense and ReLU: 18 nodes for each, or 34."""
    length = max(nodes // (34 if optimizer == "Adam" else 18), 1)
    cells = [cell for _ in range(length) for cell in (nn.Dense(8, 8), nn.ReLU())]
    return trained(nn.SequentialCell(cells), X, optimizer=optimizer, scaled=scaled)


def sines(nodes: int) -> Example:
    """A training step of a chain that has one parameter."""
    return trained(nn.SequentialCell([nn.Dense(8, 8), *(nn.Tanh() for _ in range(nodes // 5))]), X, scaled=False)


def transformer(nodes: int, train: bool) -> Example:
    """Encoder layers; 200 of them have some 6,000 nodes."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    cell, x = nn.TransformerEncoder(layer, max(nodes // (160 if train else 30), 1)), np.ones((1, 4, 8), np.float32)
    return trained(cell, x, label=x) if train else (cell, (x,))


def nested_scopes(nodes: int) -> Example:
    """Cells in cells, 30 deep, side by side."""

    def deep(depth: int) -> nn.Cell:
        return nn.SequentialCell([nn.ReLU(), deep(depth - 1)]) if depth else nn.Tanh()

    return nn.SequentialCell([deep(30) for _ in range(max(nodes // 31, 1))]), (X,)


SHAPES: dict[str, Callable[[int], Example]] = {
    "chain": chain,
    "tree": tree,
    "fan": fan,
    "results": results,
    "loop": lambda nodes: (Loop(max(nodes // 15, 1)), (X, X)),
    "nested": lambda nodes: (nn.SequentialCell([Nested(8) for _ in range(max(nodes // 80, 1))]), (X,)),
    "scopes": nested_scopes,
    "transformer": partial(transformer, train=False),
    "trained-transformer": partial(transformer, train=True),
    "trained-chain": sines,
    "dense": partial(dense, optimizer="Momentum", scaled=False),
    "dense-scaled": partial(dense, optimizer="Momentum", scaled=True),
    "dense-adam": partial(dense, optimizer="Adam", scaled=True),
}


class Clock:
    """Processor seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start


def measure(shape: str, nodes: int, engine: str, only: set[str]) -> dict[str, float]:
    """Every phase of one graph, each of those that `only` has where it is not empty."""
    clock = Clock()
    with clock("cells"):
        cell, inputs = SHAPES[shape](nodes)
    step, count = compiled(clock, cell, inputs, engine, only)
    with tempfile.TemporaryDirectory() as folder:
        for name, work in later(step, inputs, Path(folder)).items():
            if not only or name in only:
                with clock(name):
                    work()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"nodes": count, **clock.seconds, "MB at most": memory}


def compiled(
    clock: Clock, cell: Callable[..., object], inputs: tuple[object, ...], engine: str, only: set[str]
) -> tuple[graphls.Compiled, int]:
    """The step, made phase by phase as `compile` does, and how many nodes it has."""
    from graphls.base.sharing.locks import compiling
    from graphls.ir.graph import walk
    from graphls.passes import parse_pipeline
    from graphls.passes.schedule.host_calls import verify_host_calls
    from graphls.passes.schedule.partition import Partition
    from graphls.passes.windows import verify_windows
    from graphls.runtime.lowering import lower
    from graphls.runtime.lowering.weights import serialised
    from graphls.runtime.target import ExecutionTarget
    from graphls.step import api

    with compiling(), clock("trace"):
        traced = graphls.trace_graph(cell, *inputs)
    pipeline = parse_pipeline(api.CPU_PASSES)
    with compiling(), clock("passes and verification"):
        result = pipeline.run(traced.graph, source="trace")
    with compiling(), clock("proof"):
        verify_windows(result.graph)
        verify_host_calls(result.graph)
    if not only or "each pass" in only:
        graph = traced.graph
        for each in pipeline.passes:
            with clock(f"  {each.name}"):
                graph = each.run(graph)
    with compiling(), clock("partition"):
        Partition(engine).run(result.graph)
    with compiling(), clock("lowering"):
        lowered = lower(result.graph)
    with clock("model in bytes"):
        serialised(lowered.model)
    with compiling(), clock("session, lowering, partition"):
        step = api.open_step(traced, inputs, pipeline, result, ExecutionTarget("onnxruntime", "cpu", engine))
    return step, sum(1 for _ in walk(result.graph))


def later(step: graphls.Compiled, inputs: tuple[object, ...], folder: Path) -> dict[str, Callable[[], object]]:
    """The phases after the compilation of a step, by name."""
    from graphls.ir import dump, parse, verify

    def reopen() -> None:
        step._step.with_session()

    def write_to_cache() -> None:
        set_context(enable_compile_cache=True, compile_cache_path=str(folder))
        reopen()

    text = dump(step.graph)
    return {
        "first step": lambda: step(*inputs),
        "later step": lambda: step(*inputs),
        "text": lambda: dump(step.graph),
        "parse": lambda: parse(text),
        "verify": lambda: verify(step.graph),
        "summary": lambda: str(step.summary()),
        "plan": lambda: str(step.plan),
        "page": lambda: step.show(folder / "step.html"),
        "save": lambda: step.save(folder / "step.onnx"),
        "export": lambda: step.export(folder / "bundle"),
        "load": lambda: graphls.load_step(folder / "bundle"),
        "written to the cache": write_to_cache,
        "read from the cache": reopen,
    }


def rows(measurements: list[dict[str, float]]) -> Iterator[str]:
    """A line for each phase: its value at each size, and the exponent of its growth."""
    for name in measurements[-1]:
        values = [each.get(name, math.nan) for each in measurements]
        first, last = ((each["nodes"], each.get(name, math.nan)) for each in (measurements[0], measurements[-1]))
        grown = last[0] > first[0] and first[1] > 0.005 and last[1] > 0
        exponent = f"{math.log(last[1] / first[1]) / math.log(last[0] / first[0]):.2f}" if grown else ""
        yield f"{name:<30}" + "".join(f"{v:>12.0f}" if v > 300 else f"{v:>12.3f}" for v in values) + f"{exponent:>8}"


def main() -> None:
    """Measure one shape at all requested sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("nodes", type=int, nargs="+")
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--only", default="", help="phases behind the partition, with commas between")
    parser.add_argument("--json", action="store_true", help="print one size as JSON")
    options = parser.parse_args()
    if options.json:
        only = set(filter(None, options.only.split(",")))
        print(json.dumps(measure(options.shape, options.nodes[0], options.engine, only)))
        return
    measurements = []
    for nodes in options.nodes:
        command = [sys.executable, "-m", "benchmarks.graph_size", options.shape, str(nodes), "--json"]
        command += ["--engine", options.engine, "--only", options.only]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{options.shape} of {nodes} nodes: {done.stderr.splitlines()[-1:]}", flush=True)
        else:
            measurements.append(json.loads(done.stdout.splitlines()[-1]))
    print(options.shape)
    print("\n".join(rows(measurements)) if measurements else "nothing was measured", flush=True)


if __name__ == "__main__":
    main()
