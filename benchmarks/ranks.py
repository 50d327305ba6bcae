"""Data parallel training on one machine: ranks of one thread and one core each, compared with PyTorch over gloo.

`python -m benchmarks.ranks`, or `make bench-ranks`, which installs PyTorch. Every rank has a full batch. Three runs of
each framework take turns: one rank alone, ranks that know nothing of each other, and ranks that train together. The
last column is the share of a step in which ranks compare their communications.
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


def arguments(texts: list[str]) -> argparse.Namespace:
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
    return parser.parse_args(texts)


def launcher() -> str:
    """The mpiexec in the folder of this Python, or the one on the path."""
    beside = Path(sys.executable).parent / "mpiexec"
    path = str(beside) if beside.exists() else shutil.which("mpiexec")
    if path is None:
        raise SystemExit("There is no mpiexec; pip install 'graphls[mpi]'.")
    return path


def run(options: argparse.Namespace, framework: str, row: str, ranks: int, mode: str) -> Answer:
    """Start the ranks of one run; returns the answer of rank 0."""
    command = ["-m", "benchmarks.rank_worker", framework, row, mode, "--steps", str(options.steps)]
    command += ["--quick"] if options.quick else []
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    # Open MPI's mpiexec refuses root, and more ranks than cores, without these variables; MPICH's reads none.
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
                start([options.peer_python, *command], **address, RANK=str(rank))
        outputs = [process.communicate() for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if any(process.returncode for process in started):
        raise SystemExit(f"{framework} {row} {mode}: {b''.join(err for _, err in outputs).decode()[-3000:]}")
    answer: Answer = json.loads(b"".join(out for out, _ in outputs))
    return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(options: argparse.Namespace, framework: str, row: str) -> dict[str, Answer]:
    """The three runs in turns, each with the median of its turns."""
    turns: dict[str, list[Answer]] = {"one": [], "apart": [], "joined": []}
    for turn in range(options.rounds):
        for name, answers in turns.items():
            now = time.strftime("%H:%M:%S")
            print(f"{now} {row}: {framework} {name}, turn {turn + 1}", file=sys.stderr, flush=True)
            ranks = 1 if name == "one" else options.ranks
            answers.append(run(options, framework, row, ranks, "joined" if name == "joined" else "apart"))
    first = turns["one"][0]["losses"]
    for answers in turns.values():
        for answer in answers:
            # All ranks have one batch, so that they learn what one would.
            worst = max(abs(a - b) / abs(b) for a, b in zip(answer["losses"][:2], first[:2], strict=True))
            if worst > 2e-3:
                raise SystemExit(f"{framework} {row}: losses {answer['losses']} beside {first}")
    return {name: sorted(each, key=lambda answer: answer["seconds"])[len(each) // 2] for name, each in turns.items()}


def predicted(answers: dict[str, Answer], ranks: int) -> float | None:
    """The seconds of a step that `graphls simulate` predicts from ranks apart and the network between them."""
    if "work" not in answers["apart"]:
        return None
    work = dict(answers["apart"]["work"])
    buckets = tuple(Bucket(**bucket) for bucket in work.pop("buckets"))
    network = Network(**answers["joined"]["network"])
    # Each has one core, and ranks apart take as long as they do where all of these compute.
    return Simulation(Workload(buckets, **work), network, machines=Machines(ranks, ranks)).on(ranks).seconds


def line_of(row: str, framework: str, ranks: int, answers: dict[str, Answer]) -> tuple[str, ...]:
    """A row of the table."""
    one, apart, joined = (answers[name]["seconds"] for name in ("one", "apart", "joined"))
    communication = answers["joined"]["communication"]
    hidden = 1 - (joined - apart) / communication
    guess = predicted(answers, ranks)
    prediction = ("", "") if guess is None else (f"{guess * 1e3:.1f}", f"{guess / joined - 1:+.0%}")
    compared = answers["joined"].get("comparison")
    times = (f"{seconds * 1e3:.1f}" for seconds in (one, apart, joined))
    shares = f"{one / joined:.0%}", f"{communication * 1e3:.1f}", f"{hidden:.0%}"
    share = "" if compared is None else f"{compared / joined:.3%}"
    return row, framework, str(ranks), *times, *shares, *prediction, share


def main(texts: list[str]) -> list[tuple[str, ...]]:
    """Measure, and print a table."""
    options = arguments(texts)
    lines, figures = [], {}
    for row in options.rows.split(","):
        for framework in options.frameworks.split(","):
            answers = measure(options, framework, row)
            figures[f"{row} {framework}"] = answers
            lines.append(line_of(row, framework, options.ranks, answers))
    print("\n".join(Table(HEADER, lines, texts=2).lines()))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
