"""Sessions on a GPU that record a step as a CUDA graph and replay it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.ir.graph import Graph, walk
from graphls.ir.types import Type
from graphls.runtime.buffers import SMALL, DeviceBuffer, array_of, in_rows
from graphls.runtime.devices import Cuda
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.onnxruntime.guard import first_line
from graphls.runtime.onnxruntime.session import OrtSession
from graphls.runtime.states import HasStorage

OLDEST = 1, 31
"""The first runtime known to retain all that a recording reads, such as the addresses of the operands of a Concat."""

MOST = 16
"""The most recordings of a session; each takes memory, and each set of state addresses needs its own."""


class FixedBuffer(DeviceBuffer):
    """A tensor at an address that recordings read; `empty()` allocates a value like it elsewhere."""

    __slots__ = ("empty", "is_small")

    def __init__(self, empty: Callable[[], Any], id: int, is_small: bool) -> None:
        super().__init__(empty(), id)
        self.empty, self.is_small = empty, is_small

    def copy(self) -> Any:
        """The current content: an array where it is small, else another buffer of the device."""
        if self.is_small:
            return np.array(self.value.numpy())
        value = self.empty()
        value.update_inplace(self.value)
        return DeviceBuffer(value, self.id)

    def fill(self, source: Any, dtype: Any) -> None:
        """Copy an array, or a buffer of any device, into this one."""
        is_local = isinstance(source, DeviceBuffer) and source.id == self.id
        self.value.update_inplace(source.value if is_local else array_of(source, dtype))


@dataclass
class Recording:
    """The run options that name a CUDA graph, and whether it has been recorded."""

    options: Any
    is_recorded: bool


class CapturedSession(OrtSession):
    """A session whose steps are CUDA graphs, one for each set of addresses of the states.

    The runtime runs a step more than once while it records it, so that the states are restored afterwards. Inputs and
    outputs have buffers of their own, since a recording has fixed addresses. Raises GraphValueError, with the user's
    line, for a step with a loop, which cannot be recorded.
    """

    def __init__(self, graph: Graph, parameters: Mapping[str, HasStorage], device: Cuda) -> None:
        _check(graph)
        self.recordings: dict[tuple[int, ...], Recording] = {}
        self.current: dict[Any, Recording] = {}
        self.homes: dict[str, tuple[Any, ...]] = {}
        super().__init__(graph, parameters, device)
        fed = [*zip(self.ports.inputs, graph.inputs, strict=True), *((n, v.output) for v, n in self.ports.host)]
        self.fed = {name: self._fixed(exchanged(value.type)) for name, value in fed}
        self.small = [True] * len(self.outputs)
        self.buffers = [self._fixed(kind) for _, kind in self.outputs]

    def _fixed(self, kind: Type) -> FixedBuffer:
        return FixedBuffer(lambda: self._empty(kind).value, self.cuda.id, kind.nbytes <= SMALL)

    def _provider_options(self) -> dict[str, str]:
        _check_version(self.runtime.__version__)
        return super()._provider_options()

    def _bind_input(self, binding: Any, name: str, dtype: Any, array: Any) -> None:
        self.fed[name].fill(array, dtype)

    def _settle(self, name: str) -> None:
        """Move a state to this device, and one from the host to its old address, so that recordings stay valid."""
        storage, homes = self.parameters[name].storage, self.homes.get(name)
        if homes is not None and isinstance(storage.current, np.ndarray):
            turn = self.version.ticks & 1 if len(homes) > 1 else 0
            homes[turn].value.update_inplace(in_rows(storage.read(), self.types[name].dtype.numpy))
            storage.move(homes[turn])
            if len(homes) > 1:
                storage.swap_with(homes[1 - turn], self.version)
        super()._settle(name)
        self.homes[name] = storage.buffers

    def _binding(self, turn: int) -> Any:
        if not self.bindings:
            self.current.clear()
        binding = super()._binding(turn)
        for name, buffer in self.fed.items():
            binding.bind_ortvalue_input(name, buffer.value)
        states = [self.parameters[name].storage.buffers for name in self.ports.states]
        key = turn, *(buffer.value.data_ptr() for buffers in states for buffer in buffers)
        recording = self.recordings.get(key) or self._recording(len(self.recordings) + 1)
        if len(self.recordings) < MOST:
            self.recordings[key] = recording
        self.current[binding] = recording
        return binding

    def _recording(self, number: int) -> Recording:
        """A recording that the next run makes; beyond MOST of them, options with which the runtime records nothing."""
        options = self.runtime.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(number if number <= MOST else -1))
        return Recording(options, number > MOST)

    def _run_options(self, binding: Any) -> Any:
        return self.current[binding].options

    def _run(self, binding: Any) -> None:
        recording = self.current[binding]
        if not recording.is_recorded:
            self._record(binding, recording)
        super()._run(binding)

    def _record(self, binding: Any, recording: Recording) -> None:
        """Record the step and restore the states that this has changed, in one call, where no Ctrl-C can land."""
        storages = [self.parameters[name].storage for name in self.in_place]
        values = [(storage, storage.current.value, storage.current.numpy()) for storage in storages]
        back = [partial(value._ortvalue.update_inplace, array) for _, value, array in values]  # not in Python, see _run
        run = partial(self.session._sess.run_with_iobinding, binding._iobinding, recording.options)
        try:
            deque(map(partial.__call__, [run, *back]), 0)
        except Exception as error:
            for storage, _, array in values:
                storage.replace(array)
            raise self._gpu_failure(error) or GraphRuntimeError(
                f"ONNX Runtime could not record the step as a CUDA graph: {first_line(error)}; compile it with "
                "graph=False."
            ) from error
        recording.is_recorded = True


def _check_version(version: str) -> None:
    """Raise GraphRuntimeError for older runtimes, which free memory that recorded kernels read at each replay."""
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise GraphRuntimeError(
            f"ONNX Runtime {version} records no CUDA graph that can be trusted; install {oldest} or newer, or compile "
            "the step with graph=False."
        )


def _check(graph: Graph) -> None:
    loop = next((node for node in walk(graph) if node.regions), None)
    if loop is not None:
        raise GraphValueError(
            f"A CUDA graph holds no loop and no condition, and this step has one ({loop.primitive.name}); compile it "
            "with graph=False.",
            loop.loc,
        )
