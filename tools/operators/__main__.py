"""`python -m tools.operators` writes docs/operators.md; `--check` only says whether it is what would be written."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

from tools.operators.page import page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"

if __name__ == "__main__":
    with redirect_stdout(io.StringIO()):  # what `ops.print_` says when it is tried
        text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/operators.md is stale: run `make docs`.")
