"""Ranks and groups, as far as one process goes: it is rank 0 of 1."""

from __future__ import annotations

import os

from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

__all__ = [
    "HCCL_WORLD_COMM_GROUP",
    "NCCL_WORLD_COMM_GROUP",
    "GlobalComm",
    "get_group_size",
    "get_local_rank",
    "get_local_rank_size",
    "get_rank",
    "init",
    "release",
]

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"

WORLD_SIZES = ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM", "OMPI_COMM_WORLD_SIZE")
"""Where launchers say how many processes they have started."""


class GlobalComm:
    """The backend and the group of all ranks."""

    BACKEND = ""
    WORLD_COMM_GROUP = NCCL_WORLD_COMM_GROUP
    INITED = False


def init(backend_name: str | None = None) -> None:
    """Set up communication: a process alone is its own world.

    Raises GraphTypeError for a name that is no string, GraphValueError for an unknown one, GraphRuntimeError where a
    launcher has started several processes.
    """
    if backend_name is not None and not isinstance(backend_name, str):
        raise GraphTypeError(f"The backend_name of init is a string, not {backend_name!r}.")
    if backend_name not in (None, "hccl", "nccl", "mccl"):
        message = f"The backend_name of init is 'hccl', 'nccl' or 'mccl', not {backend_name!r}."
        raise GraphValueError(message)
    for variable in WORLD_SIZES:
        if os.environ.get(variable, "1") not in ("", "0", "1"):
            raise GraphRuntimeError(
                f"{variable} says that {os.environ[variable]} processes train together, and graphls trains in one; "
                "start the script alone.",
            )
    GlobalComm.BACKEND = backend_name or ""
    GlobalComm.INITED = True


def release() -> None:
    """End communication."""
    GlobalComm.INITED = False


def get_rank(group: str | None = None) -> int:
    """The number of this process in the group: 0. Raises GraphRuntimeError before `init`."""
    return _of_world("get_rank", group, 0)


def get_local_rank(group: str | None = None) -> int:
    """The number of this process on this machine: 0. Raises GraphRuntimeError before `init`."""
    return _of_world("get_local_rank", group, 0)


def get_group_size(group: str | None = None) -> int:
    """The number of processes in the group: 1. Raises GraphRuntimeError before `init`."""
    return _of_world("get_group_size", group, 1)


def get_local_rank_size(group: str | None = None) -> int:
    """The number of processes on this machine: 1. Raises GraphRuntimeError before `init`."""
    return _of_world("get_local_rank_size", group, 1)


def _of_world(caller: str, group: str | None, value: int) -> int:
    if not GlobalComm.INITED:
        raise GraphRuntimeError(f"{caller} needs communication to be set up; call init() first.")
    worlds = (None, GlobalComm.WORLD_COMM_GROUP, HCCL_WORLD_COMM_GROUP, NCCL_WORLD_COMM_GROUP)
    if group not in worlds:
        raise GraphValueError(f"There is no group {group!r}; the only one is that of all ranks.")
    return value
