"""What a reader finds in the page of the demo: phases, the window, groups, wires, text."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import graphls
from graphls.ir import dump
from tests.browser.pages import AMBER, box, choose, details, fold, graph, middle, place, show, text


@pytest.fixture(autouse=True)
def _shown(page: Page, digits_page: Path) -> None:
    show(page, digits_page)


def test_the_first_view_is_the_whole_step_from_top_to_bottom(page: Page) -> None:
    phases = box(page, "phase").all()
    names = [str(phase.get_attribute("aria-label")).split(",")[0] for phase in phases]
    tops = {phase: place(phase)["y"] for phase in phases}
    ordered = [name for _, name in sorted(zip(tops.values(), names, strict=True))]
    assert ordered == ["phase forward", "phase check", "phase backward", "phase check", "phase update"]
    for phase in phases:
        expect(phase).to_be_in_viewport(ratio=0.99)
    for name in ("input %inputs_0", "input %inputs_1", "output %loss_fn", "output %overflow", "output %maximum_1"):
        expect(box(page, name)).to_be_in_viewport(ratio=0.99)


def test_groups_that_follow_each_other_do_not_overlap(page: Page) -> None:
    page.get_by_role("button", name="fold all").click()
    places = sorted((place(each) for each in box(page, "phase").all()), key=lambda each: each["y"])
    assert all(above["y"] + above["height"] < below["y"] for above, below in pairwise(places))


def test_the_window_is_shaded_from_where_it_opens_to_where_it_closes(page: Page) -> None:
    shades = [place(each) for each in page.locator("svg rect").all() if fill(each) == AMBER]

    def is_shaded(name: str) -> bool:
        x, y = middle(box(page, name))
        return any(s["x"] <= x <= s["x"] + s["width"] and s["y"] <= y <= s["y"] + s["height"] for s in shades)

    assert is_shaded("phase backward") and not is_shaded("phase forward") and not is_shaded("phase update")
    opens, closes = box(page, "phase check").all()
    assert opens.inner_text().split() == ["▸", "C", "check", "overflow_start", "%status"]
    assert closes.inner_text().split() == ["▸", "C", "check", "overflow_get", "%overflow"]
    for border in (opens, closes):
        expect(border).to_have_css("border-top-color", AMBER)
    fold(opens)
    box(page, "overflow_start %status").click()
    assert re.search(r"opens\s+the overflow window, which has \d+ nodes inside", details(page).inner_text())


def fill(rect: Locator) -> str:
    return str(rect.evaluate("rect => getComputedStyle(rect).fill"))


def test_an_open_window_shades_the_open_backward(page: Page) -> None:
    fold(box(page, "phase backward"))
    backward = place(box(page, "phase backward"))
    shades = [place(each) for each in page.locator("svg rect").all() if fill(each) == AMBER]
    assert any(s["x"] <= backward["x"] and s["width"] >= backward["width"] for s in shades)


@pytest.mark.parametrize(
    "toggle",
    [fold, Locator.dblclick, lambda group: group.press("Enter"), lambda group: group.press(" ")],
    ids=["sign", "double click", "Enter", "space"],
)
def test_groups_open_and_fold(page: Page, toggle: Callable[[Locator], object]) -> None:
    forward, inner = box(page, "phase forward"), box(page, "cell network, 27 nodes, forward")
    expect(forward).to_have_attribute("aria-expanded", "false")
    expect(inner).to_have_count(0)
    choose(forward)
    toggle(forward)
    expect(forward).to_have_attribute("aria-expanded", "true")
    expect(inner).to_be_visible()
    assert place(forward)["y"] < place(inner)["y"]
    fold(forward)
    expect(forward).to_have_attribute("aria-expanded", "false")
    expect(inner).to_have_count(0)


def test_all_groups_open_and_fold_at_once(page: Page) -> None:
    page.get_by_role("button", name="open all").click()
    expect(graph(page).locator('[aria-expanded="false"]')).to_have_count(0)
    expect(box(page, "convolution %conv1")).to_be_visible()
    box(page, "convolution %conv1").click()
    page.get_by_role("button", name="fold all").click()
    expect(graph(page).locator('[aria-expanded="true"]')).to_have_count(1)
    expect(box(page, "convolution %conv1")).to_have_count(0)
    expect(details(page).get_by_role("heading")).to_contain_text("forward")


def test_every_phase_has_its_letter_and_its_colour(page: Page) -> None:
    legend = page.get_by_role("list", name="Legend")
    colours = {}
    for letter, phase in {"F": "forward", "B": "backward", "C": "check", "U": "update"}.items():
        expect(legend.get_by_role("listitem").filter(has_text=f"{letter} {phase}")).to_be_visible()
        badge = box(page, f"phase {phase}").first.locator(".badge")
        expect(badge).to_have_text(letter)
        colours[badge.evaluate("badge => getComputedStyle(badge).backgroundColor")] = phase
    assert len(colours) == 4


def test_wires_carry_types_and_bytes(page: Page) -> None:
    for shown in ("f32[64,1,8,8]", "i32[64]", "token", "bool[]"):
        expect(graph(page).get_by_text(shown, exact=True).first).to_be_visible()
    tips = page.locator("svg .hit title").all_text_contents()
    assert "%inputs_0: f32[64,1,8,8], 16.0 KiB" in tips and "%overflow: bool[], 1 B" in tips


def test_control_edges_are_dashed_and_only_they(page: Page) -> None:
    wires = page.locator("svg path.wire")
    dashes = wires.evaluate_all("wires => wires.map(wire => getComputedStyle(wire).strokeDasharray !== 'none')")
    tips = page.locator("svg .hit title").all_text_contents()
    assert [" waits for " in tip for tip in tips] == dashes
    assert "check waits for forward" in tips and "backward waits for check" in tips and not all(dashes)


def test_the_text_is_that_of_the_stage(page: Page, digits_step: graphls.Compiled) -> None:
    expected, found = dump(digits_step.graph).splitlines(), dict[int, str]()
    while len(found) < len(expected):
        before = len(found)
        rows = text(page).locator(".line").evaluate_all(
            "rows => rows.map(row => [Number(row.dataset.line), row.textContent])"
        )
        found.update({number: shown for number, shown in rows})
        assert len(found) > before
        text(page).evaluate("""pane => {
          pane.scrollTop += pane.clientHeight;
          return new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        }""")
    assert [found[i] for i in range(len(expected))] == expected
