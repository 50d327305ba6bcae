"""Write the list of operators in docs/onnx.md, from the table that computes them."""

from __future__ import annotations

import re
from pathlib import Path

import graphls.onnx  # noqa: F401  (fills the table)
from graphls.onnx.table import TABLE

PAGE = Path(__file__).parents[1] / "docs" / "onnx.md"
_LIST = re.compile(r"(<!-- operators: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with the current operators."""
    return _LIST.sub(lambda match: f"{match[1]}{listed()}{match[2]}", page)


def listed() -> str:
    """A table of the operators by domain and file."""
    rows: dict[tuple[str, str], list[str]] = {}
    for (domain, kind), entries in TABLE.items():
        module = entries[0].rule.__module__.rpartition(".")[2]
        rows.setdefault((domain, "elementwise" if module == "table" else module), []).append(f"`{kind}`")
    lines = ["| domain | kind | operators |", "|---|---|---|"]
    for (domain, module), kinds in sorted(rows.items()):
        lines.append(f"| {domain or 'ONNX'} | {module} | {' '.join(sorted(kinds))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
