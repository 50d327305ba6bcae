"""The page without a pointer: every control is reached, seen, and used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import box, details, fold, graph, is_marked, is_painted, search, show, stage, text, token

FOCUSED = """() => {
  const part = document.activeElement, style = getComputedStyle(part);
  const name = part.getAttribute("aria-label") || part.textContent;
  const outlined = style.outlineStyle !== "none" && style.outlineWidth !== "0px";
  return { name, visible: outlined && part.matches(":focus-visible") };
}"""


MIDDLE = """box => [
  box.offsetLeft + box.offsetWidth / 2,
  box.offsetTop + (box.ariaExpanded === "true" ? 12 : box.offsetHeight / 2),
]"""
"""The middle of a box, or of the title of an open one, however far the drawing is scrolled."""


@pytest.fixture(autouse=True)
def _shown(page: Page, digits_page: Path) -> None:
    show(page, digits_page)


def tabbed(page: Page, key: str = "Tab") -> list[dict[str, Any]]:
    """What has the focus after each press of a key, until nothing has."""
    found: list[dict[str, Any]] = []
    while len(found) < 60:
        page.keyboard.press(key)
        if page.evaluate("document.activeElement === document.body"):
            break
        found.append(page.evaluate(FOCUSED))
    return found


def test_tab_reaches_every_control_and_shows_where_it_is(page: Page) -> None:
    names = (
        "Earlier stages", "10_order ~3", "Search names, primitives and cell paths", "Light or dark", "Keys and signs",
        "graph TrainOneStepWithLossScaleCell, 115 nodes", "Larger", "Smaller", "fit", "fold all", "open all",
        "Width of the panels", "Text", "IR text",
    )  # fmt: skip
    found = tabbed(page)
    assert [each["name"].replace("_order", "_order ").replace("  ", " ")[: len(name)]
            for each, name in zip(found, names, strict=True)] == [*names]  # fmt: skip
    assert all(each["visible"] for each in found)
    assert tabbed(page, "Shift+Tab")[: len(found)] == found[::-1]


def test_tab_comes_back_to_the_selected_box(page: Page) -> None:
    search(page, "convolution %conv2").first.click()
    page.get_by_role("button", name="Keys and signs").focus()
    page.keyboard.press("Tab")
    expect(box(page, "convolution %conv2")).to_be_focused()
    page.get_by_role("button", name="open all").click()
    graph(page).evaluate("pane => { pane.scrollTop = pane.scrollHeight; }")
    page.get_by_role("button", name="Keys and signs").focus()
    page.keyboard.press("Tab")
    expect(box(page, "convolution %conv2")).to_be_focused()
    page.get_by_role("button", name="fold all").click()
    page.get_by_role("button", name="Keys and signs").focus()
    page.keyboard.press("Tab")
    expect(box(page, "phase forward")).to_be_focused()


def test_arrows_move_to_the_box_in_their_direction(page: Page) -> None:
    fold(box(page, "phase backward"))
    box(page, "phase forward").locator(".title").click()
    sides = {"ArrowDown": (1, 1), "ArrowUp": (1, -1), "ArrowRight": (0, 1), "ArrowLeft": (0, -1)}
    focused, seen = graph(page).locator(":focus"), set()
    for key in ["ArrowDown"] * 4 + ["ArrowRight"] * 2 + ["ArrowLeft"] + ["ArrowUp"] * 3:
        side, sign = sides[key]
        before = focused.evaluate(MIDDLE)[side]
        page.keyboard.press(key)
        assert sign * (focused.evaluate(MIDDLE)[side] - before) > 0
        expect(focused).to_be_in_viewport()
        seen.add(focused.get_attribute("aria-label"))
        heading = details(page).get_by_role("heading").inner_text().split()[-1].split(".")[-1]
        assert heading in str(focused.get_attribute("aria-label"))
    assert len(seen) >= 6


def test_enter_opens_and_escape_goes_out(page: Page) -> None:
    box(page, "phase forward").locator(".title").click()
    for inner in ("cell network", "cell _backbone", "cell conv1"):
        page.keyboard.press("Enter")
        while not str(page.evaluate("document.activeElement.getAttribute('aria-label')")).startswith(inner):
            page.keyboard.press("ArrowDown")
        expect(box(page, inner).and_(page.locator(":focus"))).to_have_attribute("aria-expanded", "false")
    for outer in ("cell _backbone", "cell network", "phase forward", "graph"):
        page.keyboard.press("Escape")
        expect(box(page, outer).and_(page.locator(":focus"))).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(box(page, "graph")).to_be_focused()


def test_what_has_the_focus_is_lit_as_under_the_pointer(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("%log_softmax")
    page.keyboard.press("Enter")
    expect(box(page, "log_softmax %log_softmax")).to_be_focused()
    assert is_painted(token(page, "%log_softmax").first)
    page.mouse.move(5, 5)
    details(page).get_by_role("button", name="%backbone").focus()
    assert is_painted(token(page, "%backbone").first) and not is_painted(token(page, "%log_softmax").first)
    page.keyboard.press("Enter")
    expect(details(page).get_by_role("heading")).to_have_text("F cast %backbone")


def test_slash_searches_and_question_mark_helps(page: Page) -> None:
    page.keyboard.press("/")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("mean [ ?")
    expect(page.get_by_role("combobox")).to_have_value("mean [ ?")
    page.keyboard.press("Escape")
    expect(stage(page, "10_order")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Tab")
    for leave in ("Enter", "Escape"):
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys and signs")
        expect(dialog).to_contain_text("Data flows down.")
        expect(dialog.get_by_role("button", name="Close")).to_be_focused()
        page.keyboard.press("[")
        expect(stage(page, "10_order")).to_have_attribute("aria-selected", "true")
        page.keyboard.press(leave)
        expect(dialog).to_be_hidden()


def test_panels_and_the_text_are_used_by_keys(page: Page) -> None:
    names = ["Text", "Source", "States", "Memory"]
    page.get_by_role("tab", name="Text").focus()
    for key, name in [("ArrowRight", names[1]), ("ArrowRight", names[2]), ("End", names[3]), ("Home", names[0])]:
        page.keyboard.press(key)
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        expect(page.get_by_role("tabpanel")).to_have_count(1)
    text(page).focus()
    page.keyboard.press("PageDown")
    page.wait_for_function("() => document.getElementById('text').scrollTop > 0")


def test_a_lit_value_is_marked_in_the_drawing_by_more_than_the_pointer(page: Page) -> None:
    page.get_by_role("tab", name="States").focus()
    page.keyboard.press("Enter")
    page.get_by_role("tabpanel", name="States").get_by_role("button", name="@conv1.weight", exact=True).first.focus()
    assert is_marked(box(page, "phase forward")) and is_marked(box(page, "phase update"))
    assert not is_marked(box(page, "phase backward"))
