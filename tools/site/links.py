"""Links of the site: from names in the text to the reference, and from pages to files outside of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

FENCE = re.compile(r"(^```.*?^```$|^ {4}.*?$)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<![`\[])`((?:graphls\.)?(?:\w+\.)*\w+)`(?!`|\])")
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def named(text: str, entries: Mapping[str, str]) -> str:
    """The text with links from public names to the reference; code and existing links stay unchanged.

    `entries` has the full names, with those under which they are described.
    """
    parts = FENCE.split(text)
    parts[::2] = [CODE.sub(lambda match: _linked(match, entries), part) for part in parts[::2]]
    return "".join(parts)


def _linked(match: re.Match[str], entries: Mapping[str, str]) -> str:
    name = match[1]
    if "." not in name:
        return match[0]
    full = name if name.startswith("graphls.") else f"graphls.{name}"
    return f"[`{name}`][{entries[full]}]" if full in entries else match[0]


def rows(text: str, package: str) -> str:
    """The tables of a page of operators, whose names lead to their entries below."""
    return ROW.sub(lambda match: f"| [`{match[1]}`][graphls.{package}.{match[1]}] |", text)


LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")


def relinked(text: str, source: str, outside: Mapping[str, str]) -> str:
    """A page of the repository as one of the site, whose links lead to pages there.

    `source` is its path in the repository, and `outside` maps files that are not in docs/ to their pages.
    """
    page = on_site(source, outside)

    def link(match: re.Match[str]) -> str:
        target = on_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2])), outside)
        return f"{match[1]}{posixpath.relpath(target, posixpath.dirname(page) or '.')}{match[3]}"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def on_site(path: str, outside: Mapping[str, str]) -> str:
    """The path of a file of the repository on the site; other files keep their path, which MkDocs reports."""
    return outside.get(path, path.removeprefix("docs/"))
