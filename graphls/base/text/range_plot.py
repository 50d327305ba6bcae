"""SVG plots of value ranges against the representable ranges of float16 and bfloat16."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from graphls.base.text.colours import both
from graphls.base.text.html import escape
from graphls.base.text.plain import clipped

WIDTH, LEFT, ROW, TOP = 680, 210, 18, 22
LONGEST = 30
"""Letters of a name that are shown; the title of its bar has all."""
FLOAT16 = (-24, -14, 16)
"""Powers of two: the least number of float16, its least normal number, and its overflow."""
BFLOAT16 = (-133, -126, 128)
EDGE = (-27, 19)
"""Powers of two that are in the picture even where no number is."""
GOOD, BAD, SMALL = both("forward"), both("bad"), both("host")
BOX = "font:11px ui-monospace,Menlo,Consolas,monospace;width:100%;max-width:680px;height:auto"


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
    height = TOP + ROW * len(ranges) + 24

    def at(power: float) -> float:
        return round(LEFT + (power - low) / (high - low) * (WIDTH - LEFT - 10), 1)

    parts = [*_windows(at, height - 24, low, high)]
    for i, each in enumerate(ranges):
        parts += _bar(each, TOP + i * ROW, at)
    step = max(4, round((high - low) / 8 / 4) * 4)
    for power in range(math.ceil(low / step) * step, math.floor(high) + 1, step):
        parts.append(f'<text x="{at(power)}" y="{height - 8}" text-anchor="middle">2^{power}</text>')
    label = "Magnitudes of gradients against the windows of float16 and bfloat16"
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {height}" fill="currentColor" '
        f'style="{BOX}">{"".join(parts)}</svg>'
    )


def _windows(at: Callable[[float], float], bottom: int, low: float, high: float) -> Iterator[str]:
    least, normal, end = FLOAT16
    for start, stop, opacity in ((least, normal, 0.06), (normal, end, 0.14)):
        width = at(stop) - at(start)
        yield f'<rect x="{at(start)}" y="16" width="{width:.1f}" height="{bottom - 16}" fill-opacity="{opacity}"/>'
    yield f'<text x="{at((normal + end) / 2)}" y="12" text-anchor="middle">float16</text>'
    yield f'<text x="{at((least + normal) / 2)}" y="12" text-anchor="middle" opacity=".7">subnormal</text>'
    for edge in (BFLOAT16[1], BFLOAT16[2]):
        if low <= edge <= high:
            yield f'<path d="M{at(edge)} 16V{bottom}" stroke="currentColor" stroke-dasharray="4 3"/>'
            yield f'<text x="{at(edge)}" y="12" text-anchor="middle">bfloat16</text>'


def _bar(each: Range, top: int, at: Callable[[float], float]) -> Iterator[str]:
    yield f'<text x="{LEFT - 8}" y="{top + 12}" text-anchor="end">{escape(clipped(each.name, LONGEST))}</text>'
    least, largest, wide = map(_power, (each.least, each.largest, each.wide_largest))
    colour = BAD if each.overflows else SMALL if each.underflows else GOOD
    title = f"<title>{escape(each.name)}: {escape(each.note)}</title>"
    if least is not None and largest is not None:
        start, width = at(least), max(at(largest) - at(least), 2)
        style = f'style="fill:{colour}"'
        yield f'<rect x="{start}" y="{top + 3}" width="{width:.1f}" height="11" rx="2" {style}>{title}</rect>'
    if wide is not None and (largest is None or abs(wide - largest) > 0.05):
        start = at(FLOAT16[2] if largest is None else largest)
        yield f'<path d="M{start} {top + 8.5}H{at(wide)}v-5v10" fill="none" style="stroke:{colour}">{title}</path>'


def _power(value: float | None) -> float | None:
    return math.log2(value) if value and math.isfinite(value) else None
