"""The result of `step.record`: statistics of the floats of one run, as an object, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.errors import GraphKeyError
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.tables import Table
from graphls.inspect.diagnosis.bounds import bounded
from graphls.inspect.diagnosis.ranges import number
from graphls.ir.graph import Graph, Value, definers, walk
from graphls.ir.registry import nearest
from graphls.ir.text import reference
from graphls.ir.types import Type

Array = np.ndarray[Any, Any]

HEADER = ("value", "phase", "cell", "elements", "type", "minimum", "maximum", "mean", "zeros", "not finite")
MOST_ROWS = 40
"""The most values that are listed."""

BINS = 16
PIECE = 1 << 20
"""Elements that are processed at a time, so that temporaries of a large value take little memory."""
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Statistics:
    """The elements of a value in one run.

    `minimum`, `maximum` and `mean` are those of the finite elements, None where there are none. `zeros` and
    `not_finite` are shares of all elements, and `histogram` counts the finite ones in equal intervals from the
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
            elements = piece[np.isfinite(piece)]
            finite, zeros = finite + elements.size, zeros + int(np.count_nonzero(elements == 0))
            total += float(elements.sum())
            low, high = min(low, float(elements.min(initial=np.inf))), max(high, float(elements.max(initial=-np.inf)))
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
        """The last columns of the table."""
        numbers = map(number, (self.minimum, self.maximum, self.mean))
        return str(self.type), *numbers, f"{self.zeros:.1%}", f"{self.not_finite:.1%}"


def _counts(array: Array, low: float, high: float) -> tuple[int, ...]:
    """The number of finite elements in each interval; all in the first where all are equal."""
    counts = np.zeros(BINS, np.int64)
    scale = BINS / (high - low) if high > low else 0.0
    for piece in _pieces(array):
        elements = piece[np.isfinite(piece)]
        bins = np.minimum((elements - low) * scale, BINS - 1).astype(np.int64)
        counts += np.bincount(bins, minlength=BINS)
    return tuple(map(int, counts))


def _pieces(array: Array) -> Iterator[Array]:
    """The elements in float64, PIECE at a time."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, PIECE):
        yield flat[start : start + PIECE].astype(np.float64)


@dataclass(frozen=True, repr=False)
class Recording(Mapping[Value, Statistics]):
    """The statistics of the floats of one run, low ones too: inputs, states before the step, and what it computed.

    Values of branches that did not run and of loop bodies are missing. `graph` is the graph that ran: the plan, where
    the step has several segments. A key is a value or its name.
    """

    graph: Graph
    found: Mapping[Value, Statistics]

    def __getitem__(self, key: Value | str) -> Statistics:
        """The statistics of a value; raises GraphKeyError for one that was not recorded."""
        if isinstance(key, Value) and key in self.found:
            return self.found[key]
        name = key if isinstance(key, str) else reference(key)
        named = [v for v in self.found if name in (v.name, reference(v))]
        if not named or isinstance(key, Value):
            near = nearest(name, (reference(v) for v in self.found))
            raise GraphKeyError(f"No value {name!r} was recorded{near}.")
        return self.found[named[-1]]

    def __iter__(self) -> Iterator[Value]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def not_finite(self) -> tuple[Value, ...]:
        """The values with infinities or nans, in the order in which they were computed.

        Without those that end at once, because a minimum or a maximum alone reads them, whose result is finite: as the
        quotient by the maximum of a block of zeros, of which the largest scale is made.
        """
        bad = [v for v, s in self._ordered() if s.not_finite]
        if not bad:
            return ()
        nodes = [node for node in walk(self.graph) if not node.primitive.is_segment]
        leaving = (*self.graph.outputs, *(write.value for write in self.graph.writes))
        ended = bounded(nodes, leaving, lambda v: v in self.found and not self.found[v].not_finite)
        return tuple(v for v in bad if v not in ended)

    @property
    def summary(self) -> str:
        """The recording in two sentences."""
        bad, values = self.not_finite, dict(self._ordered())
        text = f"@{shown(self.graph.name)}: {len(values)} float values in one run."
        if not bad:
            ended = any(statistics.not_finite for statistics in values.values())
            return f"{text} All of them are finite{', but for what a minimum or a maximum bounds' if ended else ''}."
        return f"{text} {len(bad)} of them are not finite everywhere, at first {shown(reference(bad[0]))}."

    def __str__(self) -> str:
        return "\n".join([self.summary, "", *self._table().lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Recording", self.summary)
        self._table().add_to(page)
        return page.text()

    def _ordered(self) -> list[tuple[Value, Statistics]]:
        """The values in the order of the graph, each once: inputs, states, and results of nodes."""
        values = [*self.graph.inputs, *self.graph.states]
        values += [v for n in walk(self.graph) if not n.primitive.is_segment for v in n.outputs]
        return [(v, self.found[v]) for v in dict.fromkeys(values) if v in self.found]

    def _table(self) -> Table:
        """The table of values: those that are not finite first, then the largest."""
        values = self._ordered()
        bad = set(self.not_finite)
        order = sorted(values, key=lambda pair: (pair[0] not in bad, -pair[1].largest))
        definer = definers(walk(self.graph))
        rows = []
        for value, of in order[:MOST_ROWS]:
            node = definer.get(value)
            place = (node.phase, shown(node.scope)) if node else ("", "")
            rows.append((shown(reference(value)), *place, of.bars, *of.row))
        if len(values) > MOST_ROWS:
            rows.append((f"({len(values) - MOST_ROWS} more)", *[""] * (len(HEADER) - 1)))
        return Table(HEADER, rows, texts=5)
