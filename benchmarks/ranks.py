"""Data parallel training on one machine: ranks of one thread and one core each, compared with PyTorch over gloo.

`python -m benchmarks.ranks`, or `make bench-ranks`, which brings PyTorch. Every rank has a whole batch. Three runs of
each framework take turns: one rank alone, ranks that know nothing of each other, and ranks that train together. The
last column is the share of a step in which ranks compare what they communicate.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.rows import ROWS
from graphls.base.text.tables import Table
from graphls.distributed.cost import Network
from graphls.inspect.profile.scaling import Bucket, Machines, Simulation, Workload

ROOT = Path(__file__).parent.parent
HEADER = (
    "row", "framework", "ranks", "one, ms", "apart, ms", "joined, ms", "efficiency", "communication, ms", "hidden",
    "predicted, ms", "error", "comparison",
)  # fmt: skip
Answer = dict[str, Any]


def arguments(given: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("--rows", default="gpt,resnet18", help=f"some of {','.join(ROWS)} (%(default)s)")
    parser.add_argument("--frameworks", default="graphls,torch", help="some of %(default)s")
    parser.add_argument("--ranks", type=int, default=2, help="how many train together (%(default)s)")
    parser.add_argument("--steps", type=int, default=15, help="in a turn (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (%(default)s)")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--quick", action="store_true", help="small sizes: whether all of it works")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    return parser.parse_args(given)


def launcher() -> str:
    """The mpiexec beside this Python, or the one on the path."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise SystemExit("There is no mpiexec; pip install 'graphls[mpi]'.")
    return found


def run(said: argparse.Namespace, framework: str, row: str, ranks: int, mode: str) -> Answer:
    """Start the ranks of one run; what rank 0 says of it."""
    command = ["-m", "benchmarks.rank_worker", framework, row, mode, "--steps", str(said.steps)]
    command += ["--quick"] if said.quick else []
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    # The mpiexec of Open MPI refuses roots, and more ranks than cores, unless it is told; that of MPICH reads none.
    common |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    common["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    started: list[subprocess.Popen[bytes]] = []

    def start(words: list[str], **variables: str) -> None:
        settings: dict[str, Any] = {"cwd": ROOT, "env": common | variables, "start_new_session": True}
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings))

    try:
        if framework == "graphls":
            start([launcher(), "-n", str(ranks), sys.executable, *command])
        else:
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(ranks)}
            for rank in range(ranks):
                start([said.peer_python, *command], **address, RANK=str(rank))
        found = [process.communicate() for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if any(process.returncode for process in started):
        raise SystemExit(f"{framework} {row} {mode}: {b''.join(err for _, err in found).decode()[-3000:]}")
    answer: Answer = json.loads(b"".join(out for out, _ in found))
    return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(said: argparse.Namespace, framework: str, row: str) -> dict[str, Answer]:
    """The three runs in turns, each with the median of its turns."""
    turns: dict[str, list[Answer]] = {"one": [], "apart": [], "joined": []}
    for turn in range(said.rounds):
        for name, found in turns.items():
            now = time.strftime("%H:%M:%S")
            print(f"{now} {row}: {framework} {name}, turn {turn + 1}", file=sys.stderr, flush=True)
            ranks = 1 if name == "one" else said.ranks
            found.append(run(said, framework, row, ranks, "joined" if name == "joined" else "apart"))
    first = turns["one"][0]["losses"]
    for answers in turns.values():
        for answer in answers:
            # All ranks have one batch, so that they learn what one would.
            worst = max(abs(a - b) / abs(b) for a, b in zip(answer["losses"][:2], first[:2], strict=True))
            if worst > 2e-3:
                raise SystemExit(f"{framework} {row}: losses {answer['losses']} beside {first}")
    return {name: sorted(found, key=lambda answer: answer["seconds"])[len(found) // 2] for name, found in turns.items()}


def predicted(found: dict[str, Answer], ranks: int) -> float | None:
    """The seconds of a step that `graphls simulate` predicts from ranks apart and the network between them."""
    if "work" not in found["apart"]:
        return None
    work = dict(found["apart"]["work"])
    buckets = tuple(Bucket(**bucket) for bucket in work.pop("buckets"))
    network = Network(**found["joined"]["network"])
    # Each has one core, and ranks apart take as long as they do where all of these compute.
    return Simulation(Workload(buckets, **work), network, machines=Machines(ranks, ranks)).on(ranks).seconds


def line_of(row: str, framework: str, ranks: int, found: dict[str, Answer]) -> tuple[str, ...]:
    """A row of the table."""
    one, apart, joined = (found[name]["seconds"] for name in ("one", "apart", "joined"))
    communication = found["joined"]["communication"]
    hidden = 1 - (joined - apart) / communication
    guess = predicted(found, ranks)
    told = ("", "") if guess is None else (f"{guess * 1e3:.1f}", f"{guess / joined - 1:+.0%}")
    compared = found["joined"].get("comparison")
    times = (f"{seconds * 1e3:.1f}" for seconds in (one, apart, joined))
    shares = f"{one / joined:.0%}", f"{communication * 1e3:.1f}", f"{hidden:.0%}"
    return row, framework, str(ranks), *times, *shares, *told, "" if compared is None else f"{compared / joined:.3%}"


def main(given: list[str]) -> list[tuple[str, ...]]:
    """Measure, and print a table."""
    said = arguments(given)
    lines, figures = [], {}
    for row in said.rows.split(","):
        for framework in said.frameworks.split(","):
            found = measure(said, framework, row)
            figures[f"{row} {framework}"] = found
            lines.append(line_of(row, framework, said.ranks, found))
    print("\n".join(Table(HEADER, lines, texts=2).lines()))
    if said.json:
        said.json.write_text(json.dumps(figures, indent=1))
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
