"""`python -m tools.operators` writes docs/operators.md."""

from __future__ import annotations

from pathlib import Path

from tools.operators.page import page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
