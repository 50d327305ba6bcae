"""Cost model of collectives: their time from the latency and the bandwidth of the network, which it also measures.

Each message of m bytes takes latency + m / bandwidth, and all ranks send and receive at the same time: the model of
Thakur, Rabenseifner and Gropp (Optimization of collective communication operations in MPICH, 2005), in which adding
is part of the bandwidth. No network is shared in it, and no rank is late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2
from time import perf_counter

import numpy as np

from graphls.distributed.collectives import Array, all_objects, all_reduce, barrier
from graphls.distributed.world import Group

LARGE = 25 << 20
"""Bytes of the array that measures the bandwidth: a full bucket of gradients."""
SMALL_TIMES, LARGE_TIMES = 100, 5


@dataclass(frozen=True)
class Network:
    """The network between two ranks: seconds of a message without bytes, and bytes per second.

    `algorithm` is that of the collectives: "ring", "tree", "halving", or "best" for the fastest one. `memory` is the
    number of bytes that a rank reads and writes in a second where it copies or scales them.
    """

    latency: float
    bandwidth: float
    algorithm: str = "best"
    memory: float = 1e10

    def passing(self, size: float) -> float:
        """Seconds in which a rank reads so many bytes of its memory and writes as many."""
        return 2 * size / self.memory

    def all_reduce(self, ranks: int, size: int) -> float:
        """Seconds until all ranks have the sum of arrays of so many bytes."""
        return self._of(ALL_REDUCE, ranks, size)

    def reduce_scatter(self, ranks: int, size: int) -> float:
        """Seconds until each rank has its part of the sum of arrays of so many bytes."""
        return self._of(PARTS, ranks, size)

    def all_gather(self, ranks: int, size: int) -> float:
        """Seconds until all ranks have an array of so many bytes of which each has a part."""
        return self._of(PARTS, ranks, size)

    def all_to_all(self, ranks: int, size: int) -> float:
        """Seconds until each rank has sent another part of an array of so many bytes to each of the others."""
        return 0.0 if ranks == 1 else (ranks - 1) * self.latency + (ranks - 1) / ranks * size / self.bandwidth

    def exchange(self, size: int) -> float:
        """Seconds until each rank has sent so many bytes to one other."""
        return self.latency + size / self.bandwidth

    def _of(self, ways: dict[str, Way], ranks: int, size: int) -> float:
        if ranks == 1:
            return 0.0
        chosen = ways.values() if self.algorithm == "best" else [ways[self.algorithm]]
        counts = (way(ranks) for way in chosen)
        return min(messages * self.latency + part * size / self.bandwidth for messages, part in counts)


Way = Callable[[int], tuple[float, float]]
"""For a number of ranks: the messages that one sends in sequence, and their bytes as a multiple of an array's."""


def halvings(ranks: int) -> int:
    """The number of halvings of the ranks until one is left."""
    return ceil(log2(ranks))


ALL_REDUCE: dict[str, Way] = {
    # Patarasuk and Yuan (Bandwidth optimal all-reduce algorithms, 2009): a part goes around twice.
    "ring": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
    # Recursive doubling: whole arrays, with one rank after another that is twice as far.
    "tree": lambda n: (halvings(n), halvings(n)),
    # Rabenseifner (Optimization of collective reduction operations, 2004): halves, quarters and so on, and back.
    "halving": lambda n: (2 * halvings(n), 2 * (n - 1) / n),
}
"""The algorithms of an all-reduce."""
PARTS: dict[str, Way] = {
    "ring": lambda n: (n - 1, (n - 1) / n),
    "tree": lambda n: (halvings(n), (n - 1) / n),
    "halving": lambda n: (halvings(n), (n - 1) / n),
}
"""The algorithms of a reduce-scatter and of an all-gather, each the reverse of the other."""


def fitted(ranks: int, small: float, large: float, size: int, memory: float = Network.memory) -> Network:
    """The network in which a tiny all-reduce and one of so many bytes take these seconds."""
    latency = small / halvings(ranks)
    transfer = max(large - 2 * small, large / 10)
    return Network(latency, 2 * (ranks - 1) / ranks * size / transfer, memory=memory)


def measured(group: Group) -> Network:
    """The latency and bandwidth of all-reduces as steps run them, with their copies, and the bandwidth of memory."""
    small, large = (_seconds(group, _added, *most) for most in ((4, SMALL_TIMES), (LARGE, LARGE_TIMES)))
    return fitted(group.size, small, large, LARGE, 2 * LARGE / _seconds(group, _scaled, LARGE, LARGE_TIMES))


def _added(group: Group, array: Array) -> None:
    all_reduce(group, [array], "sum")


def _scaled(group: Group, array: Array) -> None:
    np.multiply(array, array.dtype.type(1))


def _seconds(group: Group, act: Callable[[Group, Array], None], size: int, times: int) -> float:
    """The median time of an operation on so many bytes that all ranks run together, on the slowest rank."""
    array, seconds = np.ones(size // 4, np.float32), []
    for _ in range(times):
        barrier(group)
        begin = perf_counter()
        act(group, array)
        seconds.append(perf_counter() - begin)
    each: Sequence[Sequence[float]] = all_objects(group, seconds)
    return float(np.median(np.max(each, axis=0)))
