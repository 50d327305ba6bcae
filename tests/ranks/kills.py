"""Ends trainings on several ranks at random moments: `python -m tests.ranks.kills --count 200`.

A random rank is killed, raises or leaves, or the launcher is interrupted, asked to end or killed, while the ranks
start, compile, step, communicate, save or leave. Each training goes on from the newest checkpoint of the one before.
However it ends, all ranks have to end soon, no process may remain, what ended it has to stand on stderr, every file has
to load, no step that was told to be saved may be lost, and the states of the newest have to be those of a training
without a break.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from graphls.train.serialization import load_checkpoint
from tests.ranks.running import launched

LONGEST_END = 10.0
"""Seconds within which all ranks have to end, on a machine that has nothing else to do."""
LONGEST_RUN = 600.0
"""Seconds after which a training that comes to no moment counts as one that hangs."""
STEPS = 6
"""How many steps each training does, if it is not ended before."""
MOMENTS = {
    "start": 1.0, "init": 0.2, "compile": 0.5, "step": 0.02, "collective": 0.005, "save": 0.01, "exit": 0.1,
}  # fmt: skip
"""What ranks do when they are ended, and within how many seconds from its beginning."""
WAYS = ("kill", "raise", "leave", "interrupt", "terminate", "launcher")
OWN = {"raise": ("init", "step", "collective", "save"), "leave": ("step", "collective", "save")}
"""The moments at which a rank raises or leaves by itself."""
CAUSES = {"raise": "RuntimeError: ended on purpose", "leave": "has left while rank"}
TRAINING = """
import os
import sys
import time

