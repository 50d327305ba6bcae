"""`python -m graphls simulate --mesh`: what a training step needs on each device of a mesh, by compiling it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from graphls.base.errors import GraphValueError
from graphls.base.text.plain import short, size
from graphls.base.text.tables import Table
from graphls.cli.arguments import mesh_of
from graphls.cli.dump import read_graph
from graphls.cli.mesh_advice import advice
from graphls.cli.quantities import BYTES, SECONDS, quantity
from graphls.compat.hook.script import run_script
from graphls.distributed.cost import Network
from graphls.inspect.profile.texts import milliseconds
from graphls.ir.graph import PHASES, Graph
from graphls.ir.sharding import Mesh
from graphls.passes.distributed.shardings import Shardings
from graphls.passes.distributed.stages import Stages
from graphls.runtime.context import force_device, forced_device
from graphls.runtime.simulation import TrainingStep, simulated
from graphls.runtime.target import ExecutionTarget
from graphls.runtime.xla.collectives import SLICED, Collective, sliced_as

if TYPE_CHECKING:
    from graphls.runtime.xla.analysis import Analysis

HEADER = ("collective", "along", "of devices", "times", "arrays", "a device sends", "time")

INFERRED = (
    "reduce-scatter is inferred: XLA for a CPU has an all-reduce of which each device reads only its part, 'sliced'."
)
REPEATED = 1.25
"""The multiple of its share of all operations from which on it is said that devices repeat some."""


@dataclass(frozen=True)
class Machine:
    """The devices of a mesh: operations in a second, bytes of memory, both 0 where not known, networks of the axes."""

    flops: float
    memory: int
    networks: Mapping[str, Network]

    def between(self, axes: Sequence[str]) -> Network:
        """The network of devices that differ along some axes: the slowest of theirs."""
        own = [self.networks[axis] for axis in axes]
        return Network(max(each.latency for each in own), min(each.bandwidth for each in own))

    def seconds(self, collective: Collective) -> float:
        """The time of a collective in one step."""
        network, devices, bytes_ = self.between(collective.axes), collective.devices, collective.size
        ways = {
            "all-reduce": network.all_reduce,
            "all-gather": network.all_gather,
            "reduce-scatter": network.reduce_scatter,
            "all-to-all": network.all_to_all,
        }
        kind = sliced_as(collective.kind)
        once = ways[kind](devices, bytes_) if kind in ways else network.exchange(bytes_)
        return once * collective.times


def is_script(file: str) -> bool:
    """Whether a file is a program of Python, and not the text of a graph."""
    return file.endswith((".py", ".ipynb")) or os.path.isdir(file)


def simulate_mesh(options: argparse.Namespace) -> int:
    """Print what the training step of a script, or a graph in IR text, needs on each device of a mesh."""
    from graphls.runtime.xla.stage_analysis import analysed

    mesh = None if options.mesh is None else mesh_of(options.mesh)
    begin = perf_counter()
    graph = _graph(options, mesh)
    if isinstance(graph, int):
        return graph
    traced = perf_counter()
    analysis = analysed(graph)
    machine = _machine(options, analysis.mesh)
    count = f"{analysis.mesh}: {analysis.mesh.size} devices, {graph.node_count} nodes"
    print(f"{count}, traced in {traced - begin:.1f} s and compiled in {perf_counter() - traced:.1f} s.")
    for line in _lines(analysis, machine):
        print(line)
    return 0


def _graph(options: argparse.Namespace, mesh: Mesh | None) -> Graph | int:
    """The training step in segments: of IR text, or of a script; the exit code of one that has none."""
    if not is_script(options.file):
        graph = read_graph(options.file)
        if mesh is not None:
            graph = Shardings(options.zero or 0).run(Stages().run(graph.replace(mesh=mesh)))
        target = ExecutionTarget("onnxruntime", "cpu", "xla", graph.mesh)
        target.check()
        return target.partitioned(graph)
    before = forced_device()
    force_device("cpu")  # so that scripts for devices that are not here run
    try:
        with simulated(mesh, options.zero):
            code = run_script(options.file, options.arguments)
    except TrainingStep as step:
        return step.graph
    finally:
        force_device(before)
    if code == 0:
        raise GraphValueError(f"{options.file} compiles no step that writes states, so there is nothing to simulate.")
    return code


def _machine(options: argparse.Namespace, mesh: Mesh) -> Machine:
    bandwidths = _by_axis("bandwidth", options.bandwidth, mesh, BYTES, "data=25GB/s,model=300GB/s")
    latencies = _by_axis("latency", options.latency, mesh, SECONDS, "data=5us,model=1us")
    networks = {axis: Network(latencies[axis], bandwidths[axis]) for axis in mesh.names}
    memory = 0 if options.memory is None else int(quantity("memory", options.memory, BYTES, "80GB"))
    return Machine(_flops(options.flops), memory, networks)


def _by_axis(name: str, text: str, mesh: Mesh, units: Mapping[str, float], example: str) -> dict[str, float]:
    """A quantity for each axis of a mesh: one for all, or one for each by its name."""
    parts = [part.rpartition("=") for part in text.split(",")]
    values = {axis.strip(): quantity(name, value.removesuffix("/s"), units, example) for axis, _, value in parts}
    if set(values) == {""} and len(parts) == 1:
        return dict.fromkeys(mesh.names, values[""])
    missing = [axis for axis in mesh.names if axis not in values]
    strange = [axis for axis in values if axis not in mesh.names]
    if missing or strange:
        raise GraphValueError(f"--{name} has {(missing or strange)[0]!r} {'not' if missing else 'too'}, of {mesh}.")
    return values


def _flops(text: str | None) -> float:
    """Floating point operations in a second; 0 where they are not said."""
    try:
        value = 0.0 if text is None else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf") or (text is not None and value == 0):
        raise GraphValueError(f"--flops takes operations in a second, a positive number such as 312e12, not {text!r}.")
    return value


def _lines(analysis: Analysis, machine: Machine) -> Iterator[str]:
    if analysis.stage is not None:
        text = f"Of {analysis.mesh.stages} stages, stage {analysis.stage} needs most memory on a device"
        yield f"{text}; this is what it needs, computes and exchanges."
    yield from Table(("memory of a device", "bytes"), list(_memory(analysis))).lines()
    if analysis.live:
        yield _phases(analysis)
    yield ""
    yield from Table(HEADER, list(_collectives(analysis, machine)), texts=2).lines()
    yield ""
    yield from _time(analysis, machine)
    yield from _notes(analysis)
    if analysis.elsewhere:
        names = ", ".join(dict.fromkeys(node.primitive.name for node in analysis.elsewhere))
        yield f"Other engines run {len(analysis.elsewhere)} nodes, which do not count: {names}."
    if machine.memory and analysis.memory > machine.memory:
        yield ""
        yield from advice(analysis, machine.memory)


def _notes(analysis: Analysis) -> Iterator[str]:
    """Where the program of a CPU differs from that of an accelerator."""
    if any(each.kind == SLICED for each in analysis.collectives):
        yield INFERRED
    arrays = sum(each.size * each.times for each in analysis.collectives if each.is_widened)
    live = sum(each.size for each in analysis.live if each.is_widened)
    if arrays or live:
        where = f"{size(arrays)} of the arrays of collectives and {size(live)} of what is live at the peak"
        yield f"16-bit floats in 32 bits, as XLA computes them on a CPU, are {where}: half as much in 16 bits."


def _memory(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Rows: states by how they are divided, and what the program needs beside them."""
    sums: dict[tuple[str, tuple[str, ...]], int] = {}
    trained = analysis.parameters
    for state in analysis.states:
        kind = "parameters" if state in trained else "other states"
        key = kind, () if state.sharding is None else tuple(a for a in analysis.mesh.names if a in state.sharding.names)
        sums[key] = sums.get(key, 0) + analysis.local_size(state)
    for (kind, axes), count in sorted(sums.items(), key=lambda item: (item[0][0] != "parameters", -item[1])):
        yield f"{kind}, {f'divided by {_names(axes)}' if axes else 'whole'}", size(count)
    yield "inputs", size(analysis.arguments - sum(sums.values()))
    yield "results in memory of their own", size(analysis.results)
    yield "temporary values", size(analysis.temporaries)
    yield "all", size(analysis.memory)


