"""Measures the latency and the bandwidth between the ranks of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from graphls.distributed.collectives import Array, all_objects, all_reduce, barrier
from graphls.distributed.cost import Network, fitted
from graphls.distributed.world import Group

LARGE = 25 << 20
"""Bytes of the array that measures the bandwidth: a full bucket of gradients."""
SMALL_TIMES, LARGE_TIMES = 100, 5


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
