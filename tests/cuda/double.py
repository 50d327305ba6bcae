"""A double of the runtime's API that has a GPU: its memory lies on the host, and its kernels are those of the CPU.

It does what the real one does and a CPU does not: values are copies, a recorded step is run twice while it is recorded
and knows only the addresses that it was recorded with, and what is asked of the provider is kept in `sessions`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.runtime.devices import PROVIDERS
from graphls.runtime.onnxruntime import model
from graphls.runtime.onnxruntime import runtime as installed
from graphls.runtime.onnxruntime import session as ort
from graphls.runtime.onnxruntime.runtime import load_runtime


class RunOptions(dict[str, str]):
    """What one run is told."""

    add_run_config_entry = dict.__setitem__


class _Recorder:
    """The C part of a session: with CUDA graphs it runs what was recorded under a number, whatever is bound now."""

    def __init__(self, session: Any, records: bool) -> None:
        self.session, self.records = session, records
        self.recorded: dict[str, Any] = {}

    def run_with_iobinding(self, binding: Any, options: Any) -> None:
        number = (options or {}).get("gpu_graph_id", "0") if self.records else "-1"
        if number == "-1":
            self.session.run_with_iobinding(binding, None)
            return
        if number not in self.recorded:
            self.session.run_with_iobinding(binding, None)
            self.recorded[number] = binding
        self.session.run_with_iobinding(self.recorded[number], None)


class _Session:
    def __init__(self, real: Any, provider: str, given: dict[str, str]) -> None:
        self.io_binding, self.end_profiling = real.io_binding, real.end_profiling
        self.get_providers = lambda: [provider]
        self._sess = _Recorder(real._sess, "enable_cuda_graph" in given)


class MadeUpRuntime:
    """What graphls uses of the module onnxruntime; `sessions` are the options of the providers of all sessions."""

    def __init__(self) -> None:
        self.real = real = load_runtime()
        self.sessions: list[dict[str, str]] = []
        self.ids: list[int] = []
        self.OrtValue = self
        self.RunOptions = RunOptions
        self.SessionOptions, self.GraphOptimizationLevel = real.SessionOptions, real.GraphOptimizationLevel
        self.__version__, self.__file__ = "1.31.1", real.__file__

    def get_available_providers(self) -> list[str]:
        return list(PROVIDERS.values())

    def ortvalue_from_numpy(self, array: Any, device: str = "cpu", id: int = 0) -> Any:
        if device == "cpu":
            return self.real.OrtValue.ortvalue_from_numpy(array)
        value = self.ortvalue_from_shape_and_type(array.shape, array.dtype.type, device, id)
        value.update_inplace(np.ascontiguousarray(array))
        return value

    def ortvalue_from_shape_and_type(self, shape: Any, dtype: Any, device: str = "cpu", id: int = 0) -> Any:
        self.ids.append(id)
        value = self.real.OrtValue.ortvalue_from_shape_and_type(shape, dtype)
        read, update = value.numpy, value.update_inplace
        value.numpy = lambda: np.array(read())
        value.update_inplace = lambda data: update(data if isinstance(data, np.ndarray) else data.numpy())
        return value

    def InferenceSession(self, model: bytes, options: Any, providers: Any, enable_fallback: int = 1) -> Any:
        ((name, given),) = providers
        self.sessions.append(given)
        return _Session(self.real.InferenceSession(model, options, providers=["CPUExecutionProvider"]), name, given)


def make_up_a_gpu(patch: pytest.MonkeyPatch) -> MadeUpRuntime:
    """Let sessions find a GPU that is none."""
    runtime = MadeUpRuntime()
    patch.setattr(ort, "load_runtime", lambda: runtime)
    patch.setattr(installed, "load_runtime", lambda: runtime)
    patch.setattr(installed, "fault_of_installation", lambda runtime, number=0: "")
    patch.setattr(model, "is_right", lambda operator, dtype, provider: True)
    return runtime
