"""Returns the memory of OpenVINO's large allocations to the system."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What `mallopt` of glibc calls the bytes from which on free memory goes back to the system, at the end of the heap and
as a block of its own."""

LARGE = 1 << 17
MOST = 1 << 25
"""What glibc raises the threshold of blocks to by itself, at most; the other one is twice that then."""


@contextmanager
def large_blocks_apart() -> Iterator[None]:
    """Inside, large blocks are no part of the heap, so that the system has them back as soon as they are freed.

    OpenVINO takes memory for all inputs and outputs of a model, weights included, and frees it at the first run, when
    it knows the arrays that are bound instead. In the heap it would stay with the process: 373 MB for a GPT of 98
    million parameters.
    """
    options = getattr(CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if options is None:
        yield
        return
    options(MMAP_THRESHOLD, LARGE)
    try:
        yield
    finally:
        options(MMAP_THRESHOLD, MOST)
        options(TRIM_THRESHOLD, 2 * MOST)
