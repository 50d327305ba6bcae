"""Running a lowered graph in one ONNX Runtime session, with every state bound to its buffer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.backends.failures import Torn, failed_node, states_before_an_index, states_behind
from graphls.backends.guard import first_line, open_guarded
from graphls.backends.host import HostValues
from graphls.backends.kernel_checks import is_right
from graphls.backends.onnx.lowering import Lowered, lower
from graphls.backends.onnx.types import exchanged
from graphls.backends.onnx.weights import serialised
from graphls.backends.runtime import load_runtime
from graphls.backends.session import Inputs, Session
from graphls.backends.states import HasStorage
from graphls.ir.errors import GraphRuntimeError, GraphValueError
from graphls.ir.graph import Graph, Value
from graphls.ir.types import Type
from graphls.sharing.forks import keep_for_ever, renew_after_fork
from graphls.sharing.storage import Clock, Storage

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
OPTIONS: dict[str, dict[str, str]] = {"cpu": {}, "cuda": {"use_tf32": "0"}}
"""Options of the providers: float32 products keep their 24 bits, which TF32 would cut to 11."""

SMALL = 4096
"""Bytes up to which it is cheaper to copy an output from a buffer that stays bound than to bind a new one."""


def check_device(device: str) -> None:
    """Raise GraphValueError for an unknown device, GraphRuntimeError for one that this runtime lacks."""
    if device not in PROVIDERS:
        raise GraphValueError(f"{device!r} is not a device; use one of {', '.join(map(repr, PROVIDERS))}.")
    runtime = load_runtime()
    available = runtime.get_available_providers()
    if PROVIDERS[device] not in available:
        raise GraphRuntimeError(
            f"This ONNX Runtime has no {PROVIDERS[device]} (it has {', '.join(available)}); "
            'uninstall it and run pip install "graphls[cuda]", with an NVIDIA driver.'
        )
    if device == "cuda" and hasattr(runtime, "preload_dlls"):
        runtime.preload_dlls()  # finds the libraries that pip has installed beside the runtime


def check_provider(session: Any, device: str) -> None:
    """Raise GraphRuntimeError where a session runs on the CPU because its own provider could not be loaded."""
    if PROVIDERS[device] not in session.get_providers():
        raise GraphRuntimeError(
            f"{PROVIDERS[device]} could not be loaded: an NVIDIA driver or the CUDA libraries are missing, "
            "which graphls doctor tells more about."
        )


class DeviceBuffer:
    """A tensor on a device, read by `numpy()`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        return np.asarray(self.value.numpy())


