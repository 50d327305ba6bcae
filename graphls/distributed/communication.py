"""Public functions for ranks and groups; one process alone is rank 0 of 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.base import log
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.distributed.groups import create, destroy, destroy_all
from graphls.distributed.launch import find_launch
from graphls.distributed.peers import Peers, require_no_mesh
from graphls.distributed.watchdog import start_watch
from graphls.distributed.world import NAMES_OF_WORLD, WORLD, Group, devices_driven, find_ranks, join, world

__all__ = [
    "HCCL_WORLD_COMM_GROUP", "NCCL_WORLD_COMM_GROUP", "GlobalComm", "create_group", "destroy_group",
    "get_group_rank_from_world_rank", "get_group_size", "get_local_rank", "get_local_rank_size",
    "get_process_group_ranks", "get_rank", "get_world_rank_from_group_rank", "init", "release",
]  # fmt: skip

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MESH = "xla"
BACKENDS = ("hccl", "nccl", "mccl", "mpi", MESH)


class GlobalComm:
    """The backend and the group of all ranks.

    Examples:
        >>> from graphls import communication
        >>> communication.init()
        >>> communication.GlobalComm.INITED, communication.get_group_size(communication.GlobalComm.WORLD_COMM_GROUP)
        (True, 1)
        >>> communication.release()
    """

    BACKEND = ""
    WORLD_COMM_GROUP = NCCL_WORLD_COMM_GROUP
    INITED = False


def init(
    backend_name: str | None = None, timeout: float | None = None, *, coordinator: str | None = None,
    processes: int | None = None, process: int | None = None,
) -> None:  # fmt: skip
    """Set up communication with the other processes that mpiexec has started; a single process is its own world.

    With any `backend_name` but "xla", ranks communicate through MPI. From here on, an error that ends one rank ends all
    of them. So does a communication that takes longer than `timeout` seconds, or than the variable HCCL_EXEC_TIMEOUT
    allows; without either a rank waits without limit, and names the awaited rank after 30 seconds. A single process
    logs once that it trains alone.

    With "xla" the devices of all processes are those of one mesh, see docs/parallel.md. `coordinator` is the address at
    which process 0 listens, such as "10.0.0.1:1234", `processes` how many there are, and `process` which one this is,
    from 0. By default they are what the variables GRAPHLS_COORDINATOR, GRAPHLS_PROCESSES and GRAPHLS_PROCESS say, or
    mpiexec, Slurm or Kubernetes. All have to come within `timeout` seconds, or 300.

    Raises GraphTypeError for a name that is not a string and numbers that are none, GraphValueError for an unknown name
    and a timeout that is not above 0, GraphRuntimeError where another launcher has started several, where mpi4py is
    missing, and where processes do not come.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # under `mpiexec -n 4 python train.py` there are four ranks
        >>> communication.get_rank(), communication.get_group_size()
        (0, 1)
        >>> communication.release()
    """
    if backend_name is not None and not isinstance(backend_name, str):
        raise GraphTypeError(f"The backend_name of init is a string, not {backend_name!r}.")
    if backend_name not in (None, *BACKENDS):
        message = f"The backend_name of init is 'hccl', 'nccl', 'mccl', 'mpi' or 'xla', not {backend_name!r}."
        raise GraphValueError(message)
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float))):
        raise GraphTypeError(f"The timeout of init is a number of seconds, not {timeout!r}.")
    if timeout is not None and not timeout > 0:
        raise GraphValueError(f"The timeout of init is a number of seconds above 0, not {timeout}.")
    if backend_name != MESH and (coordinator, processes, process) != (None, None, None):
        raise GraphValueError('The processes of a mesh have a coordinator; set them up with init("xla", ...).')
    group = _mesh(timeout, coordinator, processes, process) if backend_name == MESH else join()
    if group.size == 1 and devices_driven() == 1 and not GlobalComm.INITED:
        log.warning("This process trains alone, as rank 0 of 1; `mpiexec -n 4 python script.py` starts four.")
    start_watch(group, timeout)  # of ranks; the processes of a mesh have one
    GlobalComm.BACKEND = backend_name or ""
    GlobalComm.INITED = True


def _mesh(timeout: float | None, *launch: Any) -> Group:
    """All processes of a mesh, which meet once."""
    if world().comm is not None:
        raise GraphRuntimeError("These processes are ranks of MPI already; call init once, with the backend 'xla'.")
    if Peers.current is None:
        processes = find_launch(*launch)
        if processes.processes == 1:
            return world()
        Peers.current = Peers(processes, timeout)
    return Peers.current.group


def release() -> None:
    """End communication and forget all groups, on all ranks; `init` sets it up again.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.create_group("first", [0])
        >>> communication.release()
        >>> communication.init()
        >>> communication.create_group("first", [0])  # there is none of this name any more
        >>> communication.release()
    """
    destroy_all()
    GlobalComm.BACKEND = ""
    GlobalComm.INITED = False


def get_rank(group: str | None = None) -> int:
    """The number of this process in the group, from 0. Raises GraphRuntimeError before `init`.

    A process that drives several devices, each of which counts as a rank, is the first of them.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.get_rank()
        0
        >>> communication.release()
    """
    return _group("get_rank", group).rank


def get_group_size(group: str | None = None) -> int:
    """The number of processes in the group, or of devices if one process drives several; see docs/parallel.md.

    Raises GraphRuntimeError before `init`.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.get_group_size()
        1
        >>> communication.release()
    """
    return _group("get_group_size", group).size


def get_local_rank(group: str | None = None) -> int:
    """The number of this process among those of the group on this machine. Raises GraphRuntimeError before `init`.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.get_local_rank()
        0
        >>> communication.release()
    """
    ranks = _group("get_local_rank", group)
    return ranks.local.index(ranks.rank)


def get_local_rank_size(group: str | None = None) -> int:
    """The number of processes of the group on this machine, or of devices if one process drives several.

    Raises GraphRuntimeError before `init`.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.get_local_rank_size()
        1
        >>> communication.release()
    """
    return len(_group("get_local_rank_size", group).local)


def create_group(group: str, rank_ids: Sequence[int]) -> None:
    """Make a group of some ranks; all ranks call it, with the same arguments and in the same order.

    If one process drives several devices, each counts as a rank, and those of a group need no axis of the mesh.

    Raises GraphTypeError for other arguments than a name and numbers, GraphValueError for a name that there is and for
    numbers of no ranks, GraphRuntimeError before `init`.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.create_group("first", [0])
        >>> communication.get_group_size("first")
        1
        >>> communication.destroy_group("first")
        >>> communication.release()
    """
    _require_init("create_group")
    require_no_mesh("create_group")
    if not isinstance(group, str):
        raise GraphTypeError(f"The name of a group is a string, not {group!r}.")
    if not isinstance(rank_ids, (list, tuple)) or not all(type(rank) is int for rank in rank_ids):
        raise GraphTypeError(f"The rank_ids of a group are a list of integers, not {rank_ids!r}.")
    create(group, rank_ids)


def destroy_group(group: str) -> None:
    """Forget a group; raises GraphValueError where there is none of that name, GraphRuntimeError before `init`.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.create_group("first", [0])
        >>> communication.destroy_group("first")
        >>> communication.release()
    """
    _require_init("destroy_group")
    destroy(group)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """The number among all ranks of one of a group; raises GraphValueError where the group has none such.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.create_group("first", [0])
        >>> communication.get_world_rank_from_group_rank("first", 0)
        0
        >>> communication.destroy_group("first")
        >>> communication.release()
    """
    members = _group("get_world_rank_from_group_rank", group).members
    if group_rank_id not in range(len(members)):
        raise GraphValueError(f"The group {group!r} has no rank {group_rank_id}, only {len(members)} ranks.")
    return members[group_rank_id]


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """The number in a group of one of all ranks; raises GraphValueError where the group does not have it.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.create_group("first", [0])
        >>> communication.get_group_rank_from_world_rank(0, "first")
        0
        >>> communication.destroy_group("first")
        >>> communication.release()
    """
    members = _group("get_group_rank_from_world_rank", group).members
    if world_rank_id not in members:
        raise GraphValueError(f"Rank {world_rank_id} is none of the group {group!r}, which has {list(members)}.")
    return members.index(world_rank_id)


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """The numbers of the members of a group among all ranks.

    Examples:
        >>> from graphls import communication
        >>> communication.init()  # of one rank, which is alone; mpiexec starts several
        >>> communication.get_process_group_ranks()
        [0]
        >>> communication.release()
    """
    return list(_group("get_process_group_ranks", group).members)


def _group(caller: str, group: str | None) -> Group:
    _require_init(caller)
    if Peers.current is not None and group in NAMES_OF_WORLD:
        return Peers.current.group
    return find_ranks(WORLD if group == GlobalComm.WORLD_COMM_GROUP else group)


def _require_init(caller: str) -> None:
    if not GlobalComm.INITED:
        raise GraphRuntimeError(f"{caller} needs communication to be set up; call init() first.")
