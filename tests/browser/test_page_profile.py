"""A page with a profile: shares on the boxes, times by phase, primitive, cell and node, and memory at its peak."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

import graphls
from tests.browser.colours import low_contrasts
from tests.browser.pages import box, details, fact, fold, panel, place, search, show, stage

PERCENT = re.compile(r"(\d+\.\d) %")


@pytest.fixture(scope="module")
def profiled(digits_step: graphls.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    images, labels = np.zeros((64, 1, 8, 8), np.float32), np.zeros(64, np.int32)
    profile = digits_step.profile(images, labels, steps=2)
    return digits_step.show(tmp_path_factory.mktemp("pages") / "profiled.html", profile=profile)


@pytest.fixture(autouse=True)
def _shown(page: Page, profiled: Path) -> None:
    show(page, profiled)


def share(box: Locator) -> float:
    found = PERCENT.search(box.inner_text())
    return float(found[1]) if found else 0.0


def test_boxes_show_their_share_of_the_step(page: Page) -> None:
    page.get_by_role("button", name="fold all").click()
    phases = [box(page, f"phase {name}").first for name in ("forward", "backward", "update")]
    shares = [share(phase) for phase in phases]
    assert all(value > 0 for value in shares) and sum(shares) <= 100.1
    for phase, value in zip(phases, shares, strict=True):
        bar = phase.locator(".share")
        expect(bar).to_have_attribute("title", f"{value:.1f} % of the step")
        assert place(bar)["width"] == pytest.approx(max(0.01, value / 100) * place(phase)["width"], abs=6)
    fold(phases[0])
    assert share(phases[0]) == shares[0]
    expect(phases[0].locator(".share")).to_have_count(0)
    expect(box(page, "cell network, 27 nodes, forward").locator(".share")).to_be_visible()


def test_the_profile_has_times_and_memory(page: Page) -> None:
    profile = panel(page, "Profile")
    expect(profile).to_contain_text(re.compile(r"[\d.]+ m?µ?s per step, of which [\d.]+ m?µ?s are in no node"))
    tables = profile.get_by_role("table")
    for number, (title, name) in enumerate([("phase", "backward"), ("primitive", "convolution"), ("cell", "network")]):
        expect(tables.nth(number).get_by_role("columnheader").first).to_have_text(title)
        row = tables.nth(number).get_by_role("row").filter(has_text=re.compile(f"^{name}"))
        expect(row.first).to_contain_text(PERCENT)
    expect(profile.get_by_role("heading")).to_have_text(re.compile("^Memory: [0-9.]+ .?i?B at most, by liveness$"))
    expect(tables.nth(4)).to_contain_text("states")
    tables.nth(3).get_by_role("button").first.click()
    expect(details(page).get_by_role("heading")).to_be_visible()
    expect(fact(page, "time")).to_contain_text(re.compile(r"per step, [\d.]+ %"))
    assert low_contrasts(page) == {}


def test_the_profile_belongs_to_the_last_stage(page: Page) -> None:
    panel(page, "Profile")
    stage(page, "00_trace").click()
    expect(page.get_by_role("tab", name="Profile")).to_be_hidden()
    expect(page.get_by_role("tabpanel", name="Text")).to_be_visible()
    expect(box(page, "phase forward").locator(".share")).to_have_count(0)
    stage(page, "10_order").click()
    expect(page.get_by_role("tab", name="Profile")).to_be_visible()
    search(page, "convolution %conv2").first.click()
    expect(fact(page, "time")).to_be_visible()


def test_a_page_without_a_profile_has_no_times(page: Page, digits_page: Path) -> None:
    show(page, digits_page)
    expect(page.get_by_role("tab", name="Profile")).to_be_hidden()
    assert share(box(page, "phase forward")) == 0
