"""Headless Chromium for the tests: which one, how it starts, and pages that complain of what a page must not do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Dialog,
    Error,
    Page,
    Playwright,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

VARIABLE = "GRAPHLS_BROWSER"
NOT_WANTED = "none"
NAMES = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome")
FLAGS = (
    "--disable-gpu", "--disable-quic", "--disable-sync", "--disable-component-update", "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
)  # fmt: skip
BROWSER, LIBRARIES = "chromium", ("fonts-dejavu", "libatomic1")
"""Debian's packages: a browser, a font for most scripts, and what Playwright itself runs on."""
HELP = (
    f"The tests of pages need a Chromium that starts: install one with `apt-get install {BROWSER} "
    f"{' '.join(LIBRARIES)}` or `python -m playwright install chromium`, or name the file of one in {VARIABLE}; "
    f"{VARIABLE}={NOT_WANTED} leaves these tests out."
)
SIZE: ViewportSize = {"width": 1280, "height": 800}
SETTLED = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
"""Ends when what a page has begun so far was reported; no reply for a page that was closed or has crashed."""
PATIENCE = 120_000
"""Milliseconds after which a browser that hangs is given up; a busy machine fails no test."""
LOUD = ("error", "warning", "assert")
INLINE = ("data:", "blob:", "about:")


class NoBrowserError(Exception):
    """No browser starts here; the message says what to do."""


def is_wanted() -> bool:
    """Whether the tests of pages are to run; who sets GRAPHLS_BROWSER=none leaves them out."""
    return os.environ.get(VARIABLE) != NOT_WANTED


def candidates() -> list[str | None]:
    """The executables to try; None is the one that Playwright has downloaded.

    Chromium from a snap is none of them: it cannot read files in temporary folders.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return [named]
    found = filter(None, map(shutil.which, NAMES))
    return [*(path for path in found if not os.path.realpath(path).endswith("/snap")), None]


@contextmanager
def started() -> Iterator[Playwright]:
    """What drives the browsers; it ends with the block, and all its browsers with it.

    Raises NoBrowserError, which says what to install, where it does not start.
    """
    starter = sync_playwright()
    try:
        playwright = starter.start()
    except Exception as error:  # Playwright has no class of its own for this
        raise NoBrowserError(f"{HELP} ({error})") from None
    try:
        expect.set_options(timeout=PATIENCE)
        yield playwright
    finally:
        playwright.stop()


def launch(playwright: Playwright) -> Browser:
    """The first browser that starts, headless.

    Raises NoBrowserError, which says what to install, and why the last one did not start.
    """
    reason = ""
    for path in candidates():
        try:
            return playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=PATIENCE)
        except Error as error:
            reason = error.message.strip().splitlines()[0]
    raise NoBrowserError(f"{HELP} ({reason})")


class Window:
    """A page in a context of its own, offline, of one size and without motion, for one reader after the other.

    To make one takes a second, thrice as long as to open another file in it. `options` are those of Playwright's
    `Browser.new_context`.
    """

    def __init__(self, browser: Browser, **options: Any) -> None:
        settings = {"offline": True, "viewport": SIZE, "reduced_motion": "reduce", "locale": "en-GB"}
        self.context = browser.new_context(**{**settings, "timezone_id": "UTC", **options})
        self.context.set_default_timeout(PATIENCE)
        self.complaints: list[str] = []
        _watch(self.context, self.complaints)
        self.page = self.context.new_page()

    @contextmanager
    def used(self, color_scheme: Any = "light") -> Iterator[Page]:
        """The page for one reader, blank before and after; AssertionError for what it must not do.

        That is: ask for anything but the file that it was sent to, write errors or warnings to the console, leave an
        exception uncaught, open a dialog, crash.
        """
        self.complaints.clear()
        self.page.set_viewport_size(SIZE)
        self.page.emulate_media(media="null", color_scheme=color_scheme)
        yield self.page
        self.settle()
        for other in self.context.pages[1:]:
            other.close()
        self.page.mouse.move(-1, -1)
        self.page.goto("about:blank")
        self.check()

    def settle(self) -> None:
        """Wait until what the pages have begun was reported."""
        for page in self.context.pages:
            with suppress(Error):
                page.evaluate(SETTLED)

    def check(self) -> None:
        """AssertionError for what the pages have done that they must not."""
        assert not self.complaints, "The page did what no page may do:\n" + "\n".join(self.complaints)


@contextmanager
def watched_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """The page of a `Window` that nobody uses before or after, and that may crash."""
    window = Window(browser, **options)
    try:
        yield window.page
        window.settle()
    finally:
        window.context.close()
    window.check()


def _watch(context: BrowserContext, complaints: list[str]) -> None:
    """Add to `complaints` whatever the pages of a context do that they must not."""

    def answer(dialog: Dialog) -> None:
        complaints.append(f"dialog {dialog.type}: {dialog.message}")
        dialog.dismiss()

    def look(request: Request) -> None:
        if not is_own(request):
            complaints.append(f"request: {request.url}")

    def read(message: Any) -> None:
        if message.type in LOUD:
            complaints.append(f"console {message.type}: {message.text}")

    def follow(page: Page) -> None:
        page.on("crash", lambda _: complaints.append("crash"))
        page.on("websocket", lambda socket: complaints.append(f"socket: {socket.url}"))

    context.on("console", read)
    context.on("weberror", lambda error: complaints.append(f"uncaught: {error.error}"))
    context.on("request", look)
    context.on("dialog", answer)
    context.on("page", follow)


def is_own(request: Request) -> bool:
    """Whether a request is for the file that the test opens, or for what the page itself holds."""
    return request.url.startswith(INLINE) or (request.is_navigation_request() and request.url.startswith("file:"))


def open_file(page: Page, path: Path) -> None:
    """Open a file from the disk, whatever its name."""
    page.goto(path.absolute().as_uri())
