"""Measuring the network between the ranks of a group."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from graphls.ranks.collectives import all_objects, all_reduce, barrier
from graphls.ranks.cost import Network, fitted
from graphls.ranks.world import Group

LARGE = 25 << 20
"""Bytes of the array by which the bandwidth is found: a full bucket of gradients."""
SMALL_TIMES, LARGE_TIMES = 100, 5


def measured(group: Group) -> Network:
    """The latency and bandwidth of all-reduces as steps run them, with what is copied around them."""
    small = _seconds(group, 4, SMALL_TIMES)
    return fitted(group.size, small, _seconds(group, LARGE, LARGE_TIMES), LARGE)


def _seconds(group: Group, size: int, times: int) -> float:
    """The median of the seconds of an all-reduce, on the slowest rank."""
    array, found = np.ones(size // 4, np.float32), []
    for _ in range(times):
        barrier(group)
        begin = perf_counter()
        all_reduce(group, [array], "sum")
        found.append(perf_counter() - begin)
    each: Sequence[Sequence[float]] = all_objects(group, found)
    return float(np.median(np.max(each, axis=0)))
