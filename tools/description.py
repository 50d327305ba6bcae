"""The description of the package for an index: the README, whose links lead to the repository, and project links.

The address of the repository is `repository` of this hook in pyproject.toml, or GRAPHLS_REPOSITORY in the environment
of a build; docs/contributing.md describes both. Without one pictures are left out and links to files become plain text,
since a description that is shown elsewhere cannot link into a folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\(((?!https?:)[^)]+)\)")
PICTURES = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n\n|^\|.*\n\|[-|]*\|\n\|.*!\[.*\n\n?", re.MULTILINE)


class Description(MetadataHookInterface):  # type: ignore[misc]
    """The hook that hatchling runs."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that pyproject.toml calls dynamic."""
        repository, version = address(self.config), metadata["version"]
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(readme, repository, f"v{version}")}
        metadata["urls"] = addresses(repository)


VARIABLE = "GRAPHLS_REPOSITORY"


def address(config: dict[str, Any]) -> str:
    """The address of the repository, or an empty text; raises ValueError for any other text."""
    address_text = str(os.environ.get(VARIABLE) or config.get("repository", "")).rstrip("/")
    if address_text and not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", address_text):
        raise ValueError(f"{VARIABLE} is an address such as https://host/owner/name, not {address_text!r}.")
    return address_text


def described(readme: str, repository: str, release: str) -> str:
    """The README as it can be shown away from the repository."""
    if not repository:
        return LINK.sub(lambda match: match[2], PICTURES.sub("", readme))
    places = {"!": f"{repository}/raw/{release}", "": f"{repository}/blob/{release}"}
    return LINK.sub(lambda match: f"{match[1]}[{match[2]}]({places[match[1]]}/{match[3]})", readme)


def addresses(repository: str) -> dict[str, str]:
    """The project links of the description."""
    if not repository:
        return {}
    pages = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
    return {"Source": repository, **{name: f"{repository}/{path}" for name, path in pages.items()}}
