"""Loads the module `openvino`, its one Core, and the compile properties."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Any
from weakref import WeakSet

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.reporting import load_package, too_large, wants_memory
from graphls.base.sharing.forks import call_after_fork, call_before_fork, keep_for_ever

INSTALL = 'pip install "graphls[openvino]"'
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",  # the precision of each node is what the model says; the default lowers it
    "EXECUTION_MODE_HINT": "ACCURACY",
    "PERFORMANCE_HINT": "LATENCY",  # one step at a time, on all threads
    "ENABLE_CPU_PINNING": False,  # other processes and engines need the cores as well
    "CPU_DENORMALS_OPTIMIZATION": False,
}
"""What every model is compiled with."""


def load_openvino() -> Any:
    """The openvino module; raises GraphRuntimeError that names the extra to install."""
    return load_package("openvino", "OpenVINO", INSTALL)


@cache
def core() -> Any:
    """The Core of this process; raises GraphRuntimeError where it cannot be made."""
    try:
        found = load_openvino().Core()
    except RuntimeError as error:
        raise GraphRuntimeError(f"OpenVINO could not be started: {first_line(error)}") from None
    keep_for_ever(found)  # in a forked process, to end it would be to wait for threads that are not there
    return found


call_after_fork(core.cache_clear)


class _Threads:
    """How many models were there at once, and are there now.

    A model that is closed leaves its threads behind for the next one that is compiled. In a forked process they are
    not there, and OpenVINO would wait for them. So no threads are left over while a process forks: models that do
    nothing have them, and stay until others need the threads, as to compile them takes longer than the fork.
    """

    def __init__(self) -> None:
        self.models: WeakSet[Any] = WeakSet()
        self.idle: list[Any] = []
        self.most = 0

    def give(self) -> None:
        """Leave the threads of a model that does nothing to the one that is compiled next."""
        with suppress(IndexError):
            self.idle.pop()

    def add(self, model: Any) -> Any:
        """Count a model, as long as it lives."""
        self.models.add(model)
        self.most = max(self.most, len(self.models))
        return model

    def taken(self) -> list[Any]:
        """Models that have the threads that closed ones have left behind."""
        left_over = self.most - len(self.models) - len(self.idle)
        self.idle += [core().compile_model(_least(), "CPU", EXACT) for _ in range(left_over)]
        return self.idle

    def forget(self) -> None:
        """In a forked process there are none."""
        self.models, self.idle, self.most = WeakSet(), [], 0


_threads = _Threads()
call_before_fork(_threads.taken)
call_after_fork(_threads.forget)


def _least() -> Any:
    """A model that does nothing."""
    ov = load_openvino()
    value = ov.opset8.parameter([1], ov.Type.f32)
    return ov.Model([ov.opset8.negative(value)], [value])


def compiled(model: Any, settings: Mapping[str, object] = EXACT) -> Any:
    """A model that is compiled for the CPU; raises RuntimeError where OpenVINO refuses it."""
    _threads.give()
    return _threads.add(core().compile_model(model, "CPU", settings))


def imported(data: memoryview, settings: Mapping[str, object]) -> Any:
    """A compiled model that was kept; raises RuntimeError where OpenVINO refuses it."""
    _threads.give()
    return _threads.add(core().import_model(BytesIO(data), "CPU", settings))


@cache
def has_bfloat16() -> bool:
    """Whether the processor computes products of bfloat16."""
    return "BF16" in core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def failure(what: str, error: Exception) -> GraphlsError:
    """The error for what OpenVINO raised: a GraphMemoryError where memory was wanting, else a GraphRuntimeError."""
    if wants_memory(error):
        return too_large()
    return GraphRuntimeError(f"{what}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """The line of an error's text that says what is wrong; OpenVINO puts the place in its sources before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Exception from ", "Check '"))]
    return (told or lines or [type(error).__name__])[0]