FOLDER, WAY, WHO, MOMENT, NUMBER = sys.argv[1], sys.argv[2], *map(str, sys.argv[3:6])
LOG = os.open(os.path.join(FOLDER, f"log_{os.getpid()}"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
seen = 0


def tell(what):
    global seen
    os.write(LOG, f"{what}\\n".encode())
    seen += what.split()[0] == MOMENT
    if WHO == str(RANK) and what.split()[0] == MOMENT and seen == int(NUMBER):
        if WAY == "raise":
            raise RuntimeError("ended on purpose")
        if WAY == "leave":
            sys.exit(0)


RANK = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
tell(f"rank {RANK}")
tell("start")

import glob

import numpy as np

import graphls as gl
from graphls import nn
from graphls.communication import get_group_size, get_rank, init
from graphls.runtime.context.parallel import set_auto_parallel_context
from graphls.distributed.rank_status import WAITING

tell("init")
init()
RANK, SIZE = get_rank(), get_group_size()
begin = WAITING.begin


def told(call):
    begin(call)
    tell("collective")


WAITING.begin = told
set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
net = nn.SequentialCell(nn.Dense(8, 64, weight_init="ones"), nn.ReLU(), nn.Dense(64, 2, weight_init="ones"))
loss = nn.WithLossCell(net, nn.MSELoss())
step = nn.TrainOneStepWithLossScaleCell(
    loss, nn.Adam(net.trainable_params(), 0.01), nn.DynamicLossScaleUpdateCell(1024, 2, 3),
).set_train()
files = sorted(glob.glob(os.path.join(FOLDER, "step_*.ckpt")))
first = 0
if files:
    entries = gl.load_checkpoint(files[-1])
    first = int(entries.pop("step_num"))
    gl.load_param_into_net(step, entries)
for number in range(first + 1, first + 1 + int(sys.argv[6])):
    random = np.random.default_rng(number * SIZE + RANK)
    x, y = (gl.Tensor(random.normal(size=(4, n)).astype(np.float32)) for n in (8, 2))
    tell("compile" if number == first + 1 else "step")
    step(x, y)[0].asnumpy()
    tell("save")
    if RANK == 0:
        gl.save_checkpoint(step, os.path.join(FOLDER, f"step_{number:06}"), append_dict={"step_num": number})
        tell(f"saved {number}")
tell("exit")
"""


class Campaign:
    """Many trainings in one folder, each ended in one of some ways."""

    def __init__(self, folder: Path, ranks: tuple[int, ...], seed: int, longest_end: float) -> None:
        self.folder, self.ranks, self.longest_end = folder, ranks, longest_end
        self.rng = np.random.default_rng(seed)
        self.program = folder / "training.py"
        self.program.write_text(TRAINING, encoding="utf-8")
        self.counts: Counter[str] = Counter()
        self.longest = 0.0

    def start(self, *arguments: str, ranks: int) -> subprocess.Popen[Any]:
        """Start a training whose processes, with all that these start, can be told by a mark."""
        self.mark = uuid.uuid4().hex
        with open(self.folder / "out", "w") as out, open(self.folder / "err", "w") as err:
            settings = {"stdout": out, "stderr": err, "stdin": subprocess.DEVNULL, "env": {"GRAPHLS_KILLS": self.mark}}
            return launched(ranks, self.program, str(self.folder), *arguments, **settings)

    def end_one(self, way: str) -> None:
        """Start a training, end it at a random moment, and look at what it leaves."""
        self.way = way
        for log in self.folder.glob("log_*"):
            log.unlink()
        ranks = int(self.rng.choice(self.ranks))
        who = int(self.rng.integers(ranks))
        self.moment = str(self.rng.choice(OWN.get(way, tuple(MOMENTS))))
        number = int(self.rng.integers(1, STEPS)) if self.moment in OWN["leave"] else 1
        delay = float(self.rng.uniform(0, MOMENTS[self.moment]))
        process = self.start(way, str(who), self.moment, str(number), str(STEPS), ranks=ranks)
        try:
            chosen = self.reach(process, who, number)
            time.sleep(0 if way in OWN else delay)
            self.end(process, chosen)
            self.look(process)
        finally:
            self.kill_all()
        self.counts[f"{way} in {self.moment}" if process.returncode else f"{way} too late"] += 1

    def reach(self, process: subprocess.Popen[Any], who: int, number: int) -> int:
        """Wait until a rank has told of a moment so many times; its process."""
        end = time.monotonic() + LONGEST_RUN
        while process.poll() is None:
            assert time.monotonic() < end, f"comes to no {self.moment}"
            for pid, log in self.logs().items():
                if f"rank {who}" in log and sum(line.split()[0] == self.moment for line in log) >= number:
                    return pid
            time.sleep(0.001)
        return 0

    def logs(self) -> dict[int, list[str]]:
        """What each process has told."""
        found = ((int(path.name[4:]), path.read_text()) for path in self.folder.glob("log_*"))
        return {pid: text[: text.rfind("\n") + 1].splitlines() for pid, text in found}

    def end(self, process: subprocess.Popen[Any], chosen: int) -> None:
        """End the training in the way that is tried, and see that all is over soon."""
        begin = time.monotonic()
        signals = {
            "kill": (chosen, signal.SIGKILL), "interrupt": (process.pid, signal.SIGINT),
            "terminate": (process.pid, signal.SIGTERM), "launcher": (process.pid, signal.SIGKILL),
        }  # fmt: skip
        if self.way in signals and signals[self.way][0] and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(*signals[self.way])
        while process.poll() is None or self.running():
            waited = time.monotonic() - begin
            assert waited < self.longest_end, f"{self.told()}: still there after {waited:.0f} s: {self.running()}"
            time.sleep(0.01)
        self.longest = max(self.longest, time.monotonic() - begin)

    def told(self) -> str:
        return f"{self.way} in {self.moment}: {(self.folder / 'err').read_text()[-2000:]}"

    def running(self) -> list[str]:
        """What still runs of all that has been started."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (path / "environ").read_bytes():
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def kill_all(self) -> None:
        """After a fault, let nothing remain."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (path / "environ").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)
            except OSError:
                continue

    def look(self, process: subprocess.Popen[Any]) -> None:
        """See that the cause is told, and that nothing is lost or torn; keep the two newest files."""
        if self.way in CAUSES and process.returncode:
            assert CAUSES[self.way] in self.told(), self.told()
        assert process.returncode or self.way != "raise", "the error is lost"
        files = self.files()
        newest = int(load_checkpoint(files[-1])["step_num"]) if files else 0
        for path in files:
            load_checkpoint(path)
        saved = (line for log in self.logs().values() for line in log if line.startswith("saved"))
        last = max((int(line.split()[1]) for line in saved), default=0)
        assert newest >= last, f"step {last} was saved, and {newest} is the newest"
        for path in files[:-2]:
            path.unlink()

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("step_*.ckpt"))

    def compare(self) -> int:
        """See that the newest states are those of a training without a break; the number of its steps."""
        files = self.files()
        if not files or len(self.ranks) > 1:
            return 0
        found = load_checkpoint(files[-1])
        for path in self.files():
            path.unlink()
        steps = int(found["step_num"])
        process = self.start("none", "-1", "none", "0", str(steps), ranks=self.ranks[0])
        assert process.wait(LONGEST_RUN) == 0, (self.folder / "err").read_text()
        wanted = load_checkpoint(self.files()[-1])
        torn = [name for name in wanted if not np.array_equal(np.asarray(wanted[name]), np.asarray(found[name]))]
        assert not torn, f"torn after {steps} steps: {torn}"
        return steps


def campaign(
    ways: Sequence[str], count: int, ranks: tuple[int, ...], seed: int, longest_end: float = LONGEST_END
) -> str:
    """End so many trainings; what happened, in words. Raises AssertionError for the first fault."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = Campaign(Path(folder), ranks, seed, longest_end)
        for number in range(count):
            try:
                run.end_one(ways[number % len(ways)])
            except AssertionError as error:
                raise AssertionError(f"number {number}, seed {seed}: {error}") from None
        steps = run.compare()
    counts = ", ".join(f"{number} {what}" for what, number in sorted(run.counts.items()))
    text = f"{count} trainings ended, each within {run.longest:.1f} s, and {steps} steps compared: {counts}"
    return f"{text} ({time.monotonic() - begin:.0f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description="End trainings on several ranks at random moments.")
    parser.add_argument("--count", type=int, default=200, help="how often")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["kill"], help="in which ways, one after the other")
    parser.add_argument("--ranks", nargs="+", type=int, default=[2], help="on how many ranks, one of these each time")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(campaign(arguments.ways, arguments.count, tuple(arguments.ranks), arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
