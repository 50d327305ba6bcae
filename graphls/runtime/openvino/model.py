"""The OpenVINO model of a segment: read from a cache entry, or lowered and compiled now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any

from onnx import GraphProto

from graphls.base.errors import GraphRuntimeError
from graphls.ir.graph import Graph
from graphls.runtime.cache_entry import MODEL, CacheEntry
from graphls.runtime.lowering.lowering import Lowered, Lowering
from graphls.runtime.lowering.ports import Ports, ports_of
from graphls.runtime.lowering.weights import complete, serialised
from graphls.runtime.openvino.hoist import hoist_backward_values
from graphls.runtime.openvino.runtime import (
    EXACT,
    compiled,
    core,
    failure,
    imported,
    large_blocks_off_heap,
    load_openvino,
)
from graphls.runtime.openvino.target import is_right, target
from graphls.runtime.openvino.workarounds import apply_workarounds


class Model:
    """The model of a graph, with a cache entry unless it has settings of its own.

    `lowering` lowers the graph, and may add scalar outputs, `flags`; see exact_check.py.
    """

    def __init__(
        self, graph: Graph, settings: Mapping[str, object] = EXACT, lowering: type[Lowering] = Lowering,
        flags: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.graph = graph
        self.settings = settings
        self.lowering = lowering
        self.flags = flags
        self.entry = CacheEntry(graph, self._compiled_with if settings is EXACT else None)

    @cached_property
    def lowered(self) -> Lowered:
        """The lowered graph, available after `open`."""
        return self.lowering(self.graph, target(), is_right).lower()

    def open(self) -> tuple[Any, Ports]:
        """A compiled model and its ports; raises GraphlsError where OpenVINO refuses it."""
        with large_blocks_off_heap():
            return self.entry.read(self._reopened) or self._compiled()

    def _compiled(self) -> tuple[Any, Ports]:
        try:
            hoist_backward_values(self.lowered, self.graph)
            put_in_order(self.lowered.model.graph)
            read = core().read_model(serialised(complete(self.lowered.model, self.lowered.outside)))
            apply_workarounds(read)
            model = compiled(read, self.settings)
        except RuntimeError as error:
            raise failure("OpenVINO refused the step", error) from error
        ports = Ports(*(getattr(self.lowered, field.name) for field in fields(Ports)))
        if not self._fits(model, ports):
            raise GraphRuntimeError("OpenVINO changed the shapes of results of the step.")
        if self.entry.is_used:
            self.entry.write(self.lowered, {MODEL: model.export_model().getbuffer()})
        del self.lowered  # which takes memory, and is seldom read again
        return model, ports

    def _compiled_with(self) -> dict[str, object]:
        """The cache key of a compiled model besides its graph."""
        can = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")  # the environment may take units from a processor
        facts = {"engine": "openvino", "build": load_openvino().get_version(), "settings": EXACT, "processor": can}
        return {**facts, "lowering": self.lowering.__name__}

    def _reopened(self, table: Mapping[str, Any], parts: Mapping[str, memoryview]) -> tuple[Any, Ports]:
        """The model of a cache entry, compiled already, and its ports."""
        model = imported(parts[MODEL], self.settings)
        names = ([name for port in ports for name in port.get_names()] for ports in (model.inputs, model.outputs))
        ports = ports_of(self.graph, table, *names)
        if not self._fits(model, ports):
            raise ValueError("It is the model of another graph.")
        return model, ports

    def _fits(self, model: Any, ports: Ports) -> bool:
        """Whether the inputs and outputs of a compiled model have the names and shapes of the graph's."""
        graph = self.graph
        written = {ports.writes[write.state.name]: write.state for write in graph.writes}
        named = zip((*ports.inputs, *ports.outputs), (*graph.inputs, *graph.outputs), strict=True)
        values = {**dict(named), **{ports.states[v.name]: v for v in graph.states}, **written}
        scalars: dict[str, tuple[int, ...]] = dict.fromkeys((ports.fault, *self.flags), ())
        shapes = {**scalars, **{name: value.type.shape for name, value in values.items()}}
        borders = (*model.inputs, *model.outputs)
        return all(any(shapes.get(name) == tuple(port.shape) for name in port.get_names()) for port in borders)


def put_in_order(graph: GraphProto) -> None:
    """Sort the outputs by the positions of the operators that compute them.

    OpenVINO (2026.4.1) first runs all operators that the first output needs, then those that the second one needs
    besides, and so on. With new weights in the order of layers, all products for gradients of weights would run after
    the backward pass, and their operands would stay in memory until then.
    """
    position = {name: number for number, proto in enumerate(graph.node) for name in proto.output}
    for proto in graph.node:
        if proto.op_type == "Identity" and proto.input[0] in position:
            position[proto.output[0]] = position[proto.input[0]]
    graph.output.sort(key=lambda info: position.get(info.name, 0))
