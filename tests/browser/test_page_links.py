"""How graph, text, details and source lines lead to each other."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import graphls
from graphls import ops
from tests.browser.pages import (
    box,
    choose,
    details,
    fact,
    fold,
    is_marked,
    is_painted,
    line,
    panel,
    search,
    show,
    token,
)  # fmt: skip
from tests.browser.steps import DIGITS


@pytest.fixture(autouse=True)
def _shown(page: Page, digits_page: Path) -> None:
    show(page, digits_page)


def opened(page: Page, *names: str) -> None:
    for name in names:
        fold(box(page, name))


def test_a_value_of_the_text_lights_its_definition_and_its_uses(page: Page) -> None:
    opened(page, "phase forward", "cell network", "cell _backbone", "cell conv1")
    line(page, "%conv1 =").scroll_into_view_if_needed()
    definition, use, other = box(page, "convolution %conv1"), box(page, "cell relu").first, box(page, "cell conv2")
    token(page, "%conv1").first.hover()
    assert is_marked(definition) and is_marked(use) and not is_marked(other)
    assert token(page, "%conv1").count() == 2 and all(map(is_painted, token(page, "%conv1").all()))
    assert not is_painted(token(page, "%relu").first)
    assert page.locator("#overlay path").count() == 1
    page.get_by_role("combobox").hover()
    assert not is_marked(definition) and not is_painted(token(page, "%conv1").first)


def test_a_box_lights_its_values_in_the_text(page: Page) -> None:
    opened(page, "phase forward", "cell network", "cell _backbone")
    box(page, "cast %cast").hover()
    assert token(page, "%cast").count() == 2 and all(map(is_painted, token(page, "%cast").all()))
    assert is_marked(box(page, "cell conv1"))


def test_a_wire_lights_its_values(page: Page) -> None:
    wire = page.locator("svg path.hit", has_text="%inputs_0: f32[64,1,8,8]")
    point = wire.evaluate("""wire => {
      const point = wire.getPointAtLength(wire.getTotalLength() / 2).matrixTransform(wire.getScreenCTM());
      return [point.x, point.y];
    }""")
    page.mouse.move(*point)
    assert is_marked(box(page, "input %inputs_0")) and is_marked(box(page, "phase forward"))
    assert all(map(is_painted, token(page, "%inputs_0").all()))


def test_values_of_the_details_are_lit_too(page: Page) -> None:
    opened(page, "phase forward", "cell network", "cell _backbone")
    box(page, "cast %cast").click()
    fact(page, "reads").get_by_role("button", name="%inputs_0").hover()
    assert is_marked(box(page, "input %inputs_0"))


def test_the_details_of_a_node(page: Page) -> None:
    search(page, "convolution %conv1").first.click()
    expect(details(page).get_by_role("heading")).to_have_text("F convolution %conv1")
    expect(fact(page, "phase")).to_contain_text("forward")
    expect(fact(page, "cell")).to_contain_text("network._backbone.conv1")
    expect(fact(page, "reads")).to_contain_text("%cast f16[64,1,8,8] · 8.00 KiB")
    expect(fact(page, "gives")).to_contain_text("%conv1 f16[64,16,8,8] · 128 KiB")
    expect(fact(page, "gives")).to_contain_text("used by F relu %relu")
    expect(fact(page, "attributes")).to_contain_text("strides=[1, 1], pads=[1, 1, 1, 1]")
    fact(page, "gives").get_by_role("button", name="relu %relu").click()
    expect(details(page).get_by_role("heading")).to_have_text("F relu %relu")
    fact(page, "reads").get_by_role("button", name="%conv1").click()
    expect(details(page).get_by_role("heading")).to_have_text("F convolution %conv1")


def test_the_details_of_a_group(page: Page) -> None:
    choose(box(page, "phase backward"))
    expect(fact(page, "holds")).to_contain_text("46 nodes")
    expect(fact(page, "gives")).to_contain_text("f32[16,1,3,3] · 576 B")
    choose(box(page, "phase update"))
    expect(fact(page, "reads")).to_contain_text("@scale_sense f32[] · 4 B")
    expect(fact(page, "writes")).to_contain_text("@conv1.weight f32[16,1,3,3] · 576 B")


def test_a_node_shows_the_line_that_made_it_with_its_neighbours(page: Page) -> None:
    lines = DIGITS.read_text(encoding="utf-8").splitlines()
    (number,) = (i for i, each in enumerate(lines, 1) if "self.conv2(x)" in each)
    search(page, "convolution %conv2").first.click()
    shown = details(page).locator(".code:has(.number)")
    expected = [(str(i), lines[i - 1]) for i in range(number - 3, number + 4)]
    found = [tuple(row.locator("span, bdi").all_text_contents()) for row in shown.all()]
    assert [(i, each.rstrip()) for i, each in found] == expected
    (here,) = (row for row in shown.all() if is_painted(row))
    assert here.locator("bdi").text_content() == lines[number - 1]


def test_a_source_link_leads_to_all_nodes_of_the_line(page: Page) -> None:
    search(page, "convolution %conv2").first.click()
    details(page).get_by_role("button", name=re.compile(r"digits\.py:\d+$")).click()
    source = page.get_by_role("tabpanel", name="Source")
    expect(page.get_by_role("tab", name="Source")).to_have_attribute("aria-selected", "true")
    here = source.locator(".here")
    expect(here).to_contain_text("x = self.pool(self.relu(self.conv2(x)))")
    expect(here).to_be_in_viewport()
    assert is_painted(here)
    expect(here).to_contain_text("13 nodes")
    made = source.locator(".here + .made").get_by_role("button")
    expect(made).to_have_count(13)
    made.filter(has_text="convolution_weight_gradient").click()
    expect(details(page).get_by_role("heading")).to_contain_text("B convolution_weight_gradient")
    here.get_by_role("button", name="13 nodes").click()
    expect(made).to_have_count(0)


def test_a_line_and_a_value_of_the_text_select_their_node(page: Page) -> None:
    line(page, "%relu =").locator("bdi").last.click()
    expect(details(page).get_by_role("heading")).to_have_text("F convolution %conv1")
    row = line(page, "%pool,")
    row.click(position={"x": 4, "y": 9})
    expect(details(page).get_by_role("heading")).to_have_text("F max_pool %pool %max_pool_1")
    expect(box(page, "max_pool %pool")).to_be_in_viewport()
    assert is_painted(row)


def test_states_with_their_readers_and_their_writer(page: Page) -> None:
    states = panel(page, "States")
    expect(states).to_contain_text("18 states of 107 KiB outlive the step.")
    rows = states.get_by_role("row")
    expect(rows).to_have_count(1 + 18)
    row = rows.filter(has_text="@conv1.weight f32[16,1,3,3] · 576 B")
    _, readers, writer = row.get_by_role("cell").all()
    expect(readers).to_contain_text("F cast %weight")
    expect(readers).to_contain_text("U sub")
    expect(writer).to_contain_text("U cond")
    expect(rows.filter(has_text=re.compile("^@momentum "))).to_contain_text("not written")
    readers.get_by_role("button", name="cast %weight").click()
    expect(box(page, "cast %weight")).to_be_in_viewport()
    expect(box(page, "cast %weight")).to_contain_text("@conv1.weight")
    writer.get_by_role("button").click()
    expect(details(page).get_by_role("heading")).to_contain_text("U cond")
    expect(fact(page, "gives").nth(1)).to_contain_text("written to @")


def test_a_state_leads_to_its_line(page: Page) -> None:
    panel(page, "States").get_by_role("button", name="@fc2.bias", exact=True).first.click()
    expect(line(page, "state @fc2.bias")).to_be_in_viewport()
    assert is_painted(line(page, "state @fc2.bias")) and not is_painted(line(page, "state @fc2.weight"))
    line(page, "%cast =").click(position={"x": 4, "y": 9})
    assert not is_painted(line(page, "state @fc2.bias"))


def test_a_line_of_a_notebook_is_called_as_there(page: Page, tmp_path: Path) -> None:
    code, file = "def run(x):\n    return ops.exp(x)\n", "<ipython-input-7-0a1b2c>"
    linecache.cache[file] = len(code), None, code.splitlines(True), file
    names: dict[str, Any] = {"ops": ops}
    exec(compile(code, file, "exec"), names)
    show(page, graphls.compile(names["run"], np.ones(3, np.float32), backend="numpy").show(tmp_path / "page.html"))
    expect(line(page, "%exp =")).to_contain_text("| Cell In[7], line 2")
    line(page, "%exp =").click()
    expect(details(page)).to_contain_text("return ops.exp(x)")
    details(page).get_by_role("button", name="Cell In[7], line 2").click()
    source = page.get_by_role("tabpanel", name="Source")
    expect(source.get_by_role("heading")).to_have_text("Cell In[7]")
    expect(source.locator(".here")).to_contain_text("return ops.exp(x)")
