"""The program of a graph: compiled ahead of time, with the memory of the old states donated to the new ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import Type
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.xla.tracing import traced

OPTIONS = {"xla_allow_excess_precision": False}
"""Options of the compiler: 16-bit floats are rounded after each operation, as the graph says."""


class Program:
    """A graph as a function of its inputs and states; its results are new states, tests of indices, then outputs.

    What is among `boundary` values comes and goes in the dtype in which segments exchange it. The memory of states that
    are written in place belongs to their new values. `checks` are the nodes whose indices are tested, and `call` runs
    the program on arrays of JAX, without Python. Where a test fails, the new states are the old ones.
    """

    def __init__(self, jax: Any, graph: Graph, device: Any, boundary: Collection[Value]) -> None:
        self.jax, self.graph = jax, graph
        self.checks: list[Node] = []
        self.casts = {v: exchanged(v.type).dtype.numpy for v in graph.inputs if v in boundary}
        self.result_casts = [exchanged(v.type).dtype.numpy if v in boundary else None for v in graph.outputs]
        self.sharding = jax.sharding.SingleDeviceSharding(device)
        with jax.enable_x64(True):
            self.compiled = self._lowered().compile(OPTIONS)
        # The public call is a function of Python, in which a Ctrl-C could land after the states are donated.
        call = self.compiled._executable.create_cpp_call(self.compiled._params)
        self.call = call or self.compiled

    def _lowered(self) -> Any:
        graph, jax = self.graph, self.jax
        kinds = [*map(self.kind, graph.inputs), *(v.type for v in graph.states)]
        shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy, sharding=self.sharding) for t in kinds]
        places = {v: len(graph.inputs) + i for i, v in enumerate(graph.states)}
        donated = [places[write.state] for write in graph.writes if write.in_place]
        jitted = jax.jit(self._function, donate_argnums=donated, keep_unused=True, out_shardings=self.sharding)
        with jax.default_matmul_precision("highest"):
            return jitted.lower(*shapes)

    def kind(self, value: Value) -> Type:
        """The type of an input as the program takes it."""
        return exchanged(value.type) if value in self.casts else value.type

    def _function(self, *arrays: Any) -> tuple[Any, ...]:
        graph, jnp = self.graph, self.jax.numpy
        values = zip((*graph.inputs, *graph.states), arrays, strict=True)
        own = [array.astype(v.type.dtype.numpy) if v in self.casts else array for v, array in values]
        results, new, holds, tests = traced(self.jax, graph, own)
        cast = [r if d is None else r.astype(d) for r, d in zip(results, self.result_casts, strict=True)]
        self.checks = [node for node, _ in tests]
        each = jnp.stack([test for _, test in tests]) if tests else jnp.asarray([True])
        return (*new, holds, each, *cast)
