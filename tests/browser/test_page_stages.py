"""What each pass did: tabs of stages, marks of what is new and changed, and the list of changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import graphls
from graphls.inspect.diff.diff import diff
from graphls.ir.graph import PHASES, walk
from tests.browser.pages import box, details, graph, is_painted, line, panel, place, search, show, stage, text, token

MINUS = "\N{MINUS SIGN}"


@pytest.fixture(autouse=True)
def _shown(page: Page, digits_page: Path) -> None:
    show(page, digits_page)


def stage_shown(page: Page) -> str:
    chosen = page.get_by_role("tablist", name="Stages of the compiler").get_by_role("tab", selected=True)
    expect(chosen).to_have_count(1)
    expect(chosen).to_be_in_viewport()
    name = str(chosen.locator("bdi").text_content())
    assert graph(page).get_attribute("aria-label") == f"Graph of {name}"
    return name


def test_every_pass_has_a_tab_that_counts_what_it_did(page: Page, digits_step: graphls.Compiled) -> None:
    tabs = page.get_by_role("tablist", name="Stages of the compiler").get_by_role("tab")
    assert tabs.locator("bdi").all_text_contents() == [*digits_step.stages]
    counts = tabs.locator(".counts").all_text_contents()
    assert counts[0] == ""
    for (before, after), shown in zip(pairwise(digits_step.stages.values()), counts[1:], strict=True):
        found = diff(before, after)
        signs = {"+": len(found.added), MINUS: len(found.removed), "~": len(found.changed)}
        assert shown == (" ".join(f"{sign}{count}" for sign, count in signs.items() if count) or "=")


def test_stages_are_switched_by_click_and_by_keys(page: Page, digits_step: graphls.Compiled) -> None:
    names = [*digits_step.stages]
    assert stage_shown(page) == names[-1]
    for name in names:
        stage(page, name).click()
        assert stage_shown(page) == name
    for key, position in [("[", -2), ("[", -3), ("]", -2), ("]", -1), ("]", -1)]:
        page.keyboard.press(key)
        assert stage_shown(page) == names[position]
    stage(page, names[-1]).click()
    moves = [("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", -1), ("ArrowRight", 0), ("End", -1)]
    for key, position in moves:
        page.keyboard.press(key)
        assert stage_shown(page) == names[position]
        expect(stage(page, names[position])).to_be_focused()


def test_every_stage_shows_its_own_nodes(page: Page, digits_step: graphls.Compiled) -> None:
    for name, shown in digits_step.stages.items():
        stage(page, name).click()
        for phase in PHASES:
            boxes = box(page, f"phase {phase}").all()
            counts = [int(str(each.get_attribute("aria-label")).split(", ")[1].split()[0]) for each in boxes]
            assert sum(counts) == sum(node.phase == phase for node in walk(shown))


def test_marks_say_what_is_new_and_changed(page: Page, digits_step: graphls.Compiled) -> None:
    found = diff(digits_step.stages["03_hoist"], digits_step.stages["04_overflow"])
    changed = [node for _, node in found.changed]
    stage(page, "04_overflow").click()
    backward = [node for node in changed if node.phase == "backward"]
    expect(box(page, "phase backward").locator(".mark")).to_have_text(f"~{len(backward)}")
    expect(box(page, "phase backward, 52 nodes, backward, changed in this stage")).to_have_count(1)
    expect(box(page, "phase forward").locator(".mark")).to_have_count(0)
    page.get_by_role("button", name="open all").click()
    for node in changed:
        name = node.outputs[0].name
        search(page, f"{node.primitive.name} %{name}").first.click()
        expect(box(page, f"{node.primitive.name} %{name}").locator(".mark")).to_have_text("~")
        row = line(page, f"%{name} =")
        assert row.evaluate("row => getComputedStyle(row, '::before').content") == '"~"'
    expect(page.get_by_role("list", name="Legend").get_by_text("changed")).to_be_visible()
    stage(page, "00_trace").click()
    expect(page.get_by_role("list", name="Legend").get_by_text("changed")).to_be_hidden()


def test_new_nodes_are_marked_in_both_panes(page: Page, digits_step: graphls.Compiled) -> None:
    found = diff(digits_step.stages["04_overflow"], digits_step.stages["05_fold"])
    assert found.added
    stage(page, "05_fold").click()
    for node in found.added:
        (name,) = (value.name for value in node.outputs)
        search(page, f"{node.primitive.name} %{name}").first.click()
        expect(box(page, f"{node.primitive.name} %{name}").locator(".mark")).to_have_text("+")
        row = line(page, f"%{name} =")
        assert row.evaluate("row => getComputedStyle(row, '::before').content") == '"+"'


def is_moved(was: Sequence[str]) -> bool:
    """Whether all that changed of a node is the region that it is in."""
    return len(was) == 1 and was[0].startswith(("in region", "in no region"))


def test_the_changes_say_what_a_pass_did(page: Page, digits_step: graphls.Compiled) -> None:
    changes = panel(page, "Changes")
    for (before_name, before), (name, after) in pairwise(digits_step.stages.items()):
        found = diff(before, after)
        stage(page, name).click()
        moved = sum(is_moved(found.was[node]) for _, node in found.changed)
        sizes = {"Changed": len(found.changed) - moved, "Moved": moved}
        others = len([*found.inputs, *found.states, *found.writes, *found.outputs])
        sizes |= {"New": len(found.added), "Gone": len(found.removed), "Also different": others}
        titles = [f"{title} ({size})" for title, size in sizes.items() if size]
        expect(changes.get_by_role("heading")).to_have_text(titles)
        if not titles:
            expect(changes).to_contain_text(f"The same as {before_name}, up to names and order.")
    stage(page, "00_trace").click()
    expect(changes).to_contain_text("This is the first stage.")


def test_a_change_shows_both_nodes_and_leads_to_the_new_one(page: Page) -> None:
    stage(page, "04_overflow").click()
    changes = panel(page, "Changes")
    expect(changes).to_contain_text("Compared with 03_hoist.")
    pair = changes.locator(".pair", has_text="%exp = exp")
    place = "// backward network._loss_fn | tests/browser/steps.py:40"
    before = f"{MINUS} %exp = exp(%log_softmax) : f32[64,10] {place}"
    after = f"+ %exp = exp(%log_softmax) after(%status) : f32[64,10] {place}"
    assert " ".join(pair.inner_text().split()) == f"{before} {after} was without after"
    pair.get_by_role("button").click()
    expect(details(page).get_by_role("heading")).to_have_text("B exp %exp")
    expect(box(page, "exp %exp")).to_be_in_viewport()
    expect(details(page).get_by_role("row", name="was without after")).to_be_visible()


def test_a_node_that_is_gone_leads_to_the_stage_before(page: Page, digits_step: graphls.Compiled) -> None:
    found = diff(digits_step.stages["08_factor"], digits_step.stages["09_dce"])
    stage(page, "09_dce").click()
    gone = panel(page, "Changes").locator(".removed").get_by_role("button")
    expect(gone).to_have_count(len(found.removed))
    name = f"%{found.removed[0].outputs[0].name}"
    gone.first.click()
    assert stage_shown(page) == "08_factor"
    expect(details(page).get_by_role("heading")).to_contain_text(name)
    expect(box(page, f"{found.removed[0].primitive.name} {name}")).to_be_in_viewport()
    panel(page, "Text")
    expect(line(page, f"{name} =")).to_be_in_viewport()
    assert is_painted(line(page, f"{name} ="))


def test_selection_and_open_groups_stay_from_stage_to_stage(page: Page) -> None:
    search(page, "convolution %conv2").first.click()
    for name in ("07_merge", "04_overflow", "00_trace", "10_order"):
        stage(page, name).click()
        expect(details(page).get_by_role("heading")).to_have_text("F convolution %conv2")
        expect(box(page, "convolution %conv2")).to_be_in_viewport()
        expect(token(page, "%conv2").first).to_be_in_viewport()


def test_panels_are_those_of_the_stage(page: Page, digits_step: graphls.Compiled) -> None:
    states = panel(page, "States")
    first, last = next(iter(digits_step.stages.values())), digits_step.graph
    assert len(first.states) <= len(last.states)
    stage(page, "00_trace").click()
    expect(states).to_contain_text(f"{len(first.states)} states of ")
    expect(states.get_by_role("row")).to_have_count(1 + len(first.states))
    source = panel(page, "Source")
    made = source.get_by_role("button", name=re.compile(r"\d+ nodes?$"))
    here = sum(int(str(count).split()[0]) for count in made.all_text_contents())
    stage(page, "10_order").click()
    assert sum(int(str(count).split()[0]) for count in made.all_text_contents()) > here > 0
    panel(page, "Text")
    expect(text(page)).to_contain_text("state @conv1.weight")


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_stages_for_which_there_is_no_room_are_reached_by_arrows(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    tabs = page.get_by_role("tablist", name="Stages of the compiler")
    earlier, later = (page.get_by_role("button", name=f"{name} stages") for name in ("Earlier", "Later"))

    def seen() -> list[str]:
        """The stages that can be read; each is wholly in sight."""
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
        room = place(tabs)
        opacity = "tab => getComputedStyle(tab).opacity"
        shown = [tab for tab in tabs.get_by_role("tab").all() if tab.evaluate(opacity) == "1"]
        for tab in shown:
            found = place(tab)
            assert found["x"] >= room["x"] - 1 and found["x"] + found["width"] <= room["x"] + room["width"] + 1
        return [tab.locator("bdi").inner_text() for tab in shown]

    assert "10_order" in seen() and "00_trace" not in seen()
    expect(later).to_be_disabled()
    while earlier.is_enabled():
        earlier.click()
        last = seen()
    assert last[0] == "00_trace" and "10_order" not in last
    page.set_viewport_size({"width": 1900, "height": 800})
    assert len(seen()) == tabs.get_by_role("tab").count()
    expect(earlier).to_be_hidden()
