"""The flow of data into the steps of a run: rows, and the time in which steps waited for data, and data for steps."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

Row = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class FlowCounts:
    """The `rows` that steps took (along the first axes of batches), and seconds of waiting.

    `waited` are those of steps for data, `idle` those of data, read ahead as far as they may be, for steps; None where
    the source does not tell.
    """

    rows: int = 0
    waited: float = 0.0
    idle: float | None = None

    def since(self, earlier: FlowCounts) -> FlowCounts:
        """The counts of the time between two readings."""
        idle = None if self.idle is None else self.idle - (earlier.idle or 0.0)
        return FlowCounts(self.rows - earlier.rows, self.waited - earlier.waited, idle)

    def text(self, seconds: float, is_short: bool = False) -> str:
        """The rows per second and the larger share of waiting, of so many seconds."""
        seconds, idle = max(seconds, 1e-9), self.idle or 0.0
        who, waited, whom = ("data", idle, "steps") if idle > self.waited else ("steps", self.waited, "data")
        share = f"{who} wait {100 * min(waited / seconds, 1):.0f} %"
        return f"{_rounded(self.rows / seconds)} rows/s, {share}{'' if is_short else f' for {whom}'}"


class Flow:
    """Counts the rows of iterators, and the time of waiting for them, by two readings of a clock for each row."""

    def __init__(self, source: object) -> None:
        self._source = source
        self.rows, self.waited = 0, 0.0

    def counts(self) -> FlowCounts:
        """The counts up to now."""
        return FlowCounts(self.rows, self.waited, getattr(self._source, "idle_seconds", None))

    def counted(self, rows: Iterator[Row]) -> CountedRows:
        """The rows of an iterator, counted."""
        return CountedRows(rows, self)


class CountedRows:
    """Rows that a flow counts; not a generator, in which a Ctrl-C could be lost."""

    def __init__(self, rows: Iterator[Row], flow: Flow) -> None:
        self._rows, self._flow = rows, flow

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        begin, flow = perf_counter(), self._flow
        row = next(self._rows)
        flow.waited += perf_counter() - begin
        flow.rows += len(row[0]) if row and row[0].ndim else 1
        return row

    def close(self) -> None:
        """End the rows, where they are a generator."""
        if isinstance(self._rows, Generator):
            self._rows.close()


def _rounded(number: float) -> str:
    """A number with three digits or all those before its point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
