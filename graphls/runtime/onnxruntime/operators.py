"""Sessions for single operations and small graphs outside of a trace.

Operations that differ in the sizes of their operands alone share a session, where their models are the same but for the
declared sizes: a network of fifty convolutions has a handful. The threads of a session stop to spin as a run ends,
since those of many sessions would keep the cores busy with waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from onnx import ModelProto

from graphls.base.sharing.forks import call_after_fork, keep_for_ever
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.registry import Operation
from graphls.ir.types import Type
from graphls.runtime.buffers import in_rows
from graphls.runtime.onnxruntime.arena import has_common_arena
from graphls.runtime.onnxruntime.guard import is_unusual
from graphls.runtime.onnxruntime.model import Model
from graphls.runtime.onnxruntime.runtime import load_runtime
from graphls.runtime.onnxruntime.threads import threads

Array = np.ndarray[Any, Any]
Made = TypeVar("Made")

MOST_SESSIONS = 64
MOST_OPERATIONS = 1024
"""As many are kept, and the oldest given up for the next."""


class Ready(NamedTuple):
    """A model that computes the outputs of a graph without states, in a session that is opened when there is none."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    is_unusual: bool

    def run(self, arrays: Iterable[Array]) -> list[Array]:
        """The outputs for these operands; raises where an index is out of range, as kernels of a CPU do."""
        fed = {name: _in_rows(array) for name, array in zip(self.inputs, arrays, strict=True)}
        session = _cached(_sessions, MOST_SESSIONS, self.model, lambda: _opened(self.model, self.is_unusual))
        return list(map(np.asarray, session.run(self.outputs, fed)))


def _in_rows(array: Array) -> Array:
    return array if array.flags.c_contiguous else in_rows(array, None)


_sessions: dict[bytes, Any] = {}
_operations: dict[object, Any] = {}


def cached(key: Hashable, make: Callable[[], Made]) -> Made:
    """The cached object of a key, such as a `ready` model, or one made now."""
    found: Made = _cached(_operations, MOST_OPERATIONS, key, make)
    return found


def _cached(kept: dict[Any, Any], most: int, key: object, make: Callable[[], Any]) -> Any:
    """The cached object of a key, or one made now; the oldest is evicted where there are too many."""
    found = kept.get(key)
    if found is None:
        found = make()
        for oldest in list(kept)[: max(0, len(kept) + 1 - most)]:
            kept.pop(oldest, None)
        kept[key] = found
    return found


def one_operation(operation: Operation, types: tuple[Type, ...], attrs: Mapping[str, Any], result: int = 0) -> Graph:
    """The graph of one result of an operation on operands of these types."""
    inputs = tuple(Value(f"x{i}", kind) for i, kind in enumerate(types))
    e = Builder()
    output = e.emit(operation, inputs, attrs)[result]
    return Graph("operation", inputs, (), tuple(e.nodes), (), (output,))


def ready(graph: Graph) -> Ready:
    """The model that computes the outputs of a graph, for inputs of any sizes that it takes."""
    lowered = Model(graph, "cpu", load_runtime()).lowered
    return Ready(_of_any_size(lowered.model), lowered.inputs, lowered.outputs, is_unusual(lowered.model))


def _of_any_size(model: ModelProto) -> bytes:
    """The model without the declared sizes of what enters and leaves it, which no operator depends on."""
    for info in (*model.graph.input, *model.graph.output):
        for size in info.type.tensor_type.shape.dim:
            size.Clear()
    del model.graph.value_info[:]
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _opened(model: bytes, is_unusual: bool) -> Any:
    """A session, without optimizations where they have not been tried on such operators, for which see guard.py."""
    runtime = load_runtime()
    options = runtime.SessionOptions()
    level = "ORT_DISABLE_ALL" if is_unusual else "ORT_ENABLE_ALL"
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads()
    options.log_severity_level = 4
    options.enable_mem_pattern = False
    if has_common_arena(runtime):
        options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)


@call_after_fork
def _forget() -> None:
    """Sessions whose threads are in the process that has forked stay in memory, since ending them would wait."""
    keep_for_ever(*_sessions.values())
    _sessions.clear()
    _operations.clear()
