"""What the tests of pages do as a reader does: open a page, find boxes, search, switch stages and panels."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import open_file

AMBER = "rgb(240, 180, 41)"


def show(page: Page, path: Path) -> None:
    """Open a page from the disk and wait until it is drawn."""
    open_file(page, path)
    expect(page.locator("html")).to_have_attribute("data-ready", "true")


def graph(page: Page) -> Locator:
    """The pane with the drawing."""
    return page.get_by_role("group", name=re.compile("^Graph of"))


def box(page: Page, name: str) -> Locator:
    """The boxes whose spoken name begins so: `phase forward`, `cell conv1`, `matmul %y`, `input %x`."""
    return graph(page).get_by_role("button", name=re.compile("^" + re.escape(name)))


def fold(box: Locator) -> None:
    """Open a folded group, or fold an open one, by its sign."""
    box.locator(".fold").click()


def choose(box: Locator) -> None:
    """Select a box by its title."""
    box.locator(".title").click()


def text(page: Page) -> Locator:
    """The pane with the IR text."""
    return page.get_by_label("IR text")


def line(page: Page, start: str) -> Locator:
    """The line of IR text that begins so."""
    return text(page).locator(".line", has_text=re.compile("^ *" + re.escape(start)))


def token(page: Page, name: str) -> Locator:
    """A value wherever it stands in the IR text."""
    return text(page).locator("bdi", has_text=re.compile("^" + re.escape(name) + "$"))


def details(page: Page) -> Locator:
    """What is said of the selected box."""
    return page.get_by_role("region", name="Selection")


def fact(page: Page, name: str) -> Locator:
    """A row of the details."""
    return details(page).get_by_role("row", name=re.compile(f"^{name}\\b"))


def panel(page: Page, name: str) -> Locator:
    """A panel beside the drawing, put in front."""
    page.get_by_role("tab", name=name, exact=True).click()
    return page.get_by_role("tabpanel", name=name)


def stage(page: Page, name: str) -> Locator:
    """The tab of a stage."""
    return page.get_by_role("tablist", name="Stages of the compiler").get_by_role("tab", name=re.compile("^" + name))


def search(page: Page, words: str) -> Locator:
    """What a search for these words offers."""
    page.get_by_role("combobox").fill(words)
    return page.get_by_role("listbox").get_by_role("option")


def is_marked(box: Locator) -> bool:
    """Whether a box is lit as a definition or a use."""
    return bool(box.evaluate("box => getComputedStyle(box).boxShadow !== 'none'"))


def is_painted(token: Locator) -> bool:
    """Whether a piece of text is lit."""
    return bool(token.evaluate("token => getComputedStyle(token).backgroundColor !== 'rgba(0, 0, 0, 0)'"))


def place(box: Locator) -> dict[str, float]:
    """Where something is in the window: x, y, width, height."""
    found = box.bounding_box()
    assert found is not None
    return {**found}


def middle(locator: Locator) -> tuple[float, float]:
    """The middle of something in the window."""
    found = place(locator)
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2
