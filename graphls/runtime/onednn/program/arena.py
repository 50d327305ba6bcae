"""Buffers of a program, and their places in one arena by their live ranges."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import itemgetter

LINE = 64
"""The alignment of buffers in the arena, in bytes."""


@dataclass(eq=False)
class Buffer:
    """Memory of the arena from the call that writes it first to the one that reads it last, or an array outside.

    One that lies `within` another is memory of that one, from the byte `begin` on: it takes it over, or is a row of it.
    """

    size: int
    is_outside: bool = False
    first: int = -1
    last: int = -1
    offset: int = 0
    within: Buffer | None = None
    begin: int = 0

    @property
    def memory(self) -> Buffer:
        """The buffer whose memory this one is."""
        return self if self.within is None else self.within.memory

    @property
    def position(self) -> int:
        """The byte of that memory at which it begins."""
        return self.begin if self.within is None else self.begin + self.within.position


def placed(buffers: Sequence[Buffer]) -> int:
    """Give buffers, in the order of their first calls, offsets in an arena; returns its size in bytes.

    Each lies in the smallest gap that holds it, or at the end: of buffers of 8, 4 and 4 bytes, of which the second is
    written by the last reader of the first and the third after that, the first two are at 0 and 8, the third at 0.
    """
    gaps: list[tuple[int, int]] = []
    alive: list[tuple[int, int, int]] = []
    end = 0
    for buffer in buffers:
        while alive and alive[0][0] < buffer.first:
            _, offset, size = heappop(alive)
            _release(gaps, offset, size)
        size = -(-buffer.size // LINE) * LINE
        fitting = min((gap for gap in gaps if gap[1] >= size), key=itemgetter(1), default=None)
        if fitting is None:
            buffer.offset, end = end, end + size
        else:
            gaps.remove(fitting)
            buffer.offset = fitting[0]
            if fitting[1] > size:
                insort(gaps, (fitting[0] + size, fitting[1] - size))
        heappush(alive, (buffer.last, buffer.offset, size))
    return end


def _release(gaps: list[tuple[int, int]], offset: int, size: int) -> None:
    """Add a gap to those in order, joined with its neighbours."""
    at = bisect(gaps, (offset, size))
    if at < len(gaps) and offset + size == gaps[at][0]:
        size += gaps.pop(at)[1]
    if at and sum(gaps[at - 1]) == offset:
        at -= 1
        before, more = gaps.pop(at)
        offset, size = before, size + more
    gaps.insert(at, (offset, size))
