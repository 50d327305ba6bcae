"""A Ctrl-C anywhere around threads, in the library of Python too, arrives and leaves nothing that hangs."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls.base.sharing.locks import LOOSE, Group, holding_all, merged_group
from graphls.base.sharing.reentrant import Lock
from graphls.base.sharing.threads import TaskQueue
from graphls.dataset import NumpySlicesDataset
from graphls.train import background, load_checkpoint, save_checkpoint
from tests.dataset.sources import wait_until
from tests.interrupting import signalled_at

LONGEST_WAIT = 300


@pytest.fixture(autouse=True)
def lost() -> Iterator[list[Any]]:
    """What Python printed and forgot, of which there is to be nothing."""
    before, found = sys.unraisablehook, list[Any]()
    sys.unraisablehook = found.append
    yield found
    sys.unraisablehook = before
    assert not found


def in_time(function: Callable[[], Any]) -> Any:
    """What a function gives; fails where it hangs."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(LONGEST_WAIT)
    assert results, "it hangs or failed"
    return results[0]


def test_a_lock() -> None:
    """Without graphls's own `__enter__` this fails on Python 3.14, which raises a Ctrl-C before the block begins."""
    lock, place = Lock(), 0

    def use() -> None:
        with lock, lock:
            len("")

    while signalled_at(place, use):
        assert in_time(lambda: lock.acquire(timeout=1) and not lock.release()), place
        place += 1
    assert place >= 6


@dataclass
class Storage:
    group: Group


def test_locks_of_several_steps() -> None:
    """With an ExitStack, which a Ctrl-C reaches between the acquisition of a lock and its entry, this failed."""
    place, is_over = 0, False
    while not is_over:
        groups = [Group(), Group(), LOOSE]
        storages = [Storage(group) for group in groups]

        def use(storages: list[Storage] = storages) -> None:
            with holding_all(storages):
                len("")
            merged_group(storages)

        is_over = not signalled_at(place, use)
        for group in groups:
            assert in_time(lambda lock=group.lock: lock.acquire(timeout=1) and not lock.release()), place  # type: ignore[misc]
        assert in_time(lambda storages=storages: merged_group(storages)) is storages[0].group.root()  # type: ignore[misc]
        place += 1
    assert place > 30


def test_a_line_of_tasks() -> None:
    place, is_over = 0, False
    while not is_over:
        line, done = TaskQueue("line"), list[int]()
        is_over = not signalled_at(place, lambda line=line, done=done: line.do(done.append, 1).result())  # type: ignore[misc]
        in_time(lambda line=line, done=done: (line.do(done.append, 2).result(), 0))  # type: ignore[misc]
        line._close()
        assert done in ([1, 2], [2])
        place += 1
    assert place > 20


def test_saving_on_a_thread(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"

    def save(value: float) -> None:
        save_checkpoint({"w": np.full(2, value, np.float32)}, path, async_save=True)

    def twice() -> None:
        save(1)
        save(2)
        background.settle()

    place = 0
    while signalled_at(place, twice):
        in_time(lambda: (save(3), background.settle()))
        assert load_checkpoint(path)["w"].asnumpy()[0] == 3
        assert [file.name for file in tmp_path.iterdir()] == ["a.ckpt"]
        place += 3
    assert place > 100


def test_passes_of_a_dataset() -> None:
    dataset = NumpySlicesDataset(np.arange(2), ["x"], shuffle=False).map(np.negative, ["x"], num_parallel_workers=2)

    def passes() -> list[Any]:
        iterator = dataset.create_tuple_iterator(num_epochs=2, output_numpy=True)
        return [row[0].tolist() for _ in range(2) for row in iterator]

    place = 0
    while signalled_at(place, passes):
        place += 3
    assert place > 100
    assert in_time(passes) == [0, -1, 0, -1]
    gc.collect()
    assert wait_until(lambda: not any(thread.name.startswith("graphls-dataset") for thread in threading.enumerate()))
