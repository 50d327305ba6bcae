"""Write the table of calls with two meanings in docs/differences.md, from the list that warns of them."""

from __future__ import annotations

import re
from pathlib import Path

from graphls.frontend.names.traps import TRAPS

PAGE = Path(__file__).parents[1] / "docs" / "differences.md"
_TABLE = re.compile(r"(<!-- traps: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with the current calls."""
    return _TABLE.sub(lambda match: f"{match[1]}{listed()}{match[2]}", page)


def listed() -> str:
    """A table of the calls."""
    lines = ["| call | graphls and MindSpore | PyTorch | how to get PyTorch's meaning | warns if |"]
    lines.append("|---|---|---|---|---|")
    lines += [f"| {t.call} | {t.here} | {t.elsewhere} | {t.instead} | {t.looks} |" for t in TRAPS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
