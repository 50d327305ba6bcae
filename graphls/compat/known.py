"""What MindSpore has: its modules, their names, and where each is made, as `mindspore_names.txt` lists them.

`tools/mindspore_names.py` makes that file of an installed MindSpore, and says what its lines mean.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

Place = tuple[str, str]
"""A module, without `mindspore`, and a name in it."""


@dataclass(frozen=True)
class Section:
    """One module of MindSpore: names with what they are, and those of other modules with their places."""

    path: str
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    imports: list[tuple[str, list[str]]] = field(default_factory=list)
    aliases: dict[str, Place] = field(default_factory=dict)
    listed: list[list[str]] = field(default_factory=list)

    @cached_property
    def own(self) -> list[str]:
        """The names that the module makes."""
        return [*self.kinds, *(name for name in self.values if "." not in name)]

    @cached_property
    def imported(self) -> dict[str, Place]:
        """The names that other modules make, with their places."""
        found: dict[str, Place] = {}
        for home, words in self.imports:
            found |= {name: (home, other) for name, other in _renamed(_without_star(words, _star(home)))}
        return found

    @cached_property
    def public(self) -> list[str]:
        """The names that a star imports."""
        if not self.listed:
            return [name for name in (*self.own, *self.imported) if not name.startswith("_")]
        found: dict[str, None] = {}
        for words in self.listed:
            found |= dict.fromkeys(_without_star(words, self._covered(words[0][1:])) if words else ())
        return list(found)

    def _covered(self, home: str) -> list[str]:
        """The names that a star of `__all__` means: those that it brings from another module, or the own ones."""
        return [name for name in _star(home) if self.imported.get(name) == (home, name)] if home else self._plain()

    def _plain(self) -> list[str]:
        return [name for name in self.own if not name.startswith("_")]

    def __contains__(self, name: str) -> bool:
        return name in self.kinds or name in self.values or name in self.imported


def _star(path: str) -> list[str]:
    """The names that a module makes itself, and that a star imports."""
    section = section_of(path)
    if section is None:
        return []
    plain = section._plain()
    words = [word for run in section.listed if not run or run[0][0] != "*" or run[0] == "*" for word in run]
    return [name for name in _without_star(words, plain) if name in plain] if section.listed else plain


def _runs(words: list[str]) -> Iterator[list[str]]:
    """Words, cut before each that has a star, and behind the last `-name`."""
    run: list[str] = []
    for word in words:
        is_excluded = word.startswith("-")
        if run and not is_excluded and (word.startswith("*") or run[0].startswith("*")):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _without_star(words: list[str], covered: Iterable[str]) -> list[str]:
    """Names, where a star is those that are covered but for the `-name`."""
    star = [name for name in covered if f"-{name}" not in words] if any(w.startswith("*") for w in words) else []
    return star + [word for word in words if word[0] not in "*-"]


def _renamed(words: Iterable[str]) -> Iterator[Place]:
    """Each name with its name elsewhere: `name=other`, or one for both."""
    for word in words:
        name, _, other = word.partition("=")
        yield name, other or name


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
    section = Section(path)
    for line in _texts()[path].splitlines():
        if line.startswith("value "):
            _, name, value = line.split(" ", 2)
            section.values[name] = value
            continue
        head, _, names = line.partition(": ")
        kind, _, where = head.partition(" ")
        _add(section, kind, where, names.split())
    return section


def _add(section: Section, kind: str, where: str, words: list[str]) -> None:
    """Add the names of a line to a section."""
    if kind == "all":
        section.listed.extend([[], *_runs(words)])
    elif kind == "import":
        section.imports.append((where, words))
    elif kind == "alias":
        section.aliases.update({name: (where, other) for name, other in _renamed(words)})
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
