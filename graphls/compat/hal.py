"""`mindspore.hal` and `mindspore.runtime`: queries about devices, and settings of streams and memory without effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

from graphls.base.errors import GraphlsError
from graphls.frontend.tensors.tensor import TensorLike
from graphls.runtime.context import set_context
from graphls.runtime.onnxruntime.cuda_libraries import current_driver
from graphls.runtime.onnxruntime.runtime import check_device

__all__ = [
    "Event", "Stream", "StreamCtx", "current_stream", "default_stream", "device_count", "empty_cache",
    "get_device_name", "is_available", "is_initialized", "launch_blocking", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "memory_summary",
    "reset_max_memory_allocated", "reset_max_memory_reserved", "reset_peak_memory_stats", "set_cpu_affinity",
    "set_cur_stream", "set_memory", "synchronize",
]  # fmt: skip


def of_kind(device_target: str, name: str) -> Callable[..., Any]:
    """A function of `mindspore.device_context` for a kind of device: a query, or a setting without effect."""
    queries: dict[str, Callable[..., Any]] = {"is_available": is_available, "device_count": device_count}
    return partial(queries[name], device_target) if name in queries else _set


def _set(*args: object, **options: object) -> None:
    """Does nothing: the setting concerns kernels that graphls does not run."""


def is_available(device_target: str) -> bool:
    """Tells whether steps can run on a device of this name, "CPU" or "GPU"."""
    try:
        check_device({"CPU": "cpu", "GPU": "cuda"}.get(device_target, device_target))
    except GraphlsError:
        return False
    return True


def is_initialized(device_target: str) -> bool:
    """Tells whether steps can run on a device of this name."""
    return is_available(device_target)


def device_count(device_target: str | None = None) -> int:
    """The number of devices of this name that steps can run on."""
    if device_target is None:
        return 1
    if not is_available(device_target):
        return 0
    return len(current_driver().cards) if device_target == "GPU" else 1


def get_device_name(device_id: int, device_target: str | None = None) -> str:
    """The name of a device."""
    cards = current_driver().cards if device_target == "GPU" else ()
    return cards[device_id].name if device_id < len(cards) else device_target or "CPU"


def set_memory(
    init_size: str = "2GB", increase_size: str = "2GB", max_size: str = "1024GB", optimize_level: str = "O0",
    huge_page_reserve_size: str = "0GB",
) -> None:  # fmt: skip
    """Limit the memory of a step on a GPU to `max_size`; raises as `set_context`."""
    set_context(max_device_memory=max_size)


class Stream:
    """A queue of work of a device, of which there is one."""

    def __init__(self, priority: int = 0, **options: object) -> None:
        self.priority = priority

    def synchronize(self) -> None:
        """Does nothing: results are complete when they are read."""

    def query(self) -> bool:
        """True: all work is complete."""
        return True

    record_event = wait_event = wait_stream = synchronize


class Event(Stream):
    """A mark in the queue of a device."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        super().__init__()

    def record(self, stream: TensorLike | None = None) -> None:
        """Does nothing."""

    wait = record


_stream = Stream()


@contextmanager
def StreamCtx(ctx_stream: TensorLike) -> Any:
    """A block whose work goes to a stream: the only one."""
    yield


def current_stream() -> Stream:
    """The only stream."""
    return _stream


default_stream = current_stream


def _nothing(*args: TensorLike, **options: object) -> None:
    """Does nothing: memory and threads belong to the runtime."""


def _none(device_target: str | None = None) -> int:
    """0: the runtime does not report it; see `step.profile` for the memory of a step."""
    return 0


set_cur_stream = synchronize = empty_cache = launch_blocking = set_cpu_affinity = _nothing
reset_max_memory_allocated = reset_max_memory_reserved = reset_peak_memory_stats = _nothing
max_memory_allocated = max_memory_reserved = memory_allocated = memory_reserved = _none


def memory_stats(device_target: str | None = None) -> dict[str, Any]:
    """An empty dict: no statistics are known."""
    return {}


def memory_summary(device_target: str | None = None) -> str:
    """An empty text: no statistics are known."""
    return ""
