"""Self-contained SVG charts: lines and stairs over training steps, and horizontal bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphls.base.text.colours import both
from graphls.base.text.html import escape

HEIGHT = 220
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 40
"""Pixels around the lines, where the numbers and the titles of the axes stand."""
ACROSS = 1000
"""Units of the axis of steps, which is stretched to the width of the page; text and strokes are not."""
MOST_POINTS = 600
"""Points of a line that are drawn; of a longer line, the minimum and the maximum of each group."""
LOOKS = (
    "font:12px system-ui,sans-serif;display:block;box-sizing:border-box;width:100%;max-width:960px;height:{}px;"
    "margin:4px 0 8px;padding:{}px {}px {}px {}px;overflow:visible"
)
"""The style of pictures that are as wide as the page, with text of the same size on any page."""
STROKE = 'fill="none" stroke-width="1.6" stroke-linejoin="round" vector-effect="non-scaling-stroke"'
OTHER = ' stroke-dasharray="5 4" stroke-opacity=".75"'

UNITS = ((1e6, "M"), (1e3, "k"))
"""Units of long axes of steps, and of logarithmic ones."""
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
    """The numbers from `low` to `high` on pixels from `start` to `end`; `is_log` gives each power the same room.

    The ticks of an axis that `is_whole` are whole numbers, those of a logarithmic one with `has_powers` powers of two.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_whole: bool = False
    has_powers: bool = False

    def place(self, value: float) -> float:
        """The pixel of a number."""
        low, high, value = (_log(n) if self.is_log else n for n in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """About five round numbers within the axis."""
        if not self.is_log:
            return _round_numbers(self.low, self.high, self.is_whole)
        return _powers(self.low, self.high, 2.0) if self.has_powers else _decimals(self.low, self.high)


def chart(
    title: str, lines: Sequence[Line], *, names: tuple[str, str] = ("step", ""), includes: Sequence[float] = (),
    is_log: bool = False, marks: Sequence[float] = (), has_log_steps: bool = False,
) -> str:  # fmt: skip
    """A chart of these lines over steps, as wide as its page; `marks` are steps that get a stroke at the bottom.

    `names` are the titles of the axes, across and up; `includes` are numbers that the axis upwards reaches. With
    `has_log_steps`, the positions across, all above 0, are any numbers, and each power of them has the same room.

    Numbers that are not finite are left out, and with `is_log` those that are not positive; where nothing is left, the
    text is empty.
    """
    plotted = [(line, _finite(line.points, is_log)) for line in lines]
    values = [y for _, points in plotted for _, y in points]
    if not values:
        return ""
    steps = [x for _, points in plotted for x, _ in points]
    across = Axis(min(steps), max(steps), 0, ACROSS, has_log_steps, is_whole=not has_log_steps)
    limits = [*values, *(() if is_log else includes)]
    ground = HEIGHT - TOP - BOTTOM
    up = Axis(*_margins(min(limits), max(limits), is_log), ground, 0, is_log, has_powers=all(map(_is_power, values)))
    strokes = "".join(f"M{across.place(m)} {ground}v-9" for m in _thinned(marks))
    drawn = [*(_drawn(line, points, across, up) for line, points in plotted if len(points) > 1)]
    drawn += [f'<path {STROKE} d="{strokes}" style="stroke:{BAD}"/>'] if strokes else []
    dots = [_dot(line, points[0], across, up) for line, points in plotted if len(points) == 1]
    parts = [*_grid(across, up, names), *_stretched(drawn, ground), *dots]
    text = f"{title}: {_description(plotted)}"
    return picture(text, [f"<title>{escape(text)}</title>", *parts], HEIGHT, (TOP, RIGHT, BOTTOM, LEFT))


def bars(title: str, rows: Sequence[tuple[str, float, str, str]]) -> str:
    """Horizontal bars: for each row its name, the length as a share of the longest, a text after it and a colour."""
    height, left, right = 22, 90, 80
    longest = max((value for _, value, _, _ in rows), default=0) or 1
    parts = []
    for i, (name, value, text, colour) in enumerate(rows):
        middle, length = i * height + 15, round(value / longest * 100, 1)
        parts.append(f'<text x="{-left}" y="{middle}">{escape(name)}</text>')
        parts.append(f'<rect width="{length}%" y="{i * height + 4}" height="14" rx="2" style="fill:{colour}"/>')
        parts.append(f'<text x="{length}%" dx="8" y="{middle}">{escape(text)}</text>')
    text = f"{title}: " + ", ".join(f"{name} {text}" for name, _, text, _ in rows)
    return picture(text, [f"<title>{escape(text)}</title>", *parts], max(1, len(rows) * height), (0, right, 0, left))


def picture(description: str, parts: Iterable[str], height: int, margins: tuple[int, int, int, int]) -> str:
    """A picture as wide as its page, of parts whose positions across are percentages of the width within the margins.

    The margins are those of CSS, in pixels: above, to the right, below, to the left.
    """
    label = f'role="img" aria-label="{escape(description)}"'
    return f'<svg {label} style="{LOOKS.format(height, *margins)}" fill="currentColor">{"".join(parts)}</svg>'


def _stretched(parts: Iterable[str], height: int) -> list[str]:
    """Paths over the units of the axis of steps, as wide as the picture around them."""
    box = f'viewBox="0 0 {ACROSS} {height}" preserveAspectRatio="none"'
    return [f'<svg width="100%" height="{height}" {box} overflow="visible">', *parts, "</svg>"]


def _grid(across: Axis, up: Axis, names: tuple[str, str]) -> Iterator[str]:
    ground = up.start
    for tick, label in _labelled(up):
        y = up.place(tick)
        yield f'<line x2="100%" y1="{y}" y2="{y}" stroke="currentColor" stroke-opacity=".15"/>'
        yield f'<text x="-6" y="{y + 4}" text-anchor="end">{label}</text>'
    for tick, label in _labelled(across):
        x = f"{across.place(tick) / ACROSS:.2%}"
        yield f'<line x1="{x}" x2="{x}" y1="{ground}" y2="{ground + 4}" stroke="currentColor" stroke-opacity=".4"/>'
        yield f'<text x="{x}" y="{ground + 17}" text-anchor="middle">{label}</text>'
    yield f'<text x="100%" y="{ground + 34}" text-anchor="end" fill-opacity=".75">{escape(names[0])}</text>'
    yield f'<text x="{-LEFT}" y="{12 - TOP}" fill-opacity=".75">{escape(names[1])}</text>'


def _drawn(line: Line, points: Sequence[Point], across: Axis, up: Axis) -> str:
    points = downsampled(_changes(points) if line.has_steps else points)
    (x, y), *others = [(across.place(x), up.place(y)) for x, y in points]
    if line.has_steps:
        text = f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in others)
    else:
        text = f"M{x} {y}" + "".join(f"L{x} {y}" for x, y in others)
    kind = STROKE + (OTHER if line.is_other else "")
    return f'<path {kind} d="{text}" style="stroke:{line.colour}"><title>{escape(line.name)}</title></path>'


