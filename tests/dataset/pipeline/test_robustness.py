"""Resumed passes of different lengths, workers that live on, interrupts in forks, errors without a text, iterators."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from graphls.base.sharing.threads import interrupts_deferred
from graphls.dataset import NumpySlicesDataset
from graphls.dataset.pipeline.workers import DatasetError

HAS_FORK = sys.platform == "linux"


def rows_of(dataset: Any, passes: int) -> list[Any]:
    iterator = dataset.create_tuple_iterator(num_epochs=passes, output_numpy=True)
    return [[row[0].tolist() for row in iterator] for _ in range(passes)]


def pipelines() -> dict[str, Any]:
    numbers = NumpySlicesDataset(np.arange(30), ["x"], shuffle=False)
    odd = lambda x: x % 2 == 1  # noqa: E731
    return {
        "take and filter after shuffle": numbers.shuffle(30).take(10).filter(odd, ["x"]),
        "in batches": numbers.shuffle(30).take(10).filter(odd, ["x"]).batch(2),
        "filter alone": numbers.filter(odd, ["x"]),
        "repeated": numbers.shuffle(30).take(7).filter(odd, ["x"]).repeat(2),
    }


@pytest.mark.parametrize("name", pipelines())
def test_a_step_of_passes_that_differ_in_length_is_found_again(name: str) -> None:
    dataset = pipelines()[name]
    passes = rows_of(dataset, 6)
    all_rows = [row for rows in passes[:5] for row in rows]
    for step in range(len(all_rows)):
        dataset.set_init_step(step)
        iterator = dataset.create_tuple_iterator(output_numpy=True)
        found: list[Any] = []
        while len(found) < len(all_rows) - step:
            found += [row[0].tolist() for row in iterator]
        iterator.stop()
        assert found[: len(all_rows) - step] == all_rows[step:]


def workers() -> set[int | None]:
    return {process.pid for process in multiprocessing.active_children() if process.name == "graphls-dataset-worker"}


@pytest.mark.skipif(not HAS_FORK, reason="the processes are forked")
@pytest.mark.parametrize(
    "kind", ["rows", "rows that do not fit", "function of batch", "filtered", "taken", "filtered and taken"]
)
def test_the_processes_of_an_iterator_live_from_pass_to_pass(kind: str) -> None:
    source = NumpySlicesDataset(np.arange(32 if kind == "rows" else 30), ["x"])
    mapped = source.map(np.negative, ["x"], num_parallel_workers=2, python_multiprocessing=True)
    mapped = mapped.filter(lambda x: x < -3, ["x"]) if "filtered" in kind else mapped
    mapped = mapped.take(7) if "taken" in kind else mapped
    if kind == "function of batch":
        batched = mapped.batch(
            4, per_batch_map=lambda x, info: (np.stack(x),), num_parallel_workers=2, python_multiprocessing=True
        )
    else:
        batched = mapped.batch(4, drop_remainder=kind == "rows that do not fit")
    iterator = batched.create_tuple_iterator(num_epochs=4)
    seen = []
    for _ in range(3):
        list(iterator)
        seen.append(workers())
    iterator.stop()
    assert len(seen[0]) == (4 if kind == "function of batch" else 2)
    assert seen[0] == seen[1] == seen[2]


def test_an_interrupt_in_a_fork_comes_behind_it() -> None:
    passed = False
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs behind it
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_deferred():
            os.kill(os.getpid(), signal.SIGINT)
            passed = True
        assert passed and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unreadable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("processes", [False, True])
def test_answers_that_nobody_has_read_are_no_rows_of_the_next_pass(processes: bool) -> None:
    source = NumpySlicesDataset(np.arange(200), ["x"], shuffle=True).filter(lambda x: x % 2 == 1, ["x"])
    slow = source.map(np.negative, ["x"], num_parallel_workers=3, python_multiprocessing=processes and HAS_FORK)
    plain = source.map(np.negative, ["x"])
    assert rows_of(slow.take(7), 5) == rows_of(plain.take(7), 5)


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [Mute, Unreadable])
def test_an_error_without_a_text_is_an_error(workers: int, processes: bool, error: type[Exception]) -> None:
    def failing(x: Any) -> Any:
        raise error

    source = NumpySlicesDataset(np.arange(8), ["x"])
    mapped = source.map(failing, ["x"], num_parallel_workers=workers, python_multiprocessing=processes)
    with pytest.raises(DatasetError, match=f"{error.__name__}, whose text cannot be formatted"):
        list(mapped.create_tuple_iterator(num_epochs=1))


@pytest.mark.parametrize("is_left", [False, True])
def test_an_iterator_that_ends_is_freed_at_once(is_left: bool) -> None:
    dataset = NumpySlicesDataset(np.arange(8), ["x"]).map(np.negative, ["x"], num_parallel_workers=2).batch(2)
    gc.disable()
    try:
        iterator = dataset.create_dict_iterator(num_epochs=1)
        list(iterator) if not is_left else next(iterator)
        reference = weakref.ref(iterator)
        del iterator
        assert reference() is None
    finally:
        gc.enable()
