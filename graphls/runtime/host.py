"""Plan segments that call Python functions, on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.errors import GraphlsError
from graphls.ir.graph import Node, Value
from graphls.ir.interpret import running
from graphls.ir.plan import Segment
from graphls.runtime.boundary_buffers import contiguous_buffer
from graphls.runtime.numpy.part import InterpretedPart, TimedPart

if TYPE_CHECKING:
    from graphls.runtime.engine import PlanContext

Array = np.ndarray[Any, Any]


class HostPart(InterpretedPart):
    """Calls Python functions one after the other; copies each result once, into its boundary buffer."""

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        super().__init__(segment, context)
        shared, pairs = context.boundary_buffers, list(zip(self.graph.outputs, self.gives, strict=True))
        own = {v: shared[value] for v, value in pairs if value in shared}
        self.boundary_buffers = {v: buffer for v, buffer in own.items() if buffer.dtype == v.type.dtype.numpy}
        self.buffers = {node: pair for node in self.graph.nodes if (pair := self._of_collective(node))}

    def run(self, fed: Mapping[Value, Any]) -> None:
        """Make the calls, in the order of the program."""
        inputs, states = self.read(fed)
        arrays = {**dict(zip(self.graph.inputs, inputs, strict=True)), **states}
        for node in self.graph.nodes:
            results = self._results(node, tuple(arrays[value] for value in node.inputs))
            arrays.update((v, self._copied(v, r)) for v, r in zip(node.outputs, results, strict=True))
            if self.watch:
                self.watch(node, results)
        written = [arrays[write.value] for write in self.graph.writes]
        self.give([arrays[value] for value in self.graph.outputs], written)

    def _of_collective(self, node: Node) -> tuple[Array, Array] | None:
        """The contiguous buffers of all operands and of all results of a collective; None where they have none."""
        if not (node.primitive.is_collective and node.inputs):
            return None
        buffers = self.context.boundary_buffers
        operands = [buffers[v] for v in node.inputs if v in buffers and buffers[v].dtype == v.type.dtype.numpy]
        results = [self.boundary_buffers[v] for v in node.outputs[1:] if v in self.boundary_buffers]
        if len(operands) < len(node.inputs) or len(results) < len(node.outputs) - 1:
            return None
        sent = contiguous_buffer(operands)
        received = sent if results[0] is operands[0] else contiguous_buffer(results)
        return None if sent is None or received is None else (sent, received)

    def _results(self, node: Node, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        primitive: Any = node.primitive
        if primitive.is_collective:
            with running(node):
                return self._collective_results(node, arrays)
        types = tuple(value.type for value in node.outputs)
        run = primitive.run if primitive.calls_python else primitive.evaluate
        results: tuple[Any, ...] = run(arrays, node.attrs, types)
        return results

    def _collective_results(self, node: Node, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results of a collective, received in place where they share one buffer."""
        primitive: Any = node.primitive
        buffers = self.buffers.get(node)
        try:
            if buffers and primitive.fill(*buffers, node.attrs):
                return (None, *(self.boundary_buffers[v] for v in node.outputs[1:]))
            results: tuple[Any, ...] = primitive.run(arrays, node.attrs, tuple(value.type for value in node.outputs))
        except GraphlsError as error:
            raise error.at(node.loc) from error.__cause__
        return results

    def _copied(self, value: Value, array: Any) -> Any:
        """A copy, as the function may change its own array later."""
        if value not in self.boundary_buffers:
            return np.array(array)
        buffer = self.boundary_buffers[value]
        if buffer is not array:
            buffer[...] = array
        return buffer


class TimedHostPart(TimedPart, HostPart):
    """A segment whose calls are timed one by one."""
