"""Write docs/files.md, a list of all folders and files of graphls: `make pages`, or `python -m tools.files_page`.

A line is the first one of the docstring of a module, and that of a folder the one of its `__init__.py`. With `--check`
nothing is written, and a page that is not current is an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "files.md"
WIDTH = 120
"""Columns of the page."""

HEAD = """\
# Files

Every folder of `graphls/` with one line for every Python file. [Architecture](architecture.md) describes the
dependencies between folders, the [glossary](glossary.md) the terms. The page is generated: `make pages` writes it from
the first line of each docstring.
"""


def page(package: Path) -> str:
    """The text of the page for a package.

    Raises ValueError for a module without a docstring.
    """
    folders = sorted({file.parent for file in package.rglob("*.py")})
    return "\n".join([HEAD, *(line for folder in folders for line in _section(folder, package.parent))])


def _section(folder: Path, root: Path) -> Iterator[str]:
    """The heading of a folder, its own line, and a list of its files."""
    yield f"## {folder.relative_to(root).as_posix()}\n"
    package = folder / "__init__.py"
    if package.exists() and (line := first_line(package)):
        yield _wrapped(line) + "\n"
    files = [file for file in sorted(folder.glob("*.py")) if file != package]
    for file in files:
        if not (line := first_line(file)):
            raise ValueError(f"{file} has no docstring, whose first line is its entry in docs/files.md.")
        yield _wrapped(f"- `{file.name}`: {line}")
    if files:
        yield ""


def first_line(file: Path) -> str:
    """The first line of the docstring of a module, or an empty string."""
    with tokenize.open(file) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.STRING:
                return inspect.cleandoc(ast.literal_eval(token.string)).partition("\n")[0]
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                break
    return ""


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    lines = textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def main() -> str | None:
    """Write or check the page; returns an error message or None."""
    current = page(ROOT / "graphls")
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(current, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != current:
        return "docs/files.md is not current: run `make pages`."
    return None


if __name__ == "__main__":
    sys.exit(main())
