"""The hooks of mkdocs.yml: pages generated while the site is built, and conversions of those in docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tools.operators.examples import TITLE
from tools.operators.subjects import SUBJECTS
from tools.site import flowchart, links, notebooks, reference

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    **{f"docs/gallery/{path.stem}.ipynb": f"gallery/{path.stem}.md" for path in (ROOT / "docs").glob("*/*.ipynb")},
    **{f"examples/{path.stem}.py": f"examples/{path.stem}.md" for path in (ROOT / "examples").glob("[a-z]*.py")},
}
"""Pages of the site that are generated from files other than Markdown files of docs/, by these files."""
PACKAGES = {f"operators/{subject.file}": subject.package for subject in SUBJECTS}


def on_config(config: Any) -> Any:
    """Fill the generated parts of the navigation."""
    generated = {
        "Modules": [page.file for page in reference.pages()],
        "Functions": [f"operators/{s.file}" for s in SUBJECTS if s.package == "ops"],
        "Cells": [f"operators/{s.file}" for s in SUBJECTS if s.package == "nn"],
        "Decisions": sorted(f"decisions/{path.name}" for path in (ROOT / "docs" / "decisions").glob("*.md")),
        "Gallery": ["gallery/README.md", *sorted(path for path in OUTSIDE.values() if path.startswith("gallery/"))],
        "Examples": sorted(path for path in OUTSIDE.values() if path.startswith("examples/")),
    }
    for section in config.nav:
        for pages in section.values():
            pages[:] = [{page: generated[page]} if str(page) in generated else page for page in pages]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated or outside of docs/."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
    for source, place in OUTSIDE.items():
        files.append(File.generated(config, place, content=_outside(source)))
    for page in reference.pages():
        files.append(File.generated(config, page.file, content=reference.text(page)))
    return files


def _outside(source: str) -> str:
    text = (ROOT / source).read_text(encoding="utf-8")
    text = notebooks.page(text) if source.endswith(".ipynb") else text
    return text if source.endswith((".md", ".ipynb")) else f"# {Path(source).name}\n\n```python\n{text}```\n"


def on_page_markdown(markdown: str, page: Any, **options: Any) -> str:
    """Convert links, pictures and entries of the reference."""
    file = page.file.src_uri
    source = next((source for source, place in OUTSIDE.items() if place == file), f"docs/{file}")
    text = flowchart.drawn(links.relinked(markdown, source, OUTSIDE))
    if file in PACKAGES:
        text, described = text.partition(f"\n{TITLE}\n")[0], reference.described()[file]  # entries have the examples
        return "\n\n".join([links.rows(text, PACKAGES[file]), "## Reference", *map(reference.entry, described)])
    return text if file.startswith("reference/") else links.named(text, reference.entries())
