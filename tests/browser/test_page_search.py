"""Search: by name, by primitive, by cell path, by state; where what was found leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import box, details, graph, is_painted, line, search, show, stage


@pytest.fixture(autouse=True)
def _shown(page: Page, digits_page: Path) -> None:
    show(page, digits_page)


@pytest.mark.parametrize(
    "words, names",
    [
        ("%log_softmax", {"log_softmax %log_softmax"}),
        ("MAX_POOL", {"max_pool %pool %max_pool_1", "max_pool %pool_1 %max_pool_2"}),
        ("network._loss_fn mean", {"mean %loss_fn"}),
        ("overflow_get", {"overflow_get %overflow"}),
        ("cell _backbone.conv2", {"network._backbone.conv2"}),
        ("inputs_1", {"input %inputs_1"}),
        ("cast @conv1.weight", {"cast %weight"}),
        ("  conv2   cast  %weight ", {"cast %weight_1"}),
    ],
)
def test_all_words_are_found_in_names_primitives_and_cell_paths(page: Page, words: str, names: set[str]) -> None:
    found = search(page, words)
    assert {text for text in found.locator("bdi:not(.where)").all_text_contents()} == names
    expect(page.get_by_role("listbox").get_by_role("status")).to_have_text(f"{found.count()} found")


def test_nothing_found(page: Page) -> None:
    field = page.get_by_role("combobox")
    expect(search(page, "no_such_thing")).to_have_count(0)
    expect(page.get_by_role("listbox")).to_contain_text("Nothing found; search names, primitives and cell paths.")
    field.press("ArrowDown")
    field.press("Enter")
    assert field.get_attribute("aria-activedescendant") is None
    field.fill(" ")
    expect(page.get_by_role("listbox")).to_be_hidden()


def test_enter_opens_the_groups_around_and_shows_it_in_both_panes(page: Page) -> None:
    name = "convolution_weight_gradient %convolution_weight_gradient_1"
    expect(box(page, name)).to_have_count(0)
    search(page, "weight_gradient_1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(box(page, name)).to_be_focused()
    expect(box(page, name)).to_be_in_viewport(ratio=0.99)
    row = line(page, "%convolution_weight_gradient_1 =")
    expect(row).to_be_in_viewport()
    assert is_painted(row)
    expect(details(page).get_by_role("heading")).to_have_text(f"B {name}")
    for outer in ("phase backward", "cell network", "cell _backbone", "cell conv1"):
        expect(box(page, outer).and_(graph(page).locator('[aria-expanded="true"]'))).not_to_have_count(0)


def test_arrows_choose_and_escape_leaves(page: Page) -> None:
    found, field = search(page, "relu"), page.get_by_role("combobox")
    names = found.all_text_contents()
    assert len(names) > 3
    for key, position in [("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("ArrowUp", 0), ("ArrowUp", -1)]:
        field.press(key)
        chosen = page.get_by_role("option", selected=True)
        assert chosen.all_text_contents() == [names[position]]
        assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    field.press("Escape")
    expect(page.get_by_role("listbox")).to_be_hidden()
    assert field.get_attribute("aria-expanded") == "false"
    expect(details(page).get_by_role("heading")).to_have_count(0)


def test_a_click_takes_and_a_click_elsewhere_leaves(page: Page) -> None:
    search(page, "relu").nth(1).click()
    expect(page.get_by_role("listbox")).to_be_hidden()
    expect(details(page).get_by_role("heading")).to_contain_text("relu")
    search(page, "relu")
    graph(page).click(position={"x": 5, "y": 300})
    expect(page.get_by_role("listbox")).to_be_hidden()


def test_what_is_found_belongs_to_the_stage(page: Page) -> None:
    expect(search(page, "overflow_start")).to_have_count(1)
    stage(page, "00_trace").click()
    expect(search(page, "convolution_weight_gradient")).to_have_count(0)
    expect(search(page, "convolution")).to_have_count(2)
