"""JAX, through which programs of XLA are compiled and run, and its devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.base.errors import GraphRuntimeError
from graphls.runtime.devices import Cuda, kind_of

PLATFORMS = {"cpu": "cpu", "cuda": "gpu"}
"""The platform of JAX for each kind of device."""

OPTIONS = {"xla_allow_excess_precision": False}
"""Options of the compiler: 16-bit floats are rounded after each operation, as the graph says."""


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


def devices_of(device: str | Cuda) -> list[Any]:
    """The devices of JAX of that kind, the chosen one first; raises GraphRuntimeError where there are none."""
    jax, kind = load_jax(), kind_of(device)
    try:
        devices = list(jax.devices(PLATFORMS[kind]))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        text = f"JAX has no device {kind!r}; install graphls[xla-cuda] for a GPU"
        raise GraphRuntimeError(f"{text} ({reason}).") from None
    number = device.id if isinstance(device, Cuda) else 0
    if number >= len(devices):
        raise GraphRuntimeError(f"JAX has {len(devices)} devices {kind!r}, and none of the number {number}.")
    return [devices[number], *devices[:number], *devices[number + 1 :]]
