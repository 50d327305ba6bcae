"""Write the tables of docs/differences.md: calls with two meanings, and what is not offered, from the code's lists."""

from __future__ import annotations

import re
from pathlib import Path

from graphls.base.refusals import REFUSALS
from graphls.frontend.names.traps import TRAPS

PAGE = Path(__file__).parents[1] / "docs" / "differences.md"
_TABLE = re.compile(r"(<!-- (traps|refusals): [^\n]*? -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with the current tables."""
    tables = {"traps": listed, "refusals": refused}
    return _TABLE.sub(lambda match: f"{match[1]}{tables[match[2]]()}{match[3]}", page)


def refused() -> str:
    """A table of what is not offered."""
    lines = ["| not offered | reason | instead |", "|---|---|---|"]
    lines += [f"| {r.what} | {r.reason} | {r.instead} |" for r in REFUSALS.values()]
    return "\n".join(lines) + "\n"


def listed() -> str:
    """A table of the calls."""
    lines = ["| call | graphls and MindSpore | PyTorch | how to get PyTorch's meaning | warns if |"]
    lines.append("|---|---|---|---|---|")
    lines += [f"| {t.call} | {t.here} | {t.elsewhere} | {t.instead} | {t.looks} |" for t in TRAPS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
