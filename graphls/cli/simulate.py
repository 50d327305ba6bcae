"""`python -m graphls simulate`: predicts time and memory of a training step on many ranks from those on one."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.text.plain import size
from graphls.base.text.tables import Table
from graphls.cli.arguments import add_mesh
from graphls.cli.dump import read_graph
from graphls.cli.quantities import BYTES, SECONDS, quantity
from graphls.cli.simulate_mesh import is_script, simulate_mesh
from graphls.distributed.communication import init
from graphls.distributed.cost import ALL_REDUCE, Network, measured
from graphls.distributed.world import world
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.inspect.profile.measure import PlainCopy
from graphls.inspect.profile.scaling import Machines, Prediction, Simulation, one_rank, workload
from graphls.inspect.profile.texts import milliseconds, percent
from graphls.ir.flops import flops
from graphls.ir.graph import Graph, Node, inside
from graphls.ir.types import Type
from graphls.runtime.onnxruntime.session_options import threads
from graphls.runtime.session import Inputs, Session
from graphls.runtime.states import HasStorage

HEADER = (
    "ranks", "step", "waits", "hidden", "efficiency", "times the rows", "memory", "step, sharded", "memory, sharded",
)  # fmt: skip


def add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    text = "predict time and memory of a training step on many ranks"
    parser = commands.add_parser("simulate", help=text, description=simulate.__doc__)
    parser.set_defaults(command=simulate)
    parser.add_argument("file", nargs="?", help="the graph of a step in IR text, - for stdin, or with a mesh a script")
    parser.add_argument("arguments", nargs="*", help="the arguments of the script, after -- where they have dashes")
    add_mesh(parser, "compile the step for devices in a grid, such as data=64,model=8", "if not the step's")
    parser.add_argument("--flops", help="on a mesh: the operations of a device in a second, such as 312e12")
    parser.add_argument("--ranks", default="2,4,8,64,512", help="numbers of ranks, such as 8,64,512")
    parser.add_argument("--latency", default="5us", help="the latency of a message: 5us, or data=5us,model=1us")
    parser.add_argument("--bandwidth", default="25GB/s", help="that of two ranks, or data=25GB/s,model=300GB/s")
    parser.add_argument("--memory", help="the memory bandwidth of a rank (10GB/s); on a mesh, bytes of a device (80GB)")
    algorithms = ["best", *ALL_REDUCE]
    parser.add_argument("--algorithm", choices=algorithms, default="best", help="the all-reduce algorithm")
    parser.add_argument("--bucket", default="25MiB", help="the size of a bucket of gradients")
    parser.add_argument("--no-overlap", action="store_true", help="do not overlap communication with the backward")
    parser.add_argument("--time", help="the time of a step of one rank, such as 40ms; by default measured here")
    parser.add_argument("--local-ranks", type=int, default=1, help="the number of ranks on one machine")
    parser.add_argument("--places", type=float, help="how many steps its cores run at a time; by default as here")
    parser.add_argument("--steps", type=int, default=10, help="the number of steps that are measured")
    parser.add_argument("--measure", action="store_true", help="under mpiexec: measure the network between the ranks")


def simulate(options: argparse.Namespace) -> int:
    """Predict the time and memory of a training step on many ranks from its graph and its time on one.

    Every rank has a batch like that of the graph. The step is measured here on random numbers, unless --time gives its
    time elsewhere. With --measure, under mpiexec, print the latency and bandwidth between the ranks instead. With
    --mesh, and for a script, compile the step for a mesh and print the memory and the communication of each device.
    """
    if options.measure:
        return _print_network()
    if options.file is None:
        text = "simulate needs the graph of a step in IR text"
        raise GraphValueError(f"{text}; GRAPHLS_DUMP=folder writes those of a script.")
    if options.mesh is not None or is_script(options.file):
        return simulate_mesh(options)
    ranks = _numbers(options.ranks)
    network = Network(
        quantity("latency", options.latency, SECONDS, "5us"),
        quantity("bandwidth", options.bandwidth.removesuffix("/s"), BYTES, "25GB/s"),
        options.algorithm,
        quantity("memory", (options.memory or "10GB/s").removesuffix("/s"), BYTES, "10GB/s"),
    )
    bucket = int(quantity("bucket", options.bucket, BYTES, "25MB"))
    graph = one_rank(read_graph(options.file))
    work = workload(graph, _times(graph, options), bucket)
    for line in _lines(Simulation(work, network, not options.no_overlap, _machines(options)), ranks):
        print(line)
    return 0


def _machines(options: argparse.Namespace) -> Machines:
    """The number of ranks that share the cores of a machine; raises GraphValueError below 1."""
    cores = os.cpu_count() or 1
    places = cores / (threads() or cores) if options.places is None else options.places
    if options.local_ranks < 1 or not 0 < places < inf:
        values = f"{options.local_ranks} and {places:g}"
        raise GraphValueError(f"A machine has one rank or more, and places for some, not {values}.")
    return Machines(options.local_ranks, places)


def _print_network() -> int:
    init()
    group = world()
    if group.size == 1:
        text = "There is no network in one process"
        raise GraphRuntimeError(f"{text}; start `mpiexec -n 2 python -m graphls simulate --measure`.")
    network = measured(group)
    if group.rank == 0:
        between = f"--latency {network.latency * 1e6:.3g}us --bandwidth {network.bandwidth / 1e9:.3g}GB/s"
        print(f"{between} --memory {network.memory / 1e9:.3g}GB/s")
    return 0


def _times(graph: Graph, options: argparse.Namespace) -> dict[Node, float]:
    """The seconds of each node: measured here, or its share of --time by operations and bytes."""
    if options.steps < 1:
        raise GraphValueError(f"simulate runs one step or more, not {options.steps}.")
    if options.time is None:
        return measured_nodes(graph, options.steps)
    # An element that is read or written takes about as long as some ten operations in a product of matrices.
    weights = {n: flops(n) + 10 * sum(v.type.size for v in (*n.inputs, *n.outputs)) + 1 for n in graph.nodes}
    scale = quantity("time", options.time, SECONDS, "40ms") / sum(weights.values())
    return {node: scale * weight for node, weight in weights.items()}


def _numbers(text: str) -> list[int]:
    """Numbers of ranks, sorted and without repetition; raises GraphValueError for other text."""
    parts = text.split(",")
    if not all(re.fullmatch(r"\s*[1-9]\d{0,8}\s*", part) for part in parts):
        raise GraphValueError(f"--ranks takes numbers from 1 on, such as 8,64,512, not {text!r}.")
    return sorted(set(map(int, parts)))


def _lines(simulation: Simulation, ranks: Sequence[int]) -> Iterator[str]:
    work, network = simulation.work, simulation.network
    count = len(work.buckets)
    buckets = f"{count} bucket{'s' * (count != 1)}"
    yield (
        f"One rank: {milliseconds(work.seconds)} ms, {milliseconds(work.update)} of it after the gradients, which are "
        f"{size(work.gradients)} in {buckets}; moments of {size(work.moments)}."
    )
    rows = [_row(simulation, simulation.on(n), simulation.on(n, is_sharded=True)) for n in ranks]
    yield from Table(HEADER, rows, texts=0).lines()
    yield from _advice(simulation)
    between = f"{network.latency * 1e6:.3g} us and {network.bandwidth / 1e9:.3g} GB/s between any two ranks"
    yield f"This is a model ({network.algorithm}): {between}, and no rank is late; see docs/parallel.md."


def _row(simulation: Simulation, replicated: Prediction, sharded: Prediction) -> tuple[str, ...]:
    efficiency = simulation.efficiency(replicated)
    return (
        str(replicated.ranks),
        f"{milliseconds(replicated.seconds)} ms",
        f"{milliseconds(replicated.waiting)} ms",
        percent(replicated.hidden),
        percent(efficiency),
        f"{efficiency * replicated.ranks:.1f}",
        size(replicated.memory),
        f"{milliseconds(sharded.seconds)} ms",
        size(sharded.memory),
    )


def _advice(simulation: Simulation) -> Iterator[str]:
    """The number of ranks up to which data parallel training pays."""
    most = simulation.pays_up_to()
    if most is None:
        yield "With this batch on each rank, no number of ranks waits for half of its time."
    else:
        yield f"With this batch on each rank, beyond some {most} ranks more than half of the time is lost."
    best = simulation.best_for_one_batch()
    if best.ranks == 1:
        yield "Dividing this batch among ranks does not pay: one rank is fastest."
    else:
        faster = simulation.work.seconds / best.seconds
        yield f"This batch, divided among ranks, is fastest on some {best.ranks}: {faster:.1f} times as fast."


WARM_UP = 2


def measured_nodes(graph: Graph, steps: int) -> dict[Node, float]:
    """The seconds of each node of a graph, regions included, in one run on the CPU.

    They are scaled to the time of a run without the profiler, which is that of a step from its call to its outputs.
    """
    from graphls.runtime.onnxruntime.profiled import ProfiledSession
    from graphls.runtime.onnxruntime.session import OrtSession

    copy = PlainCopy(graph)
    inputs = [_example(v.type) for v in copy.graph.inputs]
    seconds = _seconds(OrtSession(copy.graph, _states(copy.graph)), inputs, steps)
    with TemporaryDirectory(prefix="graphls-") as folder:
        session = ProfiledSession(copy.graph, _states(copy.graph), "cpu", Path(folder))
        _seconds(session, inputs, steps)
        runs = session.runs(session.end_profile())[WARM_UP:]
    own = dict.fromkeys(copy.nodes.values(), 0.0)
    for run in runs:
        for kernel in run.kernels:
            if kernel.node is not None:
                own[copy.nodes[kernel.node]] += kernel.own_seconds
    inclusive = {node: own[node] + sum(own[n] for n in inside(node)) for node in graph.nodes}
    scale = seconds / (sum(inclusive.values()) or 1.0)
    return {node: scale * time for node, time in inclusive.items()}


def _states(graph: Graph) -> Mapping[str, HasStorage]:
    return {state.name: Parameter(Tensor(_example(state.type)), name=state.name) for state in graph.states}


def _example(kind: Type) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Small positive floats, which have square roots, and zeros for other dtypes, which are in every range."""
    if not kind.dtype.is_float:
        return np.zeros(kind.shape, kind.dtype.numpy)
    return np.random.default_rng(0).uniform(0.01, 0.02, kind.shape).astype(kind.dtype.numpy)


def _seconds(session: Session, inputs: Inputs, steps: int) -> float:
    """The median time of a run in seconds, after some runs to warm up."""
    seconds = []
    for _ in range(WARM_UP + steps):
        begin = perf_counter()
        session.run(inputs)
        seconds.append(perf_counter() - begin)
    return float(np.median(seconds[WARM_UP:]))
