"""Self-contained SVG charts: lines and stairs over training steps, and horizontal bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphls.base.text.colours import both
from graphls.base.text.html import escape

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 26
"""Pixels around the lines, where the numbers of the axes stand."""
MOST_POINTS = 600
"""Points of a line that are drawn; of a longer line, the minimum and the maximum of each group."""
FONT = "font:11px ui-monospace,Menlo,Consolas,monospace;width:100%;max-width:760px;height:auto"
STROKE = 'fill="none" stroke-width="1.6" stroke-linejoin="round"'
OTHER = ' stroke-dasharray="5 4" stroke-opacity=".75"'

BAD = both("bad")

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """Numbers over steps in a colour of CSS, dashed of another run; with `has_steps` each holds until the next."""

    name: str
    points: Sequence[Point]
    colour: str
    is_other: bool = False
    has_steps: bool = False


@dataclass(frozen=True)
class Axis:
    """The numbers from `low` to `high` on pixels from `start` to `end`; `is_log` gives each power the same room."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """The pixel of a number."""
        low, high, value = (_log(n) if self.is_log else n for n in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """About five round numbers within the axis."""
        return _powers(self.low, self.high) if self.is_log else _round_numbers(self.low, self.high)


def chart(
    title: str, lines: Sequence[Line], *, is_log: bool = False, marks: Sequence[float] = (),
    has_log_steps: bool = False,
) -> str:  # fmt: skip
    """A chart of these lines over steps; `marks` are steps that get a stroke at the bottom.

    With `has_log_steps`, which are above 0 then, each power of them has the same room.

    Numbers that are not finite are left out, and with `is_log` those that are not positive; where nothing is left, the
    text is empty.
    """
    plotted = [(line, _finite(line.points, is_log)) for line in lines]
    values = [y for _, points in plotted for _, y in points]
    if not values:
        return ""
    steps = [x for _, points in plotted for x, _ in points]
    across = Axis(min(steps), max(steps), LEFT, WIDTH - RIGHT, has_log_steps)
    up = Axis(*_margins(min(values), max(values), is_log), HEIGHT - BOTTOM, TOP, is_log)
    parts = [*_grid(across, up), *(_drawn(line, points, across, up) for line, points in plotted if points)]
    ground = HEIGHT - BOTTOM
    strokes = "".join(f"M{across.place(m)} {ground}v-9" for m in _thinned(marks))
    if strokes:
        parts.append(f'<path {STROKE} d="{strokes}" style="stroke:{BAD}"/>')
    return _svg(f"{title}: {_description(plotted)}", parts)


def bars(title: str, rows: Sequence[tuple[str, float, str, str]]) -> str:
    """Horizontal bars: for each row its name, the length as a share of the longest, a text after it and a colour."""
    height, width = 22, WIDTH
    longest = max((value for _, value, _, _ in rows), default=0) or 1
    parts = []
    for i, (name, value, text, colour) in enumerate(rows):
        middle, length = i * height + 15, round(value / longest * (width - 290), 1)
        parts.append(f'<text x="0" y="{middle}">{escape(name)}</text>')
        parts.append(f'<rect x="110" y="{i * height + 4}" width="{length}" height="14" rx="2" style="fill:{colour}"/>')
        parts.append(f'<text x="{118 + length}" y="{middle}">{escape(text)}</text>')
    description = ", ".join(f"{name} {text}" for name, _, text, _ in rows)
    return _svg(f"{title}: {description}", parts, len(rows) * height)


def _svg(description: str, parts: Iterable[str], height: int = HEIGHT) -> str:
    box = f'viewBox="0 0 {WIDTH} {height}"'
    text = escape(description)
    head = f'<svg role="img" aria-label="{text}" {box} style="{FONT}" fill="currentColor">'
    return f"{head}<title>{text}</title>{''.join(parts)}</svg>"


def _grid(across: Axis, up: Axis) -> Iterator[str]:
    for tick in up.ticks():
        y = up.place(tick)
        yield f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="currentColor" stroke-opacity=".15"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{number(tick, up.is_log)}</text>'
    for tick in across.ticks():
        x = across.place(tick)
        yield f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{number(tick)}</text>'


def _drawn(line: Line, points: Sequence[Point], across: Axis, up: Axis) -> str:
    points = downsampled(_changes(points) if line.has_steps else points)
    pixels = [(across.place(x), up.place(y)) for x, y in points]
    (x, y), *others = pixels
    if line.has_steps:
        text = f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others)
    else:
        text = f"M{x} {y}" + "".join(f"L{x} {y}" for x, y in others)
    if len(pixels) == 1:
        return f'<circle cx="{x}" cy="{y}" r="4" style="fill:{line.colour}"><title>{escape(line.name)}</title></circle>'
    kind = STROKE + (OTHER if line.is_other else "")
    return f'<path {kind} d="{text}" style="stroke:{line.colour}"><title>{escape(line.name)}</title></path>'


def downsampled(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """About that many points at most: the minimum and the maximum of each group, in their order.

    No outlier is lost: of 10,000 losses a single one of 100 is still seen.
    """
    if len(points) <= most:
        return list(points)
    size = math.ceil(2 * len(points) / most)
    points_shown: list[Point] = []
    for i in range(0, len(points), size):
        group = points[i : i + size]
        points_shown += sorted({min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])})
    return points_shown


def _changes(points: Sequence[Point]) -> list[Point]:
    """The points at which another number begins, and the last one."""
    before = [None, *(y for _, y in points)]
    changes = [point for point, last in zip(points, before, strict=False) if point[1] != last]
    return changes if changes[-1] == points[-1] else [*changes, points[-1]]


def _thinned(marks: Sequence[float]) -> Sequence[float]:
    return marks[:: math.ceil(len(marks) / MOST_POINTS) or 1]


def _finite(points: Sequence[Point], is_log: bool) -> list[Point]:
    return [(x, y) for x, y in points if math.isfinite(y) and (y > 0 or not is_log)]


def _margins(low: float, high: float, is_log: bool) -> tuple[float, float]:
    if is_log:
        return low / 1.2, high * 1.2
    room = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _log(value: float) -> float:
    return math.log10(value)


def _round_numbers(low: float, high: float) -> list[float]:
    width = high - low
    if width <= 0 or not math.isfinite(width):
        return [low]
    unit = 10 ** math.floor(math.log10(width / 4))
    unit = next((unit * factor for factor in (1, 2, 5, 10) if width / (unit * factor) <= 5), unit)
    return [i * unit for i in range(math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of two within an axis where it spans few of ten, as for scales, else powers of ten."""
    base = 2.0 if high / low < 1e4 else 10.0
    first, last = math.ceil(math.log(low, base)), math.floor(math.log(high, base))
    every = max(1, math.ceil((last - first + 1) / 6))
    return [base**n for n in range(first, last + 1, every)]


def number(value: float, is_power: bool = False) -> str:
    """A number on an axis: short, and as a power of two where the axis has these."""
    exponent = math.log2(value) if is_power and value > 0 else 0.5
    if abs(exponent - round(exponent)) < 1e-9 and abs(exponent) >= 7:
        return f"2^{round(exponent)}"
    return f"{value:.4g}"


def _description(lines: Iterable[tuple[Line, Sequence[Point]]]) -> str:
    """The description of a chart in words, for readers who do not see it."""
    parts = []
    for line, points in lines:
        if points:
            values = [y for _, y in points]
            first, last = number(values[0]), number(values[-1])
            parts.append(f"{line.name} from {first} to {last}, between {number(min(values))} and {number(max(values))}")
    return "; ".join(parts)
