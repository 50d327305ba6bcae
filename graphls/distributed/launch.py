"""What launchers say of the processes that they start: how many, which one this is, and where the first one listens."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.reporting import load_package
from graphls.distributed.world import launched

PORT = 55_527
"""The port where process 0 listens, unless a launcher or the user says another one."""

COORDINATOR, PROCESSES, PROCESS = "GRAPHLS_COORDINATOR", "GRAPHLS_PROCESSES", "GRAPHLS_PROCESS"
"""The variables that say what no launcher says."""


@dataclass(frozen=True)
class Launch:
    """The address where process 0 listens, the number of processes and the number of this one; None for unknown."""

    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None

    def filled(self, other: Launch) -> Launch:
        """The same, and what another one says of the rest."""
        own = {name: item for name, item in vars(self).items() if item is not None}
        return replace(other, **own)


def find_launch(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> Launch:
    """What arguments say, then variables of graphls, then the launcher; a single process where none says anything.

    Raises GraphTypeError and GraphValueError for arguments and variables that do not fit, GraphRuntimeError where one
    of the three is not known, and where mpi4py is missing under mpiexec.
    """
    known = _checked(Launch(coordinator, processes, process)).filled(_of_variables())
    if None in vars(known).values():
        known = known.filled(next(filter(None, (read() for read in LAUNCHERS)), Launch()))
    if known == Launch() or known.processes == 1:
        return Launch("", 1, 0)
    missing = [variable for variable, item in zip(VARIABLES, vars(known).values(), strict=True) if item is None]
    if missing:
        text = f"Processes meet where {', '.join(VARIABLES[:2])} and {PROCESS} are known, and {missing[0]} is not"
        raise GraphRuntimeError(f"{text}; set the variable, give the argument of init, or start them by mpiexec.")
    return _checked(known)


def processes_started() -> int:
    """The number of processes that a launcher or the variables of graphls say there are, this one included."""
    tasks = os.environ.get("SLURM_NTASKS", "") if os.environ.get("SLURM_STEP_NODELIST") else ""
    counts = [text for text in (tasks, os.environ.get(PROCESSES, "")) if text.isdecimal()]
    return max(launched(), *map(int, counts), 1)


VARIABLES = (COORDINATOR, PROCESSES, PROCESS)


def _of_variables() -> Launch:
    return Launch(os.environ.get(COORDINATOR) or None, _number(PROCESSES), _number(PROCESS))


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    if text and not text.isdecimal():
        raise GraphValueError(f"The variable {variable} has a number, and not {text!r}.")
    return int(text) if text else None


def _checked(launch: Launch) -> Launch:
    """A launch of possible values."""
    for name, item in (("processes", launch.processes), ("process", launch.process)):
        if item is not None and type(item) is not int:
            raise GraphTypeError(f"The argument {name!r} of init is an integer, not {item!r}.")
    if launch.processes is not None and launch.processes < 1:
        raise GraphValueError(f"The number of processes is 1 or more, not {launch.processes}.")
    if launch.process is not None and not 0 <= launch.process < (launch.processes or launch.process + 1):
        count = "" if launch.processes is None else f" to {launch.processes - 1}"
        raise GraphValueError(f"Processes have the numbers 0{count}, and not {launch.process}.")
    if launch.coordinator is not None:
        address_of(launch.coordinator)
    return launch


def address_of(coordinator: object) -> tuple[str, int]:
    """The host and the port of an address like "10.0.0.1:1234", "[::1]:1234" or "node1"."""
    if not isinstance(coordinator, str):
        raise GraphTypeError(f"The coordinator of init is a text like '10.0.0.1:1234', not {coordinator!r}.")
    parts = re.fullmatch(r"(?:\[(.+)\]|([^:\s]+))(?::(\d{1,5}))?", coordinator)
    if parts is None or int(parts[3] or PORT) > 65_535:
        raise GraphValueError(f"The coordinator of init is an address like '10.0.0.1:1234', not {coordinator!r}.")
    return parts[1] or parts[2], int(parts[3] or PORT)


# -- launchers ----------------------------------------------------------------------------------------------------


def _by_mpiexec() -> Launch | None:
    """The ranks of mpiexec, of which rank 0 sends all others the address of a port that is free there."""
    if launched() <= 1:
        return None
    subject = "mpiexec has started several processes, and mpi4py, through which they find each other,"
    comm = load_package("mpi4py.MPI", subject, "pip install 'graphls[mpi]'").COMM_WORLD
    if comm.size == 1:
        text = "mpiexec has started several processes, each of which mpi4py finds alone, as it has loaded another MPI"
        raise GraphRuntimeError(f"{text}; use the mpiexec of the MPI that is installed beside mpi4py.")
    host = socket.gethostname()
    hosts = comm.allgather(host)
    own = "127.0.0.1" if len(set(hosts)) == 1 else host
    return Launch(comm.bcast(f"{own}:{free_port()}" if comm.rank == 0 else None), comm.size, comm.rank)


def _by_slurm() -> Launch | None:
    """The tasks of a step of Slurm; the port depends on the job, so that two jobs do not meet on one machine."""
    names = ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_NODELIST")
    if not all(os.environ.get(name) for name in names):
        return None
    count, number, job = (int(os.environ[name]) for name in names[:3])
    return Launch(f"{first_node(os.environ[names[3]])}:{61_440 + job % 4_096}", count, number)


def first_node(nodes: str) -> str:
    """The first name of a list of Slurm: node1 of "node[1-3,7],host2"."""
    parts = re.match(r"([^\[,]+)(?:\[([^\],-]+))?", nodes)
    return "" if parts is None else parts[1] + (parts[2] or "")


def _by_kubernetes() -> Launch | None:
    """A pod of an Indexed Job, whose name ends with its index; its headless service finds the pod of index 0."""
    index = os.environ.get("JOB_COMPLETION_INDEX", "")
    if "KUBERNETES_SERVICE_HOST" not in os.environ or not index.isdecimal():
        return None
    name, dot, domain = socket.getfqdn().partition(".")
    job = name.removesuffix(f"-{index}")
    return Launch(f"{job}-0{dot}{domain}:{PORT}" if job != name else None, None, int(index))


LAUNCHERS: tuple[Callable[[], Launch | None], ...] = (_by_mpiexec, _by_slurm, _by_kubernetes)


def free_port(host: str = "") -> int:
    """A port that is free on this machine."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])
