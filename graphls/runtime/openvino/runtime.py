"""Loads the module `openvino` and its one Core; the compile properties, threads and memory of its models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import CDLL
from functools import cache
from io import BytesIO
from typing import Any
from weakref import WeakSet

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.reporting import is_out_of_memory, load_package, out_of_memory
from graphls.base.sharing.forks import call_after_fork, call_before_fork, never_free
from graphls.runtime.threads import thread_limit

INSTALL = 'pip install "graphls[openvino]"'
EXACT = {
    "INFERENCE_PRECISION_HINT": "f32",  # the precision of each node is what the model says; the default lowers it
    "EXECUTION_MODE_HINT": "ACCURACY",
    "PERFORMANCE_HINT": "LATENCY",  # one step at a time, on all threads
    "ENABLE_CPU_PINNING": False,  # other processes and engines need the cores as well
    "CPU_DENORMALS_OPTIMIZATION": False,
}
"""The properties that every model is compiled with."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The numbers of `mallopt` in glibc for the sizes from which on free memory returns to the system: at the end of the
heap, and as a block of its own."""

LARGE = 1 << 17
MOST = 1 << 25
"""The most that glibc raises the threshold of blocks to by itself; the other threshold is twice that then."""


def load_openvino() -> Any:
    """The openvino module; raises GraphRuntimeError that names the extra to install."""
    return load_package("openvino", "OpenVINO", INSTALL)


@cache
def core() -> Any:
    """The Core of this process; raises GraphRuntimeError where it cannot be created."""
    try:
        own = load_openvino().Core()
    except RuntimeError as error:
        raise GraphRuntimeError(f"OpenVINO could not be started: {first_line(error)}") from None
    never_free(own)  # in a forked process, its end would wait for threads that were not forked
    return own


call_after_fork(core.cache_clear)


class _Threads:
    """The models that live now, and the most that have lived at once.

    A model that is closed leaves its threads behind for the next one that is compiled. In a forked process these
    threads do not exist, and OpenVINO would wait for them. So idle models take the threads that are left over before a
    process forks, and stay until others need the threads, as compiling them takes longer than the fork.
    """

    def __init__(self) -> None:
        self.models: WeakSet[Any] = WeakSet()
        self.idle: list[Any] = []
        self.most = 0

    def give(self) -> None:
        """Leave the threads of an idle model to the one that is compiled next."""
        with suppress(IndexError):
            self.idle.pop()

    def add(self, model: Any) -> Any:
        """Count a model, as long as it lives."""
        self.models.add(model)
        self.most = max(self.most, len(self.models))
        return model

    def occupy(self) -> list[Any]:
        """Compile idle models for the threads that closed ones have left behind; returns all idle models."""
        left_over = self.most - len(self.models) - len(self.idle)
        self.idle += [core().compile_model(_least(), "CPU", EXACT) for _ in range(left_over)]
        return self.idle

    def forget(self) -> None:
        """Forget all models, which a forked process has none of."""
        self.models, self.idle, self.most = WeakSet(), [], 0


_threads = _Threads()
call_before_fork(_threads.occupy)
call_after_fork(_threads.forget)


def _least() -> Any:
    """The smallest model."""
    ov = load_openvino()
    value = ov.opset8.parameter([1], ov.Type.f32)
    return ov.Model([ov.opset8.negative(value)], [value])


def compiled(model: Any, settings: Mapping[str, object] = EXACT) -> Any:
    """Compiles a model for the CPU; raises RuntimeError where OpenVINO refuses it."""
    _threads.give()
    return _threads.add(core().compile_model(model, "CPU", _limited(settings)))


def imported(data: memoryview, settings: Mapping[str, object]) -> Any:
    """Reads a compiled model from a cache entry; raises RuntimeError where OpenVINO refuses it."""
    _threads.give()
    return _threads.add(core().import_model(BytesIO(data), "CPU", _limited(settings)))


def _limited(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Settings with the threads that the context allows; OpenVINO takes no more than there are cores."""
    limit = thread_limit()
    return {**settings, "INFERENCE_NUM_THREADS": limit} if limit else settings


@cache
def has_bfloat16() -> bool:
    """Whether the processor computes products of bfloat16."""
    return "BF16" in core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def failure(summary: str, error: Exception) -> GraphlsError:
    """The error for an exception of OpenVINO: a GraphMemoryError where memory ran out, else a GraphRuntimeError."""
    if is_out_of_memory(error):
        return out_of_memory()
    return GraphRuntimeError(f"{summary}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """The line of an error's text with its reason; OpenVINO puts the position in its sources before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith(("Exception from ", "Check '"))]
    return (reasons or lines or [type(error).__name__])[0]


@contextmanager
def large_blocks_off_heap() -> Iterator[None]:
    """Inside, large blocks are allocated outside of the heap, so that they return to the system when they are freed.

    OpenVINO allocates memory for all inputs and outputs of a model, weights included, and frees it at the first run,
    which uses the bound arrays instead. In the heap it would stay with the process: 373 MB for a GPT of 98 million
    parameters.
    """
    options = getattr(CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if options is None:
        yield
        return
    options(MMAP_THRESHOLD, LARGE)
    try:
        yield
    finally:
        options(MMAP_THRESHOLD, MOST)
        options(TRIM_THRESHOLD, 2 * MOST)
