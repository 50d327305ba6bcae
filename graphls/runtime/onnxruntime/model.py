"""The ONNX Runtime model of a graph: read from a cache entry, or lowered and optimized now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from graphls.base.errors import GraphlsError
from graphls.ir.graph import Graph
from graphls.runtime.cache_entry import MODEL, CacheEntry
from graphls.runtime.devices import PROVIDERS, Cuda, kind_of
from graphls.runtime.lowering.lowering import Lowered, lower
from graphls.runtime.lowering.ports import Ports, ports_of
from graphls.runtime.lowering.weights import serialised
from graphls.runtime.onnxruntime.guard import open_guarded
from graphls.runtime.onnxruntime.kernel_checks import is_right
from graphls.runtime.onnxruntime.optimized import read_weights, write_optimized, written_to
from graphls.runtime.onnxruntime.views import without_views

Options = Callable[[Any], None]
"""Changes the options of a session that is about to be made."""

Create = Callable[[bytes, Options], Any]
"""Makes a session of a model, with options that are changed so."""


class Model:
    """The model of one graph for one device, whose session `open` makes; `outside` are the arrays that this reads.

    With `in_any_shape`, who runs it binds outputs in the shapes that the session tells; see views.py.
    """

    def __init__(self, graph: Graph, device: str | Cuda, runtime: Any, in_any_shape: bool = False) -> None:
        self.graph = graph
        self.in_any_shape = in_any_shape
        self.device = device
        self.runtime = runtime
        self.outside: dict[str, Any] = {}

    @cached_property
    def lowered(self) -> Lowered:
        """The lowered graph; where its model is of a cache entry, it is lowered at the first use."""
        kind = kind_of(self.device)
        check = partial(is_right, provider=PROVIDERS[kind])
        lowered = lower(self.graph, device=kind, kernel_is_right=check, runtime=self.runtime.__version__)
        return without_views(lowered) if self.in_any_shape else lowered

    def open(self, create: Create, is_cached: bool = True) -> tuple[Any, Ports]:
        """A session, and what its inputs and outputs are; `is_cached` by way of a cache entry, where these are kept."""
        entry = CacheEntry(self.graph, self._compiled_with if is_cached else None)
        if (found := entry.read(partial(self._reopened, create))) is not None:
            return found
        with written_to(entry, self.lowered) as file:
            return self._optimized(create, file), self.lowered

    def _compiled_with(self) -> dict[str, object]:
        """The cache key of an optimized model besides its graph."""
        build = self.runtime.__version__, getattr(self.runtime, "get_build_info", str)()
        device = asdict(self.device) if isinstance(self.device, Cuda) else self.device
        return {"engine": "onnxruntime", "build": build, "device": device, "in_any_shape": self.in_any_shape}

    def _reopened(self, create: Create, table: Mapping[str, Any], parts: Mapping[str, memoryview]) -> tuple[Any, Ports]:
        """The session of the model of an entry, which needs neither optimizations nor a trial, and its ports."""
        level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = self._created(create, bytes(parts[MODEL]), level, read_weights(table, parts))
        inputs, outputs = ([port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs()))
        return session, ports_of(self.graph, table, inputs, outputs)

    def _optimized(self, create: Create, file: Path | None) -> Any:
        """The session of the lowered model, whose optimized one goes to a file, where that can be written."""
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
