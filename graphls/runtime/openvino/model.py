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
from graphls.runtime.openvino.bounded import INCONCLUSIVE
from graphls.runtime.openvino.early import make_early
from graphls.runtime.openvino.kernel_checks import is_right
from graphls.runtime.openvino.memory import large_blocks_apart
from graphls.runtime.openvino.protected import protect
from graphls.runtime.openvino.runtime import EXACT, compiled, core, failure, imported, load_openvino
from graphls.runtime.openvino.target import target


class Model:
    """The model of a graph; where it has the settings of all, it has a cache entry.

    `lowering` says how overflow checks are lowered; see bounded.py.
    """

    def __init__(
        self, graph: Graph, settings: Mapping[str, object] = EXACT, lowering: type[Lowering] = Lowering
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.lowering = lowering
        self.entry = CacheEntry(graph, self._compiled_with if settings is EXACT else None)

    @cached_property
    def lowered(self) -> Lowered:
        """The lowered graph, available after `open`."""
        return self.lowering(self.graph, target(), is_right).lower()

    def open(self) -> tuple[Any, Ports]:
        """A compiled model, and what its inputs and outputs are; raises GraphlsError where OpenVINO refuses it."""
        with large_blocks_apart():
            return self.entry.read(self._reopened) or self._compiled()

    def _compiled(self) -> tuple[Any, Ports]:
        try:
            make_early(self.lowered, self.graph)
            put_in_order(self.lowered.model.graph)
            read = core().read_model(serialised(complete(self.lowered.model, self.lowered.outside)))
            protect(read)
            made = compiled(read, self.settings)
        except RuntimeError as error:
            raise failure("OpenVINO refused the step", error) from error
        ports = Ports(*(getattr(self.lowered, field.name) for field in fields(Ports)))
        if not self._fits(made, ports):
            raise GraphRuntimeError("OpenVINO made results of other shapes of the step.")
        if self.entry.is_used:
            self.entry.write(self.lowered, {MODEL: made.export_model().getbuffer()})
        del self.lowered  # which takes memory, and hardly anybody asks for it again
        return made, ports

    def _compiled_with(self) -> dict[str, object]:
        """The cache key of a compiled model besides its graph."""
        can = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")  # the environment may take units from a processor
        facts = {"engine": "openvino", "build": load_openvino().get_version(), "settings": EXACT, "processor": can}
        return {**facts, "lowering": self.lowering.__name__}

    def _reopened(self, table: Mapping[str, Any], parts: Mapping[str, memoryview]) -> tuple[Any, Ports]:
        """The model of an entry, which OpenVINO has changed already."""
        made = imported(parts[MODEL], self.settings)
        names = ([name for port in ports for name in port.get_names()] for ports in (made.inputs, made.outputs))
        ports = ports_of(self.graph, table, *names)
        if not self._fits(made, ports):
            raise ValueError("It is the model of another graph.")
        return made, ports

    def _fits(self, made: Any, ports: Ports) -> bool:
        """Whether what a compiled model takes and gives has the names and shapes of the graph's."""
        graph = self.graph
        written = {ports.writes[write.state.name]: write.state for write in graph.writes}
        named = zip((*ports.inputs, *ports.outputs), (*graph.inputs, *graph.outputs), strict=True)
        values = {**dict(named), **{ports.states[v.name]: v for v in graph.states}, **written}
        shapes = {ports.fault: (), INCONCLUSIVE: (), **{name: value.type.shape for name, value in values.items()}}
        ways = (*made.inputs, *made.outputs)
        return all(any(shapes.get(name) == tuple(way.shape) for name in way.get_names()) for way in ways)


def put_in_order(graph: GraphProto) -> None:
    """Order outputs by where in the graph they are made.

    OpenVINO (2026.4.1) first runs all that the first output needs, then what the second one needs besides, and so on.
    Behind new weights in the order of layers, all products for gradients of weights would stand behind the backward
    pass, and their operands would be kept until then.
    """
    place = {name: number for number, proto in enumerate(graph.node) for name in proto.output}
    for proto in graph.node:
        if proto.op_type == "Identity" and proto.input[0] in place:
            place[proto.output[0]] = place[proto.input[0]]
    graph.output.sort(key=lambda info: place.get(info.name, 0))
