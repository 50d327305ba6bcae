"""A run: what all passes of one iterator over a pipeline share."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.dataset.config import get_seed
from graphls.dataset.pipeline.workers import Closed, Job, Pool, Task, run_here
from graphls.dataset.randomness import Key

if TYPE_CHECKING:
    from graphls.dataset.pipeline.dataset import Dataset


class Run:
    """The seed, the numbers of the nodes and the pools of workers, which live until the run is closed."""

    def __init__(self, root: Dataset, seed: int | None = None) -> None:
        self.seed = get_seed() if seed is None else seed
        self._root = root
        self._numbers: dict[Dataset, int] = {}
        self._number(root)
        self._orders: dict[Dataset, tuple[int, Any]] = {}
        self._idle: dict[Dataset, list[Pool]] = {}
        self._pools: set[Pool] = set()
        self._lock = threading.RLock()  # garbage collection may close the run in the thread that starts workers
        self._closed = False
        self._process = os.getpid()

    def _number(self, node: Dataset) -> None:
        """Number nodes, children first, so that what is appended to a pipeline leaves the draws before it alone."""
        if node not in self._numbers:
            for child in node.children:
                self._number(child)
            self._numbers[node] = len(self._numbers)

    def key(self, node: Dataset, epoch: int) -> Key:
        """What the random numbers of a pass over a node depend on."""
        return Key(self.seed, self._numbers[node], epoch)

    def draws(self, node: Dataset, epoch: int) -> np.random.Generator:
        """The generator of a pass as a whole, as for its order."""
        return self.key(node, epoch).generator()

    def order(self, node: Dataset, epoch: int) -> Any:
        """What `node.order(draws)` gives for a pass; all consumers of the node see the same."""
        known = self._orders.get(node)
        if known is None or known[0] != epoch:
            known = self._orders[node] = (epoch, node.order(self.draws(node, epoch)))
        return known[1]

    def each(self, node: Dataset, epoch: int, tasks: Iterable[Task]) -> Iterator[Any]:
        """The results of `node.job()` on tasks, in their order: computed here, or by the workers of the node."""
        job = node.job()
        assert job is not None
        key = self.key(node, epoch)
        return run_here(job, key, tasks) if job.workers == 1 else self._run_by_pool(node, job, key, iter(tasks))

    def _run_by_pool(self, node: Dataset, job: Job, key: Key, tasks: Iterator[Task]) -> Iterator[Any]:
        pool = self._take(node, job)
        usable = False
        try:
            yield from pool.run(key, tasks)
            usable = True
        except GeneratorExit:  # of who wants no more rows, as `take` does
            usable = True
            raise
        finally:
            self._give_back(node, pool, usable)

    def start(self) -> None:
        """See that every node with workers has them, once for every way to it, before another thread runs."""
        with self._lock:
            for node, needed in Counter(_ways(self._root)).items():
                job = node.job()
                while job is not None and job.workers > 1 and len(self._idle.setdefault(node, [])) < needed:
                    self._idle[node].append(self._made(job))

    def _take(self, node: Dataset, job: Job) -> Pool:
        with self._lock:
            idle = self._idle.setdefault(node, [])
            return idle.pop() if idle else self._made(job)

    def _made(self, job: Job) -> Pool:
        if self._closed:
            raise Closed
        pool = Pool(job)
        self._pools.add(pool)
        if self._closed:
            pool.close()
            raise Closed
        return pool

    def _give_back(self, node: Dataset, pool: Pool, usable: bool) -> None:
        with self._lock:
            if usable and pool in self._pools:
                self._idle[node].append(pool)
                return
            self._pools.discard(pool)
        pool.close()

    def interrupt(self) -> None:
        """End all workers, so that nobody waits for them; a pass that goes on starts new ones."""
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


def _ways(node: Dataset) -> Iterator[Dataset]:
    """The nodes of a pipeline, each as often as there are ways to it."""
    yield node
    for child in node.children:
        yield from _ways(child)
