"""SVG plots of histograms over powers of two on the range of a number format."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphls.base.text.charts import picture
from graphls.base.text.colours import both
from graphls.base.text.html import escape
from graphls.base.text.plain import clipped

SIDE, TOP, TEXT, BARS, GAP = 20, 22, 18, 34, 10
"""Pixels beside the plot, above it, of the text over a histogram, of its highest bar, and below it."""
ROW = TEXT + BARS + GAP
LONGEST = 70
"""Letters of a name that are shown; the title of its bars has all."""
GOOD, BAD, SMALL = both("forward"), both("bad"), both("host")


@dataclass(frozen=True)
class Histogram:
    """The number of elements for each power of two, and the least, least normal and largest number of a format."""

    name: str
    counts: Mapping[int, int]
    least: float
    normal: float
    largest: float
    note: str

    @property
    def edges(self) -> tuple[float, float, float]:
        """The powers of two from which on numbers are not zero, normal, and too large."""
        return math.log2(self.least) - 1, math.log2(self.normal), math.log2(self.largest)


def histogram_plot(rows: Sequence[Histogram]) -> str:
    """A histogram for each row; behind it the range of its format, darker where its numbers are normal.

    Bars of normal numbers are blue, of subnormal ones yellow, and of those that become zero or saturate red. Their
    heights are roots of the counts, so that a few elements are visible beside many.
    """
    powers = [p for row in rows for p in row.counts]
    low = min([math.floor(row.edges[0]) - 2 for row in rows] + powers)
    high = max([math.ceil(row.edges[2]) + 2 for row in rows] + [p + 1 for p in powers])
    ground = TOP + ROW * len(rows)

    def at(power: float) -> float:
        return round((power - low) / (high - low) * 100, 2)

    parts = [*_legend()]
    for i, row in enumerate(rows):
        parts += _row(row, TOP + i * ROW, at)
    step = max(4, math.ceil((high - low) / 8 / 4) * 4)
    for power in range(math.ceil(low / step) * step, high + 1, step):
        parts.append(f'<text x="{at(power)}%" y="{ground + 12}" text-anchor="middle">2^{power}</text>')
    label = "Magnitudes of tensors, times their scales, on the ranges of their formats"
    return picture(label, [f"<title>{label}</title>", *parts], ground + 20, (0, SIDE, 0, SIDE))


def _legend() -> Iterator[str]:
    words = (("normal", GOOD), ("subnormal", SMALL), ("zero or saturated", BAD))
    spans = "".join(f'<tspan dx="12" style="fill:{colour}">\N{BLACK SQUARE}</tspan> {word}' for word, colour in words)
    yield f'<text x="{-SIDE}" y="12" opacity=".85">|x| times the scale{spans}</text>'


def _row(row: Histogram, top: int, at: Callable[[float], float]) -> Iterator[str]:
    title = f"<title>{escape(row.name)}: {escape(row.note)}</title>"
    yield f'<text x="{-SIDE}" y="{top + 12}">{escape(clipped(row.name, LONGEST))}</text>'
    yield f'<text x="100%" dx="{SIDE}" y="{top + 12}" text-anchor="end" opacity=".75">{escape(row.note)}</text>'
    zero, normal, end = row.edges
    start, ground = top + TEXT, top + TEXT + BARS
    for left, right, opacity in ((zero, normal, 0.06), (normal, end, 0.14)):
        size = f'width="{at(right) - at(left):.2f}%" height="{BARS}"'
        yield f'<rect x="{at(left)}%" y="{start}" {size} fill-opacity="{opacity}"/>'
    most = max(row.counts.values(), default=1)
    for power, count in sorted(row.counts.items()):
        height = max(1.0, round(math.sqrt(count / most) * BARS, 1))
        colour = BAD if power < zero or power >= end else SMALL if power < normal else GOOD
        size = f'width="{max(at(power + 1) - at(power) - 0.15, 0.2):.2f}%" height="{height}"'
        yield f'<rect x="{at(power)}%" y="{ground - height}" {size} style="fill:{colour}">{title}</rect>'
    yield f'<line x2="100%" y1="{ground}" y2="{ground}" stroke="currentColor" stroke-opacity=".3"/>'
