"""The coordinates of a drawing in which some groups are open and the others folded."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from graphls.base.text.plain import columns
from graphls.inspect.viz.boxes import BoxText, States, box_text, heading
from graphls.inspect.viz.layers import Edge, Layers, Slot, Waypoint, layered, segments_of
from graphls.inspect.viz.links import Links
from graphls.inspect.viz.rows import aligned
from graphls.inspect.viz.tree import Child, Group, Port
from graphls.ir.graph import Graph, Value

MOST_BOXES = 120
COLUMN, BOLD, LINE, PADDING = 6.5, 1.2, 14, 8
"""The width of a column of text, the factor of a bold one, the height of a line, and the padding, in pixels."""
ACROSS, BETWEEN, HEADER = 18, 34, 26
"""The gaps between boxes of a row and between rows, and the height of the header of an open group."""
THIN, STIFF = 10, 200.0
"""The width of a waypoint, and its weight, which keeps lines straight; the weight of a box is its width."""

Run = tuple[float, float, float]
"""A vertical piece of a line: x, and y from and to."""


@dataclass(frozen=True, eq=False)
class Box:
    """A child with its coordinates; `open` ones have their children drawn inside of them."""

    child: Child
    x: float
    y: float
    width: float
    height: float
    text: BoxText
    open: bool


@dataclass(frozen=True, eq=False)
class Line:
    """An edge as vertical pieces that curves join, top to bottom."""

    edge: Edge
    runs: tuple[Run, ...]


@dataclass
class Drawing:
    """Boxes, outer ones first, and lines, all in pixels from the upper left corner."""

    width: float = 0
    height: float = 0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Frame:
    """An open group by itself: the position and the size of each slot."""

    width: float
    height: float
    areas: Mapping[Slot, tuple[float, float, float, float]]
    inner: Mapping[Child, _Frame]
    texts: Mapping[Child, BoxText]
    bottoms: Mapping[Slot, float]
    layers: Layers


def groups_to_open(root: Group, most: int = MOST_BOXES) -> set[Group]:
    """The groups to open so that about `most` boxes are shown: outer ones first, and those of states last.

    Groups that would show a single node stay folded, as do groups of ports.
    """
    groups: set[Group] = set()
    shown, first, last = 0, deque([root]), deque[Group]()
    while first or last:
        group = (first or last).popleft()
        if group is root or (_is_worth_it(group) and shown + len(group.children) <= most):
            groups.add(group)
            shown += len(group.children)
            for child in group.children:
                if isinstance(child, Group):
                    (last if child.kind == "states" else first).append(child)
    return groups


def _is_worth_it(group: Group) -> bool:
    if group.kind == "states" and isinstance(group.children[0], Port):
        return False
    return len(group.children) > 1 or any(isinstance(child, Group) for child in group.children)


def drawing_of(graph: Graph, root: Group, is_open: Collection[Group]) -> Drawing:
    """The drawing of a tree with these groups open; the root is open always."""
    return _Placer(graph, root, is_open).drawing(root)


class _Placer:
    def __init__(self, graph: Graph, root: Group, is_open: Collection[Group]) -> None:
        self.links = Links(root)
        self.is_open = is_open
        self.states = States(graph)

    def drawing(self, root: Group) -> Drawing:
        frame = self.frame(root)
        drawing = Drawing(frame.width, frame.height)
        self.draw(drawing, frame, 0, 0)
        return drawing

    def frame(self, group: Group) -> _Frame:
        """The layout of an open group, relative to its corner."""
        layers = layered(group, self.links)
        inner: dict[Child, _Frame] = {
            c: self.frame(c) for c in group.children if isinstance(c, Group) and c in self.is_open
        }
        texts = {c: self.text(c, layers) for c in group.children}
        sizes = {slot: self.size(slot, inner, texts) for row in layers.rows for slot in row}
        middle = aligned(
            layers.rows,
            {slot: width for slot, (width, _) in sizes.items()},
            {slot: STIFF if isinstance(slot, Waypoint) else size[0] for slot, size in sizes.items()},
            segments_of(layers.edges),
            {slot for slot in sizes if isinstance(slot, Waypoint)},
            ACROSS,
        )
        left = min((middle[slot] - sizes[slot][0] / 2 for slot in sizes), default=0) - ACROSS
        right = max((middle[slot] + sizes[slot][0] / 2 for slot in sizes), default=0) + ACROSS
        room = max(right - left, self.header(group))
        left -= (room - right + left) / 2  # where the header is wider than the boxes, they stand in its middle
        areas: dict[Slot, tuple[float, float, float, float]] = {}
        bottoms: dict[Slot, float] = {}
        y = float(HEADER + PADDING)
        for row in layers.rows:
            high = max(sizes[slot][1] for slot in row)
            for slot in row:
                width, height = sizes[slot]
                height = high if isinstance(slot, Waypoint) else height  # a line that passes a row passes all of it
                areas[slot] = round(middle[slot] - width / 2 - left), y, width, height
                bottoms[slot] = y + high
            y += high + BETWEEN
        return _Frame(round(room), y - BETWEEN + ACROSS, areas, inner, texts, bottoms, layers)

    def header(self, group: Group) -> float:
        """The width of the first line of an open group."""
        return columns("".join(heading(group))) * COLUMN * BOLD + 6 * PADDING

    def text(self, child: Child, layers: Layers) -> BoxText:
        incoming: dict[Value, None] = dict.fromkeys(layers.incoming.get(child, ()))
        for edge in layers.edges:
            if edge.broken and edge.target is child:
                incoming.update(dict.fromkeys(edge.values))
        return box_text(child, incoming, self.states)

    def size(self, slot: Slot, inner: Mapping[Child, _Frame], texts: Mapping[Child, BoxText]) -> tuple[float, float]:
        if isinstance(slot, Waypoint):
            return THIN, 0
        if slot in inner:
            return inner[slot].width, inner[slot].height
        shown = texts[slot]
        head = max(map(columns, shown.title)) * COLUMN * BOLD + 2 * PADDING
        width = max(head, *(columns(line) * COLUMN for line in shown.more)) + 2 * PADDING
        return round(width), (len(shown.title) + len(shown.more)) * LINE + PADDING

    def draw(self, drawing: Drawing, frame: _Frame, x: float, y: float) -> None:
        for slot, (left, top, width, height) in frame.areas.items():
            if not isinstance(slot, Waypoint):
                inside = frame.inner.get(slot)
                box = Box(slot, x + left, y + top, width, height, frame.texts[slot], inside is not None)
                drawing.boxes.append(box)
                if inside is not None:
                    self.draw(drawing, inside, x + left, y + top)
        drawing.lines += [Line(edge, runs) for edge, runs in _runs(frame, x, y)]


def _runs(frame: _Frame, x: float, y: float) -> list[tuple[Edge, tuple[Run, ...]]]:
    """The vertical pieces of every edge that is drawn; those that end at one box end side by side."""

    def middle(slot: Slot) -> float:
        left, _, width, _ = frame.areas[slot]
        return x + left + width / 2

    drawn = [edge for edge in frame.layers.edges if not edge.broken]
    ends: dict[Child, list[Edge]] = {}
    # Ends at one box are in the order in which their lines come to it from the row above, so that none cross there.
    for edge in sorted(drawn, key=lambda edge: middle((edge.source, *edge.via)[-1])):
        ends.setdefault(edge.target, []).append(edge)
    result = []
    for edge in drawn:
        _, top, _, height = frame.areas[edge.source]
        runs = [(middle(edge.source), y + top + height, y + frame.bottoms[edge.source])]
        for way in edge.via:
            runs.append((middle(way), y + frame.areas[way][1], y + frame.bottoms[way]))
        _, top, width, _ = frame.areas[edge.target]
        beside = ends[edge.target]
        step = min(12.0, (width - 2 * PADDING) / len(beside))
        end = middle(edge.target) + (beside.index(edge) - (len(beside) - 1) / 2) * step
        result.append((edge, (*runs, (end, y + top, y + top))))
    return result
