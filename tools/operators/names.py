"""The public names of MindSpore, from mindspore.txt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Section:
    """Names of one kind ("ops", "class" or "nn") that belong together."""

    kind: str
    title: str
    names: tuple[str, ...]


@cache
def sections() -> tuple[Section, ...]:
    """All names by section: a heading `[kind] title`, then names between spaces and line ends."""
    text = Path(__file__).with_name("mindspore.txt").read_text(encoding="utf-8")
    matches = re.findall(r"^\[(\w+)\] (.*)\n([^\[]*)", text, re.MULTILINE)
    return tuple(Section(kind, title, tuple(names.split())) for kind, title, names in matches)


@cache
def names(kind: str) -> frozenset[str]:
    """All names of one kind."""
    return frozenset(name for section in sections() if section.kind == kind for name in section.names)
