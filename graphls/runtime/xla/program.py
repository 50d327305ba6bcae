"""The program of a graph: compiled ahead of time, with the memory of the old states donated to the new ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import Type, uint32
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.xla.entry import Compiled, ProgramEntry
from graphls.runtime.xla.library import OPTIONS
from graphls.runtime.xla.tracing import traced


class Program:
    """A graph as a function of its inputs and states; its results are new states, tests of indices, then outputs.

    What is among `boundary` values comes and goes in the dtype in which segments exchange it. The memory of states that
    are written in place belongs to their new values. `checks` are the nodes whose indices are tested, all but `tested`
    ones; where a test fails, the new states are the old ones. `call` runs the program without Python.
    """

    def __init__(
        self, jax: Any, graph: Graph, device: Any, boundary: Collection[Value], tested: Collection[Node]
    ) -> None:
        self.jax, self.graph = jax, graph
        self.checks: list[Node] = []
        self.tested = tested
        self.kinds = {v: exchanged(v.type) if v in boundary else v.type for v in graph.inputs}
        self.result_casts = [exchanged(v.type).dtype.numpy if v in boundary else None for v in graph.outputs]
        self.sharding = jax.sharding.SingleDeviceSharding(device)
        places = {v: len(graph.inputs) + i for i, v in enumerate(graph.states)}
        self.donated = [places[write.state] for write in graph.writes if write.in_place]
        self.compiled = self._opened(device)
        # The public call is a function of Python, in which a Ctrl-C could land after the states are donated.
        call = self.compiled._executable.create_cpp_call(self.compiled._params)
        self.call = call or self.compiled

    def _opened(self, device: Any) -> Any:
        """The program, from the compile cache or compiled now."""
        graph = self.graph
        entry = ProgramEntry(self.jax, graph, [device], **self._facts())
        with self.jax.enable_x64(True):
            cached = entry.read(len(graph.inputs) + len(graph.states), len(graph.writes) + len(graph.outputs) + 2)
            if cached is not None:
                self.checks = cached.checks
                return cached.program
            program = self._lowered().compile(OPTIONS)
        entry.write(Compiled(program, self.checks))
        return program

    def _facts(self) -> dict[str, object]:
        """What the program depends on besides its graph and devices."""
        kinds, tested = [*map(str, self.kinds.values())], [node.outputs[0].name for node in self.tested]
        ends = {"inputs": kinds, "results": [*map(str, self.result_casts)], "donated": self.donated}
        return {"options": OPTIONS, "tested": tested, **ends}

    def _lowered(self) -> Any:
        graph, jax = self.graph, self.jax
        kinds = [*map(as_words, self.kinds.values()), *(v.type for v in graph.states)]
        shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy, sharding=self.sharding) for t in kinds]
        jitted = jax.jit(self._function, donate_argnums=self.donated, keep_unused=True, out_shardings=self.sharding)
        with jax.default_matmul_precision("highest"):
            return jitted.lower(*shapes)

    def _function(self, *arrays: Any) -> tuple[Any, ...]:
        graph, jnp = self.graph, self.jax.numpy
        pairs = zip(arrays, self.kinds.items(), strict=False)
        inputs = [self._joined(array, kind).astype(v.type.dtype.numpy) for array, (v, kind) in pairs]
        states = arrays[len(inputs) :]
        results, new, holds, tests = traced(self.jax, graph, (*inputs, *states), self.tested)
        cast = [r if d is None else r.astype(d) for r, d in zip(results, self.result_casts, strict=True)]
        self.checks = [node for node, _ in tests]
        each = jnp.stack([test for _, test in tests]) if tests else jnp.asarray([True])
        return (*new, holds, each, *cast)

    def _joined(self, array: Any, kind: Type) -> Any:
        """An input in its own dtype."""
        return self.jax.lax.bitcast_convert_type(array, kind.dtype.numpy) if is_wide(kind) else array


def is_wide(kind: Type) -> bool:
    """Whether elements have 64 bits, which the calls of JAX narrow unless it is told not to."""
    return kind.dtype.numpy.itemsize == 8


def as_words(kind: Type) -> Type:
    """The type of an input as a program takes it: words of 32 bits along a further axis for elements of 64."""
    return Type(uint32, (*kind.shape, 2)) if is_wide(kind) else kind
