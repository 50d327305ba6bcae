"""The HTML stands alone, is well formed, and shows hostile names as text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.base.text.html import STYLE
from tests.diagnosis.networks import BACKENDS, F32, Net, X, Y, identity, scaled_cell

SCRIPT = "<script>alert('x')</script>"
VOID = {"br", "wbr", "hr", "img", "input", "link", "meta"}


class Reader(HTMLParser):
    """Checks that tags nest, and collects the tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words += data


ALLOWED = {"div", "wbr", "style", "table", "thead", "tbody", "tr", "th", "td"}
PICTURE = {"svg", "rect", "line", "text", "title"}
PLACES = {"fill", "fill-opacity", "opacity", "x", "y", "width", "height", "rx", "text-anchor", "x1", "x2", "y1", "y2"}
STROKES = {"stroke", "stroke-dasharray"}


def check(html: str) -> Reader:
    """A reader of HTML that has nothing but boxes, tables, pictures and colours that fit any page."""
    assert html.startswith(STYLE) and html.count("<style") == STYLE.count("<style")
    reader = Reader(html)
    assert reader.tags <= ALLOWED | PICTURE
    common = {"style", "class", "role", "aria-label", "scope"}
    assert {name for name, _ in reader.attributes} <= common | PLACES | STROKES
    styles = " ".join(value or "" for name, value in reader.attributes if name == "style")
    assert "url(" not in styles and "color:#" not in styles and "background:#" not in styles
    return reader


def run_in_hostile_file(source: str, folder: Path) -> dict[str, Any]:
    """The names that a program makes whose file has a name that tries to be markup."""
    path = folder / "'\"><b>.py"
    path.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    return names


@pytest.mark.parametrize("backend", BACKENDS)
def test_hostile_names_are_text(backend: str, tmp_path: Path) -> None:
    """A parameter, a cell, a file and a line of a user's program try to be a script."""
    source = f'''
from graphls import nn, ops

class Hostile(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.insert_child_to_cell("{SCRIPT}", net)

    def construct(self, x):
        y = self.name_cells()["{SCRIPT}"](x)
        return ops.exp(y)  # {SCRIPT}<img src=x onerror="alert(1)">
'''
    names = run_in_hostile_file(source, tmp_path)
    net = Net(identity, name=f'"{SCRIPT}')
    step = graphls.compile(scaled_cell(names["Hostile"](net)), X, Y, backend=backend)
    found = step.explain_overflow(100 * X, Y)
    assert found.first is not None and SCRIPT in found.first.code
    reader = check(found._repr_html_())
    assert SCRIPT in reader.words and "onerror" in reader.words and "><b>.py" in reader.words
    (name,) = (p.name for p in net.trainable_params())
    weight = step.parameters[name].asnumpy()
    step.parameters[name].set_data(weight * np.nan)
    assert SCRIPT in check(step.explain_overflow(X, Y)._repr_html_()).words
    assert name in check(step.gradient_ranges(X, Y)._repr_html_()).words


def test_the_pages_say_what_the_text_says() -> None:
    step = graphls.compile(scaled_cell(Net(identity)), X, Y, backend="numpy")
    found = step.explain_overflow(X, Y)
    words = check(found._repr_html_()).words
    assert found.summary in words
    assert all(line[13:] in words for line in str(found).splitlines()[1:])
    ranges = step.gradient_ranges(X, Y)
    words = check(ranges._repr_html_()).words
    assert ranges.summary in words and all(cell in words for cell in ranges[0].row)
    assert check(step.explain_overflow(F32(0) * X, Y)._repr_html_()).words.startswith("Nothing that the step checks")


def test_ranges_of_a_network_as_a_table() -> None:
    step = graphls.compile(scaled_cell(nn.Dense(4, 3).to_float(graphls.float16), 4.0), X, Y, backend="numpy")
    html = step.gradient_ranges(X, Y)._repr_html_()
    assert html.count("<tr") == 3 and html.count('scope="col"') == 9
