"""SVG that stands alone: well formed, the same for the same graph, and names are only ever text."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import graphls
from graphls.base.text.colours import ENGINES, PHASES, PHASES_ON_DARK, WINDOW
from graphls.inspect.viz.coordinates import Box, drawing_of, groups_to_open
from graphls.inspect.viz.dot import to_dot
from graphls.inspect.viz.svg import to_svg
from graphls.inspect.viz.tree import Group, Port, grouped, members
from graphls.ir import Graph, parse
from tests.viz.graphs import HOSTILE, hostile, random_graphs, step
from tests.viz.test_dot import assert_dot

SVG = "{http://www.w3.org/2000/svg}"


def drawn(graph: Graph, boxes: int = 120) -> ElementTree.Element:
    return ElementTree.fromstring(to_svg(graph, boxes))


def texts(picture: ElementTree.Element, kind: str) -> list[str]:
    return [e.text or "" for e in picture.iter(f"{SVG}text") if e.get("class") == kind]


def boxes(picture: ElementTree.Element) -> dict[str, list[str]]:
    """The classes of each box, by its first line."""
    found = {}
    for group in picture.iter(f"{SVG}g"):
        names = [e.text or "" for e in group.findall(f"{SVG}text") if e.get("class") == "name"]
        if names:
            found.setdefault(names[0], (group.get("class") or "").split())
    return found


def test_a_step_shows_phases_by_colour_and_letter() -> None:
    picture = drawn(step())
    found = boxes(picture)
    assert found["act"] == ["box", "forward"] and found["mean"] == ["box", "forward"]
    assert found["depend"] == ["box", "backward"] and "relu %b" in texts(picture, "more")
    assert found["optimizer"] == ["box", "update", "open"] and found["check"][:2] == ["box", "check"]
    assert found["input"] == ["box", "mixed"]
    assert {"F", "B", "C", "U"} == set(texts(picture, "badge"))
    style = picture.find(f"{SVG}style")
    assert style is not None and style.text is not None and "prefers-color-scheme:dark" in style.text
    assert all(colour in style.text for colour in (*PHASES.values(), *PHASES_ON_DARK.values(), WINDOW))


def test_lines_have_types_and_control_edges_are_dashed() -> None:
    picture = drawn(step())
    assert {"f32[4]", "f32[]"} <= set(texts(picture, "type"))
    paths = [e for e in picture.iter(f"{SVG}path") if (e.get("class") or "").startswith("edge") and e.get("marker-end")]
    controls = [e for e in paths if e.get("class") == "edge control"]
    assert len(controls) == 2 and all(e.get("marker-end") == "url(#graphls-control)" for e in controls)
    titles = [e.findtext(f"{SVG}title") for e in paths]
    assert "status: token" in titles and "loss: f32[]" in titles


def test_what_comes_from_afar_and_states_are_named_in_the_box() -> None:
    lines = texts(drawn(step()), "more")
    assert "← @w" in lines and "← @moments.w, %gw" in lines
    assert "→ @moments.w" in lines and "→ @w" in lines


def test_the_window_is_shaded_and_its_ends_have_a_border() -> None:
    picture = drawn(step())
    shades = [e for e in picture.iter(f"{SVG}rect") if e.get("class") == "window"]
    assert len(shades) == 2, "one in the legend, one behind the backward"
    (shade,) = (e for e in shades if e.get("width") != "16")
    backward = next(g for g in picture.iter(f"{SVG}g") if g.get("class") == "box backward open")
    rect = backward.find(f"{SVG}rect")
    assert rect is not None
    assert float(shade.get("width", 0)) == float(rect.get("width", 0)) + 14
    bordered = [
        g.findtext(f"{SVG}text[@class='more']") for g in picture.iter(f"{SVG}g") if "ends" in g.get("class", "")
    ]
    assert bordered == ["overflow_start %status", "overflow_get %overflow"]
    plain = step()
    forward = plain.replace(nodes=plain.nodes[:6], writes=(), outputs=plain.outputs[:1])
    assert not [e for e in drawn(forward).iter(f"{SVG}rect") if e.get("class") == "window" and e.get("width") != "16"]


@given(random_graphs())
@settings(max_examples=20)
def test_the_same_graph_gives_the_same_bytes(graph: Graph) -> None:
    kept = [object() for _ in range(100)]
    assert to_svg(graph) == to_svg(parse(str(graph))) and kept


@given(random_graphs())
@settings(max_examples=30)
def test_boxes_lie_in_their_groups_and_apart_from_each_other(graph: Graph) -> None:
    root = grouped(graph)
    drawing = drawing_of(graph, root, groups_to_open(root, 1000))
    place = {box.child: box for box in drawing.boxes}
    groups = [root, *(child for child in members(root) if isinstance(child, Group))]
    for group in groups:
        inner = [place[child] for child in group.children if child in place]
        outer = place.get(group)
        assert outer is None or not outer.open or len(inner) == len(group.children)
        assert not any(map(overlap, *zip(*combinations(inner, 2), strict=True))) if len(inner) > 1 else True
        if outer is not None and outer.open:
            assert all(contains(outer, box) for box in inner)
    assert all(box.x >= 0 and box.x + box.width <= drawing.width for box in drawing.boxes)
    assert all(box.y >= 0 and box.y + box.height <= drawing.height for box in drawing.boxes)


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def contains(outer: Box, box: Box) -> bool:
    across = outer.x <= box.x and box.x + box.width <= outer.x + outer.width
    return across and outer.y <= box.y and box.y + box.height <= outer.y + outer.height


@given(random_graphs())
@settings(max_examples=20)
def test_lines_begin_and_end_at_their_boxes_and_lead_down(graph: Graph) -> None:
    root = grouped(graph)
    drawing = drawing_of(graph, root, groups_to_open(root))
    place = {box.child: box for box in drawing.boxes}
    for line in drawing.lines:
        source, target = place[line.edge.source], place[line.edge.target]
        (first, top, _), (last, _, bottom) = line.runs[0], line.runs[-1]
        assert top == source.y + source.height and bottom == target.y
        assert source.x <= first <= source.x + source.width and target.x <= last <= target.x + target.width
        heights = [y for _, *ys in line.runs for y in ys]
        assert heights == sorted(heights)


def test_as_many_groups_are_open_as_fit() -> None:
    root = grouped(step())
    counts = [len(drawing_of(step(), root, groups_to_open(root, most)).boxes) for most in (1, 12, 20, 1000)]
    assert counts[0] == len(root.children) and counts[0] < counts[1] <= 12 < counts[2] <= 20 < counts[3]


def test_a_folded_group_says_how_much_is_in_it() -> None:
    lines = texts(drawn(step(), 1), "more")
    assert "6 nodes" in lines and "%a, %loss" not in lines
    assert "overflow_get %overflow" in lines


def test_hostile_names_are_text() -> None:
    picture = drawn(hostile(), 1000)
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags <= {"svg", "style", "rect", "defs", "marker", "path", "g", "title", "text"}
    attributes = {name for element in picture.iter() for name in element.attrib}
    assert not any(name.startswith("on") or "href" in name for name in attributes)
    shown = "".join(picture.itertext())
    assert '"><script>alert(1)</script>' in shown and "\\u202eright to left\\u2066" in shown
    assert all(max(map(len, texts(picture, kind))) <= 45 for kind in ("name", "more", "head"))
    assert "\ud800" not in to_svg(hostile()) and len(HOSTILE) == len(hostile().nodes)
    to_svg(hostile()).encode("utf-8")


def test_a_picture_needs_nothing_else() -> None:
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|<script|href", to_svg(step()))


@pytest.mark.parametrize("graph", [Graph("empty", (), (), (), (), ()), Graph("", (), (), (), (), ())])
def test_an_empty_graph_has_a_picture(graph: Graph) -> None:
    assert not boxes(drawn(graph))


def test_notebooks_show_the_picture() -> None:
    graph = graphls.parse(str(step()))
    assert graph._repr_svg_() == to_svg(graph, graphls.viz.NOTEBOOK_BOXES)


def test_ports_say_what_they_are() -> None:
    picture = drawn(step())
    assert {"input", "output", "yield"} <= set(texts(picture, "name"))
    assert "%x: f32[4]" in texts(picture, "more")
    assert any(isinstance(child, Port) for child in grouped(step()).children)


def test_segments_have_the_colours_of_their_engines() -> None:
    plan = parse("""graph @g(%x: f32[4]) {
  %a = segment() {engine="numpy"} : f32[4] region {
    %y = exp(%x) : f32[4]
    yield %y
  }
  %b = segment() {engine="<mine>"} : f32[4] region {
    %z = exp(%a) : f32[4]
    yield %z
  }
  return %b
}""")
    picture, text = to_svg(plan), to_dot(plan)
    assert picture.count('engine numpy"') == 2, "one of them in the legend"
    assert ">&lt;mine&gt;</text>" in picture and "engine <" not in picture
    assert f".numpy rect{{stroke:{ENGINES['numpy']}}}" in picture
    assert text.count(f'color="{ENGINES["numpy"]}"') == 2 and 'label="<mine>"' in text
    assert_dot(text)
    assert "engine" not in to_svg(step()).split("</style>")[1]


LONG = "backbone_of_the_network.a_rather_long_name_of_a_layer.ANameInCamelCaseThatIsLong.weight"


def test_no_name_is_cut() -> None:
    text = (
        f"graph @{LONG.replace('.', '_')}(%x: f32[4,4]) {{\n"
        f"  state @{LONG}: f32[4,4]\n"
        f"  %{LONG} = matmul(%x, @{LONG}) : f32[4,4]  // forward {LONG}\n"
        f"  @{LONG} <- %{LONG}\n  return %{LONG}\n}}\n"
    )
    graph = parse(text)
    picture = drawn(graph)
    assert "\u2026" not in to_svg(graph) + to_dot(graph)
    (head,) = texts(picture, "head")
    assert head == LONG.replace(".", "_")
    joined = "".join(texts(picture, "more") + texts(picture, "name"))
    for name in (f"%{LONG}", f"\u2190 @{LONG}", f"\u2192 @{LONG}", f"%{LONG}: f32[4,4]".replace(" ", "")):
        assert name.replace(" ", "") in joined.replace(" ", "")
    assert all(len(line) <= 38 for line in texts(picture, "more"))
