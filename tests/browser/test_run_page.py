"""The page of a run, on a wide window and on a phone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

import graphls
from graphls.train import RunReport
from tests.browser.chromium import open_file
from tests.browser.colours import low_contrasts

TEXTS = """() => [...document.querySelectorAll("svg")].filter((svg) => svg.role === "img").map((svg) => {
  const paper = svg.closest("section").getBoundingClientRect();
  return [...svg.querySelectorAll("text")].map((text) => {
    const {left, right, top, bottom} = text.getBoundingClientRect();
    const isInside = left >= paper.left && right <= paper.right && top >= paper.top && bottom <= paper.bottom;
    return [text.textContent, left, right, top, bottom, isInside];
  });
})"""
WIDTH = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.fixture(scope="module")
def run_page(digits_step: graphls.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 300,000 steps with every column, two kinds of evaluations and the sections of the demo."""
    report = RunReport(tmp_path_factory.mktemp("run"), refresh=60)
    for i in range(1, 31):
        values = {"learning_rate": 1e-5 / i, "scale": 2.0 ** (16 + i % 5), "overflow": i % 9 == 0}
        values["rows_per_second"] = 3e5 / i
        report.add(step=i * 10_000, loss=1 / i, gradient_norm=1e-4 * i, waiting=0.001, step_time=0.02, **values)
        report.evaluated({"accuracy": 0.9 + i / 400, "perplexity": 100.0 / i})
    report.evaluated({"test accuracy": 0.98})
    images, labels = np.ones((64, 1, 8, 8), np.float32), np.zeros(64, np.int32)
    report.show("Gradients", digits_step.gradient_ranges(images, labels))
    profile = digits_step.profile(images, labels, steps=1)
    report.show("Time", profile.plot(), profile)
    return report.close()


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_texts_of_charts_are_readable_and_apart(page: Page, run_page: Path) -> None:
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        open_file(page, run_page)
        across, most = page.evaluate(WIDTH)
        assert across <= most == width
        charts = page.evaluate(TEXTS)
        assert len(charts) == 11
        for texts in charts:
            for i, (text, left, right, top, bottom, is_inside) in enumerate(texts):
                assert is_inside and (bottom - top >= 12 or not text), text
                for other, start, end, above, below, _ in texts[:i]:
                    assert right <= start or end <= left or bottom - 2 <= above or below - 2 <= top, (text, other)
        assert low_contrasts(page) == {}
    big = page.locator(".run-number b")
    assert big.text_content() == "0.98"
    assert big.evaluate("number => parseFloat(getComputedStyle(number).fontSize)") >= 24
