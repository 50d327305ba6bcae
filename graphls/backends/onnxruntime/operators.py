"""Single operators in sessions of their own, for operations outside of a trace.

Operations that differ in the sizes of their operands alone share a session, where their models are the same but for the
declared sizes: a network of fifty convolutions has a handful. The threads of a session stop to spin as a run ends,
since those of many sessions would keep the cores busy with waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto

from graphls.backends.buffers import in_rows
from graphls.backends.onnxruntime.guard import is_unusual
from graphls.backends.onnxruntime.model import Model
from graphls.backends.onnxruntime.runtime import load_runtime
from graphls.backends.onnxruntime.threads import threads
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.registry import Operation
from graphls.ir.types import Type
from graphls.sharing.forks import call_after_fork, keep_for_ever

Array = np.ndarray[Any, Any]

MOST_SESSIONS = 64
MOST_OPERATIONS = 1024
"""As many are kept, and the oldest given up for the next."""


class Ready(NamedTuple):
    """A session that computes a result of an operation on operands of certain types."""

    session: Any
    inputs: tuple[str, ...]
    output: str

    def run(self, arrays: tuple[Array, ...]) -> Array:
        """The result for these operands."""
        fed = {name: in_rows(array, None) for name, array in zip(self.inputs, arrays, strict=True)}
        (result,) = self.session.run([self.output], fed)
        return np.asarray(result)


_sessions: dict[bytes, Any] = {}
_operations: dict[object, Ready] = {}


def ready(operation: Operation, types: tuple[Type, ...], attrs: Mapping[str, Any], result: int = 0) -> Ready:
    """The session for one result of an operation on operands of these types."""
    key = operation, types, result, tuple(sorted(attrs.items()))
    found: Ready = _kept(_operations, MOST_OPERATIONS, key, lambda: _made(operation, types, attrs, result))
    return found


def _kept(kept: dict[Any, Any], most: int, key: object, make: Callable[[], Any]) -> Any:
    """What is kept by a key, or made now; the oldest goes where there are too many."""
    found = kept.get(key)
    if found is None:
        found = make()
        for oldest in list(kept)[: max(0, len(kept) + 1 - most)]:
            kept.pop(oldest, None)
        kept[key] = found
    return found


def _made(operation: Operation, types: tuple[Type, ...], attrs: Mapping[str, Any], result: int) -> Ready:
    runtime = load_runtime()
    inputs = tuple(Value(f"x{i}", kind) for i, kind in enumerate(types))
    e = Builder()
    output = e.emit(operation, inputs, attrs)[result]
    lowered = Model(Graph("operation", inputs, (), tuple(e.nodes), (), (output,)), "cpu", runtime).lowered
    model = _of_any_size(lowered.model)
    if len(_sessions) >= MOST_SESSIONS and model not in _sessions:
        _operations.clear()  # which hold the session that goes
    session = _kept(_sessions, MOST_SESSIONS, model, lambda: _opened(runtime, model, is_unusual(lowered.model)))
    return Ready(session, lowered.inputs, lowered.outputs[0])


def _of_any_size(model: ModelProto) -> bytes:
    """The model without the declared sizes of what enters and leaves it, which no operator depends on."""
    for info in (*model.graph.input, *model.graph.output):
        for size in info.type.tensor_type.shape.dim:
            size.Clear()
    del model.graph.value_info[:]
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _opened(runtime: Any, model: bytes, is_unusual: bool) -> Any:
    """A session, without optimizations where they have not been tried on such operators, for which see guard.py."""
    options = runtime.SessionOptions()
    level = "ORT_DISABLE_ALL" if is_unusual else "ORT_ENABLE_ALL"
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.intra_op_num_threads = threads()
    options.log_severity_level = 4
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"], enable_fallback=0)


@call_after_fork
def _forget() -> None:
    """Sessions whose threads are in the process that has forked stay in memory, since ending them would wait."""
    keep_for_ever(*_sessions.values())
    _sessions.clear()
    _operations.clear()
