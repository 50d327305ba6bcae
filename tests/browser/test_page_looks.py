"""How the page looks: light and dark, colours, contrast, on paper, in narrow windows, larger and smaller."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import graphls
from graphls.ir import dump
from graphls.ir.graph import walk
from tests.browser.chromium import watched_page
from tests.browser.colours import BLINDNESS, distance, low_contrasts
from tests.browser.pages import box, choose, fold, graph, line, middle, panel, place, search, show, stage, text


@pytest.fixture(autouse=True)
def _shown(page: Page, digits_page: Path) -> None:
    show(page, digits_page)


def background(part: Locator) -> tuple[int, ...]:
    """The three bytes of an opaque background."""
    colour = part.evaluate("part => getComputedStyle(part).backgroundColor")
    assert colour.startswith("rgb(")
    return tuple(map(int, re.findall(r"\d+", colour)))


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_light_and_dark_follow_the_reader_and_the_button(page: Page, color_scheme: str) -> None:
    body, button = page.locator("body"), page.get_by_role("button", name="Light or dark")
    is_light = [sum(background(body)) > 384]
    for _ in range(2):
        button.click()
        is_light.append(sum(background(body)) > 384)
    wanted = color_scheme == "light"
    assert is_light == [wanted, not wanted, wanted]


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_all_text_stands_out(page: Page, color_scheme: str) -> None:
    assert low_contrasts(page) == {}
    fold(box(page, "phase backward"))
    search(page, "relu").first.click()
    assert low_contrasts(page) == {}
    line(page, "%relu =").locator("bdi").last.hover()
    assert low_contrasts(page) == {}
    for name in ("Source", "States"):
        panel(page, name)
        assert low_contrasts(page) == {}
    stage(page, "05_fold").click()
    panel(page, "Changes")
    search(page, "r")
    assert low_contrasts(page) == {}
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keys and signs").click()
    assert low_contrasts(page) == {}


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_phases_and_window_differ_for_the_colour_blind(page: Page, color_scheme: str) -> None:
    legend = page.get_by_role("list", name="Legend")
    colours = {letter: background(legend.get_by_text(letter, exact=True)) for letter in "FBCU"}
    amber = legend.get_by_role("listitem").filter(has_text="overflow window").locator(".swatch")
    colour = amber.evaluate("swatch => getComputedStyle(swatch).borderTopColor")
    colours["window"] = tuple(map(int, re.findall(r"\d+", colour)))
    for blindness in BLINDNESS:
        for (one, a), (other, b) in combinations(colours.items(), 2):
            assert distance(a, b, blindness) > 12, (blindness, one, other)


def test_everything_is_printed(page: Page, digits_step: graphls.Compiled) -> None:
    page.get_by_role("button", name="open all").click()
    page.evaluate("""() => addEventListener("beforeprint", () => {
      const texts = (selector) => [...document.querySelectorAll(selector)].map((part) => part.textContent);
      window.printed = { lines: texts("#lines .line"), boxes: document.querySelectorAll("#canvas .box.node").length };
    })""")
    assert page.pdf().startswith(b"%PDF")
    printed = page.evaluate("printed")
    assert printed["lines"] == dump(digits_step.graph).splitlines()
    assert printed["boxes"] == sum(1 for _ in walk(digits_step.graph))
    expect(text(page).locator(".line")).not_to_have_count(len(printed["lines"]))


def test_paper_has_the_graph_the_legend_and_the_text_and_no_controls(page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 1200})
    search(page, "convolution %conv2").first.click()
    panel(page, "States")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for control in page.get_by_role("button").filter(has_text=re.compile("fit|fold all|open all|◐")).all():
        expect(control).to_be_hidden()
    for hidden in (page.get_by_role("combobox"), page.get_by_role("tablist", name="Panels"), page.locator("#details")):
        expect(hidden).to_be_hidden()
    expect(page.get_by_role("list", name="Legend")).to_be_visible()
    root, width = place(graph(page).locator(".box.graph")), page.evaluate("document.documentElement.scrollWidth")
    assert root["x"] >= 0 and root["x"] + root["width"] <= width <= 900
    shown = place(graph(page))
    assert shown["y"] + shown["height"] >= root["y"] + root["height"]
    rows = text(page).locator(".line")
    expect(rows.last).to_have_text("}")
    below = place(page.locator("#side"))
    assert below["y"] >= root["y"] + root["height"]
    assert place(rows.last)["y"] + place(rows.last)["height"] <= below["y"] + below["height"] + 1
    assert place(rows.first)["y"] >= below["y"]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    expect(page.get_by_role("combobox")).to_be_visible()
    expect(box(page, "convolution %conv2")).to_be_visible()


def test_a_narrow_window_holds_everything(browser: Browser, digits_page: Path) -> None:
    with watched_page(browser, viewport={"width": 390, "height": 844}, has_touch=True) as page:
        show(page, digits_page)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        parts = ("header button:not([role=tab])", "#tools button", "#panels button")
        controls = page.locator(", ".join(f"{part}:visible" for part in parts)).all()
        for part in [*controls, page.get_by_role("combobox"), stage(page, "10_order"), graph(page), text(page)]:
            expect(part).to_be_in_viewport(ratio=0.99)
        assert place(graph(page))["height"] > 200 and place(text(page))["height"] > 200
        expect(page.get_by_role("region", name="Selection")).to_be_hidden()
        box(page, "phase forward").locator(".fold").tap()
        search(page, "convolution %conv2").first.tap()
        expect(box(page, "convolution %conv2")).to_be_in_viewport(ratio=0.99)
        assert place(page.get_by_role("region", name="Selection"))["width"] > 350


def test_what_is_selected_has_the_groups_around_it_in_sight(page: Page) -> None:
    """As far as there is room: not empty paper beside them."""
    stage(page, "04_overflow").click()
    fold(box(page, "phase backward"))
    panel(page, "Changes").locator(".pair", has_text="%exp").get_by_role("button").click()
    pane, outer = place(graph(page)), place(box(page, "phase backward"))
    assert pane["x"] <= outer["x"] < pane["x"] + 60
    expect(box(page, "exp %exp")).to_be_in_viewport(ratio=0.99)


def test_larger_smaller_and_fit(page: Page) -> None:
    page.get_by_role("button", name="open all").click()
    page.locator(".far-name", has_text="forward").click()
    forward = box(page, "phase forward")

    def zoom() -> float:
        return place(forward)["height"] / float(forward.evaluate("box => box.offsetHeight"))

    page.keyboard.press("0")
    assert zoom() == pytest.approx(1, rel=1e-3)
    page.keyboard.press("+")
    page.get_by_role("button", name="Larger").click()
    assert zoom() == pytest.approx(1.25**2, rel=1e-3)
    page.get_by_role("button", name="Smaller").click()
    page.keyboard.press("-")
    assert zoom() == pytest.approx(1, rel=1e-3)
    page.keyboard.press("-")
    assert zoom() == pytest.approx(1 / 1.25, rel=1e-3)
    page.get_by_role("button", name="fit", exact=True).click()
    root, pane = place(graph(page).locator(".box.graph")), place(graph(page))
    assert pane["x"] <= root["x"] and root["x"] + root["width"] <= pane["x"] + pane["width"]
    assert pane["y"] <= root["y"] and (root["y"] + root["height"] <= pane["y"] + pane["height"] or zoom() < 0.09)


def test_the_wheel_zooms_where_the_pointer_is_and_scrolls_else(page: Page) -> None:
    page.get_by_role("button", name="open all").click()
    page.keyboard.press("0")
    search(page, "cast %cast _backbone").first.click()
    target = box(page, "cast %cast")
    x, y, width = (place(target)[each] for each in ("x", "y", "width"))
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -150)
    page.keyboard.up("Control")
    expect_change(page, target, "width", width)
    found = place(target)
    assert found["width"] > 1.5 * width and abs(found["x"] - x) < 2 and abs(found["y"] - y) < 2
    page.mouse.wheel(0, 100)
    expect_change(page, target, "y", y)
    assert place(target)["width"] == found["width"] and place(target)["y"] < y


def expect_change(page: Page, target: Locator, side: str, before: float) -> None:
    """Wait until something has moved or grown by more than a pixel or two."""
    script = "([box, side, before]) => Math.abs(box.getBoundingClientRect()[side] - before) > 2"
    page.wait_for_function(script, arg=[target.element_handle(), side, before])


def test_the_drawing_is_dragged_by_boxes_too(page: Page) -> None:
    page.get_by_role("button", name="open all").click()
    page.keyboard.press("0")
    search(page, "convolution %conv2").first.click()
    target, (x, y) = box(page, "convolution %conv2"), middle(graph(page))
    for grip in ((x, y), middle(target)):
        before, heading = place(target), page.get_by_role("region", name="Selection").inner_text()
        page.mouse.move(*grip)
        page.mouse.down()
        page.mouse.move(grip[0] + 10, grip[1] - 100, steps=4)
        assert place(target)["y"] == pytest.approx(before["y"] - 100, abs=1)
        page.mouse.up()
        page.mouse.move(*grip)
        assert place(target)["y"] == pytest.approx(before["y"] - 100, abs=1)
        assert page.get_by_role("region", name="Selection").inner_text() == heading
    choose(box(page, "cell conv2"))
    assert page.get_by_role("region", name="Selection").inner_text() != heading


def test_the_panels_are_made_wider(page: Page) -> None:
    divider, before = page.get_by_role("separator"), place(text(page))["width"]
    divider.focus()
    page.keyboard.press("ArrowLeft")
    assert place(text(page))["width"] == pytest.approx(before + 40, abs=1)
    found = place(divider)
    page.mouse.move(found["x"] + 2, found["y"] + 200)
    page.mouse.down()
    page.mouse.move(found["x"] + 102, found["y"] + 200, steps=3)
    page.mouse.up()
    assert place(text(page))["width"] == pytest.approx(before - 60, abs=4)
    expect(box(page, "phase forward")).to_be_in_viewport(ratio=0.99)
