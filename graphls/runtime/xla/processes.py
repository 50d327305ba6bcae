"""Arrays of JAX whose parts lie in several processes, and how JAX connects these."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import warn
from graphls.base.sharing.settings import Settings
from graphls.distributed.launch import free_port, processes_started
from graphls.distributed.own_parts import Region
from graphls.distributed.peers import Peers
from graphls.distributed.world import world

Array = np.ndarray[Any, Any]
HEARTBEATS = 100
"""Seconds without a sign of life after which JAX takes a process that is stopped for dead."""


def join(jax: Any) -> Peers | None:
    """All processes of the mesh, which JAX connects now unless it has done so; None for a process alone.

    Raises GraphRuntimeError where JAX has been used before the processes met.
    """
    peers = Peers.current
    if peers is None or jax.distributed.is_initialized():
        return peers
    (port, *_) = peers.agree("the first step of a mesh", free_port() if peers.number == 0 else None)
    hosts = peers.group.hosts
    alone = hosts.count(hosts[peers.number]) == 1 or "JAX_LOCAL_DEVICE_IDS" in os.environ
    host = f"[{peers.host}]" if ":" in peers.host else peers.host
    try:
        jax.distributed.initialize(
            f"{host}:{port}", peers.count, peers.number, cluster_detection_method="deactivate",
            local_device_ids=None if alone else [peers.group.local.index(peers.number)],
            heartbeat_timeout_seconds=HEARTBEATS,
        )  # fmt: skip
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise GraphRuntimeError(
            "JAX cannot connect the processes of a mesh; call communication.init('xla') before JAX is used, and before "
            f"the first step on it is compiled ({reason.rstrip('.')})."
        ) from None
    peers.leave_before("jax")
    return peers


def warn_of_own_mesh() -> None:
    """Warn where several processes have been started, and each has a mesh of its own, once."""
    count = processes_started()
    if count == 1 or _settings["is warned"]:
        return
    _settings.update({"is warned": True})
    are_ranks = "are ranks of MPI" if world().comm is not None else "have been started"
    text = f"{count} processes {are_ranks}, and each runs its steps on a mesh of its own"
    instead = " in place of init()" if world().comm is not None else " first"
    warn(f"{text}; call communication.init('xla'){instead} for one mesh of the devices of all.")


_settings = Settings({"is warned": False})


def is_spread(array: Any) -> bool:
    """Whether an array of JAX has parts that only other processes have."""
    return not (array.is_fully_addressable or array.is_fully_replicated)


def spread(jax: Any, array: Array, region: Region, shape: tuple[int, ...], sharding: Any) -> Any:
    """An array of JAX from the region that this process has of it, or from the complete array."""
    starts = [0] * len(shape) if array.shape == shape else [part.start for part in region]

    def part(index: tuple[slice, ...]) -> Array:
        bounds = [piece.indices(size)[:2] for piece, size in zip(index, shape, strict=True)]
        own = tuple(slice(a - start, b - start) for (a, b), start in zip(bounds, starts, strict=False))
        return array[own]

    return jax.make_array_from_callback(shape, sharding, part)


def of_first(peers: Peers, name: str, array: Array) -> Array:
    """A state of process 0, with which all begin: this one, unless it differs.

    Raises GraphRuntimeError where the states of processes have other shapes or dtypes.
    """
    keys = require_same(peers, name, [str(array.dtype), list(array.shape), _sum(array)])
    if all(other == keys[0] for other in keys):
        return array
    from jax.experimental.multihost_utils import broadcast_one_to_all

    words = np.frombuffer(array.tobytes(), np.uint8)
    return np.asarray(broadcast_one_to_all(words)).astype(np.uint8).view(array.dtype).reshape(array.shape)


def require_same(peers: Peers, name: str, key: list[Any]) -> list[list[Any]]:
    """The dtype, the shape and a sum, or the source, of a state in all processes.

    Raises GraphRuntimeError where processes have other dtypes or shapes, or read it where others have it.
    """
    keys = peers.agree(f"the placing of the state {name!r}", key)
    for number, other in enumerate(keys):
        if other[:2] != keys[0][:2] or type(other[2]) is not type(keys[0][2]):
            text = f"The state {name!r} is {keys[0][0]}{keys[0][1]} in process 0"
            raise GraphRuntimeError(
                f"{text} and {other[0]}{other[1]} in process {number}, or only one of them has loaded it from shards; "
                "all processes train the same network."
            )
    return keys


def require_same_inputs(peers: Peers, inputs: Mapping[str, Array]) -> None:
    """Raise GraphRuntimeError where processes give other contents of an input of which each gives all."""
    sums = peers.agree("the first step", {name: _sum(array) for name, array in inputs.items()})
    for number, other in enumerate(sums):
        for name in sums[0].keys() & other.keys():
            if sums[0][name] != other[name]:
                raise GraphRuntimeError(
                    f"The input {name} is complete, and process {number} gives another one than process 0; compile the "
                    "step for the batch of all processes, of which each then gives its own part, or give the same."
                )


def _sum(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def gathered(array: Any) -> Array:
    """The complete content of an array of which each process has parts; all processes gather it together.

    Raises GraphRuntimeError where others do something else.
    """
    from jax.experimental.multihost_utils import process_allgather

    if Peers.current is not None:
        Peers.current.agree(f"a read of a divided {array.dtype}{list(array.shape)}")
    return np.asarray(process_allgather(array, tiled=True))
