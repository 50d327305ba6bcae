"""What a step needs on each device of a mesh: memory, operations and communication, by XLA's analyses of its program.

The program is compiled for virtual devices and never run, so no state needs memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from re import search
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.ir.flops import flops
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.indices import host_indices
from graphls.ir.plan import flattened, plan_of
from graphls.ir.sharding import Mesh, local_type
from graphls.runtime.xla.collectives import Collective, collectives
from graphls.runtime.xla.instructions import Instruction, Instructions
from graphls.runtime.xla.library import load_jax
from graphls.runtime.xla.liveness import live_at_peak
from graphls.runtime.xla.placement import Placement
from graphls.runtime.xla.program import Program

QUICK = {"xla_backend_optimization_level": 0}
"""Options for a program that does not run: the machine code is as it comes, and the analyses are the same."""


@dataclass(frozen=True)
class Live:
    """A value at the moment when the temporary values need most memory: its bytes on a device, its type and node.

    `is_widened` says whether it has 16-bit floats in 32 bits.
    """

    size: int
    type: str
    node: Node | None
    is_widened: bool = False


@dataclass(frozen=True)
class TaskCost:
    """A task of a pipeline: its stage, operations and collectives, and the numbers of the tasks that it waits for."""

    stage: int
    flops: float
    collectives: tuple[Collective, ...]
    before: tuple[int, ...]


@dataclass(frozen=True)
class Analysis:
    """A step on one device of a mesh; sizes are bytes.

    `arguments` are all inputs and states, `results` what is not written into the memory of an old state, `temporaries`
    the rest of what XLA allocates, and `live` the values of which it consists at its peak. `flops` are the floating
    point operations, `tested` the nodes whose indices the program tests, and `elsewhere` those that other engines run.

    Of a pipeline it is the `stage` that needs most memory, with `tasks` of all stages in their order.
    """

    graph: Graph
    mesh: Mesh
    arguments: int
    results: int
    temporaries: int
    live: tuple[Live, ...]
    flops: float
    collectives: tuple[Collective, ...]
    tested: tuple[Node, ...]
    elsewhere: tuple[Node, ...]
    stage: int | None = None
    tasks: tuple[TaskCost, ...] = ()

    @property
    def memory(self) -> int:
        """The bytes that a step needs on each device."""
        return self.arguments + self.results + self.temporaries

    @property
    def least_flops(self) -> float:
        """The operations on a device if none were done on several; XLA repeats what it cannot divide."""
        return sum(map(flops, self.graph.nodes)) / self.mesh.size

    @property
    def states(self) -> tuple[Value, ...]:
        """The states of the step."""
        return self.graph.states

    @property
    def parameters(self) -> frozenset[Value]:
        """The states that the forward reads; others belong to optimizers and to loss scaling."""
        forward = (node for node in walk(self.graph) if node.phase == "forward")
        return frozenset(value for node in forward for value in node.inputs if value.is_state)

    def local_size(self, value: Value) -> int:
        """The bytes of an input or a state on each device."""
        return local_type(value.type, value.sharding, self.mesh).nbytes


class Simulated(Program):
    """A program that is compiled anew for its analyses, and not kept."""

    def _opened(self) -> Any:
        self.options = self.options | QUICK
        with self.jax.enable_x64(True):
            return self._compiled()


def analysed_segments(graph: Graph, mesh: Mesh) -> Analysis:
    """The analysis of a graph without stages, in segments or not; raises GraphValueError where XLA takes nothing."""
    segments = plan_of(graph).segments
    own = [_of_segment(segment.graph, mesh) for segment in segments if segment.engine == "xla"]
    if not own:
        raise GraphValueError("XLA takes no part of the step, so there is nothing to simulate.")
    others = [segment.graph.nodes for segment in segments if segment.engine != "xla"]
    largest = max(own, key=lambda each: each.temporaries)
    return Analysis(
        flattened(graph),
        mesh,
        sum(each.arguments for each in own),
        sum(each.results for each in own),
        largest.temporaries,
        largest.live,
        sum(each.flops for each in own),
        tuple(each for one in own for each in one.collectives),
        tuple(node for one in own for node in one.tested),
        tuple(node for nodes in others for node in nodes),
    )


def _of_segment(graph: Graph, mesh: Mesh) -> Analysis:
    tested = host_indices(graph, graph.inputs)[1]
    return analysis_of(Simulated(load_jax(), graph, Placement(graph, "cpu"), (), tested), mesh)


def analysis_of(simulated: Program, mesh: Mesh) -> Analysis:
    """The analysis of one program."""
    graph, program = simulated.graph, simulated.compiled
    memory, cost = program.memory_analysis(), program.cost_analysis()
    instructions = Instructions(program.as_text(), graph)
    return Analysis(
        graph,
        mesh,
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes - memory.alias_size_in_bytes,
        memory.temp_size_in_bytes,
        tuple(_live(instructions)),
        cost.get("flops", 0.0) + _repeated(instructions),
        tuple(collectives(instructions, mesh)),
        tuple(simulated.checks),
        (),
    )


def _live(instructions: Instructions) -> Iterator[Live]:
    """What is live at the peak; the arrays that share a collective are values of their own."""
    own = {each.name: each for name in instructions.runs() for each in instructions.of(name)}
    for each in live_at_peak(instructions):
        values = [own[name] for name in each.operands] if len(each.arrays) > 1 else [each]
        values = values if len(values) == len(each.arrays) else [each]
        yield from (Live(v.size, v.shape.partition("{")[0], v.node, v.is_widened) for v in values)


def _repeated(instructions: Instructions) -> float:
    """The operations of products in loops from their second run on, which the cost analysis leaves out."""
    return sum((times - 1) * _products(instructions, name) for name, times in instructions.runs().items() if times > 1)


def _products(instructions: Instructions, computation: str) -> int:
    """The operations of the products of matrices in a computation and in its kernels."""
    own = {each.name: each for each in instructions.of(computation)}
    count = sum(_operations(each, own) for each in own.values() if each.operation == "dot")
    kernels = (name for each in own.values() if each.operation == "fusion" for name in each.called)
    return count + sum(_products(instructions, name) for name in kernels)


def _operations(product: Instruction, own: Mapping[str, Instruction]) -> int:
    """The multiplications and additions of a product: two for each element and each term of its sum."""
    contracted = search(r"lhs_contracting_dims=\{([\d,]*)\}", product.attributes)
    ((shape, _),) = own[product.operands[0]].arrays
    terms = prod(shape[int(axis)] for axis in contracted[1].split(",") if axis) if contracted else 1
    return 2 * terms * sum(prod(sizes) for sizes, _ in product.arrays)