def _phases(analysis: Analysis) -> str:
    """The values that are live at the peak by the phase of the step that computes them."""
    sums = dict.fromkeys((*PHASES, ""), 0)
    for each in analysis.live:
        sums[each.node.phase if each.node else ""] += each.size
    of = {phase: f"of the {phase}" if phase else "of XLA itself" for phase in sums}
    parts = ", ".join(f"{size(count)} {of[phase]}" for phase, count in sums.items() if count)
    return f"Live at the peak, as temporary values or where results will lie: {parts}."


def _names(axes: Sequence[str]) -> str:
    return " and ".join(axes)


def _collectives(analysis: Analysis, machine: Machine) -> Iterator[tuple[str, ...]]:
    """Rows: the collectives of each kind along the same axes."""
    groups: dict[tuple[str, tuple[str, ...], int], list[Collective]] = {}
    for each in analysis.collectives:
        groups.setdefault((each.kind, each.axes, each.devices), []).append(each)
    for (kind, axes, devices), own in sorted(groups.items(), key=lambda item: -sum(c.sent for c in item[1])):
        arrays, sent = sum(c.size * c.times for c in own), sum(c.sent for c in own)
        seconds = sum(map(machine.seconds, own))
        count = str(sum(c.times for c in own))
        yield kind, _names(axes), str(devices), count, size(arrays), size(sent), f"{milliseconds(seconds)} ms"


