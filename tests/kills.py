"""Ends a training at random moments, again and again: `python -m tests.kills --count 1000` for each of three signals.

`--engine` names the engine of its steps.

Each training goes on from the newest checkpoint of the one before, in a process that is forked from a warm one. However
it ends, it has to end soon, no step that was told to be saved may be lost, no file may be damaged or left over, and
the states in the newest file have to be those that a training without a break has after as many steps.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import select
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphls
from graphls import nn, ops
from graphls.amp import DynamicLossScaleManager
from graphls.dataset import NumpySlicesDataset
from graphls.passes.schedule.partition import Partition
from graphls.runtime import target
from graphls.runtime.onednn.engine import Onednn
from graphls.train.callbacks.callback import Callback
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint
from graphls.train.callbacks.stopping import OnRequestExit
from graphls.train.model import Model
from graphls.train.serialization import load_checkpoint, load_param_into_net
from tests.cut import everywhere

EPOCHS = 10**6
LONGEST_WAIT = 300.0
"""Seconds after which a training that does not end counts as one that hangs."""
PATIENCE = 5.0
"""Seconds after which a training that goes on has lost a Ctrl-C; it gets another one."""
INTERRUPTED = 3
SIGNALS = {"KILL": signal.SIGKILL, "INT": signal.SIGINT, "TERM": signal.SIGTERM}


class Training:
    """A small training with dropout, a dataset that shuffles, and a checkpoint after every step."""

    shape: tuple[int, ...] = (4,)
    """That of each input."""
    longest_step = 0.02
    """Seconds after a step within which it is ended."""
    partition: Callable[..., Partition] = Partition

    def __init__(self, engine: str | None = None) -> None:
        graphls.set_seed(11)
        self.engine = engine
        target.Partition = self.partition  # type: ignore[misc, assignment]
        self.model = self.made()
        rng = np.random.default_rng(3)
        columns = rng.normal(size=(24, *self.shape)).astype(np.float32), rng.normal(size=(24, 2)).astype(np.float32)
        self.data = NumpySlicesDataset(columns, ["x", "y"], shuffle=True).map(lambda x: x * 2, ["x"]).batch(8)
        self.model.build(self.data)
        self.first = {p.name: p.asnumpy() for p in self.parameters()}

    def made(self) -> Model:
        """A model whose step is one session, on ONNX Runtime."""
        net = nn.SequentialCell(nn.Dense(4, 16), nn.ReLU(), nn.Dropout(p=0.2), nn.Dense(16, 2))
        return Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.01), engine=self.engine)

    def parameters(self) -> list[Any]:
        return [*self.model.train_network.get_parameters(), graphls.random.random_state()]

    def digest(self) -> str:
        """What tells the states of two moments apart."""
        return _digest({p.name: p.asnumpy() for p in self.parameters()})

    def go_on(self, folder: Path, epochs: int, callbacks: list[Any]) -> None:
        """Train from the newest checkpoint of a folder on."""
        graphls.set_seed(11)
        files = complete(folder)
        for parameter in self.parameters():
            parameter.set_data(self.first[parameter.name])
        if files:
            load_param_into_net(self.model.train_network, load_checkpoint(files[-1].path))
        self.data.set_init_step(files[-1].step if files else 0)
        self.model.train(epochs, self.data, callbacks)


class Host(nn.Cell):
    """Twice the tensor, computed in Python."""

    def construct(self, x: Any) -> Any:
        return ops.pure_callback(np.multiply, x, x, 2.0, vjp=lambda x, two, y, g: (2.0 * g, None))


class PlanTraining(Training):
    """The same in segments of several engines, and an update that the host skips: the scale overflows now and then."""

    partition = staticmethod(everywhere())

    def made(self) -> Model:
        """A model whose step is a plan; by default oneDNN computes in it where that is installed."""
        net = nn.SequentialCell(nn.Dense(4, 16), nn.ReLU(), Host(), nn.Dropout(p=0.2), nn.Dense(16, 2))
        scale = DynamicLossScaleManager(2.0**127, 2, 2)
        engine = self.engine or ("onednn" if Onednn().version() else "numpy")
        optimizer = nn.Adam(net.trainable_params(), 0.01)
        return Model(net, nn.MSELoss(), optimizer, loss_scale_manager=scale, amp_level="O0", engine=engine)


class HeldTraining(PlanTraining):
    """The same, whose update is small: it always runs, and the flag says which buffers count."""

    partition = Partition


class LargeTraining(Training):
    """A training of 38 MB of states, which segments behind the flag overwrite in place where the engine does so."""

    shape = (1024,)
    longest_step = 0.3

    def made(self) -> Model:
        """A model whose update the host skips now and then."""
        net = nn.SequentialCell(nn.Dense(1024, 3072), nn.ReLU(), nn.Dropout(p=0.2), nn.Dense(3072, 2))
        scale = DynamicLossScaleManager(2.0**127, 2, 2)
        optimizer = nn.Adam(net.trainable_params(), 1e-4)
        return Model(net, nn.MSELoss(), optimizer, loss_scale_manager=scale, amp_level="O0", engine=self.engine)


class ImageTraining(Training):
    """A training of convolutions, whose weights may lie in layouts of the engine, and whose statistics are states."""

    shape = (3, 10, 10)

    def made(self) -> Model:
        """A model whose step has no loss scaling."""
        layers = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.Dropout(p=0.2)]
        net = nn.SequentialCell(*layers, nn.Flatten(), nn.Dense(800, 2))
        return Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.001, 0.9), engine=self.engine)


TRAININGS = {
    "session": Training, "plan": PlanTraining, "held": HeldTraining, "large": LargeTraining, "images": ImageTraining,
}  # fmt: skip


class Saved(NamedTuple):
    """A checkpoint that can be read: its file, the step that it says it is of, and its states."""

    path: Path
    step: int
    digest: str


def complete(folder: Path) -> list[Saved]:
    """The checkpoints of a folder by their steps; raises where one of them cannot be read."""
    return sorted((_read(path) for path in folder.glob("*.ckpt")), key=lambda saved: saved.step)


def _read(path: Path) -> Saved:
    entries = load_checkpoint(path)
    step = int(entries.pop("step_num"))
    return Saved(path, step, _digest({n: e.asnumpy() for n, e in entries.items() if n != "epoch_num"}))


def _digest(states: dict[str, Any]) -> str:
    parts = b"".join(name.encode() + states[name].tobytes() for name in sorted(states))
    return hashlib.sha256(parts).hexdigest()


class Teller(Callback):
    """Writes the number of each step that is over, and so saved, to a pipe."""

    def __init__(self, pipe: int) -> None:
        super().__init__()
        self.pipe = pipe

    def on_train_step_end(self, run_context: Any) -> None:
        os.write(self.pipe, int(run_context.original_args().cur_step_num).to_bytes(8, "little"))


def train_in_child(training: Training, folder: Path, pipe: int, name: str, in_background: bool) -> None:
    """The forked process: it never returns."""
    code = 1
    gc.freeze()  # Python loses a Ctrl-C that comes while finalizers run, and a fork inherits much garbage
    try:
        os.write(pipe, bytes(8))
        info = ["step_num", "epoch_num"]
        config = CheckpointConfig(1, 0, 2, append_info=info, exception_save=True, async_save=in_background)
        callbacks: list[Any] = [ModelCheckpoint("net", folder, config), Teller(pipe)]
        callbacks += [OnRequestExit(directory=folder)] if name == "TERM" else []
        training.go_on(folder, EPOCHS, callbacks)
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        os._exit(code)


class Campaign:
    """Many trainings in one folder, each ended by a signal."""

    def __init__(self, training: Training, folder: Path, name: str, seed: int) -> None:
        self.training, self.folder, self.name = training, folder, name
        self.rng = np.random.default_rng(seed)
        self.done: dict[int, str] = {}
        self.last = 0
        self.counts: Counter[str] = Counter()

    def end_one(self) -> None:
        """Start a training, end it at a random moment, and look at what it leaves."""
        in_background = bool(self.rng.integers(2))
        reading, writing = os.pipe()
        gc.collect()
        process = os.fork()
        if process == 0:
            train_in_child(self.training, self.folder, writing, self.name, in_background)
        os.close(writing)
        try:
            told = self._told(reading, int(self.rng.integers(0, 4)))
            time.sleep(float(self.rng.uniform(0, self.training.longest_step if told else 0.1)))
            os.kill(process, SIGNALS[self.name])
            code = self._end(process)
            told = max([told, *self._rest(reading)])
        finally:
            os.close(reading)
        self.counts[f"ended with {code}"] += 1
        self._look(told - in_background)

    def _told(self, pipe: int, steps: int) -> int:
        """The number of the last of some steps, after that the process has told of its start."""
        return [int.from_bytes(self._message(pipe), "little") for _ in range(steps + 1)][-1]

    def _message(self, pipe: int) -> bytes:
        assert select.select([pipe], [], [], LONGEST_WAIT)[0], "the training hangs at its beginning"
        message = os.read(pipe, 8)
        assert len(message) == 8, "the training ended before it was to"
        return message

    def _rest(self, pipe: int) -> list[int]:
        data = b"".join(iter(lambda: os.read(pipe, 4096), b""))
        return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) - 7, 8)]

    def _end(self, process: int) -> int:
        """Wait for the end; a Ctrl-C that Python has lost is pressed again and counted."""
        begin = asked = time.monotonic()
        while True:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            now = time.monotonic()
            if now - begin > LONGEST_WAIT:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                raise AssertionError("the training hangs")
            if now - asked > PATIENCE and self.name == "INT":
                self.counts["interrupts lost"] += 1
                os.kill(process, signal.SIGINT)
                asked = now
            time.sleep(0.002)

    def _look(self, told: int) -> None:
        """See that nothing is lost, torn or left over, and keep the newest file only."""
        saved = complete(self.folder)
        self.done.update((file.step, file.digest) for file in saved)
        newest = saved[-1].step if saved else 0
        assert newest >= max(told, self.last), f"step {max(told, self.last)} was saved, and {newest} is the newest"
        unfinished = list(self.folder.glob(".*"))
        assert self.name == "KILL" or not unfinished, f"left over: {unfinished}"
        self.counts["files unfinished"] += len(unfinished)
        self.last = newest
        for path in self.folder.glob("*"):  # hidden ones, too
            if not saved or path != saved[-1].path:
                path.unlink()

    def compare(self) -> None:
        """See that each file had the states that a training without a break has after as many steps."""
        known: dict[int, str] = {}
        digest = self.training.digest

        class Noting(Callback):
            def on_train_step_end(self, run_context: Any) -> None:
                known[run_context.original_args().cur_step_num] = digest()

        self.training.go_on(self.folder / "none", self.last // self.training.data.get_dataset_size() + 1, [Noting()])
        torn = [step for step, found in self.done.items() if known[step] != found]
        assert not torn, f"torn after the steps {torn}"


def campaign(training: Training, name: str, count: int, seed: int) -> str:
    """End that many trainings; what happened, in words. Raises AssertionError for the first fault."""
    with tempfile.TemporaryDirectory() as folder:
        run = Campaign(training, Path(folder), name, seed)
        for number in range(count):
            try:
                run.end_one()
            except AssertionError as error:
                raise AssertionError(f"SIG{name} {number}, seed {seed}: {error}") from None
        run.compare()
    counts = ", ".join(f"{number} {what}" for what, number in sorted(run.counts.items()))
    return f"{count} times SIG{name}: {run.last} steps, {len(run.done)} files compared; {counts}"


def main() -> None:
    parser = argparse.ArgumentParser(description="End a training at random moments, again and again.")
    parser.add_argument("--count", type=int, default=1000, help="how often for each signal")
    parser.add_argument("--signals", nargs="+", choices=list(SIGNALS), default=list(SIGNALS))
    parser.add_argument("--steps", nargs="+", choices=list(TRAININGS), default=list(TRAININGS), help="what a step is")
    parser.add_argument("--engine", help="what computes the steps")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell takes from what runs in its background
    if arguments.engine == "onednn":  # which computes on one thread in forked processes, with other sums than on two
        graphls.set_context(runtime_num_threads=1)
    for kind in arguments.steps:
        for name in arguments.signals:
            report(kind, name, arguments)


def report(kind: str, name: str, arguments: argparse.Namespace) -> None:
    """Run a campaign and print what happened."""
    begin = time.monotonic()
    happened = campaign(TRAININGS[kind](arguments.engine), name, arguments.count, arguments.seed)
    print(f"{kind}, {happened} ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
