"""Draws Mermaid flowcharts as SVG while the site is built, so that the site loads no other program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphls.inspect.viz.rows import ordered
from graphls.ir.reachability import stable_order

BLOCK = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = re.compile(r'^\s*(\w+)\["<b>(.*?)</b><br>(.*?)"\]$', re.MULTILINE)
EDGE = re.compile(r"^\s*(\w+) --> (\w+)$", re.MULTILINE)
HEIGHT, GAP, BETWEEN, CHARACTER = 46, 44, 18, 6.6


@dataclass(frozen=True)
class Place:
    """The position of a box: the middle of its upper edge, and its width."""

    x: float
    y: float
    width: float


def drawn(page: str) -> str:
    """A page with its flowcharts as pictures; raises ValueError for unsupported syntax."""
    page = BLOCK.sub(lambda match: picture(match[1]), page)
    if "```mermaid" in page:
        raise ValueError("tools/site/flowchart.py draws `flowchart TD` of boxes with a title and a text only")
    return page


def picture(text: str) -> str:
    """One flowchart as SVG in the text of a page."""
    labels = {name: (title, about) for name, title, about in NODE.findall(text)}
    edges: list[tuple[str, str]] = EDGE.findall(text)
    rows, segments = _rows(list(labels), edges)
    places = _places(ordered(rows, segments), labels)
    width = max(place.x + place.width / 2 for place in places.values())
    height = len(rows) * (HEIGHT + GAP) - GAP
    parts = [
        f'<svg class="flowchart" viewBox="-2 -2 {width + 4:.0f} {height + 4:.0f}" role="img" aria-label="Flowchart">'
    ]
    parts += [_line(places[a], places[b]) for a, b in segments]
    parts += [_box(places[name], *labels[name]) for name in labels]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _rows(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """Boxes in rows below all that leads to them, with a waypoint in each row that an edge passes, and its segments."""
    number = {name: place for place, name in enumerate(names)}
    before = [[number[a] for a, b in edges if b == name] for name in names]
    depth: dict[str, int] = {}
    for place in stable_order(before):
        depth[names[place]] = 1 + max((depth[names[a]] for a in before[place]), default=-1)
    rows: list[list[str]] = [[] for _ in range(1 + max(depth.values()))]
    for name in names:
        rows[depth[name]].append(name)
    segments = []
    for a, b in edges:
        passed = [f"{a}>{b}>{row}" for row in range(depth[a] + 1, depth[b])]
        for row, waypoint in enumerate(passed, depth[a] + 1):
            rows[row].append(waypoint)
        segments += list(pairwise((a, *passed, b)))
    return rows, segments


def _places(rows: Sequence[Sequence[str]], labels: Mapping[str, tuple[str, str]]) -> dict[str, Place]:
    """Rows one below the other, each in the middle."""
    widths = [[_width(labels.get(name)) for name in row] for row in rows]
    widest = max(sum(row) + BETWEEN * (len(row) - 1) for row in widths)
    places = {}
    for number, (row, sizes) in enumerate(zip(rows, widths, strict=True)):
        x = (widest - sum(sizes) - BETWEEN * (len(row) - 1)) / 2
        for name, size in zip(row, sizes, strict=True):
            places[name] = Place(x + size / 2, number * (HEIGHT + GAP), size)
            x += size + BETWEEN
    return places


def _width(label: tuple[str, str] | None) -> float:
    return 4.0 if label is None else CHARACTER * max(map(len, label)) + 20


def _line(a: Place, b: Place) -> str:
    start, end = a.y + HEIGHT, b.y
    bend = (start + end) / 2
    path = f"M{a.x:.0f} {start:.0f}C{a.x:.0f} {bend:.0f} {b.x:.0f} {bend:.0f} {b.x:.0f} {end:.0f}"
    passing = f"M{b.x:.0f} {b.y:.0f}v{HEIGHT}" if b.width == 4 else f"M{b.x - 4:.0f} {end - 6:.0f}l4 6 4 -6"
    return f'<path d="{path}{passing}"/>'


def _box(place: Place, title: str, about: str) -> str:
    x, middle = place.x - place.width / 2, f'x="{place.x:.0f}"'
    return (
        f'<rect x="{x:.0f}" y="{place.y:.0f}" width="{place.width:.0f}" height="{HEIGHT}" rx="6"/>'
        f'<text class="title" {middle} y="{place.y + 19:.0f}">{title}</text>'
        f'<text {middle} y="{place.y + 36:.0f}">{about}</text>'
    )
