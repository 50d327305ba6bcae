"""The program of a graph: compiled ahead of time, with the memory of the old states donated to the new ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphls.ir.compare import structure_key
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.types import Type, uint32
from graphls.runtime.kernels import FusedKernel
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.xla.call import ProgramCall
from graphls.runtime.xla.entry import Compiled, ProgramEntry
from graphls.runtime.xla.fusions import fused_kernels
from graphls.runtime.xla.indices import nodes_in_range
from graphls.runtime.xla.library import OPTIONS
from graphls.runtime.xla.placement import Placement
from graphls.runtime.xla.tracing import traced

PARTS = {
    "xla_cpu_collective_call_terminate_timeout_seconds": 86_400,
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
    "xla_disable_hlo_passes": "cpu-all-reduce-combiner",
}
"""Options for several devices of a CPU.

A process ends where one waits for another longer than that: after 40 s else. Operations are in the order that needs
least memory, as on accelerators; XLA orders those of a CPU for many threads else, and gathers all parameters first. And
gradients are reduced one by one, as else all of them stay until the last."""


class Program:
    """A graph as a function of its inputs and states; its results are new states, tests of indices, then outputs.

    What is among `boundary` values comes and goes in the dtype in which segments exchange it. `crossing` are inputs and
    results that tasks of a pipeline exchange, inputs with their places; XLA chooses those of results, `result_places`.
    `spent` are inputs that nothing reads later: results of their types get their memory, as a sum of gradients does.
    Of programs that are equal but for names the first is compiled, and `compiled_ones` has it for all. `checks` are the
    nodes whose indices are tested, all but `tested` ones. Without any, the memory of states that are written in place
    belongs to their new values, else they keep it (`keeps_states`), as a test may fail. `call` runs the program.
    """

    def __init__(
        self, jax: Any, graph: Graph, placement: Placement, boundary: Collection[Value], tested: Collection[Node],
        crossing: Mapping[Value, Any] | None = None, spent: Collection[Value] = (),
        compiled_ones: dict[Any, Program] | None = None,
    ) -> None:  # fmt: skip
        self.jax, self.graph = jax, graph
        self.crossing = {} if crossing is None else crossing
        self.checks: list[Node] = []
        self.tested = {*tested, *nodes_in_range(graph)}
        self.kinds = {v: exchanged(v.type) if v in boundary else v.type for v in graph.inputs}
        self.result_casts = [exchanged(v.type).dtype.numpy if v in boundary else None for v in graph.outputs]
        self.placement = placement
        self.options = OPTIONS | (PARTS if placement.divides_cpu else {})
        positions = {v: len(graph.inputs) + i for i, v in enumerate(graph.states)}
        self.keeps_states = _tests_indices(graph, self.tested)
        in_place = [write.state for write in graph.writes if write.in_place and not self.keeps_states]
        self.donated = [positions[state] for state in in_place]
        self.donated += _reused(graph, in_place, spent)
        # JAX gives memory to the first result of its type: so new states come in the order of the old ones.
        own = dict.fromkeys(in_place)
        self.writes = sorted(graph.writes, key=lambda write: (write.state not in own, positions[write.state]))
        self.source = self if compiled_ones is None else compiled_ones.setdefault(self._structure(), self)
        self.compiled = self._opened() if self.source is self else self._shared(self.source)
        self.call = ProgramCall(self.compiled)

    def _opened(self) -> Any:
        """The program, from the compile cache or compiled now."""
        graph = self.graph
        entry = ProgramEntry(self.jax, graph, self.placement.devices, **self._facts())
        with self.jax.enable_x64(True):
            cached = entry.read(len(graph.inputs) + len(graph.states), len(graph.writes) + len(graph.outputs) + 2)
            if cached is not None:
                self.checks = cached.checks
                return cached.program
            program = self._compiled()
        entry.write(Compiled(program, self.checks))
        return program

    def _structure(self) -> Any:
        return structure_key(self.graph), str(self.placement.devices), str(self.crossing.values()), str(self._facts())

    def _shared(self, source: Program) -> Any:
        own = dict(zip(walk(source.graph), walk(self.graph), strict=True))
        self.checks = [own[node] for node in source.checks]
        return source.compiled

    def kernels(self) -> list[FusedKernel]:
        """The kernels of the program, each with the nodes that XLA fused into it."""
        own = dict(zip(walk(self.source.graph), walk(self.graph), strict=True))
        kernels = fused_kernels(self.compiled, self.source.graph)
        return [replace(kernel, nodes=tuple(own[node] for node in kernel.nodes)) for kernel in kernels]

    @property
    def result_places(self) -> dict[Value, Any]:
        """The shardings of the results."""
        places = self.compiled.output_shardings[-len(self.graph.outputs) :] if self.graph.outputs else ()
        return dict(zip(self.graph.outputs, places, strict=True))

    def _compiled(self) -> Any:
        """The program, without those options for a CPU that this version of XLA does not have."""
        lowered, options = self._lowered(), dict(self.options)
        while True:
            try:
                return lowered.compile(options)
            except self.jax.errors.JaxRuntimeError as error:
                unknown = re.search(r"No such compile option: '(\w+)'", str(error))
                if unknown is None or unknown[1] not in PARTS:
                    raise
                del options[unknown[1]]

    def _facts(self) -> dict[str, object]:
        """What the program depends on besides its graph and devices."""
        kinds, tested = [*map(str, self.kinds.values())], sorted(node.outputs[0].name for node in self.tested)
        ends = {"inputs": kinds, "results": [*map(str, self.result_casts)], "donated": self.donated}
        return {"options": self.options, "tested": tested, **ends}

    def _lowered(self) -> Any:
        graph, jax = self.graph, self.jax
        kinds: list[Type] = [*(as_words(k) if self.is_in_words(v) else k for v, k in self.kinds.items())]
        kinds += [v.type for v in graph.states]
        places = [*map(self.place, graph.inputs), *map(self.placement.of, graph.states)]
        shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy, sharding=p) for t, p in zip(kinds, places, strict=True)]
        new = [self.placement.of(write.state) for write in self.writes]
        tests = [self.placement.replicated] * 2
        results = [None if v in self.crossing else self.placement.replicated for v in graph.outputs]
        ends = (*new, *tests, *results)
        jitted = jax.jit(self._function, donate_argnums=self.donated, keep_unused=True, out_shardings=ends)
        with jax.default_matmul_precision("highest"):
            return jitted.lower(*shapes)

    def place(self, value: Value) -> Any:
        """The sharding of an input as the program takes it."""
        return self.crossing.get(value) or self.placement.of(value, more=int(self.is_in_words(value)))

    def is_in_words(self, value: Value) -> bool:
        """Whether the program takes an input as words of 32 bits."""
        return is_wide(self.kinds[value]) and value not in self.crossing

    def _function(self, *arrays: Any) -> tuple[Any, ...]:
        graph, jnp = self.graph, self.jax.numpy
        pairs = zip(arrays, self.kinds.items(), strict=False)
        inputs = [self._joined(array, v, kind).astype(v.type.dtype.numpy) for array, (v, kind) in pairs]
        own = (*inputs, *arrays[len(inputs) :])
        results, new, holds, tests = traced(self.jax, graph, own, self.tested, self.placement.constrained)
        by_state = {write.state: value for write, value in zip(graph.writes, new, strict=True)}
        new = [by_state[write.state] for write in self.writes]
        cast = [r if d is None else r.astype(d) for r, d in zip(results, self.result_casts, strict=True)]
        self.checks = [node for node, _ in tests]
        each = jnp.stack([test for _, test in tests]) if tests else jnp.asarray([True])
        return (*new, holds, each, *cast)

    def _joined(self, array: Any, value: Value, kind: Type) -> Any:
        """An input in its own dtype."""
        return self.jax.lax.bitcast_convert_type(array, kind.dtype.numpy) if self.is_in_words(value) else array


def _reused(graph: Graph, in_place: Collection[Value], spent: Collection[Value]) -> Iterator[int]:
    """The positions of spent inputs, as many of a type as there are results of it that no state gives its memory to."""
    free = Counter([v.type for v in graph.outputs] + [w.state.type for w in graph.writes])
    free.subtract(v.type for v in in_place)
    for number, value in enumerate(graph.inputs):
        if value in spent and free[value.type] > 0:
            free[value.type] -= 1
            yield number


def _tests_indices(graph: Graph, tested: Collection[Node]) -> bool:
    """Whether a program of a graph tests indices, other than constants and those of `tested` nodes."""
    constants = {node.output for node in walk(graph) if node.primitive.is_constant}
    takers = (node for node in walk(graph) if node.primitive.takes_indices and node not in tested)
    return any(node.inputs[1] not in constants for node in takers)


def is_wide(kind: Type) -> bool:
    """Whether elements have 64 bits, which the calls of JAX narrow unless it is told not to."""
    return kind.dtype.numpy.itemsize == 8


def as_words(kind: Type) -> Type:
    """The type of an input as a program takes it: words of 32 bits along a further axis for elements of 64."""
    return Type(uint32, (*kind.shape, 2)) if is_wide(kind) else kind
