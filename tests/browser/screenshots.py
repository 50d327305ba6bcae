"""`python -m tests.browser.screenshots`: the pictures of the page in docs/images, taken in headless Chromium.

Run it where `make test` has set a browser up, after the page has changed in its looks.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.browser.chromium import launch, started, watched_page
from tests.browser.pages import box, choose, fold, panel, search, show, stage, token
from tests.browser.steps import digits_step, transformer_step

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def whole(page: Page) -> None:
    """The step of the demo, folded, with its window."""
    choose(box(page, "phase backward"))
    page.mouse.move(640, 790)


def node(page: Page) -> None:
    """A node deep in a layer of the transformer, with its line and what it is wired to."""
    search(page, "softmax layers.3.self_attn")
    page.keyboard.press("Enter")
    name = page.get_by_role("region", name="Selection").get_by_role("heading").inner_text().split()[-1]
    token(page, name).first.hover()


def changes(page: Page) -> None:
    """What a pass did, in the list, on the boxes and in the text."""
    stage(page, "04_overflow").click()
    fold(box(page, "phase backward"))
    panel(page, "Changes").locator(".pair", has_text="%exp").get_by_role("button").click()


PICTURES: dict[str, tuple[str, str, Callable[[Page], None]]] = {
    "step": ("digits", "light", whole),
    "node": ("transformer", "dark", node),
    "changes": ("digits", "light", changes),
}


def take(browser: Browser, path: Path, scheme: str, prepare: Callable[[Page], None]) -> bytes:
    """A picture of a page, once it was prepared, as a PNG of few colours."""
    with watched_page(browser, color_scheme=scheme) as page:
        show(page, path)
        prepare(page)
        found = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    kept = io.BytesIO()
    few = found.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=5, dither=Image.Dither.NONE)
    few.save(kept, "PNG", optimize=True)
    return kept.getvalue()


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    with started() as playwright, tempfile.TemporaryDirectory() as folder:
        browser, steps = launch(playwright), {"digits": digits_step(), "transformer": transformer_step()}
        pages = {name: step.show(Path(folder) / f"{name}.html") for name, step in steps.items()}
        for name, (step, scheme, prepare) in PICTURES.items():
            (IMAGES / f"{name}.png").write_bytes(take(browser, pages[step], scheme, prepare))


if __name__ == "__main__":
    main()
