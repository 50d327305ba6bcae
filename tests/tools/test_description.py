"""What an index of packages shows of the project, with an address of its repository and without."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = "# A\n\n![a picture](docs/images/a.png)\n\nSee [the docs](docs/a.md) and [a site](https://host.org).\n"


@pytest.fixture
def description(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the hook, also where nothing is installed that builds packages."""
    monkeypatch.delenv("GRAPHLS_REPOSITORY", raising=False)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin", "hatchling.metadata.plugin.interface"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["hatchling.metadata.plugin.interface"].MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "tools.description", raising=False)
    return importlib.import_module("tools.description")


def fields(description: Any, root: Path, **config: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"version": "1.2"}
    description.Description.update(SimpleNamespace(root=str(root), config=config), metadata)
    return metadata


def test_without_an_address_nothing_is_made_up(description: Any, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(README)
    metadata = fields(description, tmp_path)
    assert metadata["urls"] == {}
    assert metadata["readme"]["text"] == "# A\n\nSee the docs and [a site](https://host.org).\n"
    links = description.LINK.findall(fields(description, ROOT)["readme"]["text"])
    assert links == [], "nothing in the README of this repository leads into a folder"


def test_with_an_address_all_links_are_absolute(
    description: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text(README)
    metadata = fields(description, tmp_path, repository="https://host.org/me/graphls")
    assert metadata["urls"]["Changelog"] == "https://host.org/me/graphls/blob/main/CHANGELOG.md"
    text = metadata["readme"]["text"]
    assert "![a picture](https://host.org/me/graphls/raw/v1.2/docs/images/a.png)" in text
    assert "[the docs](https://host.org/me/graphls/blob/v1.2/docs/a.md)" in text
    monkeypatch.setenv("GRAPHLS_REPOSITORY", "https://other.org/us/graphls/")
    assert fields(description, tmp_path)["urls"]["Source"] == "https://other.org/us/graphls"


def test_an_address_is_one(description: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(README)
    for wrong in ("graphls", "http://host.org/a", "https://host.org", "https://host.org/a b"):
        monkeypatch.setenv("GRAPHLS_REPOSITORY", wrong)
        with pytest.raises(ValueError, match="GRAPHLS_REPOSITORY is an address such as"):
            fields(description, tmp_path)


def test_contributors_are_told_of_it(description: Any) -> None:
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    assert description.VARIABLE in page and "repository" in page
