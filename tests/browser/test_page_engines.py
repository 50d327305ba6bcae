"""The page of a plan: each engine has a colour, on its segments and in the legend."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import graphls
from graphls import ops
from graphls.base.text.colours import ENGINES, ENGINES_ON_DARK
from tests.browser.colours import BLINDNESS, distance, low_contrasts
from tests.browser.pages import box, show, stage


@pytest.fixture(scope="module")
def plan_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def doubled(x: graphls.Tensor) -> graphls.Tensor:
        return ops.exp(ops.pure_callback(np.multiply, x, ops.tanh(x), 2.0))

    step = graphls.compile(doubled, np.ones(4, np.float32), engine="numpy")
    assert [row.engine for row in step.plan.segments] == ["numpy", "host", "numpy"]
    return step.show(tmp_path_factory.mktemp("pages") / "plan.html")


def colour(part: str, which: str) -> str:
    return f"{part} => getComputedStyle({part}).{which}"


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_segments_have_the_colours_of_the_legend(page: Page, plan_page: Path, color_scheme: str) -> None:
    show(page, plan_page)
    legend = page.get_by_role("list", name="Legend")
    for engine, hexadecimal in (ENGINES if color_scheme == "light" else ENGINES_ON_DARK).items():
        entry = legend.get_by_role("listitem").filter(has_text=engine)
        if engine not in ("numpy", "host"):
            expect(entry).to_have_count(0)
            continue
        wanted = f"rgb{tuple(bytes.fromhex(hexadecimal[1:]))}"
        assert entry.locator(".engine").evaluate(colour("sign", "backgroundColor")) == wanted
        segment = box(page, f"node {engine} segment").first
        assert segment.evaluate(colour("box", "borderRightColor")) == wanted
        expect(segment.locator(".engine")).to_have_attribute("title", f"runs on {engine}")
    assert low_contrasts(page) == {}


def test_a_stage_without_segments_has_no_engines_in_its_legend(page: Page, plan_page: Path) -> None:
    show(page, plan_page)
    legend = page.get_by_role("list", name="Legend")
    expect(legend.locator(".engine")).to_have_count(2)
    stage(page, "00_trace").click()
    expect(legend.locator(".engine")).to_have_count(0)
    expect(page.locator(".box[data-engine]")).to_have_count(0)


@pytest.mark.parametrize("engines", [ENGINES, ENGINES_ON_DARK], ids=["light", "dark"])
def test_engines_differ_for_the_colour_blind(engines: dict[str, str]) -> None:
    colours = {name: tuple(bytes.fromhex(colour[1:])) for name, colour in engines.items()}
    for blindness in BLINDNESS:
        for (one, a), (other, b) in combinations(colours.items(), 2):
            assert distance(a, b, blindness) > 12, (blindness, one, other)
