"""A page with a profile: shares on the boxes, times by phase, primitive, cell and node, and memory at its peak."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

import graphls
from graphls.inspect.profile.memory import memory_of
from graphls.ir.text import reference
from tests.browser.colours import low_contrasts
from tests.browser.pages import box, details, fact, fold, panel, place, search, show, stage

BACKGROUND = "box => getComputedStyle(box).backgroundColor"
PERCENT = re.compile(r"(\d+\.\d) %")


@pytest.fixture(scope="module")
def profiled(digits_step: graphls.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    images, labels = np.zeros((64, 1, 8, 8), np.float32), np.zeros(64, np.int32)
    profile = digits_step.profile(images, labels, steps=2)
    values = digits_step.record(np.ones_like(images), labels)
    return digits_step.show(tmp_path_factory.mktemp("pages") / "profiled.html", profile=profile, values=values)


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
    told = r"A step takes [\d.]+ .s\..* [\d.]+ .s are in no node.* The profiler itself takes [\d.]+ .s"
    expect(profile).to_contain_text(re.compile(told))
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
    for name in ("Profile", "Values"):
        expect(page.get_by_role("tab", name=name)).to_be_hidden()
    assert share(box(page, "phase forward")) == 0


def test_shares_of_a_short_step_are_the_profilers(page: Page, tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    step = graphls.compile(lambda x: x / 4, x)
    told = "shares are the profiler's."
    for seconds, has_note in ((9e-4, True), (2e-3, False)):
        profile = replace(step.profile(x, steps=2), unprofiled_seconds=seconds)
        show(page, step.show(tmp_path / f"{has_note}.html", profile))
        expect(panel(page, "Profile").locator("p").first).to_contain_text(told if has_note else "in no share.")
        assert (told in (panel(page, "Profile").text_content() or "")) == has_note


def test_memory_and_operations_are_drawn_over_the_step(page: Page, digits_step: graphls.Compiled) -> None:
    shown, memory = panel(page, "Memory"), memory_of(digits_step.graph, "cpu")
    drawing = shown.get_by_role("img")
    assert memory.at is not None
    peak = f"{memory.at.primitive.name} {reference(memory.at.outputs[0])}"
    expect(drawing).to_have_attribute("aria-label", re.compile(f"at most, while {re.escape(peak)} runs"))
    expect(drawing).to_contain_text(re.compile(r"[\d.]+ MiB at most"))
    assert drawing.locator("path.forward").count() > 2 < drawing.locator("path.backward").count()
    expect(shown).to_contain_text("A value is held from the node that computes it to its last use.")
    expect(shown).to_contain_text("held with the float32 copy that kernels on a CPU take: 6 bytes an element, not 2.")
    relu = shown.get_by_role("row").filter(has_text="%relu f16[64,16,8,8] · 128 KiB")
    expect(relu).to_contain_text("384 KiB: 128 KiB and 256 KiB as float32")
    slider = shown.get_by_role("slider", name="Node of the step")
    expect(shown).to_contain_text(re.compile(f"While.*{re.escape(peak)}.*values alive"))
    cells = shown.get_by_role("table").last
    expect(cells.get_by_role("row").filter(has_text="conv2").first).to_contain_text(re.compile(r"\d M\s*[\d.]+ KiB"))
    slider.press("Home")
    first = next(node for node in memory.while_running)
    expect(shown).to_contain_text(re.compile(f"While.*{re.escape(reference(first.outputs[0]))}.*runs"))
    found = place(drawing)
    page.mouse.click(found["x"] + found["width"] - 3, found["y"] + 40)
    expect(details(page).get_by_role("heading")).to_contain_text("U")
    assert low_contrasts(page) == {}


def test_values_of_a_run_are_shown_on_demand(page: Page) -> None:
    shown = panel(page, "Values")
    expect(shown).to_contain_text(re.compile(r"\d+ float values of one run, \d+ of them not finite everywhere\."))
    bad = shown.locator(".pair", has_text="%cast_1").first
    expect(bad).to_contain_text(re.compile(r"not finite [\d.]+ % · min .* · max .* · mean .* · zeros .* %$"))
    expect(bad.get_by_role("img", name="Histogram of %cast_1: ")).to_be_visible()
    nowhere = shown.locator(".pair", has_text="not finite 100.0 %").first
    expect(nowhere).to_contain_text(re.compile(r"not finite 100\.0 %$"))
    expect(nowhere.get_by_role("img")).to_have_count(0)
    bad.get_by_role("button").click()
    expect(fact(page, "gives")).to_contain_text("not finite")
    backward, button = box(page, "phase backward").first, page.get_by_role("button", name="not finite")
    plain = backward.evaluate(BACKGROUND)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    assert backward.evaluate(BACKGROUND) != plain
    expect(box(page, "phase forward").first).not_to_have_class(re.compile("bad"))
    assert low_contrasts(page) == {}
    button.click()
    assert backward.evaluate(BACKGROUND) == plain
    stage(page, "00_trace").click()
    expect(page.get_by_role("tab", name="Values")).to_be_hidden()
    expect(page.get_by_role("tab", name="Memory")).to_be_hidden()
    expect(button).to_be_hidden()


def test_a_run_without_an_overflow_has_nothing_to_tint(page: Page, tmp_path: Path) -> None:
    x = np.ones(3, np.float32)
    step = graphls.compile(lambda x: x / 4, x, backend="numpy")
    show(page, step.show(tmp_path / "page.html", values=step.record(x)))
    expect(panel(page, "Values")).to_contain_text("all of them finite")
    expect(panel(page, "Values").locator(".pair").first).to_contain_text(re.compile(r"KiB|B\s*min .* zeros 0\.0 %$"))
    expect(page.get_by_role("button", name="not finite")).to_be_hidden()
