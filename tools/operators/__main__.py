"""`python -m tools.operators` writes the pages in docs/operators.

`--check` compares them with the current code, but probes only new names; to probe all takes half a minute.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

from tools.operators.page import pages
from tools.operators.subjects import without_subject

FOLDER = Path(__file__).parents[2] / "docs" / "operators"


def main() -> str | None:
    """Write or check the pages; returns an error message or None."""
    if homeless := without_subject():
        return f"{', '.join(homeless)} are on no page: name their modules in tools/operators/subjects.py."
    existing = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    is_check = "--check" in sys.argv[1:]
    with redirect_stdout(io.StringIO()):  # prints of `ops.print_` while it is probed
        written = pages(existing if is_check else {})
    if is_check:
        stale = sorted(name for name in {*written, *existing} if written.get(name) != existing.get(name))
        return f"docs/operators/{', '.join(stale)}: run `make pages`." if stale else None
    FOLDER.mkdir(exist_ok=True)
    for name in existing.keys() - written.keys():
        (FOLDER / name).unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main())