def _time(analysis: Analysis, machine: Machine) -> Iterator[str]:
    """The predicted time of a step, between all communication hidden and none."""
    exchange = sum(map(machine.seconds, analysis.collectives))
    count = f"{short(round(analysis.flops))} operations on a device in a step"
    if analysis.flops > REPEATED * analysis.least_flops:
        count += f", {analysis.flops / analysis.least_flops:.1f} times its share of the graph's"
    if not machine.flops:
        yield f"{count}; communication takes {milliseconds(exchange)} ms. Say --flops 312e12 for the time of a step."
        return
    if analysis.tasks:
        yield f"{count}."
        yield _time_of_pipeline(analysis, machine)
        return
    compute = analysis.flops / machine.flops
    both = f"computation {milliseconds(compute)} ms, communication {milliseconds(exchange)} ms"
    least, most = max(compute, exchange), compute + exchange
    yield f"{count}: {both}."
    yield (
        f"A step takes {milliseconds(least)} ms where they overlap entirely, {milliseconds(most)} ms where they do not "
        "at all; see docs/parallel.md."
    )


def _time_of_pipeline(analysis: Analysis, machine: Machine) -> str:
    """The predicted time of a step in stages, each of which waits for what others send, and the share of waiting."""
    ends: list[float] = []
    free = dict.fromkeys(range(analysis.mesh.stages), 0.0)
    busy = 0.0
    for task in analysis.tasks:
        seconds = task.flops / machine.flops + sum(map(machine.seconds, task.collectives))
        begin = max([free[task.stage], *(ends[number] for number in task.before)])
        ends.append(begin + seconds)
        free[task.stage], busy = ends[-1], busy + seconds
    step = max(ends)
    waiting = 1 - busy / (step * analysis.mesh.stages) if step else 0.0
    return (
        f"A step takes {milliseconds(step)} ms where a stage computes and exchanges one after the other; stages wait "
        f"{waiting:.0%} of it for others (more parts of a batch make that less)."
    )
