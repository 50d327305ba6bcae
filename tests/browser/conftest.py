"""Fixtures for tests that open pages in a real browser, and the steps whose pages they open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Playwright

import graphls
from tests.browser import hostile, steps
from tests.browser.chromium import VARIABLE, NoBrowserError, Window, is_wanted, launch, started


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """What drives the browsers; it ends with the last test of pages in this process."""
    if not is_wanted():
        pytest.skip(f"{VARIABLE} says that no browser is wanted")
    try:
        with started() as playwright:
            yield playwright
    except NoBrowserError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One browser for all tests of pages in this process."""
    try:
        browser = launch(playwright)
    except NoBrowserError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    yield browser
    browser.close()


@pytest.fixture
def color_scheme() -> str:
    """What the page is told that its reader prefers; a test asks for another one by a parameter of this name."""
    return "light"


@pytest.fixture(scope="package")
def windows(browser: Browser) -> list[Window]:
    """The windows that no test uses now: one, and none after a test that failed in it."""
    return []


@pytest.fixture
def page(
    browser: Browser, windows: list[Window], color_scheme: str, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A page as new, offline; the test fails at its end if it did what no page may do (see `Window.used`)."""
    window = windows.pop() if windows else Window(browser)
    failed = request.session.testsfailed
    with window.used(color_scheme) as page:
        yield page
    if request.session.testsfailed == failed:
        windows.append(window)


@pytest.fixture(scope="session")
def digits_step() -> graphls.Compiled:
    """The training step of the demo."""
    return steps.digits_step()


@pytest.fixture(scope="session")
def transformer_step() -> graphls.Compiled:
    """A training step of a transformer of 12 layers: thousands of nodes."""
    return steps.transformer_step()


@pytest.fixture(scope="session")
def hostile_step(tmp_path_factory: pytest.TempPathFactory) -> graphls.Compiled:
    """A training step whose cells, parameters, source file and source lines have hostile names."""
    return hostile.hostile_step(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def digits_page(digits_step: graphls.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the demo."""
    return digits_step.show(tmp_path_factory.mktemp("pages") / "digits.html")


@pytest.fixture(scope="session")
def transformer_page(transformer_step: graphls.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a transformer of 12 layers."""
    return transformer_step.show(tmp_path_factory.mktemp("pages") / "transformer.html")


@pytest.fixture(scope="session")
def hostile_page(hostile_step: graphls.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a step in which every name is hostile."""
    return hostile_step.show(tmp_path_factory.mktemp("pages") / "hostile.html")
