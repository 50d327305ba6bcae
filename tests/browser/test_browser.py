"""The fixture `page` shows pages, and complains of what no page may do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from tests.browser.chromium import HELP, VARIABLE, Window, open_file, watched_page

ROOT = Path(__file__).parents[2]
COUNTER = """<!doctype html><meta charset="utf-8"><title>Counter</title>
<style>body { color: black } @media (prefers-color-scheme: dark) { body { color: white } }</style>
<button onclick="document.querySelector('text').textContent = ++count">Count</button>
<svg width="80" height="40" role="img"><rect width="80" height="40" fill="teal"/><text x="30" y="25">0</text></svg>
<script>let count = 0; console.log("a page may say this"); document.documentElement.dataset.ready = "true";</script>
"""
FAULTS = {
    "console.error('broken')": "console error: broken",
    "console.warn('careful')": "console warning: careful",
    "console.assert(false, 'no')": "console assert: no",
    "throw new Error('thrown')": "uncaught: thrown",
    "Promise.reject(new Error('rejected'))": "uncaught: rejected",
    "alert('run')": "dialog alert: run",
    "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1/a.png'}))": "http://127.0.0.1/a.png",
    "fetch('https://example.com/').catch(() => null)": "https://example.com/",
    "new WebSocket('ws://127.0.0.1:9/')": "socket: ws://127.0.0.1:9/",
    "document.head.append(Object.assign(document.createElement('script'), {src: 'other.js'}))": "other.js",
    "document.head.append(Object.assign(document.createElement('link'), {rel: 'stylesheet', href: 'a.css'}))": "a.css",
}


def written(folder: Path, text: str) -> Path:
    path = folder / 'a "page" #1 ?<b>%20.html'
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_a_page_is_shown_and_used(page: Page, tmp_path: Path, color_scheme: str) -> None:
    open_file(page, written(tmp_path, COUNTER))
    expect(page.locator("html")).to_have_attribute("data-ready", "true")
    page.get_by_role("button", name="Count").click()
    page.keyboard.press("Enter")
    expect(page.locator("svg text")).to_have_text("2")
    colour = {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[color_scheme]
    expect(page.locator("body")).to_have_css("color", colour)


@pytest.fixture(scope="module")
def window(browser: Browser) -> Window:
    return Window(browser)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_page_that_misbehaves_fails_its_test(window: Window, tmp_path: Path, fault: str) -> None:
    path = written(tmp_path, f"<!doctype html><title>Fault</title><body><script>{fault}</script>")
    with pytest.raises(AssertionError, match="no page may do") as raised, window.used() as page:
        open_file(page, path)
    assert FAULTS[fault] in str(raised.value)
    path.write_text("<!doctype html><title>None</title>")
    with window.used() as page:
        open_file(page, path)


def test_a_page_that_crashes_fails_its_test(browser: Browser) -> None:
    with pytest.raises(AssertionError, match="crash"), watched_page(browser) as page, suppress(Error):
        page.goto("chrome://crash")


def test_a_test_that_fails_says_why_itself(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, "<!doctype html><title>Fault</title><script>throw 1</script>")
    with pytest.raises(ZeroDivisionError), watched_page(browser) as page:
        open_file(page, path)
        raise ZeroDivisionError


@pytest.mark.parametrize("name", [VARIABLE, "PLAYWRIGHT_NODEJS_PATH"])
def test_what_cannot_be_installed_is_said_and_stops_nothing(name: str, tmp_path: Path) -> None:
    changes = {"TMPDIR": str(tmp_path), VARIABLE: shutil.which("true") or "", name: str(tmp_path / "missing")}
    command = [sys.executable, "-m", "tests.browser.install"]
    run = subprocess.run(command, cwd=ROOT, env={**os.environ, **changes}, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0 and HELP in run.stderr and changes[name] in run.stderr
