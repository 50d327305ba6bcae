"""The pages in docs/ are true: every Python block of a page runs after those before it, without a warning."""

from __future__ import annotations

import operator
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import graphls
import graphls.interop.torch
from graphls import context
from graphls.ir import registry
from graphls.passes import manager

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [path.name for path in sorted(DOCS.glob("*.md")) if "```python" in path.read_text(encoding="utf-8")]


def run(page: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    with warnings.catch_warnings(), context.kept_context():
        warnings.simplefilter("error")
        for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
            exec(compile(block, page, "exec"), names)
    context.reset_auto_parallel_context()
    return names


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path) -> None:
    if 'engine="xla"' in "".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)):
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    monkeypatch.setattr(manager, "_passes", dict(manager._passes))
    assert run(page)


OTHERS = ("torch", "PyTorch")
"""What says that a block is of another framework, which is not there when the tests run."""


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_blocks_that_do_not_run_are_those_of_other_frameworks(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```py\n(.*?)```", text, re.DOTALL):
        compile(block, page.name, "exec")
        assert any(word in block for word in OTHERS), "a block of ours is ```python and runs"
    assert set(re.findall(r"(?m)^```(\w+)$", text)) <= {"mermaid", "py", "pycon", "python", "text", "toml"}
    assert page.parent.name == "operators" or "```pycon" not in text, "tests/tools/test_operators.py runs those"
    assert page.parent == DOCS or page.name == "README.md" or "```python" not in text, "only pages in docs/ run"


def test_mixed_precision_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("mixed_precision.md")
    first, *steps = capsys.readouterr().out.splitlines()
    assert first == "Float32"
    rows = [row.split() for row in steps]
    assert len(rows) == 5 and rows[-1][1] == "True"
    assert float(rows[-1][0]) < float(rows[0][0])
    assert (names["overflow"].shape, float(names["scale"])) == ((), 2**23)


def test_every_name_beside_those_of_pytorch_is_there() -> None:
    text = re.sub(r"```.*?```", "", (DOCS / "from_pytorch.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    names = re.findall(r"`((?:graphls|nn|ops|train)(?:\.\w+)+)`", text)
    rooms = {"graphls": graphls, "nn": graphls.nn, "ops": graphls.ops, "train": graphls.train}
    for name in names:
        room, _, path = name.partition(".")
        assert callable(operator.attrgetter(path)(rooms[room])), name
    assert len(names) > 100


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


FOLDERS = ("graphls", "tests", "tools", "benchmarks", "examples", "docs")
FILE_NAME = re.compile(r"`((?:[\w.]+/)+[\w.]+\.(?:py|json|txt|js|ir))`")


def test_every_file_that_a_page_names_exists() -> None:
    """Paths in backquotes, from any folder on, so that pages follow when files move."""
    root = DOCS.parent
    files = [f"/{path.relative_to(root).as_posix()}" for name in FOLDERS for path in (root / name).rglob("*.*")]
    pages = [root / "README.md", root / "benchmarks" / "README.md", *DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")]
    named = {name for page in pages for name in FILE_NAME.findall(page.read_text(encoding="utf-8"))}
    missing = [name for name in named if "*" not in name and not any(file.endswith(f"/{name}") for file in files)]
    assert len(named) > 100 and missing == []
