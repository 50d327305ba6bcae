"""The order of boxes in their rows, so that few lines cross, and their positions, so that lines are straight."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

Box = TypeVar("Box")
ORDER_ROUNDS = 4
ALIGN_ROUNDS = 10
LOOSE = 0.01
"""The factor of the weight of a box without lines, which gives way to others."""


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
    for _ in range(ORDER_ROUNDS):
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


def aligned(
    rows: Sequence[Sequence[Box]], widths: Mapping[Box, float], weights: Mapping[Box, float],
    segments: Iterable[tuple[Box, Box]], thin: Collection[Box], gap: float,
) -> dict[Box, float]:  # fmt: skip
    """The middle of each box; the order of each row stays, and neighbours are `gap` apart at least.

    Row after row takes the positions that are nearest to the mean of its neighbours in other rows, by least squares
    with these weights. In the end `thin` boxes follow their thin neighbours only, so that long lines are straight.
    """
    neighbours: dict[Box, list[Box]] = {box: [] for row in rows for box in row}
    for source, target in segments:
        neighbours[source].append(target)
        neighbours[target].append(source)
    middle: dict[Box, float] = {}
    weights = {box: weight if neighbours[box] else weight * LOOSE for box, weight in weights.items()}
    for row in rows:
        middle.update(zip(row, _nearest(row, [0.0] * len(row), widths, weights, gap), strict=True))
    for i in range(ALIGN_ROUNDS):
        # By now boxes have settled: the last rounds straighten the lines between them.
        if i == ALIGN_ROUNDS - 2:
            neighbours |= {box: [n for n in neighbours[box] if n in thin] or neighbours[box] for box in thin}
        for row in rows if i % 2 else reversed(rows):
            desired = [_mean([middle[n] for n in neighbours[box]], middle[box]) for box in row]
            middle.update(zip(row, _nearest(row, desired, widths, weights, gap), strict=True))
    return middle


def _nearest(
    row: Sequence[Box], desired: Sequence[float], widths: Mapping[Box, float], weights: Mapping[Box, float], gap: float,
) -> list[float]:  # fmt: skip
    """The positions nearest to the desired ones that keep the order: boxes that would overlap move to their mean.

    This is isotonic regression by pooling adjacent violators.
    """
    # Less its offset, every box has a desired position of its own, and the order demands that these never decrease.
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + gap)
    blocks: list[tuple[float, float, int]] = []
    for box, goal, offset in zip(row, desired, offsets, strict=False):
        weight, total, count = weights[box], (goal - offset) * weights[box], 1
        # A mean above the next one is a violation: both become one block, whose mean may violate the one before.
        while blocks and blocks[-1][1] / blocks[-1][0] > total / weight:
            before = blocks.pop()
            weight, total, count = weight + before[0], total + before[1], count + before[2]
        blocks.append((weight, total, count))
    starts = [total / weight for weight, total, count in blocks for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=False)]
