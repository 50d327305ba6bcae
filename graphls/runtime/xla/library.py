"""JAX, through which programs of XLA are compiled and run, and its devices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from graphls.base.errors import GraphRuntimeError
from graphls.base.sharing.settings import Settings
from graphls.distributed.peers import Peers
from graphls.runtime.devices import Cuda, kind_of
from graphls.runtime.xla.processes import join, warn_of_own_mesh

PLATFORMS = {"cpu": "cpu", "cuda": "gpu"}
"""The platform of JAX for each kind of device."""

OPTIONS = {"xla_allow_excess_precision": False}
"""Options of the compiler: 16-bit floats are rounded after each operation, as the graph says."""


MOST_PARTS = 4096
"""The most devices into which a CPU is divided."""


def load_jax(wanted_by: str = "The engine 'xla'") -> Any:
    """The module; raises GraphRuntimeError, with what needs it, where it is not installed."""
    try:
        import jax
    except ImportError as error:
        text = f"{wanted_by} needs JAX; install it with `pip install graphls[xla]`, or graphls[xla-cuda] for a GPU"
        raise GraphRuntimeError(f"{text} ({error}).") from None
    return jax


def portable(function: Any, types: Sequence[Any], platforms: Sequence[str]) -> Any:
    """A jitted function as a portable program for some platforms, of which no device needs to be there."""
    from jax import export

    return export.export(function, platforms=tuple(platforms))(*types)


def version() -> str:
    """The version of JAX that is installed, found without importing it; "" where there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("jax")
    except PackageNotFoundError:
        return ""


_settings = Settings({"process": 0})
_further: list[list[Any]] = []
"""The devices of clients of the CPU that count more of them than that of JAX, as a mesh came after its first use."""

_opening = Lock()


def require_own_process() -> None:
    """Raise GraphRuntimeError in a process that is forked from one that has opened devices: their threads are not here.

    JAX would wait for them forever.
    """
    if _settings["process"] not in (0, os.getpid()):
        raise GraphRuntimeError(
            "A forked process cannot use the XLA of the process that it was forked from; start it with "
            "multiprocessing.get_context('spawn') and compile the step there."
        )


def devices_of(device: str | Cuda, count: int = 1) -> list[Any]:
    """So many devices of JAX of that kind, from the chosen one on; of several processes each has as many of them.

    A single one is a device of this process. Raises GraphRuntimeError where there are fewer, where processes cannot
    have the same number, and in a process that is forked from one that uses them.
    JAX divides a CPU once in a process, at its first use; a mesh of more devices then has a client of its own.
    """
    require_own_process()
    jax, kind = load_jax(), kind_of(device)
    _settings.update({"process": os.getpid()})
    peers = join(jax)
    if peers is None and count > 1:
        warn_of_own_mesh()
    share = _share(count, peers)
    if kind == "cpu" and share > 1:
        _divide_cpu(jax, share)
    try:
        devices = list(jax.local_devices(backend=PLATFORMS[kind]) if count == 1 else jax.devices(PLATFORMS[kind]))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        text = f"JAX has no device {kind!r}; install graphls[xla-cuda] for a GPU"
        raise GraphRuntimeError(f"{text} ({reason}).") from None
    number = device.id if isinstance(device, Cuda) else 0
    if kind == "cpu" and peers is None and share > len(devices):
        devices = _further_cpu(share) or devices
    owners = sorted({device.process_index for device in devices})
    each = [[device for device in devices if device.process_index == owner] for owner in owners]
    least = min(map(len, each))
    if number + share > least:
        there = f"JAX has {least} device{'s' * (least != 1)} {kind!r}, and {number + share} are needed"
        where = "" if peers is None else " in each process"
        raise GraphRuntimeError(f"{there}{where}{_advice(share) if kind == 'cpu' else ''}.")
    return [device for own in each for device in own[number : number + share]]


def _share(count: int, peers: Peers | None) -> int:
    """How many of so many devices each process has."""
    if peers is None or count == 1:
        return count
    if count % peers.count:
        text = f"A mesh of {count} devices cannot be divided among {peers.count} processes"
        raise GraphRuntimeError(f"{text}; each has the same number of them, so use a multiple of {peers.count}.")
    return count // peers.count


def _divide_cpu(jax: Any, count: int) -> None:
    """Let JAX count the CPU as so many devices, unless it has begun to use it.

    Raises GraphRuntimeError for more than it opens in a second.
    """
    if count > MOST_PARTS:
        text = f"A CPU is divided into {MOST_PARTS} devices at most, and the mesh has {count}"
        raise GraphRuntimeError(f"{text}; use a smaller one, and several processes for more CPUs.")
    with suppress(RuntimeError):
        if jax.config.jax_num_cpu_devices < count and "xla_force_host_platform" not in os.environ.get("XLA_FLAGS", ""):
            jax.config.update("jax_num_cpu_devices", count)


def _further_cpu(count: int) -> list[Any]:
    """The devices of a client of the CPU beside that of JAX, which counts at least so many; none where JAX has none.

    Clients are kept: arrays of steps on an older one stay where they are.
    """
    with _opening:
        fitting = next((devices for devices in _further if len(devices) >= count), None)
        if fitting is None:
            try:
                from jaxlib import xla_client

                fitting = list(xla_client.make_cpu_client(num_devices=count).local_devices())
            except (ImportError, AttributeError, TypeError):  # of another version of JAX
                return []
            _further.append(fitting)
        return fitting


def _advice(count: int) -> str:
    flag = f"XLA_FLAGS=--xla_force_host_platform_device_count={count}"
    once = "JAX divides a CPU once in a process, at its first use"
    return f"; {once}: start again and compile the step with the largest mesh first, or with {flag} in the environment"