def _dot(line: Line, point: Point, across: Axis, up: Axis) -> str:
    place = f'cx="{across.place(point[0]) / ACROSS:.2%}" cy="{up.place(point[1])}"'
    return f'<circle {place} r="4" style="fill:{line.colour}"><title>{escape(line.name)}</title></circle>'


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
    # No accuracy is above 1 and no time below 0, so no axis goes on there unless its numbers do.
    return 0.0 if low >= 0 > low - room else low - room, 1.0 if high <= 1 < high + room else high + room


def _log(value: float) -> float:
    return math.log10(value)


def _round_numbers(low: float, high: float, is_whole: bool = False) -> list[float]:
    width = high - low
    if width <= 0 or not math.isfinite(width):
        return [low]
    unit = 10 ** math.floor(math.log10(width / 4))
    unit = next((unit * factor for factor in (1, 2, 5, 10) if width / (unit * factor) <= 6), unit)
    unit = max(1, unit) if is_whole else unit
    return [i * unit for i in range(math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9) + 1)]


def _powers(low: float, high: float, base: float) -> list[float]:
    """About six powers within an axis."""
    first, last = (math.log(limit, base) for limit in (low, high))
    first, last = math.ceil(first - 1e-9), math.floor(last + 1e-9)
    every = max(1, math.ceil((last - first + 1) / 6))
    return [base**n for n in range(first, last + 1, every)]


def _decimals(low: float, high: float) -> list[float]:
    """Round numbers that a logarithmic axis has room for: powers of ten, and 2 and 5 times them where these are few."""
    exponents = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    for factors in ((1, 3), (1, 2, 5)) if high / low < 1e4 else ():
        ticks = [tick for n in exponents for factor in factors if low <= (tick := factor * 10.0**n) <= high]
        if 3 <= len(ticks) <= 6:
            return ticks
    return _powers(low, high, 10.0) if high / low >= 1e3 else _round_numbers(low, high)


def _labelled(axis: Axis) -> list[tuple[float, str]]:
    """The ticks of an axis with their numbers, of as many digits as tell them apart."""
    ticks = axis.ticks()
    if axis.is_log and not axis.has_powers:
        return [(tick, _short(tick)) for tick in ticks]
    unit, letter = next((each for each in UNITS if axis.is_whole and ticks[-1] >= 10 * each[0]), (1, ""))
    for digits in range(4, 16):
        labels = [number(tick / unit, axis.is_log, digits) + (letter if tick else "") for tick in ticks]
        if len(set(labels)) == len(ticks):
            break
    return [*zip(ticks, labels, strict=True)]


def _short(value: float) -> str:
    unit, letter = next((each for each in UNITS if value >= each[0]), (1, ""))
    return number(value / unit) + letter


def _is_power(value: float) -> bool:
    """Whether a positive number is a power of two, as most loss scales are."""
    return math.frexp(value)[0] == 0.5


def number(value: float, is_power: bool = False, digits: int = 4) -> str:
    """A number of so many digits at most, and as a power of two where the axis has these."""
    exponent = math.log2(value) if is_power and value > 0 else 0.5
    if abs(exponent - round(exponent)) < 1e-9 and abs(exponent) >= 7:
        return f"2^{round(exponent)}"
    return f"{value:.{digits}g}"


def _description(lines: Iterable[tuple[Line, Sequence[Point]]]) -> str:
    """The description of a chart in words, for readers who do not see it."""
    parts = []
    for line, points in lines:
        if points:
            values = [y for _, y in points]
            first, last = number(values[0]), number(values[-1])
            parts.append(f"{line.name} from {first} to {last}, between {number(min(values))} and {number(max(values))}")
    return "; ".join(parts)
