"""Cards in a notebook that is dark while its reader prefers light, and the other way round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import graphls
from graphls import dataset
from tests.browser.chromium import open_file
from tests.browser.colours import contrast, low_contrasts

HOSTS = {
    "JupyterLab, dark": ('data-jp-theme-light="false"', "#111111", "#e0e0e0", "light"),
    "VS Code, dark": ('class="vscode-dark"', "#1f1f1f", "#cccccc", "light"),
    "VS Code, light": ('class="vscode-light"', "#ffffff", "#3b3b3b", "dark"),
}
FILLS = """() => {
  const bytes = (text) => text.match(/\\d+/g).slice(0, 3).map(Number);
  const paper = bytes(getComputedStyle(document.querySelector(".paper")).fill);
  const names = [...document.querySelectorAll(".graphls-picture text")];
  return [paper, names.map((name) => bytes(getComputedStyle(name).fill))];
}"""
BARS = """[...document.querySelectorAll('.graphls-card rect')].map(
  (bar) => getComputedStyle(bar).fill.match(/\\d+/g).map(Number)
)"""
FADES = """(part) => {
  const fade = () => getComputedStyle(part).getPropertyValue("--graphls-fade");
  const first = [part.scrollWidth > part.clientWidth, fade()];
  part.scrollLeft = part.scrollWidth;
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done([...first, fade()]))));
}"""
INSIDE = "card => card.getBoundingClientRect().right <= innerWidth"


@pytest.fixture(scope="module")
def cards(digits_step: graphls.Compiled) -> str:
    """A difference, a profile with its bars, a dataset, a recording and a picture, one below the other."""
    images, labels = np.ones((64, 1, 8, 8), np.float32), np.zeros(64, np.int32)
    stages = list(digits_step.stages.values())
    profile = digits_step.profile(images, labels, steps=1)
    bars = profile._repr_html_().removesuffix("</div>") + profile.plot() + "</div>"
    name = "a.very.long.path." * 20
    rows = dataset.NumpySlicesDataset({name: labels}, shuffle=False).batch(2)
    recorded = digits_step.record(images, labels)
    shown = (stages[0].diff(stages[1]), rows, recorded)
    return "".join(["".join(str(each._repr_html_()) for each in shown), bars, str(stages[0]._repr_svg_())])


@pytest.mark.parametrize("host", HOSTS)
def test_cards_look_like_their_host(page: Page, cards: str, host: str, tmp_path: Path) -> None:
    attribute, ground, ink, scheme = HOSTS[host]
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    path = tmp_path / "host.html"
    body = f'<body {attribute} style="background:{ground};color:{ink}">{cards}</body>'
    path.write_text(f'<!doctype html><meta charset="utf-8">{body}')
    open_file(page, path)
    assert low_contrasts(page) == {}
    paper, names = page.evaluate(FILLS)
    assert min(contrast(paper, name) for name in names) > 4.5
    is_dark = sum(paper) < 384
    assert is_dark == ("dark" in host)
    back = [int(ground[i : i + 2], 16) for i in (1, 3, 5)]
    assert min(contrast(bar, back) for bar in page.evaluate(BARS)) > 3
    difference = page.get_by_role("region", name="Difference of graphs")
    expect(difference.get_by_text("Changes of @TrainOneStepWithLossScaleCell")).to_be_visible()
    expect(difference.get_by_text("// backward").first).to_be_hidden()
    difference.locator("summary", has_text="Nodes: ").click()
    expect(difference.get_by_text("// backward").first).to_be_visible()
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        for card in page.locator(".graphls-card").all():
            assert card.evaluate(INSIDE), "what is long scrolls inside"
    expect(page.get_by_role("region", name="Dataset").first).to_be_visible()


def test_wide_tables_fade_until_one_scrolls_to_their_end(page: Page, cards: str, tmp_path: Path) -> None:
    path = tmp_path / "phone.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><body>{cards}</body>')
    page.set_viewport_size({"width": 390, "height": 800})
    open_file(page, path)
    fades = [part.evaluate(FADES) for part in page.locator(".graphls-wide:visible").all()]
    assert {(is_wide, first, last) for is_wide, first, last in fades} == {(True, "3em", "0px"), (False, "0px", "0px")}
