"""Sessions for single operations and small graphs outside of a trace.

Operations that differ in the sizes of their operands alone share a session, where their models are the same but for the
declared sizes: a network of fifty convolutions has a handful.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from onnx import ModelProto

from graphls.base.sharing.forks import call_after_fork, never_free
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.registry import Operation
from graphls.ir.types import Type
from graphls.runtime.buffers import in_rows
from graphls.runtime.onnxruntime.guard import is_unusual
from graphls.runtime.onnxruntime.model import Model
from graphls.runtime.onnxruntime.runtime import load_runtime
from graphls.runtime.onnxruntime.session_options import take_turns, threads

Array = np.ndarray[Any, Any]
Cached = TypeVar("Cached")

MOST_SESSIONS = 64
MOST_OPERATIONS = 1024
"""The most that are cached; the oldest is evicted for the next."""


class OperationModel(NamedTuple):
    """A model that computes the outputs of a graph without states, in a cached session or one opened now."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_unusual: bool

    def run(self, arrays: Iterable[Array]) -> list[Array]:
        """The outputs for these operands; raises where an index is out of range, as kernels of a CPU do."""
        fed = {name: _in_rows(array) for name, array in zip(self.inputs, arrays, strict=True)}
        session = _cached(_sessions, MOST_SESSIONS, self.model, lambda: _open_session(self.model, self.is_unusual))
        return list(map(np.asarray, session.run(self.outputs, fed)))


def _in_rows(array: Array) -> Array:
    return array if array.flags.c_contiguous else in_rows(array, None)


_sessions: dict[bytes, Any] = {}
_operations: dict[object, Any] = {}


def cached(key: Hashable, make: Callable[[], Cached]) -> Cached:
    """The cached object of a key, such as a model, or one made now."""
    item: Cached = _cached(_operations, MOST_OPERATIONS, key, make)
    return item


def _cached(items: dict[Any, Any], most: int, key: object, make: Callable[[], Any]) -> Any:
    """The cached item of a key, or one made now; the oldest is evicted where there are too many."""
    item = items.get(key)
    if item is None:
        item = make()
        for oldest in list(items)[: max(0, len(items) + 1 - most)]:
            items.pop(oldest, None)
        items[key] = item
    return item


def operation_graph(operation: Operation, types: tuple[Type, ...], attrs: Mapping[str, Any], result: int = 0) -> Graph:
    """The graph of one result of an operation on operands of these types."""
    inputs = tuple(Value(f"x{i}", kind) for i, kind in enumerate(types))
    e = Builder()
    output = e.emit(operation, inputs, attrs)[result]
    return Graph("operation", inputs, (), tuple(e.nodes), (), (output,))


def operation_model(graph: Graph) -> OperationModel:
    """The model that computes the outputs of a graph, for inputs of any sizes that its operators take."""
    lowered = Model(graph, "cpu", load_runtime()).lowered
    return OperationModel(_of_any_size(lowered.model), lowered.inputs, lowered.outputs, is_unusual(lowered.model))


def _of_any_size(model: ModelProto) -> bytes:
    """The model without the declared sizes of its inputs and outputs, which no operator depends on."""
    for info in (*model.graph.input, *model.graph.output):
        for size in info.type.tensor_type.shape.dim:
            size.Clear()
    del model.graph.value_info[:]
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _open_session(model: bytes, is_unusual: bool) -> Any:
    """Opens a session, without optimizations where these have not been tried on such operators; see guard.py."""
    runtime = load_runtime()
    options = runtime.SessionOptions()
    level = "ORT_DISABLE_ALL" if is_unusual else "ORT_ENABLE_ALL"
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads()
    options.log_severity_level = 4
    options.enable_mem_pattern = False
    take_turns(options, runtime)
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)


@call_after_fork
def _forget() -> None:
    """In a forked process, forget sessions without ending them, which would wait for threads that were not forked."""
    never_free(*_sessions.values())
    _sessions.clear()
    _operations.clear()
