"""The modules and names of MindSpore, and the module that defines each name, read from `mindspore_names.txt`.

`tools/mindspore_names.py` writes that file from an installed MindSpore, and documents its lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

__version__ = "2.10.0"
"""The version of the interface that graphls follows, as scripts that ask for MindSpore's version get it."""

__all__ = ["__version__"]  # the one name of MindSpore that this module provides

QualifiedName = tuple[str, str]
"""A module, without `mindspore`, and a name in it."""


@dataclass
class Section:
    """One module of MindSpore: the kind or value of each own name, and the origin of each imported one."""

    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    imported: dict[str, QualifiedName] = field(default_factory=dict)
    aliases: dict[str, QualifiedName] = field(default_factory=dict)
    listed: list[str] | None = None

    @cached_property
    def own(self) -> list[str]:
        """The names that the module defines."""
        return [*self.kinds, *(name for name in self.values if "." not in name)]

    @property
    def public(self) -> list[str]:
        """The names that a star imports."""
        if self.listed is not None:
            return self.listed
        return [name for name in (*self.own, *self.imported) if not name.startswith("_")]

    def __contains__(self, name: str) -> bool:
        return name in self.kinds or name in self.values or name in self.imported


@cache
def _texts() -> dict[str, str]:
    """The text of each section."""
    text = Path(__file__).with_name("mindspore_names.txt").read_text(encoding="utf-8")
    parts = (part.partition("]") for part in text.split("\n[")[1:])
    return {path: lines.strip() for path, _, lines in parts}


def paths() -> Iterable[str]:
    """The modules of MindSpore, without `mindspore`."""
    return _texts().keys()


@cache
def section_of(path: str) -> Section | None:
    """The names of a module; None for a module that MindSpore does not have."""
    if path not in _texts():
        return None
    section = Section()
    for line in _texts()[path].splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "value":
            name, _, value = rest.partition(" ")
            section.values[name] = value
        else:
            head, _, names = line.partition(":" if kind[-1] == ":" else ": ")
            _add(section, kind.rstrip(":"), head.partition(" ")[2], names.split())
    return section


def _add(section: Section, kind: str, origin: str, words: list[str]) -> None:
    """Add the names of a line to a section."""
    if kind == "all":
        section.listed = words
    elif kind in ("import", "alias"):
        names = section.imported if kind == "import" else section.aliases
        names.update({name: (origin, other or name) for name, _, other in (word.partition("=") for word in words)})
    else:
        section.kinds.update(dict.fromkeys(words, f"{kind} {origin}"))


def qualified_names(path: str, name: str) -> list[QualifiedName]:
    """All names of one object: the requested one, the one of its definition, and that in a public module."""
    home = home_of((path, name))
    alias = home and section_of(home[0]).aliases.get(home[1])  # type: ignore[union-attr]
    return list(dict.fromkeys(qualified for qualified in ((path, name), home, alias) if qualified))


def home_of(qualified: QualifiedName) -> QualifiedName | None:
    """The name under which the object of a name is defined; None for names that MindSpore does not have."""
    section = section_of(qualified[0])
    if section is None or qualified[1] not in section:
        return None
    return section.imported.get(qualified[1], qualified)


def bases_of(home: QualifiedName) -> list[QualifiedName] | None:
    """The bases of a class by its defining name, `("", ":enum.Enum")` for those of Python; None for other objects."""
    kind, _, bases = section_of(home[0]).kinds.get(home[1], "").partition(" ")  # type: ignore[union-attr]
    if kind != "class":
        return None
    split = (base.rpartition(".")[::2] if base[0] != ":" else ("", base) for base in bases.split(",") if base)
    return [(path, name) for path, name in split]


def attributes_of(home: QualifiedName) -> dict[str, Any]:
    """The plain attributes of a class by its defining name."""
    values = section_of(home[0]).values  # type: ignore[union-attr]
    prefix = f"{home[1]}."
    return {name.removeprefix(prefix): ast.literal_eval(v) for name, v in values.items() if name.startswith(prefix)}