class OrtSession(Session):
    """One graph in one session: inputs are bound each step, states once.

    A state that the order pass proved is updated in its own buffer; any other has two, which change places
    after each step. Nothing waits for a result before it is read.
    """

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: str = "cpu") -> None:
        check_device(device)
        super().__init__(parameters)
        self.runtime = load_runtime()
        self.device = device
        check = partial(is_right, provider=PROVIDERS[device])
        self.lowered: Lowered = lower(
            graph, device=device, kernel_is_right=check, runtime=self.runtime.__version__
        )
        of_array = self.runtime.OrtValue.ortvalue_from_numpy
        self.outside = {name: of_array(array) for name, array in self.lowered.outside.items()}
        self.inputs = list(zip(self.lowered.inputs, map(_wider, graph.inputs), strict=True))
        self.outputs = [(n, exchanged(v.type)) for n, v in zip(self.lowered.outputs, graph.outputs, strict=True)]
        self.narrowed = {i: v.type.dtype.numpy for i, v in enumerate(graph.outputs) if _wider(v) and device == "cpu"}
        self.types = {state.name: exchanged(state.type) for state in graph.states}
        self.graph = graph
        # A small state that an index out of range might find written already is swapped, so that it stays as it was.
        early = {s.name for s in graph.states if s.type.nbytes <= SMALL} & states_before_an_index(graph)
        self.in_place = {w.state.name for w in graph.writes if w.in_place and w.state.name not in early}
        self.swapped = [w.state.name for w in graph.writes if w.state.name not in self.in_place]
        self.host = HostValues(graph, [node for node, _ in self.lowered.host])
        random_states = [node.inputs[0].name for node, _ in self.lowered.host]
        self.random_state = self.parameters[random_states[0]].storage if random_states else None
        self.seen = -1
        self.bindings: list[Any] = []
        self.bound: list[tuple[Storage, tuple[Any, ...], Clock | None, int]] = []
        self.small = [device == "cpu" and 0 < t.nbytes <= SMALL for _, t in self.outputs]
        self.buffers = [self._empty(t) if s else None for s, (_, t) in zip(self.small, self.outputs, strict=True)]
        self.session = self._session(serialised(self.lowered.model))
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked process, open another session at the next step: the threads of this one are not there.

        It stays in memory, because ending it would wait for them.
        """
        keep_for_ever(self.session, *self.bindings)
        self.session, self.bindings, self.bound, self.seen = None, [], [], -1
        self.host.forget()

    def _reopen(self) -> None:
        if self.device != "cpu":
            raise GraphRuntimeError(
                "A forked process cannot use the GPU of the process that it was forked from; start it with "
                "multiprocessing.get_context('spawn') and compile the step there."
            )
        self.session = self._session(serialised(self.lowered.model))

    def _session(self, model: bytes) -> Any:
        session = open_guarded(self.runtime, self.lowered.model, self.device, lambda level: self._opened(model, level))
        check_provider(session, self.device)
        return session

    def _opened(self, model: bytes, level: Any) -> Any:
        options = self._options()
        options.graph_optimization_level = level
        return self.runtime.InferenceSession(model, options, providers=[(PROVIDERS[self.device], OPTIONS[self.device])])

    def _options(self) -> Any:
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4  # what is worth telling is raised
        if self.outside:
            options.add_external_initializers(list(self.outside), list(self.outside.values()))
        return options

    def step(self, inputs: Inputs) -> list[Any]:
        """One step; the outputs as arrays on the CPU, as DeviceBuffers elsewhere."""
        random_state = self.random_state
        drawn = [] if random_state is None else self.host.draw(random_state)
        if self.seen != self.group.changes:
            self._follow_changes()
        binding = self.bindings[self.clock.ticks & 1 if self.swapped else 0]
        for (name, dtype), array in zip(self.inputs, inputs, strict=True):
            self._bind_input(binding, name, dtype, array)
        for (_, name), array in zip(self.lowered.host, drawn, strict=True):
            binding.bind_cpu_input(name, array)
        pairs = zip(self.buffers, self.outputs, strict=True)
        results = [self._bind_output(binding, name, kind) if b is None else b for b, (name, kind) in pairs]
        if self.swapped:
            self.group.changes = self.seen = self.seen + 1
        if random_state is None:
            self._run(binding)
        else:
            self.host.count(random_state, partial(self._run, binding))
        results = [r.copy() if small else r for r, small in zip(results, self.small, strict=True)]
        for i, dtype in self.narrowed.items():
            results[i] = results[i].astype(dtype)
        return results

    def _run(self, binding: Any) -> None:
        """Run what is bound; not by methods of the runtime in Python, in which a Ctrl-C could land (see `complete`)."""
        try:
            self.complete(self.session._sess.run_with_iobinding, (binding._iobinding, None))
        except Exception as error:
            self._mark_torn(error)
            raise GraphRuntimeError(f"ONNX Runtime could not run the step: {first_line(error)}") from error

    def _mark_torn(self, error: Exception) -> None:
        """Let no step go on from states that this one may have written before it failed."""
        node = failed_node(error, self.lowered.origins)
        intact = set() if node is None else states_behind(self.graph, node)
        for name in self.in_place - intact:
            self.parameters[name].storage.replace(Torn(name, first_line(error)))

    def _bind_input(self, binding: Any, name: str, dtype: Any, array: Any) -> None:
        if isinstance(array, DeviceBuffer):
            binding.bind_ortvalue_input(name, array.value)
        else:
            binding.bind_cpu_input(name, np.ascontiguousarray(array, dtype).reshape(array.shape))

    def _bind_output(self, binding: Any, name: str, kind: Type) -> Any:
        buffer = self._empty(kind)
        binding.bind_ortvalue_output(name, self._value(buffer))
        return buffer

    def _empty(self, kind: Type) -> Any:
        if self.device == "cpu":
            return np.empty(kind.shape, kind.dtype.numpy)
        value = self.runtime.OrtValue.ortvalue_from_shape_and_type(kind.shape, kind.dtype.numpy, self.device, 0)
        return DeviceBuffer(value)

    def _value(self, buffer: Any) -> Any:
        """The OrtValue of a buffer; on the CPU it shares the array's memory."""
        if isinstance(buffer, DeviceBuffer):
            return buffer.value
        return self.runtime.OrtValue.ortvalue_from_numpy(buffer, self.device, 0)

    def _follow_changes(self) -> None:
        """Bind every state to the buffer that holds it now, unless only others have got new ones."""
        if self.session is None:
            self._reopen()
        if not self.bindings or not all(map(self._is_current, self.bound)):
            for name in self.types:
                self._settle(name)
            self.bindings = [self._binding(turn) for turn in range(2 if self.swapped else 1)]
            storages = [self.parameters[name].storage for name in self.types]
            self.bound = [(s, s.buffers, s.clock, s.turn) for s in storages]
        self.seen = self.group.changes

    def _is_current(self, bound: tuple[Storage, tuple[Any, ...], Clock | None, int]) -> bool:
        storage, buffers, clock, turn = bound
        if storage.buffers is not buffers or storage.clock is not clock:
            return False
        return clock is self.clock or storage.turn == turn

    def _settle(self, name: str) -> None:
        """Bring a state to this device, into one buffer or, where it is swapped, into two."""
        storage, dtype = self.parameters[name].storage, self.types[name].dtype.numpy
        buffer = storage.current
        here = isinstance(buffer, np.ndarray if self.device == "cpu" else DeviceBuffer)
        if not here or (isinstance(buffer, np.ndarray) and buffer.dtype != dtype):
            buffer = storage.read().astype(dtype, copy=False)
            storage.move(buffer if self.device == "cpu" else DeviceBuffer(self._value(buffer)))
        if name in self.swapped:
            if storage.clock is not self.clock:
                storage.swap_with(self._empty(self.types[name]), self.clock)
        elif storage.clock is not None and name in self.in_place:
            storage.move(storage.current)

    def _binding(self, turn: int) -> Any:
        binding = self.session.io_binding()
        for name, tensor in self.lowered.states.items():
            storage = self.parameters[name].storage
            swaps = name in self.swapped
            binding.bind_ortvalue_input(tensor, self._value(storage.buffers[turn] if swaps else storage.current))
            if name in self.lowered.writes:
                target = storage.buffers[1 - turn] if swaps else storage.current
                binding.bind_ortvalue_output(self.lowered.writes[name], self._value(target))
        for buffer, (name, _) in zip(self.buffers, self.outputs, strict=True):
            if buffer is not None:
                binding.bind_ortvalue_output(name, self._value(buffer))
        return binding


def _wider(value: Value) -> Any:
    """The NumPy dtype in which a value crosses the border of the model, or None where that is its own."""
    kind = exchanged(value.type)
    return None if kind == value.type else kind.dtype.numpy
