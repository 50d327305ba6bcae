"""Forked processes: what was compiled before goes on there, and nothing waits for threads that stayed behind."""

from __future__ import annotations

import ctypes
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.engines import find_engine
from graphls.runtime.host_random import HostValues
from graphls.train import Model
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
LONGEST_WAIT = 300
X = np.ones((64, 128), np.float32)


def dropout_step(backend: str = "onnxruntime", engine: str | None = None) -> tuple[Any, Any]:
    """A train network with dropout, large enough for the threads of the runtime, and its step."""
    graphls.set_seed(1)
    net = nn.SequentialCell(nn.Dense(128, 256), nn.Dropout(p=0.2), nn.Dense(256, 128))
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    cell.set_train()
    return cell, graphls.compile(cell, X, X, backend=backend, engine=engine)


def in_child(work: Callable[[], Any]) -> Any:
    """What a function gives in a forked process; raises where that does not end."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sending.send(work()))
    process.start()
    sending.close()
    try:
        assert receiving.poll(LONGEST_WAIT), "the child hangs"
        result = receiving.recv()
        process.join(LONGEST_WAIT)
        assert process.exitcode == 0, "the child hangs at its end"
        return result
    finally:
        process.kill()


@pytest.mark.parametrize("backend", ["onnxruntime", "numpy"])
def test_a_step_with_dropout_goes_on_in_both_processes(backend: str) -> None:
    _, step = dropout_step(backend)

    def losses(count: int) -> list[float]:
        return [float(step(X, X)) for _ in range(count)]

    losses(3)
    in_the_child = in_child(lambda: losses(3))
    assert losses(3) == in_the_child
    assert in_child(lambda: in_child(lambda: losses(1))) == losses(1)


BARE = """
import ctypes, os, sys
import numpy as np
import graphls
x = np.ones((64, 128), np.float32)
step = graphls.compile(graphls.nn.Dense(128, 256), x)
step(x)
process = os.fork()
if process == 0:
    if "use" in sys.argv:
        step(x)
    ctypes.CDLL(None).printf(b"of C\\n")
    print("of Python")
    sys.exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "on_exit"), reason="other C libraries have no on_exit"
)
@pytest.mark.parametrize("use", ["use", "idle"])
def test_a_child_of_a_bare_fork_ends_by_itself(use: str) -> None:
    command = [sys.executable, "-c", BARE, use]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False)
    assert (done.returncode, sorted(done.stdout.split("\n"))) == (7, ["", "of C", "of Python"]), done.stderr


@pytest.mark.parametrize("engine", ["onnxruntime", "onednn"])
def test_a_child_waits_for_no_random_numbers_of_its_parent(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not find_engine(engine).version():
        pytest.skip(f"{engine} is not installed")
    _, step = dropout_step(engine=engine)
    compute = HostValues.compute
    step(X, X)
    monkeypatch.setattr("tests.sharing.test_forks.LONGEST_WAIT", 20)
    monkeypatch.setattr(HostValues, "compute", lambda *arguments: (time.sleep(0.5), compute(*arguments))[1])
    step(X, X)  # which begins to draw for the next one
    assert in_child(lambda: float(step(X, X))) == float(step(X, X))


def test_repeated_steps_go_on_in_a_child() -> None:
    _, step = dropout_step()
    many, inputs = step.repeated(2), np.stack([X, X])
    many(inputs, inputs)
    in_the_child = in_child(lambda: many(inputs, inputs).asnumpy().tolist())
    assert many(inputs, inputs).asnumpy().tolist() == in_the_child


def test_files_are_saved_in_the_background_of_both_processes(tmp_path: Path) -> None:
    cell, step = dropout_step()
    graphls.save_checkpoint(cell, tmp_path / "first", async_save=True)

    def save() -> str:
        step(X, X)
        graphls.save_checkpoint(cell, tmp_path / "child", async_save=True)
        graphls.save_checkpoint(cell, tmp_path / "child_again", async_save=True)
        return str(sorted(graphls.load_checkpoint(tmp_path / "child.ckpt")))

    names = in_child(save)
    assert str(sorted(graphls.load_checkpoint(tmp_path / "first.ckpt"))) == names
    assert (tmp_path / "child_again.ckpt").exists()


def test_a_model_trains_and_predicts_in_a_child(tmp_path: Path) -> None:
    net = nn.SequentialCell(nn.Dense(3, 64), nn.Dropout(p=0.3), nn.Dense(64, 3))
    model = Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.01))
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    data = graphls.dataset.NumpySlicesDataset((rows, rows), ["x", "y"]).batch(4)
    callback = ModelCheckpoint("net", tmp_path, CheckpointConfig(save_checkpoint_steps=5, async_save=True))

    def train() -> Any:
        model.train(1, data, [callback])
        return model.predict(graphls.Tensor(rows)).asnumpy().tolist()

    train()
    before = model.predict(graphls.Tensor(rows)).asnumpy().tolist()
    assert in_child(train) != before
    assert model.predict(graphls.Tensor(rows)).asnumpy().tolist() == before


def test_a_fork_waits_for_the_steps_and_compilations_of_other_threads() -> None:
    _, step = dropout_step()
    net = nn.Dense(3, 3)
    ended = threading.Event()

    def work() -> None:
        size = 1
        while not ended.is_set():
            step(X, X)
            net(np.ones((size, 3), np.float32))
            size = size % 50 + 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            assert in_child(lambda: bool(np.isfinite(float(step(X, X))) and net(np.ones((99, 3), np.float32)).size))
    finally:
        ended.set()
        for thread in threads:
            thread.join(LONGEST_WAIT)
            assert not thread.is_alive()


TWO_FORKS = """
import os, threading

second_waits = threading.Event()

class Announcing:
    def __init__(self, lock):
        self.lock = lock
    def acquire(self):
        if threading.current_thread() is second:
            second_waits.set()
        return self.lock.acquire()
    def release(self):
        self.lock.release()

def fork():
    process = os.fork()
    if process == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 7

def begin_second():
    if threading.current_thread() is not second and not second_waits.is_set():
        second.start()
        second_waits.wait()

second = threading.Thread(target=fork)
os.register_at_fork(before=begin_second)  # which runs behind the hook of graphls, as that is registered later
from graphls.base.sharing import forks, locks
locks.COMPILING.lock = Announcing(locks.COMPILING.lock)
fork()
second.join()
fork()
"""


def test_two_threads_fork_at_the_same_time() -> None:
    """The second one waits for the locks of the first one, which must not take the record of the second for its own."""
    command = [sys.executable, "-c", TWO_FORKS]
    subprocess.run(command, cwd=Path(__file__).parents[2], timeout=LONGEST_WAIT, check=True)


def test_processes_of_a_dataset_use_what_was_compiled_before() -> None:
    net = nn.SequentialCell(nn.Dense(128, 128), nn.ReLU())
    net(X)
    rows = np.random.default_rng(0).normal(size=(8, 64, 128)).astype(np.float32)
    data = graphls.dataset.NumpySlicesDataset(rows, ["x"], shuffle=False)
    data = data.map(lambda x: net(x).asnumpy(), ["x"], num_parallel_workers=2, python_multiprocessing=True)
    found = [row[0] for row in data.create_tuple_iterator(num_epochs=1, output_numpy=True)]
    np.testing.assert_allclose(found, [net(row).asnumpy() for row in rows], rtol=1e-6)
