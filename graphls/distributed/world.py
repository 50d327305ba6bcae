"""The world of ranks: all processes that `mpiexec` has started, and their groups."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from socket import gethostname
from types import MappingProxyType
from typing import Any

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.reporting import load_package
from graphls.base.sharing.settings import Settings

WORLD = "world"
"""The name of the group of all ranks."""

NAMES_OF_WORLD = (None, "", WORLD, "hccl_world_group", "nccl_world_group", "mccl_world_group")
"""Its names in scripts."""

LAUNCHED = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""The variables in which the mpiexec of MPICH, and of Open MPI, sets the number of processes."""

FOREIGN = ("WORLD_SIZE", "RANK_SIZE", "MS_WORKER_NUM")
"""The variables in which other launchers set it."""


@dataclass(frozen=True)
class Group:
    """Some of the ranks: their numbers in the world and their machines.

    They talk through `comm`, which is None for a process alone.
    """

    name: str
    members: tuple[int, ...]
    rank: int
    hosts: tuple[str, ...] = ("",)
    comm: Any = None

    @property
    def size(self) -> int:
        """The number of its ranks."""
        return len(self.members)

    @property
    def local(self) -> tuple[int, ...]:
        """The numbers in the group of the ranks on this machine."""
        return tuple(rank for rank, host in enumerate(self.hosts) if host == self.hosts[self.rank])


ALONE = Group(WORLD, (0,), 0)


class Ranks:
    """The world of this process: that of it alone until `join` has run."""

    groups: Mapping[str, Group] = MappingProxyType({WORLD: ALONE})


_driven = Settings({"devices": 1, "at start": 1, "stages": 1})


def devices_driven() -> int:
    """The number of devices that this process drives alone, each of which counts as a rank in scripts of MindSpore."""
    return int(_driven["devices"]) if world().size == 1 else 1


def stages_driven() -> int:
    """The number of stages of a pipeline among which the devices of this process are divided."""
    return int(_driven["stages"]) if devices_driven() > 1 else 1


def devices_of_stage() -> int:
    """The number of devices that run each stage of a pipeline, or the whole step, and divide a batch."""
    return devices_driven() // stages_driven()


def drive_devices(count: int | None = None, *, from_start: bool = False) -> None:
    """Let this process drive so many devices, by default as many as from its start."""
    count = int(_driven["at start"]) if count is None else count
    _driven.update({"devices": count, "at start": count} if from_start else {"devices": count})


def drive_stages(count: int = 1) -> None:
    """Divide the devices of this process among so many stages, a number that divides theirs."""
    _driven.update({"stages": count})


def world() -> Group:
    """The group of all ranks."""
    return Ranks.groups[WORLD]


def find_group(name: str | None = None) -> Group:
    """The group of that name, all ranks for none.

    Raises GraphValueError where there is no such group, and where this rank is not in it.
    """
    group = world() if name in NAMES_OF_WORLD else Ranks.groups.get(str(name))
    if group is None:
        raise GraphValueError(f"There is no group {name!r}; make it with create_group, on all ranks.")
    if group.rank < 0:
        raise GraphValueError(f"Rank {world().rank} is none of the group {name!r}, which has {group.members}.")
    return group


def find_ranks(name: str | None = None) -> Group:
    """The group of that name as scripts count it: each device that this process drives is a rank. Raises as find_group.

    Such a group has no `comm`, as one process acts for all of them.
    """
    group, count = find_group(name), devices_driven()
    return Group(WORLD, tuple(range(count)), 0, ("",) * count) if group.name == WORLD and count > 1 else group


def join() -> Group:
    """Join the other processes that mpiexec has started; a single process is its own world.

    Raises GraphRuntimeError where another launcher has started several, and where mpi4py is missing.
    """
    if world().comm is not None:
        return world()
    if launched() <= 1:
        _require_no_other_launcher()
        return ALONE
    subject = "mpiexec has started several processes, and mpi4py, through which they talk,"
    MPI = load_package("mpi4py.MPI", subject, "pip install 'graphls[mpi]'")
    comm = MPI.COMM_WORLD
    if comm.size == 1:
        text = "mpiexec has started several processes, each of which mpi4py finds alone, as it has loaded another MPI"
        raise GraphRuntimeError(f"{text}; use the mpiexec of the MPI that is installed beside mpi4py.")
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:  # mpi4py asks for it
        text = "This MPI does not let several threads call it, as graphls does to watch ranks while they communicate"
        raise GraphRuntimeError(f"{text}; use one with MPI_THREAD_MULTIPLE, such as that of `pip install mpich`.")
    hosts = tuple(comm.allgather(gethostname()))
    Ranks.groups = {WORLD: Group(WORLD, tuple(range(comm.size)), comm.rank, hosts, comm)}
    return world()


def launched() -> int:
    """The number of processes that mpiexec has started, this one included; 1 without mpiexec."""
    return max(map(_number, LAUNCHED))


def _number(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else 1


def _require_no_other_launcher() -> None:
    for variable in FOREIGN:
        if _number(variable) > 1:
            text = f"{variable} says that {os.environ[variable]} processes train together, and none of them is of MPI"
            raise GraphRuntimeError(f"{text}; start the script alone, or with `mpiexec -n {os.environ[variable]}`.")
