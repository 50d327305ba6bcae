"""The page of a step in which every name is hostile: each is shown as text, none runs, none disturbs its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import graphls
from graphls.ir import dump
from tests.browser.hostile import FILE_NAMES, NAMES
from tests.browser.pages import details, fact, graph, panel, place, search, show, stage, text

BOXES = """() => [...document.querySelectorAll("#canvas .box .title")].map((title) => {
  const box = title.closest(".box"), { width, height } = box.getBoundingClientRect(), style = getComputedStyle(title);
  const open = box.classList.contains("open");
  return { title: title.textContent, width, height, open, isolated: style.unicodeBidi === "isolate" };
})"""


@pytest.fixture(autouse=True)
def _shown(page: Page, hostile_page: Path) -> None:
    show(page, hostile_page)


def test_every_name_is_the_title_of_a_box(page: Page) -> None:
    page.get_by_role("button", name="open all").click()
    boxes = []
    page.get_by_role("button", name="fit", exact=True).click()
    for part in range(4):
        graph(page).evaluate(f"pane => {{ pane.scrollTop = pane.scrollHeight * {part} / 4; }}")
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        boxes += page.evaluate(BOXES)
    titles = {each["title"] for each in boxes}
    for name in NAMES:
        wanted = name if name.strip() else f'"{name}"'
        shown = wanted.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        wanted = wanted if len(wanted) <= 200 else wanted[:199] + "…"
        assert {wanted, shown} & titles, ascii(name)
    assert all(each["isolated"] for each in boxes)


def test_long_names_do_not_break_the_layout(page: Page) -> None:
    search(page, "long " * 50).first.click()
    selected = graph(page).locator(".box.selected")
    assert place(selected)["width"] < 2000 and place(selected)["height"] < 2000
    page.get_by_role("button", name="fold all").click()
    page.get_by_role("button", name="open all").click()
    page.keyboard.press("0")
    folded = [each for each in page.evaluate(BOXES) if not each["open"]]
    assert max(each["width"] for each in folded) < 400
    search(page, "matmul " + "long " * 50).first.click()
    for part in (page.locator("body"), details(page)):
        assert part.evaluate("part => part.scrollWidth <= part.clientWidth")
    assert place(fact(page, "cell"))["height"] < 200
    expect(fact(page, "reads")).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_every_name_is_found_and_told_in_the_details(page: Page) -> None:
    for name in (each for each in NAMES if each.strip() and (each.isprintable() or "\u202e" in each)):
        found = search(page, f"cell network._backbone.{name}")
        expect(found).not_to_have_count(0)
        shown = found.first.locator("bdi").first.text_content()
        assert str(shown)[:50] == f"network._backbone.{name}"[:50]
        found.first.click()
        told = fact(page, "cell").locator("bdi").first
        assert told.text_content() == f"network._backbone.{name}"
    assert details(page).locator("*:not(bdi, wbr, span, div, button, h2, table, tbody, tr, th, td, p)").count() == 0


def test_the_text_is_shown_as_it_is(page: Page, hostile_step: graphls.Compiled) -> None:
    lines = dump(hostile_step.graph).splitlines()
    shown = text(page).locator(".line").evaluate_all("rows => rows.map(row => row.textContent)")
    assert len(shown) > 30
    for found, line in zip(shown, lines, strict=False):
        assert found == line if len(line) <= 2000 else (found.endswith("…") and line.startswith(found[:-1]))


def test_files_and_lines_are_shown_as_text(page: Page, hostile_step: graphls.Compiled) -> None:
    source = panel(page, "Source")
    headings = source.get_by_role("heading").all_text_contents()
    assert all(any(heading.endswith(name) for heading in headings) for name in FILE_NAMES)
    for part in (
        'z = ops.tanh(y)  # "\'`${alert(7)}</textarea></pre><script>alert(\'source\')</script>',
        'return z * x  # {{constructor.constructor("alert(8)")()}}',
        "y = ops.exp(x * 0.5)  # </script><script>alert(9)</script> \u202e\u0645\u0631 \u2028 \U0001f525",
        "class Network(nn.Cell):  # <!-- <script> --> ]]>",
    ):
        assert any(part in str(row) for row in source.locator("bdi").all_text_contents()), part
    assert source.locator("bdi").evaluate_all(
        "parts => parts.every(part => getComputedStyle(part).unicodeBidi === 'isolate')"
    )
    assert source.evaluate("part => part.scrollWidth <= part.clientWidth")


def test_names_from_right_to_left_leave_their_neighbours_alone(page: Page) -> None:
    search(page, "exp network._backbone.module0").first.click()
    link = details(page).get_by_role("button", name=".py")
    name, number = link.evaluate("""link => {
      const place = (node) => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return [...range.getClientRects()].at(-1);
      };
      const [first, last] = [place(link.firstChild), place(link.lastChild)];
      return [[first.right, first.bottom], [last.left, last.bottom, last.right]];
    }""")
    assert number[2] > number[0] and (number[0] >= name[0] - 1 or number[1] > name[1])
    widths = details(page).locator(".number").evaluate_all("parts => parts.map(part => part.getBoundingClientRect().x)")
    assert len(set(widths)) == 1


def test_every_part_of_the_page_is_used_and_nothing_runs(page: Page, hostile_step: graphls.Compiled) -> None:
    elements = page.evaluate("[...new Set([...document.querySelectorAll('*')].map(part => part.localName))]")
    page.get_by_role("button", name="open all").click()
    for name in hostile_step.stages:
        stage(page, name).click()
        for panel_name in ("Source", "States", "Changes", "Text"):
            panel(page, panel_name)
    for row in graph(page).locator(".chip, .box .title, svg .hit").all()[:40]:
        row.dispatch_event("pointerover", {"bubbles": True})
    known = {*elements, "section", "h3", "table", "thead", "tbody", "tr", "th", "td", "path", "rect", "title", "p"}
    now = page.evaluate("[...new Set([...document.querySelectorAll('*')].map(part => part.localName))]")
    assert {*now} <= known | {"bdi", "button", "span", "div", "h2"}
    assert not {"img", "iframe", "textarea", "pre", "b", "i"} & {*now}
    assert page.locator("script").count() == 2 and page.locator("style").count() == 1
    assert page.evaluate("typeof hacked") == "undefined"
