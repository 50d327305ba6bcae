"""Iterators over a dataset: rows as lists or dicts, pass after pass, prefetched by a thread."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from queue import SimpleQueue
from threading import local
from time import perf_counter
from typing import Any

from graphls.base.errors import GraphlsError
from graphls.base.location import user_location
from graphls.base.sharing.reentrant import Lock
from graphls.base.sharing.threads import Task, start
from graphls.dataset.columns import Array, ArrayDType, Row, with_arrays
from graphls.dataset.config import get_prefetch_size
from graphls.dataset.pipeline.node import Node, Run
from graphls.frontend.tensors.tensor import Tensor, array_of
from graphls.ir.types import Type, as_dtype

Rows = Callable[[], Iterator[Any]]
Finish = Callable[[Row], Any]
"""Converts a row to the form that users get."""
END = object()
"""The item after the last row."""


class Prefetcher:
    """Rows of one pass, computed by a thread that runs ahead by `size` rows at most.

    The thread has no reference to this object's owner, so that a dropped pass is freed, and it ends when this object is
    freed, as by a Ctrl-C on the way to `stop`: its weak reference puts itself among the permits.
    """

    def __init__(self, rows: Rows, size: int) -> None:
        self._channel = _Channel(size)
        self._thread = Task(_fill, rows, self._channel, weakref.ref(self, self._channel.permits.put))
        start("graphls-dataset", self._thread)

    def take(self) -> Any:
        """The next row, or END, again and again after the last row; raises the thread's error, once."""
        row = self._channel.rows.get()
        if row is END:
            self._channel.rows.put(END)
        if type(row) is _Raised:
            raise row.error
        self._channel.permits.put(True)
        return row

    def stop(self) -> None:
        """Request the thread to end; it does after its current row."""
        self._channel.stopped = True
        self._channel.permits.put(True)

    @property
    def idle_seconds(self) -> float:
        """The seconds in which the thread, `size` rows ahead, waited for the consumer."""
        return self._channel.idle_seconds

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, since its code and the code that runs next may share objects."""
        if self._channel.process == os.getpid():
            self._thread.wait(seconds)


class _Channel:
    """A queue of rows in one direction, and of permits to make one in the other."""

    def __init__(self, size: int) -> None:
        self.rows: SimpleQueue[Any] = SimpleQueue()
        self.permits: SimpleQueue[Any] = SimpleQueue()
        self.stopped = False
        self.idle_seconds = 0.0
        self.process = os.getpid()
        for _ in range(size):
            self.permits.put(True)

    def has_permit(self) -> bool:
        """Wait for a permit; returns whether to make another row."""
        begin = perf_counter()
        permit = self.permits.get()
        self.idle_seconds += perf_counter() - begin
        return permit is True and not self.stopped


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _fill(rows: Rows, channel: _Channel, owner: object) -> None:
    try:
        iterator = rows()
        while channel.has_permit():
            channel.rows.put(next(iterator))
    except StopIteration:
        pass
    except BaseException as error:
        if not channel.stopped:
            channel.rows.put(_Raised(error))
    channel.rows.put(END)


EXIT_SECONDS = 2.0
"""The seconds that a thread within a row may delay the end of its iterator, or of the interpreter."""


class Feed:
    """The current pass of an iterator. It has no reference to the iterator, so that it ends when that is freed."""

    def __init__(self, dataset: Node, finish: Finish, limit: int | None) -> None:
        self.run = Run(dataset)
        self._dataset, self._finish, self._limit = dataset, finish, limit
        self._prefetcher: Prefetcher | None = None
        self._idle_before = 0.0
        self._process = os.getpid()
        _feeds.add(weakref.ref(self, _feeds.discard))

    def open(self, epoch: int, start: int) -> None:
        """Begin a pass at a row; the workers start first, while no thread makes rows of this iterator."""
        if self._prefetcher is not None:
            self._prefetcher.join()
            self._idle_before = self.idle_seconds
        self.run.start()
        rows = partial(_rows, self._dataset, self.run, epoch, start, self._finish, self._limit)
        self._prefetcher = Prefetcher(rows, get_prefetch_size())

    @property
    def take(self) -> Callable[[], Any]:
        """The function that returns the next row of the pass, or END, also after the next pass has begun."""
        assert self._prefetcher is not None
        return self._prefetcher.take

    @property
    def idle_seconds(self) -> float:
        """The seconds in which the rows of all passes, read ahead, waited for the consumer."""
        return self._idle_before + (0.0 if self._prefetcher is None else self._prefetcher.idle_seconds)

    def leave(self) -> None:
        """End a pass in the middle, and wait for its thread: its code and that of the next pass share objects."""
        if self._prefetcher is not None:
            self._prefetcher.stop()
            self.run.interrupt()
            self._prefetcher.join()

    def close(self) -> None:
        """End all passes and workers, without waiting for anything that may not end."""
        if os.getpid() == self._process:
            if self._prefetcher is not None:
                self._prefetcher.stop()
            self.run.close()

    def join(self, seconds: float) -> None:
        """Wait for the thread of the pass, for a limited time."""
        if self._prefetcher is not None:
            self._prefetcher.join(seconds)


# Not a WeakSet, which is written in Python: a Ctrl-C would be lost in it while a feed is freed.
_feeds: set[weakref.ref[Feed]] = set()


@atexit.register
def _close_all() -> None:
    feeds = [feed for reference in list(_feeds) if (feed := reference()) is not None]
    for feed in feeds:
        feed.close()
    for feed in feeds:
        feed.join(EXIT_SECONDS)


def _rows(dataset: Node, run: Run, epoch: int, start: int, finish: Finish, limit: int | None) -> Iterator[Any]:
    return islice(map(finish, dataset.stream(run, epoch, start)), limit)


class _Reading(local):
    """The pass that a thread has begun to read with `iter()`, and whether it has read a row of it."""

    epoch: int | None = None
    has_row = False


class DatasetIterator:
    """Rows of a dataset; each `iter()` is the next pass, in an order of its own where the dataset shuffles.

    `iter()` continues a pass that a bare `next()` has begun. A pass left in the middle ends when the next one begins,
    or when the iterator is stopped or freed. Threads that share an iterator share its passes: each row goes
    to one of them, and a pass ends for all.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset([1, 2], "x", shuffle=False)
        >>> iterator = rows.create_tuple_iterator(num_epochs=2, output_numpy=True)
        >>> [[int(x) for (x,) in iterator] for epoch in range(2)]
        [[1, 2], [1, 2]]
    """

    def __init__(
        self, dataset: Node, num_epochs: int, position: tuple[int, int], finish: Finish, limit: int | None = None,
    ) -> None:  # fmt: skip
        self._feed = Feed(dataset, finish, limit)
        self._epoch, self._start = position
        self._end = None if num_epochs == -1 else self._epoch + num_epochs
        self._is_open = False
        self._lock = Lock()
        self._mine = _Reading()
        self._finalizer = weakref.finalize(self, self._feed.close)
        self._finalizer.atexit = False

    def __iter__(self) -> DatasetIterator:
        mine = self._mine
        with self._lock:
            if self._is_open and mine.epoch == self._epoch and mine.has_row:
                self._feed.leave()
                self._advance()
            mine.epoch, mine.has_row = self._epoch, False
        return self

    def __next__(self) -> Any:
        epoch, take = self._pass()
        try:
            row = take()
        except GraphlsError as error:
            self.stop()
            raise (error if error.location else error.at(user_location())) from error.__cause__
        except Exception:
            self.stop()
            raise
        if row is END:
            with self._lock:
                if self._is_open and self._epoch == epoch:
                    self._advance()
            raise self._end_of_pass()
        self._mine.has_row = True
        return row

    def _pass(self) -> tuple[int, Callable[[], Any]]:
        """The pass of this thread, and the function of its next row; raises StopIteration where it has ended."""
        with self._lock:
            if self._mine.epoch not in (None, self._epoch):
                raise self._end_of_pass()
            if not self._is_open:
                if self._epoch == self._end:
                    raise self._end_of_pass()
                self._feed.open(self._epoch, self._start)
                self._is_open = True
            return self._epoch, self._feed.take

    def _end_of_pass(self) -> StopIteration:
        """The end of the pass of this thread, which then reads no pass."""
        self._mine.epoch = None
        return StopIteration()

    def _advance(self) -> None:
        self._epoch, self._start, self._is_open = self._epoch + 1, 0, False
        if self._epoch == self._end:
            self.stop()

    @property
    def idle_seconds(self) -> float:
        """The seconds in which this iterator, which had read ahead as far as it may, waited for its consumer."""
        return self._feed.idle_seconds

    def get_next(self) -> Any:
        """The next row, as of `next()`."""
        return next(self)

    def stop(self) -> None:
        """End the iterator, its thread and its workers; it has no rows afterwards."""
        self._is_open, self._end = False, self._epoch
        self._finalizer()
        self._feed.join(EXIT_SECONDS)


def as_tensor(array: Array) -> Any:
    """A tensor of an array, which is not copied; text and bytes stay arrays."""
    if array.dtype.kind in "US":
        return array
    if not array.dtype.isnative:
        array = array_of(array)
    return Tensor.on_host(array, _type(array.dtype, array.shape))


@lru_cache(maxsize=4096)
def _type(dtype: ArrayDType, shape: tuple[int, ...]) -> Type:
    return Type(as_dtype(dtype), shape)


def list_finisher(output_numpy: bool, do_copy: bool) -> Callable[[Row], list[Any]]:
    """The conversion of a row to the list of a tuple iterator."""
    convert: Callable[[Array], Any] = _unchanged if output_numpy else as_tensor
    if do_copy:
        return lambda row: [with_arrays(item, lambda array: convert(array.copy())) for item in row]
    return lambda row: [with_arrays(item, convert) for item in row]


def _unchanged(array: Array) -> Array:
    return array


def dict_finisher(names: tuple[str, ...], output_numpy: bool, do_copy: bool) -> Callable[[Row], dict[str, Any]]:
    """The conversion of a row of arrays to the dict of a dict iterator."""
    as_list = list_finisher(output_numpy, do_copy)
    return lambda row: dict(zip(names, as_list(row), strict=True))
