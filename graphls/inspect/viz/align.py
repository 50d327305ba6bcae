"""Where boxes stand in their rows, so that lines are as straight as the order allows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

Box = TypeVar("Box")
ROUNDS = 10
LOOSE = 0.01
"""What no line leads to gives way."""


def aligned(
    rows: Sequence[Sequence[Box]], widths: Mapping[Box, float], weights: Mapping[Box, float],
    segments: Iterable[tuple[Box, Box]], thin: Collection[Box], gap: float,
) -> dict[Box, float]:  # fmt: skip
    """The middle of each box; the order of each row stays, and neighbours are `gap` apart at least.

    Row after row takes the positions that are nearest to the mean of its neighbours in other rows, by least squares
    with these weights. In the end what is `thin` follows its thin neighbours only, so that long lines are straight.
    """
    neighbours: dict[Box, list[Box]] = {box: [] for row in rows for box in row}
    for source, target in segments:
        neighbours[source].append(target)
        neighbours[target].append(source)
    middle: dict[Box, float] = {}
    weights = {box: weight if neighbours[box] else weight * LOOSE for box, weight in weights.items()}
    for row in rows:
        middle.update(zip(row, _nearest(row, [0.0] * len(row), widths, weights, gap), strict=True))
    for i in range(ROUNDS):
        # Boxes have found their positions by now: what is left is to take the bends out of the lines between them.
        if i == ROUNDS - 2:
            neighbours |= {box: [n for n in neighbours[box] if n in thin] or neighbours[box] for box in thin}
        for row in rows if i % 2 else reversed(rows):
            desired = [_mean([middle[n] for n in neighbours[box]] or [middle[box]]) for box in row]
            middle.update(zip(row, _nearest(row, desired, widths, weights, gap), strict=True))
    return middle


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _nearest(
    row: Sequence[Box], desired: Sequence[float], widths: Mapping[Box, float], weights: Mapping[Box, float], gap: float,
) -> list[float]:  # fmt: skip
    """The positions nearest to the desired ones that keep the order: what would overlap moves as one block to its mean.

    This is isotonic regression by pooling adjacent violators.
    """
    # Less its offset, every box wants a position of its own, and the order asks that these never decrease.
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
