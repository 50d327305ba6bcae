"""Devices of steps, and the runtime options of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""The provider of ONNX Runtime for each kind of device."""


@dataclass(frozen=True)
class Cuda:
    """An NVIDIA GPU, and how a step runs on it: `graphls.compile(cell, x, device=graphls.Cuda(graph=True))`.

    `id` is its number, from 0 on. `memory_limit` is how many bytes of its memory a step may take, its states included;
    None for what is there. With `tf32`, float32 products keep 11 bits, not 24. With `deterministic`, kernels are taken
    that give the same bits in every run, where the runtime has them. With `graph`, a step is recorded once as a CUDA
    graph and replayed, which saves the time for launching its kernels; a loop in a step is then an error.

    Raises GraphTypeError and GraphValueError for what is no such number or flag.

    Examples:
        >>> import graphls
        >>> graphls.Cuda(0, graph=True)
        Cuda(id=0, memory_limit=None, tf32=False, deterministic=False, graph=True)
    """

    id: int = 0
    memory_limit: int | None = None
    tf32: bool = False
    deterministic: bool = False
    graph: bool = False

    def __post_init__(self) -> None:
        for name in ("tf32", "deterministic", "graph"):
            if not isinstance(getattr(self, name), bool):
                raise GraphTypeError(f"Cuda takes True or False for {name!r}, not {getattr(self, name)!r}.")
        _check_number("id", self.id, 0)
        if self.memory_limit is not None:
            _check_number("memory_limit", self.memory_limit, 1)

    def provider_options(self, bytes_of_states: int) -> dict[str, str]:
        """The options of the provider for a step with so many bytes of states, which lie outside of its memory."""
        options = {"device_id": str(self.id), "use_tf32": str(int(self.tf32))}
        if self.memory_limit is not None:
            options["gpu_mem_limit"] = str(self.memory_limit - bytes_of_states)
            options["arena_extend_strategy"] = "kSameAsRequested"  # the other doubles what it takes, beyond the limit
        if self.deterministic:
            options["cudnn_conv_algo_search"] = "DEFAULT"  # the others measure, and so choose anew each time
        if self.graph:
            options["enable_cuda_graph"] = "1"
        return options


def _check_number(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise GraphTypeError(f"Cuda takes an int for {name!r}, not {value!r}.")
    if value < least:
        raise GraphValueError(f"Cuda takes {least} or more for {name!r}, not {value}.")


def kind_of(device: str | Cuda) -> str:
    """The kind of a device, "cpu" or "cuda"; raises GraphValueError for any other."""
    kind = "cuda" if isinstance(device, Cuda) else device
    if kind not in PROVIDERS:
        raise GraphValueError(f"{device!r} is not a device; use one of {', '.join(map(repr, PROVIDERS))}.")
    return kind
