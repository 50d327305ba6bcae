"""The ONNX Runtime model of a graph: read from a cache entry, or lowered and optimized now.

Reshapes before the outputs of a segment are removed: it returns them in the shapes in which they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from onnx import GraphProto, NodeProto

from graphls.base.errors import GraphlsError
from graphls.ir.graph import Graph
from graphls.ir.types import float16, float32
from graphls.runtime.cache_entry import MODEL, CacheEntry
from graphls.runtime.devices import PROVIDERS, Cuda, kind_of
from graphls.runtime.low_products import low_products
from graphls.runtime.lowering.lowering import Lowered, lower
from graphls.runtime.lowering.ports import Ports, ports_of
from graphls.runtime.lowering.protos import operators
from graphls.runtime.lowering.target import KernelCheck
from graphls.runtime.lowering.weights import serialised
from graphls.runtime.onnxruntime.guard import open_guarded
from graphls.runtime.onnxruntime.kernel_checks import is_right
from graphls.runtime.onnxruntime.optimized import read_weights, write_optimized, written_to

Options = Callable[[Any], None]
"""Changes the options of a new session."""

Create = Callable[[bytes, Options], Any]
"""Creates a session of a model, with options that are changed so."""


class Model:
    """The model of one graph for one device, whose session `open` creates; `outside` are the arrays that it reads.

    With `in_any_shape`, outputs must be bound in the shapes that the session reports; see `without_views`.
    """

    def __init__(self, graph: Graph, device: str | Cuda, runtime: Any, in_any_shape: bool = False) -> None:
        self.graph = graph
        self.in_any_shape = in_any_shape
        self.device = device
        self.runtime = runtime
        self.outside: dict[str, Any] = {}

    @cached_property
    def lowered(self) -> Lowered:
        """The lowered graph; where the model comes from a cache entry, it is lowered at the first use."""
        kind = kind_of(self.device)
        lowered = lower(self.graph, device=kind, kernel_is_right=self._is_right, runtime=self.runtime.__version__)
        return without_views(lowered) if self.in_any_shape else lowered

    @property
    def _is_right(self) -> KernelCheck:
        return partial(is_right, provider=PROVIDERS[kind_of(self.device)])

    def open(self, create: Create, is_cached: bool = True) -> tuple[Any, Ports]:
        """A session and its ports, with `is_cached` by a cache entry where these are in use."""
        entry = CacheEntry(self.graph, self._compiled_with if is_cached else None)
        if (reopened := entry.read(partial(self._reopened, create))) is not None:
            return reopened
        with written_to(entry, self.lowered) as file:
            return self._optimized(create, file), self.lowered

    def _compiled_with(self) -> dict[str, object]:
        """The cache key of an optimized model besides its graph."""
        build = self.runtime.__version__, getattr(self.runtime, "get_build_info", str)()
        device = asdict(self.device) if isinstance(self.device, Cuda) else self.device
        own = {"engine": "onnxruntime", "build": build, "device": device, "float8": self._float8_kernels()}
        return {**own, "in_any_shape": self.in_any_shape}

    def _float8_kernels(self) -> list[bool]:
        """Which checks of products of float8 hold, where the graph has some: another card may open a cache entry."""
        has_some = self.device != "cpu" and not all(product.obstacle for product in low_products(self.graph))
        return [self._is_right("GemmFloat8", dtype) for dtype in (float16, float32) if has_some]

    def _reopened(self, create: Create, table: Mapping[str, Any], parts: Mapping[str, memoryview]) -> tuple[Any, Ports]:
        """The session of the model of a cache entry, without optimizations or a trial, and its ports."""
        level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = self._created(create, bytes(parts[MODEL]), level, read_weights(table, parts))
        inputs, outputs = ([port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs()))
        return session, ports_of(self.graph, table, inputs, outputs)

    def _optimized(self, create: Create, file: Path | None) -> Any:
        """The session of the lowered model, whose optimized form goes to a file, where that can be written."""
        model, outside = serialised(self.lowered.model), self.lowered.outside

        def at(level: Any) -> Any:
            try:
                return self._created(create, model, level, outside, file)
            except Exception as error:
                if file is None or isinstance(error, GraphlsError):
                    raise
                file.unlink(missing_ok=True)
                return self._created(create, model, level, outside)

        return open_guarded(self.runtime, self.lowered.model, kind_of(self.device), at)

    def _created(
        self, create: Create, model: bytes, level: Any, outside: Mapping[str, Any], file: Path | None = None
    ) -> Any:
        of_array = self.runtime.OrtValue.ortvalue_from_numpy
        self.outside = {name: of_array(array) for name, array in outside.items()}

        def change(options: Any) -> None:
            options.graph_optimization_level = level
            if outside:
                options.add_external_initializers(list(self.outside), list(self.outside.values()))
            if file is not None:
                write_optimized(options, file, bool(outside))

        return create(model, change)


MAKERS = frozenset(("Gemm", "MatMul", "Transpose"))
"""Operators whose results have shapes that the runtime infers from those of their operands."""


def without_views(lowered: Lowered) -> Lowered:
    """The model with outputs that are views of large results, such as gradients of kernels, replaced by these results.

    ONNX Runtime (1.19 to 1.31) copies the result of a Reshape that is an output, 5 ms for the 94 MB of a ResNet-50; a
    bound buffer can have any shape. `session.get_outputs` reports the shape, which the model leaves open.
    """
    graph = lowered.model.graph
    makers = {name: node for node in graph.node for name in node.output}
    infos = {info.name: info for info in graph.output}
    outputs = list(lowered.outputs)
    for i, name in enumerate(outputs):
        base = _base_of_views(name, makers)
        if base not in infos:
            info = infos[base] = infos[name]
            info.name = outputs[i] = base
            info.type.tensor_type.ClearField("shape")
    _drop_unread_views(graph)
    return replace(lowered, outputs=tuple(outputs))


def _base_of_views(name: str, makers: Mapping[str, NodeProto]) -> str:
    """The base of a view, if an operator of this graph makes it; else the tensor itself."""
    base, node = name, makers.get(name)
    while node is not None and node.op_type == "Reshape":
        base, node = node.input[0], makers.get(node.input[0])
    return base if node is not None and node.op_type in MAKERS else name


def _drop_unread_views(graph: GraphProto) -> None:
    """Remove each Reshape without readers, which the runtime would run."""
    live = {info.name for info in graph.output}
    nodes = []
    for node in reversed(graph.node):
        if node.op_type != "Reshape" or node.output[0] in live:
            nodes.append(node)
            live.update(name for inner in operators([node]) for name in inner.input)
    if len(nodes) < len(graph.node):
        nodes.reverse()
        del graph.node[:]
        graph.node.extend(nodes)
