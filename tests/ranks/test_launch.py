"""What launchers say of processes, and how these meet, agree and end, without JAX."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from graphls import communication
from graphls.distributed.launch import Launch, address_of, find_launch, first_node
from graphls.distributed.own_parts import region
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.ir.sharding import Mesh, Sharding
from tests.xla.training import ended, started

SLURM = {"SLURM_JOB_ID": "4099", "SLURM_NTASKS": "6", "SLURM_PROCID": "5", "SLURM_STEP_NODELIST": "node[07-9,12],last"}
KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}
OURS = {"GRAPHLS_COORDINATOR": "head:1234", "GRAPHLS_PROCESSES": "4", "GRAPHLS_PROCESS": "2"}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes what a launcher has set for the tests themselves."""
    for name in list(os.environ):
        if re.match(r"SLURM_|PMI_|OMPI_|GRAPHLS_(COORD|PROC)|KUBERNETES_|JOB_COMPLETION", name):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Launch("", 1, 0)),
        (OURS, Launch("head:1234", 4, 2)),
        (SLURM, Launch("node07:61443", 6, 5)),
        (SLURM | {"GRAPHLS_COORDINATOR": "other:1"}, Launch("other:1", 6, 5)),
        (KUBERNETES | {"GRAPHLS_PROCESSES": "8"}, Launch("train-0.pods.space.svc:55527", 8, 3)),
        (SLURM | {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, Launch("", 1, 0)),
    ],
)
def test_launchers_say_who_and_where_processes_are(
    variables: dict[str, str], expected: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(socket, "getfqdn", lambda: "train-3.pods.space.svc")
    assert find_launch() == expected


def test_arguments_come_before_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in OURS.items():
        monkeypatch.setenv(name, text)
    assert find_launch("[::1]:99", process=3) == Launch("[::1]:99", 4, 3)
    assert address_of("[::1]:99") == ("::1", 99) and address_of("head") == ("head", 55_527)
    assert [*map(first_node, ("a1,b", "a[3,5]", "a[003-5]", "a"))] == ["a1", "a3", "a003", "a"]


@pytest.mark.parametrize(
    ("variables", "arguments", "kind", "message"),
    [
        ({"GRAPHLS_PROCESSES": "4"}, {}, GraphRuntimeError, "and GRAPHLS_COORDINATOR is not"),
        (KUBERNETES, {"coordinator": "a"}, GraphRuntimeError, "and GRAPHLS_PROCESSES is not"),
        ({"GRAPHLS_PROCESSES": "four"}, {}, GraphValueError, "has a number, and not 'four'"),
        ({}, {"process": 4, "processes": 4, "coordinator": "a"}, GraphValueError, "the numbers 0 to 3, and not 4"),
        ({}, {"processes": True}, GraphTypeError, "'processes' of init is an integer, not True"),
        ({}, {"processes": 0}, GraphValueError, "1 or more, not 0"),
        ({}, {"coordinator": "a:b:c"}, GraphValueError, "an address like '10.0.0.1:1234', not 'a:b:c'"),
        ({}, {"coordinator": 7}, GraphTypeError, "a text like '10.0.0.1:1234', not 7"),
        ({}, {"coordinator": "a:70000"}, GraphValueError, "an address like"),
    ],
)
def test_what_does_not_fit_is_an_error(
    variables: dict[str, str], arguments: dict[str, object], kind: type[Exception], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(kind, match=message):
        communication.init("xla", **arguments)  # type: ignore[arg-type]


def test_only_a_mesh_has_a_coordinator() -> None:
    with pytest.raises(GraphValueError, match="set them up with init"):
        communication.init(coordinator="head:1", processes=2, process=0)


def test_the_region_of_a_process_is_that_of_its_devices() -> None:
    mesh, shape = Mesh(data=4, model=2), (16, 6)
    rows, both = Sharding.of("data", None), Sharding.of(("model", "data"), None)
    assert region(shape, rows, mesh, range(4, 8)) == (slice(8, 16), slice(0, 6))
    assert region(shape, rows, mesh, range(2, 4)) == (slice(4, 8), slice(0, 6))
    assert region(shape, both, mesh, range(0, 1)) == (slice(0, 2), slice(0, 6))
    assert region(shape, both, mesh, range(4)) == (slice(0, 12), slice(0, 6))
    assert region(shape, None, mesh, range(4)) == (slice(0, 16), slice(0, 6))


MEETING = """
import os, sys, time
from graphls import communication
from graphls.distributed import peers as watching
from graphls.distributed.peers import Peers

number = int(os.environ["GRAPHLS_PROCESS"])
how = sys.argv[1]
if how == "absent" and number == 1:
    sys.exit()
communication.init("xla", timeout=2 if how in ("absent", "late") else 60)
peers = Peers.current
print(communication.get_rank(), communication.get_group_size(), peers.agree("a sum", [number]))
if how == "left" and number == 1:
    sys.exit()
if how == "raises" and number == 1:
    1 / 0
if how == "order":
    watching.PATIENCE = 0.3
    if number == 1:
        peers.begin_program()
        time.sleep(60)
if how == "late" and number == 1:
    time.sleep(60)  # until the others, which do not wait that long, end all
if how != "ends":
    peers.agree("a read" if number == 1 and how == "other" else "a save")
"""
ENDS = {
    "ends": "",
    "absent": "Process 1 of 2 did not come within 2 s; start all of them, or give a longer timeout",
    "other": "Process 0 comes to a save while process 1 comes to a read; all processes of a mesh do the same",
    "left": "Process 1 of 2 has left while process 0 comes to",
    "raises": "Process 1 of 3 has failed, which ends all: with ZeroDivisionError: division by zero",
    "order": "comes to a save while process 1 comes to a step; all processes of a mesh do the same in the same order",
    "late": "Other processes have not come to a save within 2 s, as process ",
}


@pytest.mark.parametrize("how", ENDS)
def test_processes_meet_agree_and_end_together(how: str, tmp_path: Path) -> None:
    program = tmp_path / "meet.py"
    program.write_text(MEETING)
    count = 3 if how in ("ends", "raises", "order") else 2  # of three, one more could be late where few may wait long
    all_of_them = ended(started(count, program, how), 120)
    if how == "ends":
        assert all_of_them == [(0, f"{n} 3 [[0], [1], [2]]\n", "") for n in range(3)]
        return
    codes = {code for number, (code, *_) in enumerate(all_of_them) if number != 1}
    assert codes == {1}
    assert ENDS[how] in all_of_them[0][2], all_of_them


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "meet.py"
    program.write_text(MEETING)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        variables = {**os.environ, "GRAPHLS_COORDINATOR": address, "GRAPHLS_PROCESSES": "2", "GRAPHLS_PROCESS": "0"}
        run = subprocess.run([sys.executable, str(program), "ends"], env=variables, capture_output=True, text=True)
    assert run.returncode == 1 and "cannot listen at port" in run.stderr and "give another port" in run.stderr
