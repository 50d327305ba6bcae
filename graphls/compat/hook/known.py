"""What MindSpore has: its modules, their names, and where each is made, as `mindspore_names.txt` lists them.

`tools/mindspore_names.py` makes that file of an installed MindSpore, and says what its lines mean.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

Place = tuple[str, str]
"""A module, without `mindspore`, and a name in it."""


@dataclass
class Section:
    """One module of MindSpore: names with what they are, and those of other modules with their places."""

    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    imported: dict[str, Place] = field(default_factory=dict)
    aliases: dict[str, Place] = field(default_factory=dict)
    listed: list[str] | None = None

    @cached_property
    def own(self) -> list[str]:
        """The names that the module makes."""
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
    """What a module has; None for one that MindSpore has not."""
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


def _add(section: Section, kind: str, where: str, words: list[str]) -> None:
    """Add the names of a line to a section."""
    if kind == "all":
        section.listed = words
    elif kind in ("import", "alias"):
        found = section.imported if kind == "import" else section.aliases
        found.update({name: (where, other or name) for name, _, other in (word.partition("=") for word in words)})
    else:
        section.kinds.update(dict.fromkeys(words, f"{kind} {where}"))


def places(path: str, name: str) -> list[Place]:
    """The places of a name of a module, at each of which it is the same object: where it is asked for comes first.

    The second is where it is made, the third where a public module offers it.
    """
    home = home_of((path, name))
    alias = home and section_of(home[0]).aliases.get(home[1])  # type: ignore[union-attr]
    return list(dict.fromkeys(place for place in ((path, name), home, alias) if place))


def home_of(place: Place) -> Place | None:
    """Where a name is made; None for what MindSpore has not."""
    section = section_of(place[0])
    if section is None or place[1] not in section:
        return None
    return section.imported.get(place[1], place)


def bases_of(home: Place) -> list[Place] | None:
    """The bases of a class by where it is made, `("", ":enum.Enum")` for those of Python; None for what is no class."""
    kind, _, bases = section_of(home[0]).kinds.get(home[1], "").partition(" ")  # type: ignore[union-attr]
    if kind != "class":
        return None
    split = (base.rpartition(".")[::2] if base[0] != ":" else ("", base) for base in bases.split(",") if base)
    return [(path, name) for path, name in split]


def attributes_of(home: Place) -> dict[str, Any]:
    """The plain attributes of a class by where it is made."""
    values = section_of(home[0]).values  # type: ignore[union-attr]
    prefix = f"{home[1]}."
    return {name.removeprefix(prefix): ast.literal_eval(v) for name, v in values.items() if name.startswith(prefix)}
