"""Workers that raise, die or are left alone: the run ends with what happened, and nothing stays behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphls.dataset as ds
from graphls import GraphlsError
from graphls.dataset.pipeline import workers
from tests.dataset.sources import Numbers, numbers, passes, plain, rows_of, streamed, wait_until

WAYS = pytest.mark.parametrize(
    "arguments",
    [{}, {"num_parallel_workers": 2}, {"num_parallel_workers": 2, "python_multiprocessing": True}],
    ids=["alone", "threads", "processes"],
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="sources of these tests do not pickle")


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("graphls-dataset")]


def is_quiet() -> bool:
    return not threads() and not multiprocessing.active_children()


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    yield
    gc.collect()
    assert wait_until(is_quiet), (threads(), multiprocessing.active_children())


def fail_at(number: int) -> Callable[[Any], Any]:
    def operation(x: Any) -> Any:
        if x == number:
            raise ZeroDivisionError(f"cannot do {x}")
        return x

    return operation


@WAYS
def test_a_map_that_raises_ends_the_run_with_its_traceback(arguments: dict[str, Any]) -> None:
    iterator = plain(30).map(fail_at(17), **arguments).create_tuple_iterator()
    found: list[Any] = []
    with pytest.raises(RuntimeError, match="map failed at row 17: ZeroDivisionError: cannot do 17") as caught:
        found.extend(row[0].item() for row in iterator)
    assert isinstance(caught.value, GraphlsError)
    text = str(caught.value)
    assert "test_workers.py" in text.splitlines()[0]
    assert 'raise ZeroDivisionError(f"cannot do {x}")' in text
    assert "jobs.py" not in text
    assert list(iterator) == []


@WAYS
def test_the_rows_before_a_failure_arrive(arguments: dict[str, Any]) -> None:
    iterator = plain(60).map(fail_at(41), **arguments).map(lambda x: x).create_tuple_iterator()
    assert [next(iterator)[0].item() for _ in range(41)] == list(range(41))
    with pytest.raises(RuntimeError, match="at row 41"):
        next(iterator)


@WAYS
def test_a_failure_before_a_node_with_workers_arrives_after_the_rows_before_it(arguments: dict[str, Any]) -> None:
    iterator = plain(60).map(fail_at(41)).map(lambda x: x, **arguments).create_tuple_iterator()
    assert [next(iterator)[0].item() for _ in range(41)] == list(range(41))
    with pytest.raises(RuntimeError, match="at row 41"):
        next(iterator)


@WAYS
def test_a_source_that_raises(arguments: dict[str, Any]) -> None:
    class Failing(Numbers):
        def __getitem__(self, index: int) -> Any:
            raise OSError(f"no file {index}")

    dataset = ds.GeneratorDataset(Failing(9), ["image", "label"], shuffle=False, **arguments)
    with pytest.raises(RuntimeError, match="The source of GeneratorDataset failed at row 0: OSError: no file 0"):
        next(dataset.create_dict_iterator())


@WAYS
def test_stop_iteration_and_system_exit_of_user_code_are_failures(arguments: dict[str, Any]) -> None:
    def stopping(x: Any) -> Any:
        raise StopIteration

    with pytest.raises(RuntimeError, match="map failed at row 0: StopIteration"):
        list(plain(3).map(stopping, **arguments))
    if arguments:
        with pytest.raises(RuntimeError, match="map failed at row 0: SystemExit: 3"):
            list(plain(3).map(lambda x: os.sys.exit(3), **arguments))  # type: ignore[attr-defined]


def test_threads_keep_the_error_itself() -> None:
    with pytest.raises(RuntimeError) as caught:
        list(plain(3).map(fail_at(1), num_parallel_workers=2))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@needs_fork
@pytest.mark.parametrize(
    ("end", "cause"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "signal SIGTERM"),
        (lambda: os._exit(5), "exit code 5"),
    ],
)
def test_a_worker_process_that_dies_is_noticed(end: Callable[[], None], cause: str) -> None:
    def dying(x: Any) -> Any:
        if x == 11:
            end()
        return x

    dataset = plain(30).map(dying, num_parallel_workers=2, python_multiprocessing=True)
    with pytest.raises(RuntimeError, match=f"map failed: its worker process [0-9]+ died \\({cause}\\)"):
        list(dataset)


@needs_fork
def test_an_idle_worker_process_that_is_killed_is_noticed() -> None:
    iterator = plain(100_000).map(lambda x: x, num_parallel_workers=2, python_multiprocessing=True).batch(64)
    taken = iterator.create_tuple_iterator()
    next(taken)
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="died \\(signal SIGKILL\\)"):
        for _ in taken:
            pass


@needs_fork
def test_what_cannot_go_between_processes() -> None:
    def local(x: Any) -> Any:
        return np.array([lambda: x], object)

    arguments: dict[str, Any] = {"num_parallel_workers": 2, "python_multiprocessing": True}
    with pytest.raises(RuntimeError, match="map failed at row 0: its result cannot be sent by a worker process"):
        list(plain(3).map(local, **arguments))
    with pytest.raises(RuntimeError, match="map failed at row 0: its row cannot be sent to a worker process"):
        list(plain(3).map(local).map(lambda x: x, **arguments))


def test_where_processes_cannot_fork_functions_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "START_METHOD", "spawn")
    arguments: dict[str, Any] = {"num_parallel_workers": 2, "python_multiprocessing": True}
    assert passes(plain(5).map(np.square, **arguments), 2) == [[0, 1, 4, 9, 16]] * 2
    with pytest.raises(
        RuntimeError, match=r"map cannot be sent to a worker process .* define it at the top of a module"
    ):
        list(plain(5).map(lambda x: x, **arguments))


@WAYS
def test_large_rows_go_both_ways(arguments: dict[str, Any]) -> None:
    images = [np.full(300_000, i, np.float32) for i in range(8)]
    dataset = ds.GeneratorDataset(images, "x", shuffle=False).map(lambda x: x + 1, **arguments)
    sums = [row[0].asnumpy().sum() for row in dataset]
    assert sums == [300_000.0 * (i + 1) for i in range(8)]


@WAYS
def test_an_iterator_that_is_forgotten_ends_its_pipeline(arguments: dict[str, Any]) -> None:
    iterator = numbers(100, **arguments).map(lambda x: x, **arguments).batch(2).create_dict_iterator()
    next(iterator)
    assert not is_quiet()
    del iterator
    gc.collect()
    assert wait_until(is_quiet)


@WAYS
def test_a_pass_left_in_the_middle_ends_before_the_next(arguments: dict[str, Any]) -> None:
    dataset = plain(200, shuffle=True).map(lambda x: x, **arguments)
    expected = passes(dataset, 3)
    iterator = dataset.create_tuple_iterator(num_epochs=3, output_numpy=True)
    for _, row in zip(range(3), iterator, strict=False):
        assert row[0] in expected[0][:3]
    assert rows_of(iterator) == expected[1]
    for _ in iterator:
        break
    assert rows_of(iterator) == []
    assert wait_until(is_quiet)


@WAYS
def test_stop_ends_everything(arguments: dict[str, Any]) -> None:
    iterator = plain(100).map(lambda x: x, **arguments).create_tuple_iterator()
    next(iterator)
    iterator.stop()
    assert wait_until(is_quiet)
    assert list(iterator) == []


@needs_fork
def test_the_same_processes_serve_all_passes() -> None:
    dataset = plain(20).map(lambda x: (x, os.getpid()), "x", ["x", "worker"], num_parallel_workers=2,
                            python_multiprocessing=True)  # fmt: skip
    found = passes(dataset, 3)
    assert len({worker for rows in found for _, worker in rows} | {os.getpid()}) == 3


def test_rows_are_made_ahead_but_not_too_far() -> None:
    source = Numbers(1000)
    dataset = ds.GeneratorDataset(source, ["image", "label"], shuffle=False)
    ds.config.set_prefetch_size(5)
    try:
        iterator = dataset.create_dict_iterator()
        next(iterator)
        assert wait_until(lambda: len(source.read) == 6)
        next(iterator)
        assert wait_until(lambda: len(source.read) == 7)
    finally:
        ds.config.set_prefetch_size(16)


def test_two_iterators_do_not_share_anything() -> None:
    dataset = streamed(5)
    first, second = dataset.create_tuple_iterator(), dataset.create_tuple_iterator()
    pairs = [(a[0].item(), b[0].item()) for a, b in zip(first, second, strict=True)]
    assert pairs == [(i, i) for i in range(5)]
