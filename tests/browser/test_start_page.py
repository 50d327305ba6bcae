"""The start page of the site, whose lines run, and wide code and tables: nothing is cut on a wide screen or a phone."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import open_file
from tests.browser.colours import low_contrasts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
CUT = """() => {
  const wide = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
  for (const part of document.querySelectorAll(".md-content *, .md-header *, .md-tabs *")) {
    if (!part.checkVisibility({ visibilityProperty: true }) || part.closest(".md-search, .md-clipboard")) continue;
    const { left, right, width } = part.getBoundingClientRect();
    const isClipped = getComputedStyle(part).overflowX !== "visible" && part.scrollWidth > part.clientWidth;
    if (width && (left < 0 || right > innerWidth || isClipped)) wide.push(part.tagName + "." + part.className);
  }
  return wide;
}"""
HIDDEN = ("A headerlink", "DIV md-search-result")
"""Texts that the theme shows only under the mouse and in a search."""
SIZES = """[...document.querySelectorAll(".md-content p, .md-content code, .md-content td, .md-content li")].map(
  (part) => parseFloat(getComputedStyle(part).fontSize)
)"""

WIDE = f"""# Wide

```python
{"x" * 120}
```

| PyTorch | graphls |
|---|---|
| `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts` | `graphls.nn.CosineAnnealingWarmRestarts` |
"""
"""A line of code as long as they are in this repository, and a table of long names."""
FADES = """async (name) => {
  const part = document.querySelector(name);
  const state = () => [part.scrollWidth > part.clientWidth, getComputedStyle(part).getPropertyValue("--fade").trim()];
  const first = state();
  part.scrollLeft = part.scrollWidth;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return [...first, state()[1]];
}"""


def table(text: str) -> Any:
    """The columns of a table of numbers."""
    return zip(*(map(float, line.split()) for line in text.splitlines()), strict=True)


def test_the_twenty_lines_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, expected = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) == 20
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "own.py", "exec"), {})
    (steps, losses, scales), (other_steps, other_losses, other_scales) = map(table, (output.getvalue(), expected))
    assert (steps, scales) == (other_steps, other_scales) and losses == pytest.approx(other_losses, rel=0.1)
    assert (tmp_path / "step.html").stat().st_size > 10_000


def test_every_visitor_has_a_door() -> None:
    doors = PAGE.partition("## What do you have?")[2]
    for door in ("mindspore_scripts.md", "from_pytorch.md", "onnx.md", "writing_passes.md"):
        assert f"]({door})" in doors and (ROOT / "docs" / door).exists()


@pytest.fixture(scope="module")
def start_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The start page in the theme of the site, without the pages that it leads to, and `wide.html`."""
    pytest.importorskip("material", reason="the site needs the extra docs")
    commands, configuration = (importlib.import_module(f"mkdocs.{name}") for name in ("commands.build", "config"))
    docs, site = (tmp_path_factory.mktemp(name) for name in ("docs", "site"))
    for name in ("images", "site"):
        shutil.copytree(ROOT / "docs" / name, docs / name)
    (docs / "index.md").write_text(PAGE, encoding="utf-8")
    (docs / "wide.md").write_text(WIDE, encoding="utf-8")
    config: Any = configuration.load_config(str(ROOT / "mkdocs.yml"), strict=False, plugins=[], hooks=[])
    config.docs_dir, config.site_dir = str(docs), str(site)
    config.nav = [{name: ["index.md", "wide.md"]} for section in config.nav for name in section]
    commands.build(config)
    return site / "index.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_of_the_start_page_is_cut(browser: Browser, start_page: Path, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, offline=True)
    page = context.new_page()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        open_file(page, start_page)
        assert page.evaluate(CUT) == []
        assert min(page.evaluate(SIZES)) >= 11.5
        assert {name for name in low_contrasts(page) if not name.startswith(HIDDEN)} == set()
    context.close()


def test_wide_code_fits_or_fades_and_long_names_of_tables_wrap(browser: Browser, start_page: Path) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    for width, fades in ((1280, [False, "0px", "0px"]), (390, [True, "2.4rem", "0px"])):
        page.set_viewport_size({"width": width, "height": 800})
        open_file(page, start_page.with_name("wide.html"))
        assert page.evaluate(FADES, "pre > code") == fades
        assert page.evaluate(FADES, ".md-typeset__scrollwrap") == [False, "0px", "0px"]
        assert page.evaluate("document.documentElement.scrollWidth") == width
    context.close()
