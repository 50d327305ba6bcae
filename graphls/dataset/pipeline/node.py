"""The base class of pipeline nodes, and the run that all passes of one iterator share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextvars import copy_context
from itertools import chain, count, islice, tee
from math import inf
from typing import Any

import numpy as np

from graphls.base.location import user_location
from graphls.base.sharing.reentrant import Lock
from graphls.dataset.checks import names_among
from graphls.dataset.columns import Array, Row
from graphls.dataset.config import get_seed
from graphls.dataset.pipeline.workers import Closed, Job, Pool, Task, run_here
from graphls.dataset.randomness import Key

Sides = tuple[Any, ...]
"""The columns of some rows: the items of each in a sequence, or in one array."""

LARGE, MOST = 2**14, 2**28
"""Bytes of an item that is copied at once, and of a column whose memory is allocated in advance."""


def side_by_side(rows: Iterator[Row], count: int, in_one: bool) -> Sides:
    """The columns of the next `count` rows at most; empty where there are no more.

    With `in_one`, columns of large items become one array. Each item is copied as it arrives, from a cache of the
    processor, and its memory is free for the next row, which is faster than memory that the system has to clear.
    """
    first = next(rows, None)
    if first is None:
        return ()
    if not in_one or not any(_is_large(item, count) for item in first):
        return tuple(zip(first, *rows, strict=True))
    columns = [_Column(item, count) if _is_large(item, count) else [item] for item in first]
    for row in rows:
        for column, item in zip(columns, row, strict=True):
            column.append(item)
    return tuple([column.items() if isinstance(column, _Column) else column for column in columns])


def _is_large(item: Any, count: int) -> bool:
    if type(item) is dict:
        return False
    return bool(item.dtype.kind in "biufc" and item.nbytes >= LARGE and item.nbytes * count <= MOST)


class _Column:
    """The items of a column in one array, as long as their shapes and dtypes are equal; then in a list."""

    def __init__(self, first: Array, count: int) -> None:
        self._array = np.empty((count, *first.shape), first.dtype)
        self._others: list[Array] = []
        self._length = 0
        self.append(first)

    def append(self, item: Array) -> None:
        array, length = self._array, self._length
        if self._others or item.shape != array.shape[1:] or item.dtype != array.dtype:
            self._others.append(item)
        else:
            array[length] = item
            self._length += 1

    def items(self) -> Any:
        """The array, or the list where items differ."""
        array = self._array if self._length == len(self._array) else self._array[: self._length].copy()
        return [*array, *self._others] if self._others else array


class Node:
    """A node of a pipeline: rows of named columns, computed from rows of other nodes or read from a source.

    Nodes do not change while they are iterated, so that a node may have any number of consumers. A pass over a node has
    an index, its epoch; its rows are a function of the seed, the node and the epoch. A subclass defines:

    - `columns`: the names of its columns.
    - if `is_indexed`: `length()` rows, any of which `rows(run, epoch, indices)` makes without the others.
    - otherwise: `_scan(run, epoch, start)`, the rows of a pass from one index on.
    """

    def __init__(self, *children: Node) -> None:
        self.children = children
        self.columns: tuple[str, ...] = children[0].columns if children else ()
        self.location = user_location()
        self._init_step = 0
        self._counted: int | None = None

    @property
    def is_indexed(self) -> bool:
        """True if any row can be computed without the rows before it, and the number of rows is known."""
        return False

    def length(self) -> float:
        """The number of rows of a pass of an indexed node; infinite for one that repeats for ever."""
        raise NotImplementedError

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        """The rows of these indices, of an indexed node."""
        raise NotImplementedError

    def sides(self, run: Run, epoch: int, groups: Iterable[range], in_one: bool) -> Iterator[Sides]:
        """For each group of rows of an indexed node its columns; with `in_one` items may be copied to one array."""
        sizes, indices = tee(groups)
        rows = self.rows(run, epoch, chain.from_iterable(indices))
        for group in sizes:
            yield side_by_side(islice(rows, len(group)), len(group), in_one)
        next(rows, None)  # at their end the pools of workers are returned for the next pass

    def stream(self, run: Run, epoch: int, start: int = 0) -> Iterator[Row]:
        """The rows of a pass from index `start` on."""
        if not self.is_indexed:
            return self._scan(run, epoch, start)
        length = self.length()
        return self.rows(run, epoch, count(start) if length == inf else range(start, int(length)))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        """The rows of a pass of a node that is not indexed; it makes as few rows before `start` as possible."""
        raise NotImplementedError

    def order(self, draws: np.random.Generator) -> Any:
        """The order of a pass, for nodes with one; `Run.order` computes it once for each pass."""
        raise NotImplementedError

    def job(self) -> Job | None:
        """The user code that runs on every row, for nodes with some."""
        return None

    def size(self) -> float:
        """The number of rows of a pass; a node that is not indexed counts them in a pass once."""
        if self.is_indexed:
            return self.length()
        if self._counted is None:
            self._counted = self._rows_of(0)
        return self._counted

    def _rows_of(self, epoch: int, most: int | None = None) -> int:
        """The number of rows of a pass, counted by making them, `most` of them at most."""
        return copy_context().run(self._count, epoch, most)

    def _count(self, epoch: int, most: int | None) -> int:
        run = Run(self)
        try:
            return sum(1 for _ in islice(self.stream(run, epoch), most))
        finally:
            run.close()

    def get_dataset_size(self) -> int:
        """The number of rows of a pass; of an endless dataset, of one repetition.

        Where the number depends on the data, as after `filter`, the pipeline runs once to count.
        """
        size = self.size()
        return int(size) if size != inf else self.children[0].get_dataset_size()

    def joined_shards(self) -> int:
        """The number of shards of which each row, not yet in a batch, is one; a batch takes rows for all of them."""
        return max((child.joined_shards() for child in self.children), default=1)

    def get_batch_size(self) -> int:
        """The number of rows in a batch; 1 for a pipeline without batches."""
        return self.children[0].get_batch_size() if self.children else 1

    def get_repeat_count(self) -> int:
        """The number of repetitions of rows by `repeat`; 1 for a pipeline without."""
        return self.children[0].get_repeat_count() if self.children else 1

    def get_col_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.columns)

    def num_classes(self) -> int | None:
        """The number of classes, if the dataset knows it."""
        return self.children[0].num_classes() if self.children else None

    def get_class_indexing(self) -> dict[str, Any]:
        """The number of each class, if the dataset knows it."""
        return self.children[0].get_class_indexing() if self.children else {}

    def need(self, names: Iterable[str], what: str) -> tuple[int, ...]:
        """The positions of columns; raises GraphValueError for one that is missing."""
        return names_among(tuple(names), self.columns, what)


class Run:
    """The seed, the indices of the nodes and the pools of workers, which live until the run is closed."""

    def __init__(self, root: Node, seed: int | None = None) -> None:
        self.seed = get_seed() if seed is None else seed
        self._root = root
        self._indices: dict[Node, int] = {}
        self._index(root)
        self._orders: dict[Node, tuple[int, Any]] = {}
        self._idle: dict[Node, list[Pool]] = {}
        self._pools: set[Pool] = set()
        self._lock = Lock()  # garbage collection may close the run in the thread that starts workers
        self._closed = False
        self._process = os.getpid()

    def _index(self, node: Node) -> None:
        """Number the nodes, children first, so that appending nodes to a pipeline changes no earlier draw."""
        if node not in self._indices:
            for child in node.children:
                self._index(child)
            self._indices[node] = len(self._indices)

    def key(self, node: Node, epoch: int) -> Key:
        """The key of the random numbers of a pass over a node."""
        return Key(self.seed, self._indices[node], epoch)

    def draws(self, node: Node, epoch: int) -> np.random.Generator:
        """The generator of a pass as a whole, as for its order."""
        return self.key(node, epoch).generator()

    def order(self, node: Node, epoch: int) -> Any:
        """The result of `node.order(draws)` for a pass, the same for all consumers of the node."""
        known = self._orders.get(node)
        if known is None or known[0] != epoch:
            known = self._orders[node] = (epoch, node.order(self.draws(node, epoch)))
        return known[1]

    def each(self, node: Node, epoch: int, tasks: Iterable[Task]) -> Iterator[Any]:
        """The results of `node.job()` on tasks, in order, computed here or by the workers of the node."""
        job = node.job()
        assert job is not None
        key = self.key(node, epoch)
        return run_here(job, key, tasks) if job.workers == 1 else self._run_by_pool(node, job, key, iter(tasks))

    def _run_by_pool(self, node: Node, job: Job, key: Key, tasks: Iterator[Task]) -> Iterator[Any]:
        pool = self._take(node, job)
        usable = False
        try:
            yield from pool.run(key, tasks)
            usable = True
        except GeneratorExit:  # the consumer stops early, as `take` does
            usable = True
            raise
        finally:
            self._release(node, pool, usable)

    def start(self) -> None:
        """Start the workers of every node that has some, once for every path to it, before another thread runs."""
        with self._lock:
            for node, paths in Counter(_by_paths(self._root)).items():
                job = node.job()
                while job is not None and job.workers > 1 and len(self._idle.setdefault(node, [])) < paths:
                    self._idle[node].append(self._new_pool(job))

    def _take(self, node: Node, job: Job) -> Pool:
        with self._lock:
            idle = self._idle.setdefault(node, [])
            return idle.pop() if idle else self._new_pool(job)

    def _new_pool(self, job: Job) -> Pool:
        if self._closed:
            raise Closed
        pool = Pool(job)
        self._pools.add(pool)
        if self._closed:
            pool.close()
            raise Closed
        return pool

    def _release(self, node: Node, pool: Pool, usable: bool) -> None:
        with self._lock:
            if usable and pool in self._pools:
                self._idle[node].append(pool)
                return
            self._pools.discard(pool)
        pool.close()

    def interrupt(self) -> None:
        """End all workers, so that nothing waits for them; a pass that continues starts new ones."""
        if os.getpid() != self._process:
            return
        with self._lock:
            pools, self._pools = self._pools, set()
            self._idle.clear()
        for pool in pools:
            pool.close()

    def close(self) -> None:
        """End all workers for good."""
        self._closed = True
        self.interrupt()


def _by_paths(node: Node) -> Iterator[Node]:
    """The nodes of a pipeline, each as often as there are paths to it."""
    yield node
    for child in node.children:
        yield from _by_paths(child)
