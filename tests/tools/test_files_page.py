"""The page of files: folders with their own line, one line for every module, and an error for a module without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import files_page


def test_every_folder_has_a_heading_and_every_module_a_line(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text('"""The package.\n\nMore of it.\n"""\n')
    (package / "one.py").write_text(f'"""One {"word " * 30}ends."""\n')
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "two.py").write_text('"""Two."""\n')
    text = files_page.page(package)
    assert "## package\n\nThe package.\n\n- `one.py`: One word" in text and "More of it" not in text
    assert "\n  word" in text and text.endswith("## package/inner\n\n- `two.py`: Two.\n")
    assert max(map(len, text.splitlines())) <= files_page.WIDTH
    (package / "three.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"three\.py has no docstring"):
        files_page.page(package)


def test_a_page_that_is_not_current_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files_page, "PAGE", tmp_path / "files.md")
    monkeypatch.setattr("sys.argv", ["files_page", "--check"])
    assert "make pages" in str(files_page.main())
    (tmp_path / "files.md").write_text(files_page.page(files_page.ROOT / "graphls"))
    assert files_page.main() is None
