"""The colours of pages stand in one place, and every page begins with them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import graphls
from graphls.base.text.colours import THEME, theme
from graphls.inspect.viz.html import page
from graphls.train.run_page import CSS

PACKAGE = Path(graphls.__file__).parent
DEFINED = re.compile(r"--([a-z]+): *light-dark")
USED = re.compile(r"var\(--([a-z]+)\)")


def test_no_page_has_a_colour_of_its_own() -> None:
    files = (path for end in ("css", "html", "js", "mjs", "py") for path in PACKAGE.rglob(f"*.{end}"))
    assert [path.name for path in files if DEFINED.search(path.read_text(encoding="utf-8"))] == []
    assert set(DEFINED.findall(theme())) == set(THEME)


def test_every_page_begins_with_the_colours() -> None:
    step = graphls.compile(lambda x: x * 2, np.ones(2, np.float32))
    assert CSS.startswith(theme())
    assert f"<style>{theme()}" in page(step.stages)


def test_every_colour_that_is_used_is_there() -> None:
    sources = [*(PACKAGE / "inspect/viz/page").iterdir(), *(PACKAGE / "step/export/page").iterdir()]
    texts = [CSS, *(path.read_text(encoding="utf-8") for path in sources)]
    own = {"mono", "phase", "engine", "share", "window"}
    assert {name for text in texts for name in USED.findall(text)} <= {*THEME, *own}
