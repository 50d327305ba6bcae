"""The bandwidth of the memory, which bounds steps that mostly update large states."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

SIZE = 1 << 28
"""Bytes of an array, many times those of caches."""
COPIES = 10


def bandwidth(size: int = SIZE) -> float:
    """Bytes a second that all cores together read and write in copies of such an array: the best of some copies."""
    cores = len(os.sched_getaffinity(0))
    sources, targets = (np.array_split(np.ones(size, np.uint8), cores) for _ in range(2))
    with ThreadPoolExecutor(cores) as pool:
        return 2 * size / min(_seconds(pool, sources, targets) for _ in range(COPIES))


def _seconds(pool: ThreadPoolExecutor, sources: list[np.ndarray], targets: list[np.ndarray]) -> float:
    begin = perf_counter()
    list(pool.map(np.copyto, targets, sources))
    return perf_counter() - begin
