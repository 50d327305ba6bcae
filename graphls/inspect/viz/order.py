"""The order of boxes in their rows, so that few lines cross."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

Box = TypeVar("Box")
ROUNDS = 4


def ordered(rows: Sequence[Sequence[Box]], segments: Iterable[tuple[Box, Box]]) -> list[list[Box]]:
    """The rows, each in an order that lets few segments cross.

    A segment joins a box with one of the next row. Each round sorts every row by the mean positions of the neighbours
    above, then of those below (the barycenter method of Sugiyama, Tagawa and Toda, 1981); the best round counts.
    Ties stay as they were, so the result depends on the order of the arguments only.
    """
    above: dict[Box, list[Box]] = {box: [] for row in rows for box in row}
    below: dict[Box, list[Box]] = {box: [] for row in rows for box in row}
    for source, target in segments:
        above[target].append(source)
        below[source].append(target)
    now = [list(row) for row in rows]
    best, fewest = now, _crossings(now, below)
    for _ in range(ROUNDS):
        if not fewest:
            break
        now = _swept(now, above)
        now = _swept(now[::-1], below)[::-1]
        count = _crossings(now, below)
        if count < fewest:
            best, fewest = now, count
    return best


def _swept(rows: Sequence[Sequence[Box]], neighbours: Mapping[Box, Sequence[Box]]) -> list[list[Box]]:
    """The rows one after another, sorted by the positions of neighbours in the row before."""
    position: dict[Box, float] = {}
    result = []
    for row in rows:
        boxes = dict(enumerate(row))
        means = [_mean([position[n] for n in neighbours[box] if n in position], i) for i, box in boxes.items()]
        row = [row[i] for i in sorted(boxes, key=means.__getitem__)]
        position.update((box, i) for i, box in enumerate(row))
        result.append(row)
    return result


def _mean(positions: Sequence[float], otherwise: float) -> float:
    return sum(positions) / len(positions) if positions else otherwise


def _crossings(rows: Sequence[Sequence[Box]], below: Mapping[Box, Sequence[Box]]) -> int:
    count = 0
    for row, following in pairwise(rows):
        position = {box: i for i, box in enumerate(following)}
        seen: list[int] = []
        for box in row:
            ends = [position[target] for target in below[box]]
            # A segment crosses those of boxes further left that end further right.
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count
