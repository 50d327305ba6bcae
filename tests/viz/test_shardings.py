"""Pictures and pages of a graph on a mesh show the shardings with the types."""

from __future__ import annotations

from graphls.inspect.viz.dot import to_dot
from graphls.inspect.viz.html import page
from graphls.inspect.viz.svg import to_svg
from graphls.ir import parse

TEXT = """\
graph @main mesh(data=4, model=2) (%x: f32[8/data,4]) {
  state @w: f32[4,16/model]
  %y = matmul(%x, @w) : f32[8,16]  // forward
  %s = shard(%y) {axes=[["data"], ["model"]]} : f32[8/data,16/model]  // forward
  %z = neg(%s) : f32[8,16]  // forward
  return %z
}
"""


def test_pictures_show_shardings() -> None:
    graph = parse(TEXT)
    svg = to_svg(graph)
    for text in ("%x: f32[8/data,4]", "f32[8/data,16/model]"):
        assert text in svg
    assert "f32[8/data,16/model]" in to_dot(graph)


def test_pages_show_shardings_and_the_mesh() -> None:
    text = page({"final": parse(TEXT)})
    assert '["f32[8/data,16/model]",512]' in text.replace(" ", "")
    assert "mesh(data=4, model=2)" in text
