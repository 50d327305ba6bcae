"""What is kept of the elements of one value: a few numbers and a small histogram."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.inspect.diagnosis.ranges import number
from graphls.ir.types import Type

Array = np.ndarray[Any, Any]

BINS = 16
PIECE = 1 << 20
"""Elements that are looked at together, so that what is computed of a large value takes little memory."""
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Statistics:
    """The elements of a value in one run.

    `minimum`, `maximum` and `mean` are those of the finite elements, None where there are none. `zeros` and
    `not_finite` are shares of all elements, and `histogram` counts the finite ones in as many equal steps from the
    minimum to the maximum.
    """

    type: Type
    minimum: float | None
    maximum: float | None
    mean: float | None
    zeros: float
    not_finite: float
    histogram: tuple[int, ...]

    @classmethod
    def of(cls, type: Type, array: Array) -> Statistics:
        """The statistics of an array, which is read twice and not copied as a whole."""
        size, finite, zeros, total = array.size, 0, 0, 0.0
        low, high = np.inf, -np.inf
        for piece in _pieces(array):
            kept = piece[np.isfinite(piece)]
            finite, zeros = finite + kept.size, zeros + int(np.count_nonzero(kept == 0))
            total += float(kept.sum())
            low, high = min(low, float(kept.min(initial=np.inf))), max(high, float(kept.max(initial=-np.inf)))
        if not finite:
            return cls(type, None, None, None, 0.0, float(size > 0), (0,) * BINS)
        counts = _counts(array, low, high)
        return cls(type, low, high, total / finite, zeros / size, (size - finite) / size, counts)

    @property
    def largest(self) -> float:
        """The largest finite magnitude; 0 where no element is finite."""
        return max(abs(self.minimum or 0.0), abs(self.maximum or 0.0))

    @property
    def bars(self) -> str:
        """The histogram as a line of text."""
        most = max(self.histogram, default=0) or 1
        return "".join(BARS[-(-8 * count // most)] for count in self.histogram)

    @property
    def row(self) -> tuple[str, ...]:
        """What a table shows of it."""
        numbers = map(number, (self.minimum, self.maximum, self.mean))
        return str(self.type), *numbers, f"{self.zeros:.1%}", f"{self.not_finite:.1%}"


def _counts(array: Array, low: float, high: float) -> tuple[int, ...]:
    """How many finite elements are in each step; all in the first where all are equal."""
    found = np.zeros(BINS, np.int64)
    scale = BINS / (high - low) if high > low else 0.0
    for piece in _pieces(array):
        kept = piece[np.isfinite(piece)]
        places = np.minimum((kept - low) * scale, BINS - 1).astype(np.int64)
        found += np.bincount(places, minlength=BINS)
    return tuple(map(int, found))


def _pieces(array: Array) -> Iterator[Array]:
    """The elements in float64, some at a time."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, PIECE):
        yield flat[start : start + PIECE].astype(np.float64)
