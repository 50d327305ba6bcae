"""The page of a training step of a transformer of 12 layers: thousands of nodes, in a document that stays small."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import graphls
from graphls.ir.graph import walk
from tests.browser.colours import low_contrasts
from tests.browser.pages import box, choose, details, graph, is_painted, line, panel, place, search, show, stage, token

MOST = 4000
"""Elements of the document, however much is open."""
OUTER = ("phase backward", "cell network", "cell _backbone", "cell encoder, ", "cell layers, ", "cell layers.7")
PAINTED = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"


@pytest.fixture(autouse=True)
def _shown(page: Page, transformer_page: Path) -> None:
    show(page, transformer_page)


@pytest.fixture
def size(page: Page) -> Callable[[], int]:
    """The number of elements in the document, once what was begun is drawn."""

    def count() -> int:
        page.evaluate(PAINTED)
        return int(page.evaluate("document.querySelectorAll('*').length"))

    return count


def test_it_opens_folded_with_every_phase_in_sight(
    page: Page, transformer_step: graphls.Compiled, size: Callable[[], int]
) -> None:
    nodes = sum(1 for _ in walk(transformer_step.graph))
    expect(box(page, "graph")).to_contain_text(f"{nodes} nodes")
    for phase in ("forward", "backward", "update"):
        expect(box(page, f"phase {phase}")).to_be_in_viewport(ratio=0.99)
    assert size() < 1000


def test_groups_open_one_by_one_down_to_a_node(page: Page, size: Callable[[], int]) -> None:
    for name in (*OUTER, "cell self_attn"):
        shown = box(page, name).and_(graph(page).locator('[aria-expanded="false"]')).last
        choose(shown)
        shown.press("Enter")
        assert size() < MOST
    choose(box(page, "matmul").last)
    expect(details(page)).to_contain_text("network._backbone.encoder.layers.7.self_attn")
    expect(details(page)).to_contain_text("tests/browser/steps.py")


def test_search_leads_to_a_node_deep_inside(page: Page, size: Callable[[], int]) -> None:
    search(page, "matmul layers.11.self_attn.out_proj")
    page.keyboard.press("Enter")
    expect(details(page).get_by_role("heading")).to_contain_text("F matmul %")
    name = details(page).get_by_role("heading").inner_text().split()[-1]
    expect(box(page, f"matmul {name}")).to_be_focused()
    expect(box(page, f"matmul {name}")).to_be_in_viewport(ratio=0.99)
    expect(line(page, f"{name} =")).to_be_in_viewport()
    token(page, name).first.hover()
    assert is_painted(token(page, name).first)
    details(page).get_by_role("button", name="tests/browser/steps.py:").click()
    expect(page.get_by_role("tabpanel", name="Source").locator(".here")).to_contain_text("self.encoder(self.emb")
    assert size() < MOST


def test_every_stage_is_shown_with_its_changes(
    page: Page, transformer_step: graphls.Compiled, size: Callable[[], int]
) -> None:
    changes = panel(page, "Changes")
    for name, shown in transformer_step.stages.items():
        stage(page, name).click()
        expect(box(page, "graph")).to_contain_text(f"{sum(1 for _ in walk(shown))} nodes")
        told = "This is the first stage." if name == "00_trace" else "Compared with|The same as"
        expect(changes).to_contain_text(re.compile(told))
        assert size() < MOST


EDGES = "names => names.map((name) => Object.values(name.getBoundingClientRect().toJSON()))"
HEIGHT = "title => title.getBoundingClientRect().height"


def overlaps(boxes: list[list[float]]) -> list[Any]:
    """The pairs of names that cover each other; each has x, y, width and height first."""
    spans = [(x, x + width, y, y + height) for x, y, width, height, *_ in boxes]
    pairs = combinations(spans, 2)
    return [(a, b) for a, b in pairs if a[0] < b[1] - 1 and b[0] < a[1] - 1 and a[2] < b[3] - 1 and b[2] < a[3] - 1]


def test_all_opened_the_document_stays_small(page: Page, size: Callable[[], int]) -> None:
    page.get_by_role("button", name="open all").click()
    assert size() < MOST
    names = page.locator(".far-name")
    for name in ("forward / network / _backbone", "layers.0", "layers.1"):
        expect(names.filter(has_text=name).first).to_be_in_viewport(ratio=0.99)
    heights = names.evaluate_all("names => names.map((name) => name.getBoundingClientRect().height)")
    assert min(heights) > 16, "names of groups are readable on the map"
    assert overlaps(names.evaluate_all(EDGES)) == [] and low_contrasts(page) == {}
    names.filter(has_text="layers.1").first.click()
    expect(box(page, "cell layers.1, ").first.locator(".title").first).to_be_in_viewport(ratio=0.99)
    assert box(page, "cell layers.1, ").first.locator(".title").first.evaluate(HEIGHT) > 12
    for part in range(1, 9):
        graph(page).evaluate(f"pane => {{ pane.scrollTop = pane.scrollHeight * {part} / 8; }}")
        assert size() < MOST
    page.get_by_role("button", name="fit", exact=True).click()
    assert size() < MOST
    graph(page).evaluate("pane => pane.scrollTo(0, 0)")
    first, second = (place(box(page, f"cell layers.{i}, ").first) for i in range(2))
    assert first["width"] > 1.5 * first["height"], "a layer is read from left to right"
    assert second["y"] > first["y"] + first["height"] and abs(first["x"] - second["x"]) < 2, "the next one stands below"
    stage(page, "00_trace").click()
    assert size() < MOST
    page.get_by_role("button", name="fold all").click()
    assert size() < 1000


def test_states_and_details_with_hundreds_of_rows_are_shortened(page: Page, size: Callable[[], int]) -> None:
    search(page, "cond")
    page.keyboard.press("Enter")
    expect(details(page).get_by_role("heading")).to_contain_text("U cond")
    states = panel(page, "States")
    more = states.get_by_role("button", name="and ", exact=False).last
    expect(more).to_contain_text("more")
    assert size() < MOST
    before = states.get_by_role("row").count()
    more.click()
    assert states.get_by_role("row").count() > before


def test_groups_whose_titles_are_out_of_sight_are_named_above(page: Page) -> None:
    above = page.get_by_role("navigation", name="Groups around the middle")
    expect(above).to_be_hidden()
    search(page, "softmax layers.7.self_attn")
    page.keyboard.press("Enter")
    shown = above.get_by_role("button")
    expect(shown.filter(has_text="layers.7")).to_be_visible()
    names = [name.split()[-1] for name in shown.all_inner_texts()]
    assert names[1:6] == ["forward", "network", "_backbone", "encoder", "layers"]
    shown.filter(has_text="layers.7").click()
    expect(box(page, "cell layers.7").first).to_be_focused()
    expect(shown.filter(has_text="layers.7")).to_have_count(0)
    page.get_by_role("button", name="fit").click()
    expect(above).to_be_hidden()
