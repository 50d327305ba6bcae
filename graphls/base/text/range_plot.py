"""SVG plots of value ranges against the representable ranges of float16 and bfloat16."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from graphls.base.text.charts import picture
from graphls.base.text.colours import both
from graphls.base.text.html import escape
from graphls.base.text.plain import clipped

SIDE, ROW, TOP = 20, 32, 20
"""Pixels beside the plot, of a name with its bar below, and above all of them."""
LONGEST = 40
"""Letters of a name that are shown; the title of its bar has all."""
FLOAT16 = (-24, -14, 16)
"""Powers of two: the least number of float16, its least normal number, and its overflow."""
BFLOAT16 = (-133, -126, 128)
EDGE = (-27, 19)
"""Powers of two that are in the picture even where no number is."""
GOOD, BAD, SMALL = both("forward"), both("bad"), both("host")


@dataclass(frozen=True)
class Range:
    """The magnitudes of the elements of one array, and a note that stands after its bar.

    `least` and `largest` are those in its own dtype, None where all are zero; `wide_largest` is the largest in float32.
    `underflows` and `overflows` say whether some elements became zero or infinite in the dtype.
    """

    name: str
    least: float | None
    largest: float | None
    wide_largest: float | None
    underflows: bool
    overflows: bool
    note: str


def range_plot(ranges: Sequence[Range]) -> str:
    """A bar for each range over powers of two, with the windows of float16 and bfloat16 behind them.

    Bars that fit are blue, those that underflow yellow, those that overflow red; a thin line leads to the float32 end.
    """
    powers = [p for r in ranges for p in map(_power, (r.least, r.largest, r.wide_largest)) if p is not None]
    low, high = min((*EDGE, *powers)), max((*EDGE, *powers))
    ground = TOP + ROW * len(ranges)

    def at(power: float) -> float:
        return round((power - low) / (high - low) * 100, 2)

    parts = [*_windows(at, ground, low, high)]
    for i, each in enumerate(ranges):
        parts += _bar(each, TOP + i * ROW, at)
    step = max(4, math.ceil((high - low) / 6 / 4) * 4)
    for power in range(math.ceil(low / step) * step, math.floor(high) + 1, step):
        parts.append(f'<text x="{at(power)}%" y="{ground + 16}" text-anchor="middle">2^{power}</text>')
    label = "Magnitudes of gradients against the windows of float16 and bfloat16"
    return picture(label, parts, ground + 22, (0, SIDE, 0, SIDE))


def _windows(at: Callable[[float], float], ground: int, low: float, high: float) -> Iterator[str]:
    least, normal, end = FLOAT16
    for start, stop, opacity in ((least, normal, 0.06), (normal, end, 0.14)):
        size = f'width="{at(stop) - at(start):.2f}%" height="{ground - TOP + 4}"'
        yield f'<rect x="{at(start)}%" y="{TOP - 4}" {size} fill-opacity="{opacity}"/>'
    yield f'<text x="{at((normal + end) / 2)}%" y="12" text-anchor="middle">float16</text>'
    yield f'<text x="{at((least + normal) / 2)}%" y="12" text-anchor="middle" opacity=".7">subnormal</text>'
    for edge in (BFLOAT16[1], BFLOAT16[2]):
        if low <= edge <= high:
            x = f'x1="{at(edge)}%" x2="{at(edge)}%"'
            yield f'<line {x} y1="{TOP - 4}" y2="{ground}" stroke="currentColor" stroke-dasharray="4 3"/>'
            yield f'<text x="{at(edge)}%" y="12" text-anchor="middle">bfloat16</text>'


def _bar(each: Range, top: int, at: Callable[[float], float]) -> Iterator[str]:
    yield f'<text x="{4 - SIDE}" y="{top + 11}">{escape(clipped(each.name, LONGEST))}</text>'
    least, largest, wide = map(_power, (each.least, each.largest, each.wide_largest))
    colour = BAD if each.overflows else SMALL if each.underflows else GOOD
    title = f"<title>{escape(each.name)}: {escape(each.note)}</title>"
    if least is not None and largest is not None:
        box = f'width="{max(at(largest) - at(least), 0.5):.2f}%" y="{top + 16}" height="10" rx="2"'
        yield f'<rect x="{at(least)}%" {box} style="fill:{colour}">{title}</rect>'
    if wide is not None and (largest is None or abs(wide - largest) > 0.05):
        middle, end, stroke = top + 21, f"{at(wide)}%", f'style="stroke:{colour}"'
        start = at(FLOAT16[2] if largest is None else largest)
        yield f'<line x1="{start}%" x2="{end}" y1="{middle}" y2="{middle}" {stroke}>{title}</line>'
        yield f'<line x1="{end}" x2="{end}" y1="{top + 16}" y2="{top + 26}" {stroke}/>'


def _power(value: float | None) -> float | None:
    return math.log2(value) if value and math.isfinite(value) else None
