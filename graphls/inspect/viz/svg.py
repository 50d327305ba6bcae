"""Pictures of graphs as self-contained SVG, without another program; the same graph gives the same bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from xml.sax.saxutils import escape

from graphls.base.text.colours import BADGES, ENGINES, ENGINES_ON_DARK, MIXED, PHASES, PHASES_ON_DARK, WINDOW
from graphls.base.text.html import DARK, LIGHT
from graphls.base.text.plain import LONGEST, columns, shown
from graphls.inspect.viz.boxes import heading, nodes_of
from graphls.inspect.viz.coordinates import HEADER, LINE, MOST_BOXES, PADDING, Box, Line, drawing_of, groups_to_open
from graphls.inspect.viz.tree import Child, Group, Port, engines, grouped, windows
from graphls.ir.graph import Graph, Node, Value

MARGIN = 16
LEGEND = 44
PICTURE = ".graphls-picture"


def to_svg(graph: Graph, boxes: int = MOST_BOXES) -> str:
    """A picture of the graph that opens in a browser: phases and cells as boxes in boxes, about `boxes` of them.

    Outer groups are open, as far as they fit; others are folded and show the number of their nodes. Lines are data,
    dashed lines an order only. Nodes of an overflow window stand on amber; a segment of a plan has a border of
    the colour of its engine. A line of a box that begins with an arrow names values from farther away, or the
    states that are read (from the left) and written (to the right).

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls.inspect.viz.svg import to_svg
        >>> graph = graphls.trace_graph(lambda x: x * x, np.ones(2, np.float32)).graph
        >>> to_svg(graph)[:4]
        '<svg'
    """
    root = grouped(graph)
    drawing = drawing_of(graph, root, groups_to_open(root, boxes))
    width = max(drawing.width + 2 * MARGIN, 10 * columns(shown(graph.name)) + 600 + 110 * len(engines(root)))
    height = drawing.height + LEGEND - HEADER + MARGIN
    shift = f"translate({_number((width - drawing.width) / 2)} {LEGEND - HEADER})"
    window = _Shades(graph)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graphls-picture" width="{_number(width)}" '
        f'height="{_number(height)}" viewBox="0 0 {_number(width)} {_number(height)}" role="img" '
        f'aria-label="{_text(graph.name, LONGEST)}">',
        f"<style>{_style()}</style>",
        _MARKERS,
        '<rect class="paper" width="100%" height="100%"/>',
        *_legend(graph, engines(root)),
        f'<g transform="{shift}">',
        *(_shade(box) for box in window.shaded(root, drawing.boxes)),
        *(text for box in drawing.boxes for text in _box(box, not box.open and window.ends_in(box.child))),
        *(_path(line) for line in drawing.lines),
        *_labels(drawing.lines),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Shades:
    """The nodes that are in an overflow window, and those that open or close one."""

    def __init__(self, graph: Graph) -> None:
        overflow_windows = windows(graph)
        self.inside = {node for _, _, nodes in overflow_windows for node in nodes}
        self.ends = {node for start, get, _ in overflow_windows for node in (start, get)}

    def covers(self, child: Child) -> bool:
        """Whether all nodes of a child are inside, except those without operands, such as constants."""
        nodes = [node for node in nodes_of(child) if node.inputs or node.after]
        return bool(nodes) and self.inside.issuperset(nodes)

    def ends_in(self, child: Child) -> bool:
        return any(node in self.ends for node in nodes_of(child))

    def shaded(self, root: Group, boxes: Collection[Box]) -> Iterator[Box]:
        """The outermost boxes that a window covers."""
        box_of = {box.child: box for box in boxes}
        waiting = list(root.children)
        while waiting:
            child = waiting.pop()
            if child in box_of and self.covers(child):
                yield box_of[child]
            elif isinstance(child, Group) and child in box_of and box_of[child].open:
                waiting.extend(child.children)


def _box(box: Box, ends: bool) -> Iterator[str]:
    child = box.child
    kind, phase = ("port", "") if isinstance(child, Port) else (_kind(child), child.phase)
    names = " ".join(filter(None, ("box", phase or "mixed", "open" if box.open else "", "ends" if ends else "")))
    engine = child.engine if isinstance(child, Group) else ""
    names += f" engine {engine}" if engine in ENGINES else ""
    yield f'<g class="{names}"><title>{_title(child)}</title>'
    radius = 14 if kind == "port" else 10 if box.open else 4
    yield f'<rect {_area(box.x, box.y, box.width, box.height)} rx="{radius}"/>'
    if phase and (not box.open or kind == "phase"):
        yield _words("badge", box.x + box.width - 11, box.y + 13, BADGES[phase])
    yield from _heading(box) if box.open else _lines(box)
    yield "</g>"


def _heading(box: Box) -> Iterator[str]:
    """The one line of an open group."""
    assert isinstance(box.child, Group)
    name, more = heading(box.child)
    x, y = box.x + PADDING, box.y + 18
    yield _words("name", x, y, name)
    if more:
        yield _words("more", x + columns(name) * 8 + PADDING, y, more)


def _lines(box: Box) -> Iterator[str]:
    """The lines of any other box, one below the other."""
    kinds = [("name", line) for line in box.text.title] + [("more", line) for line in box.text.more]
    for i, (kind, line) in enumerate(kinds):
        yield _words(kind, box.x + PADDING, box.y + 15 + LINE * i, line)


def _kind(child: Group | Node) -> str:
    return child.kind if isinstance(child, Group) else "leaf"


def _words(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{_number(x)}" y="{_number(y)}">{escape(text)}</text>'


def _path(line: Line) -> str:
    x, top, bottom = line.runs[0]
    way = f"M{_number(x)} {_number(top)}" + (f"V{_number(bottom)}" if bottom != top else "")
    for (x0, _, y0), (x1, y1, y2) in pairwise(line.runs):
        half = (y0 + y1) / 2
        way += f"C{_number(x0)} {_number(half)} {_number(x1)} {_number(half)} {_number(x1)} {_number(y1)}"
        way += f"V{_number(y2)}" if y2 != y1 else ""
    kind = "control" if line.edge.control else "data"
    values = ", ".join(f"{v.name}: {v.type_text}" for v in line.edge.values[:20])
    title = f"<title>{_text(values, 400)}</title>"
    return f'<path class="edge {kind}" d="{way}" marker-end="url(#graphls-{kind})">{title}</path>'


def _labels(lines: Collection[Line]) -> Iterator[str]:
    """The types of the values along the lines, once where lines begin at the same box."""
    starts: dict[Child, tuple[Line, dict[Value, None]]] = {}
    for line in lines:
        if not (line.edge.control or isinstance(line.edge.source, Port)):
            starts.setdefault(line.edge.source, (line, {}))[1].update(dict.fromkeys(line.edge.values))
    for line, values in starts.values():
        text = ", ".join(v.type_text for v in values) if len(values) < 3 else f"{len(values)} values"
        x, _, y = line.runs[0]
        yield _words("type", x + 4, y + 12, shown(text, 40))


def _shade(box: Box) -> str:
    return f'<rect class="window" {_area(box.x - 7, box.y - 7, box.width + 14, box.height + 14)} rx="12"/>'


def _title(child: Child) -> str:
    if isinstance(child, Node):
        return _text(f"{child!r} {child.phase} {child.scope} {child.loc or ''}", 400)
    if isinstance(child, Port):
        return _text(f"{child.kind} {child.value!r}", 400)
    return _text(f"{child.kind} {child.path or child.label}", 400)


def _legend(graph: Graph, engines: Collection[str]) -> Iterator[str]:
    name = shown(graph.name)
    yield _words("head", MARGIN, 24, name)
    x = MARGIN + columns(name) * 10 + 20.0
    for phase, badge in BADGES.items():
        yield f'<g class="box {phase}"><rect {_area(x, 12, 16, 16)} rx="4"/>{_words("badge", x + 8, 24, badge)}</g>'
        yield _words("more", x + 21, 24, phase)
        x += 34 + columns(phase) * 6.5
    for engine in engines:
        known = f"engine {engine}" if engine in ENGINES else ""
        yield f'<g class="box {known}"><rect {_area(x, 12, 16, 16)} rx="4"/></g>'
        yield _words("more", x + 21, 24, engine)
        x += 34 + columns(engine) * 6.5
    yield f'<rect class="window" {_area(x, 12, 16, 16)} rx="4"/>'
    yield _words("more", x + 21, 24, "overflow window")
    yield f'<path class="edge control" d="M{_number(x + 136)} 20h26"/>'
    yield _words("more", x + 167, 24, "order only")


_MARKERS = (
    "<defs>"
    + "".join(
        f'<marker id="graphls-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path class="arrow" d="M0 0 8 4 0 8z"/></marker>'
        for kind in ("data", "control")
    )
    + "</defs>"
)


def _style() -> str:
    """The rules of a picture, limited to pictures of this class, as a page may have several.

    A picture by itself is dark where its reader prefers that, one in a notebook or a site where that is dark.
    """
    rules = {
        "text": 'font:11px "DejaVu Sans",Verdana,sans-serif;fill:#1f2328',
        ".paper": "fill:#ffffff",
        ".name": "font-weight:bold",
        ".head": "font-weight:bold;font-size:14px",
        ".more": "font-size:10px;fill:#424a53",
        ".type": "font-size:9px;fill:#424a53;stroke:#ffffff;stroke-width:3px;paint-order:stroke",
        ".badge": "font-size:10px;font-weight:bold;text-anchor:middle",
        ".box rect": f"fill:{MIXED};fill-opacity:.1;stroke:{MIXED}",
        **{f".{p} rect": f"fill:{c};fill-opacity:.14;stroke:{c}" for p, c in PHASES.items()},
        ".open rect": "fill-opacity:.05",
        ".engine rect": "stroke-width:3",
        **{f".{e} rect": f"stroke:{c}" for e, c in ENGINES.items()},
        ".ends rect": f"stroke:{WINDOW};stroke-width:3",
        ".window": f"fill:{WINDOW};fill-opacity:.28;stroke:none",
        ".edge": "fill:none;stroke:#57606a;stroke-width:1.2",
        ".control": "stroke-dasharray:5 4",
        ".arrow": "fill:#57606a",
    }
    dark = {
        "text": "fill:#e6edf3",
        ".paper": "fill:#0d1117",
        ".more": "fill:#c5ced8",
        ".type": "fill:#c5ced8;stroke:#0d1117",
        ".edge": "stroke:#9aa4af",
        ".arrow": "fill:#9aa4af",
        ".box rect": "fill-opacity:.28",
        **{f".{p} rect": f"fill:{c};stroke:{c}" for p, c in PHASES_ON_DARK.items()},
        **{f".{e} rect": f"stroke:{c}" for e, c in ENGINES_ON_DARK.items()},
        ".ends rect": f"stroke:{WINDOW}",
        ".open rect": "fill-opacity:.12",
        ".window": "fill-opacity:.22",
    }
    alone = f"{PICTURE}:not(:is({','.join(LIGHT)}) *)"
    in_notebook = f":is({','.join(DARK)}) {PICTURE}"
    return f"{_rules(rules)}@media (prefers-color-scheme:dark){{{_rules(dark, alone)}}}{_rules(dark, in_notebook)}"


def _rules(rules: dict[str, str], where: str = PICTURE) -> str:
    return "".join(f"{where} {names}{{{what}}}" for names, what in rules.items())


def _text(text: str, most: int) -> str:
    return escape(shown(text, most), {'"': "&quot;"})


def _area(x: float, y: float, width: float, height: float) -> str:
    return f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
