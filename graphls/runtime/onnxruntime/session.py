"""An ONNX Runtime session of a whole graph, with every state bound to its buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from onnx import NodeProto

from graphls.base.errors import GraphlsError, GraphMemoryError, GraphRuntimeError
from graphls.base.reporting import checked, warn
from graphls.base.sharing.arrays import empty
from graphls.base.sharing.forks import never_free, renew_after_fork
from graphls.ir.graph import Graph, Value
from graphls.ir.indices import early_states
from graphls.ir.plan import Plan, plan_of
from graphls.ir.types import Type
from graphls.passes.rewriter import Rewritten
from graphls.runtime.bound import BoundStates
from graphls.runtime.buffers import SMALL, DeviceBuffer, array_of
from graphls.runtime.devices import PROVIDERS, Cuda, kind_of
from graphls.runtime.host_random import HostValues
from graphls.runtime.lowering.lowering import Lowered
from graphls.runtime.lowering.protos import operators
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.onnxruntime.blocks import block_size, in_blocks
from graphls.runtime.onnxruntime.failures import cuda_failure, dependent_states, failed_node, failure
from graphls.runtime.onnxruntime.guard import first_line
from graphls.runtime.onnxruntime.model import Model
from graphls.runtime.onnxruntime.runtime import check_device, check_provider, load_runtime
from graphls.runtime.onnxruntime.session_options import release_cores, threads
from graphls.runtime.session import Inputs, Session
from graphls.runtime.states import HasStorage


class OrtSession(Session, BoundStates):
    """One graph in one session: inputs are bound at each step, states once.

    A state that the order pass proved is updated in its own buffer; any other has two buffers, which are swapped after
    each step. Nothing waits for a result before it is read. `is_cached` says whether its model has a cache entry, and
    `in_any_shape` whether on a CPU outputs are bound in the shapes in which operators compute them.
    """

    is_cached = True
    in_any_shape = False

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: str | Cuda = "cpu") -> None:
        check_device(device)
        super().__init__(parameters)
        self.runtime = load_runtime()
        self.device = kind_of(device)
        self.cuda = device if isinstance(device, Cuda) else Cuda()
        blocked = in_blocks(graph, block_size()) if self.device == "cpu" else Rewritten(graph)
        any_shape = self.in_any_shape and self.device == "cpu"
        self.model = Model(blocked.graph, self.cuda if self.device != "cpu" else "cpu", self.runtime, any_shape)
        self.origin = blocked.origin
        self.shapes = {w.state.name: w.value.type.shape for w in blocked.graph.writes}
        if self.device == "cuda" and self.cuda.deterministic:
            warn_of_scattered_sums(self.lowered)
        self.narrowed = {i: v.type.dtype.numpy for i, v in enumerate(graph.outputs) if _wider(v)}
        self.types = {state.name: exchanged(state.type) for state in graph.states}
        self.graph = graph
        # A small state that is written before an index may turn out of range is swapped, so that it stays intact.
        early = early_states(graph)
        self.in_place = {w.state.name for w in blocked.graph.writes if w.in_place and w.state.name not in early}
        self.swapped = {w.state.name: self.version for w in graph.writes if w.state.name not in self.in_place}
        self.session: Any = None
        self._open()
        self.inputs = list(zip(self.ports.inputs, map(_wider, graph.inputs), strict=True))
        self.outputs = [(n, exchanged(v.type)) for n, v in zip(self.ports.outputs, graph.outputs, strict=True)]
        self.host = HostValues(graph, [node for node, _ in self.ports.host])
        random_states = [node.inputs[0].name for node, _ in self.ports.host]
        self.random_state = self.parameters[random_states[0]].storage if random_states else None
        self.forget_bindings()
        self.small = [self.device == "cpu" and 0 < t.nbytes <= SMALL for _, t in self.outputs]
        self.buffers = [self._empty(t) if s else None for s, (_, t) in zip(self.small, self.outputs, strict=True)]
        renew_after_fork(self)

    @property
    def plan(self) -> Plan:
        """The graph as one segment, with its writes in place marked."""
        marked = (replace(w, in_place=w.state.name in self.in_place) for w in self.graph.writes)
        return plan_of(self.graph.replace(writes=tuple(marked)))

    @property
    def lowered(self) -> Lowered:
        """The model before the runtime optimized it; for a cached model, the graph is lowered at the first use."""
        return self.model.lowered

    @property
    def unblocked(self) -> Lowered | None:
        """The model of the unchanged graph; None where the session runs some of it in blocks."""
        return self.lowered if self.model.graph is self.graph else None

    def renew(self) -> None:
        """In a forked process, open another session at the next step, because the threads of this one were not forked.

        This one stays in memory, because ending it would wait for its threads.
        """
        never_free(self.session, *self.bindings.values())
        self.session = None
        self.forget_bindings()

    def _reopen(self) -> None:
        if self.session is not None:
            return
        if self.device != "cpu":
            raise GraphRuntimeError(
                "A forked process cannot use the GPU of the process that it was forked from; start it with "
                "multiprocessing.get_context('spawn') and compile the step there."
            )
        self._open()

    def _open(self) -> None:
        self.session, self.ports = self.model.open(self._created, self.is_cached)
        if self.model.in_any_shape:
            self.output_shapes = {output.name: output.shape for output in self.session.get_outputs()}
        check_provider(self.session, self.device)

    def _created(self, model: bytes, change: Callable[[Any], None]) -> Any:
        options = self._options()
        change(options)
        provider = PROVIDERS[self.device], self._provider_options()
        try:
            return self.runtime.InferenceSession(model, options, providers=[provider], enable_fallback=0)
        except Exception as error:
            raise self._gpu_failure(error) or error from None

    def _provider_options(self) -> dict[str, str]:
        if self.device == "cpu":
            return {}
        state_bytes = sum(t.nbytes * (2 if name in self.swapped else 1) for name, t in self.types.items())
        limit = self.cuda.memory_limit
        if limit is not None and state_bytes >= limit:
            text = f"The states of this step take {state_bytes:,} bytes, which is beyond its memory_limit of {limit:,}."
            raise GraphMemoryError(text)
        return self.cuda.provider_options(state_bytes)

    def _gpu_failure(self, error: Exception) -> GraphlsError | None:
        """The error for a failure of the GPU; None for any other error."""
        return None if self.device == "cpu" else cuda_failure(str(error), self.cuda.graph)

    def _options(self) -> Any:
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = threads()
        release_cores(options)
        options.use_deterministic_compute = self.cuda.deterministic
        options.enable_mem_pattern = self.device != "cpu"  # on a CPU it takes memory beside that of the first run
        options.log_severity_level = 4  # errors are raised
        return options

    def step(self, inputs: Inputs) -> list[Any]:
        """Run one step; the outputs are arrays on the CPU, DeviceBuffers elsewhere."""
        random_state = self.random_state
        random_inputs = [] if random_state is None else self.host.draw(random_state)
        binding = self.turn()
        for (name, dtype), array in zip(self.inputs, inputs, strict=True):
            self._bind_input(binding, name, dtype, array)
        for (_, name), array in zip(self.ports.host, random_inputs, strict=True):
            self._bind_input(binding, name, None, array)
        results = self._bind_outputs(binding)
        if self.swapped:
            self.group.changes = self.seen = self.seen + 1
        if random_state is None:
            self._run(binding)
        else:
            self.host.count(random_state, partial(self._run, binding))
        return self._finished(results)

    def _bind_outputs(self, binding: Any) -> list[Any]:
        """The buffers of the outputs: those that stay bound, and new ones for the rest."""
        pairs = zip(self.buffers, self.outputs, strict=True)
        return [self._bind_output(binding, name, kind) if b is None else b for b, (name, kind) in pairs]

    def _finished(self, results: list[Any]) -> list[Any]:
        """The results of a step: copies of buffers that stay bound, in the dtypes of the graph."""
        results = [r.copy() if small else r for r, small in zip(results, self.small, strict=True)]
        for i, dtype in self.narrowed.items():
            if isinstance(results[i], np.ndarray):
                results[i] = results[i].astype(dtype)
        return results

    def _run(self, binding: Any) -> None:
        """Run the bound step by a call into C, since a Ctrl-C could land in the runtime's Python (see `complete`)."""
        try:
            self.complete(self.session._sess.run_with_iobinding, (binding._iobinding, self._run_options(binding)))
        except Exception as error:
            raise self.failed(error) from error

    def _run_options(self, binding: Any) -> Any:
        """The run options of this binding."""
        return None

    def failed(self, error: Exception) -> GraphlsError:
        """The user's error; states that may be half written are invalidated."""
        node = failed_node(error, self.lowered.origins)
        intact = set() if node is None else dependent_states(self.model.graph, node)
        self._invalidate(self.in_place - intact, first_line(error))
        return self._gpu_failure(error) or failure(error, node)

    def _bind_input(self, binding: Any, name: str, dtype: Any, array: Any) -> None:
        if isinstance(array, DeviceBuffer) and self._is_local(array):
            binding.bind_ortvalue_input(name, array.value)
        else:
            binding.bind_cpu_input(name, array_of(array, dtype))

    def _bind_output(self, binding: Any, name: str, kind: Type) -> Any:
        buffer = self._empty(kind)
        binding.bind_ortvalue_output(name, self._value(self._as_output(name, buffer)))
        return buffer

    def _empty(self, kind: Type) -> Any:
        if self.device == "cpu":
            return checked(empty, kind.shape, kind.dtype.numpy)
        of_shape = self.runtime.OrtValue.ortvalue_from_shape_and_type
        return DeviceBuffer(of_shape(kind.shape, kind.dtype.numpy, self.device, self.cuda.id), self.cuda.id)

    def _is_local(self, buffer: Any) -> bool:
        if self.device == "cpu":
            return isinstance(buffer, np.ndarray)
        return isinstance(buffer, DeviceBuffer) and buffer.id == self.cuda.id

    def _is_fit(self, name: str, buffer: Any) -> bool:
        is_array = isinstance(buffer, np.ndarray)
        return self._is_local(buffer) and not (is_array and buffer.dtype != self.types[name].dtype.numpy)

    def _fit(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        return array if self.device == "cpu" else DeviceBuffer(self._value(array), self.cuda.id)

    def _second(self, name: str) -> Any:
        return self._empty(self.types[name])

    def _value(self, buffer: Any) -> Any:
        """The OrtValue of a buffer; on the CPU it shares the array's memory."""
        if isinstance(buffer, DeviceBuffer):
            return buffer.value
        return self.runtime.OrtValue.ortvalue_from_numpy(buffer, self.device, self.cuda.id)

    def _binding(self, turn: int) -> Any:
        binding = self.session.io_binding()
        for name, tensor in self.ports.states.items():
            old, new = self._buffers(name)
            binding.bind_ortvalue_input(tensor, self._value(old))
            if name in self.ports.writes:
                binding.bind_ortvalue_output(self.ports.writes[name], self._value(self._as_written(name, new)))
        for buffer, (name, _) in zip(self.buffers, self.outputs, strict=True):
            if buffer is not None:
                binding.bind_ortvalue_output(name, self._value(self._as_output(name, buffer)))
        return binding

    def _as_output(self, name: str, buffer: Any) -> Any:
        """The buffer of an output in the shape in which the model computes it."""
        return buffer.reshape(self.output_shapes[name]) if self.model.in_any_shape else buffer

    def _as_written(self, name: str, buffer: Any) -> Any:
        """The buffer of a state in the shape in which the model writes it, which may be that of blocks."""
        return buffer.reshape(self.shapes[name]) if isinstance(buffer, np.ndarray) else buffer


def _wider(value: Value) -> Any:
    """The NumPy dtype of a value as an input or output of the model, or None where that is its own."""
    kind = exchanged(value.type)
    return None if kind == value.type else kind.dtype.numpy


def warn_of_scattered_sums(lowered: Lowered) -> None:
    """Warn of the first scatter-add, whose order of summation on a GPU varies from run to run, at the user's line."""
    node = next((node for node in operators(lowered.model.graph.node) if _is_scatter_add(node)), None)
    if node is None:
        return
    origin = lowered.origins.get(node.name)
    warn(
        "The runtime has no deterministic kernel for sums at positions of an index, such as the gradient of an "
        "embedding, so that the last bits of this step differ from run to run.",
        None if origin is None else origin.loc,
    )


def _is_scatter_add(node: NodeProto) -> bool:
    return node.op_type.startswith("Scatter") and any(a.name == "reduction" and a.s == b"add" for a in node.attribute)
