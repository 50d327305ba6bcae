"""One rank of benchmarks/ranks.py: takes steps, and rank 0 prints a line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.rows import QUICK_ROWS, ROWS, Row

BUCKET = 25 << 20
WARM_UP = 2


class Graphls:
    """A rank of graphls, over MPI."""

    def __init__(self, row: Row, joins: bool) -> None:
        from benchmarks.peers.graphls_training import Training
        from graphls import communication
        from graphls.runtime.context.parallel import set_auto_parallel_context

        communication.init()
        self.rank = communication.get_rank()
        if joins:
            set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        self.training = Training(row, CONTENDERS[0])
        self.training.set_values()
        self.step: Callable[[], Any] = self.training.step

    def barrier(self) -> None:
        from graphls.distributed.collectives import barrier
        from graphls.distributed.world import world

        barrier(world())

    def all_reduce(self, count: int) -> None:
        """Put so many float32 together, as a step does."""
        import numpy as np

        from graphls.distributed.collectives import all_reduce
        from graphls.distributed.world import world

        all_reduce(world(), [np.ones(count, np.float32)], "sum")

    def gradients(self) -> int:
        """The number of elements that ranks communicate."""
        return sum(parameter.size for parameter in self.training.parameters.values())

    def compared(self, steps: int) -> float:
        """The seconds of a step in which ranks compare their communications, from when the later rank begins."""
        from graphls.distributed import communication_thread
        from graphls.distributed.world import world

        compare, times = communication_thread._compare, []

        def timed_comparison(call: Any, patience: float) -> None:
            begin = time.perf_counter()
            compare(call, patience)
            times.append(time.perf_counter() - begin)

        communication_thread._compare = timed_comparison
        try:
            for _ in range(steps):
                float(self.step())
        finally:
            communication_thread._compare = compare
        of_ranks = zip(*world().comm.allgather(times), strict=True)
        return sum(map(min, of_ranks)) / steps

    def prediction_inputs(self, seconds: float) -> dict[str, Any]:
        """The inputs of a prediction: the network between ranks, or the work of one."""
        from graphls.cli.simulate import measured_nodes
        from graphls.distributed.cost import measured
        from graphls.distributed.world import world
        from graphls.inspect.profile.scaling import one_rank, workload

        result: dict[str, Any] = {}
        if world().size > 1:
            result["network"] = asdict(measured(world()))
            result["comparison"] = self.compared(5)
        graph = self.training.compiled.graph
        if self.rank == 0 and not any(node.primitive.is_collective for node in graph.nodes):
            graph = one_rank(graph)
            times = measured_nodes(graph, 3)
            scale = seconds / sum(times.values())
            result["work"] = asdict(workload(graph, {node: scale * time for node, time in times.items()}, BUCKET))
        return result


class Torch:
    """A rank of PyTorch, over gloo."""

    def __init__(self, row: Row, joins: bool) -> None:
        import torch

        from benchmarks.peers.torch_training import Training

        self.torch = torch
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        self.rank = torch.distributed.get_rank()
        self.training = Training(row, next(c for c in CONTENDERS if c.name == "torch-fused"))
        self.training.set_values()
        if joins and torch.distributed.get_world_size() > 1:
            parallel = torch.nn.parallel.DistributedDataParallel
            # The moving statistics of graphls are those of each rank.
            self.training.module = parallel(self.training.module, broadcast_buffers=False)
        self.step: Callable[[], Any] = self.training.step

    def barrier(self) -> None:
        self.torch.distributed.barrier()

    def all_reduce(self, count: int) -> None:
        """Put so many float32 together."""
        self.torch.distributed.all_reduce(self.torch.ones(count))

    def gradients(self) -> int:
        """The number of elements that ranks communicate."""
        return sum(parameter.numel() for parameter in self.training.module.parameters())

    def prediction_inputs(self, seconds: float) -> dict[str, Any]:
        """Empty: predictions are for graphls only."""
        return {}


def median(times: list[float]) -> float:
    """The middle one."""
    return sorted(times)[len(times) // 2]


def timed(function: Callable[[], object], times: int) -> float:
    """The median of the seconds of some calls."""
    durations = []
    for _ in range(times):
        begin = time.perf_counter()
        function()
        durations.append(time.perf_counter() - begin)
    return median(durations)


def communicate(member: Graphls | Torch) -> None:
    """All gradients, in full buckets, while nothing is computed."""
    left = member.gradients()
    while left > 0:
        member.all_reduce(min(left, BUCKET // 4))
        left -= BUCKET // 4


def main() -> None:
    """Run one rank on one core."""
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=["graphls", "torch"])
    parser.add_argument("row")
    parser.add_argument("mode", choices=["apart", "joined"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind = Graphls if options.framework == "graphls" else Torch
    member = kind((QUICK_ROWS if options.quick else ROWS)[options.row], options.mode == "joined")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[member.rank % len(cores)]})
    losses = [float(member.step()) for _ in range(WARM_UP)]
    member.barrier()
    seconds = timed(member.step, options.steps)
    losses.append(float(member.step()))
    member.barrier()
    answer = {"seconds": seconds, "losses": losses, "communication": timed(lambda: communicate(member), 3)}
    answer |= member.prediction_inputs(seconds)
    if member.rank == 0:
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
