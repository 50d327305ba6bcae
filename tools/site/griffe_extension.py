"""Looks up public names that Griffe, which reads the code without running it, does not see."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import griffe

from graphls.base.aliases import ALIASES
from tools.site import reference

FILE, LINKED = re.compile(r"\bdocs/([\w/]+\.md)"), r"[docs/\1](../\1)"
"""Pages that docstrings name, which lead to them from all pages of the reference."""


class Records(griffe.Extension):  # type: ignore[misc]
    """Names that records make lead to where they are written, and all have the docstrings that they have in Python."""

    def on_package(self, *, pkg: Any, **options: Any) -> None:
        """Mend a package once all of it is read."""
        if pkg.path == "graphls":
            for alias, name in ALIASES.items():
                _add_alias(pkg, alias.removeprefix("graphls."), name.removeprefix("graphls."))
            for path in reference.entries():
                _mend(pkg, path)


def _add_alias(package: Any, alias: str, name: str) -> None:
    """Let a module be found by an import path that is its alias."""
    home, _, leaf = alias.rpartition(".")
    place = package[home] if home else package
    place.set_member(leaf, griffe.Alias(leaf, package[name], parent=place))


def _mend(package: Any, path: str) -> None:
    of = reference.item(path)
    home, name = path.removeprefix("graphls.").rpartition(".")[::2]
    source = _source(package, of, path)
    place = package[home] if home else package
    if source is not None:
        place.set_member(name, griffe.Alias(name, source, parent=place))
    elif name in place.members and not reference.is_value(of):
        member = place.members[name]
        known = member.final_target if member.is_alias else member
        known.docstring = griffe.Docstring(FILE.sub(LINKED, inspect.getdoc(of) or ""), parent=known)
    if path in reference.examples():
        _exemplify(place.members[name], reference.examples()[path])


def _exemplify(member: Any, example: str) -> None:
    """Give an operator the example of its page."""
    known = member.final_target if member.is_alias else member
    text = known.docstring.value if known.docstring else ""
    known.docstring = griffe.Docstring(f"{text}\n\nExamples:\n{textwrap.indent(example, '    ')}", parent=known)


def _source(package: Any, of: Any, path: str) -> Any:
    """The documented definition of an object in the source; None if there is none, or it is at this path already."""
    written = f"{getattr(of, '__module__', '')}.{getattr(of, '__qualname__', '')}"
    if written == path or not written.startswith("graphls.") or "<" in written:
        return None
    try:
        definition = package[written.removeprefix("graphls.")]
    except KeyError:
        return None
    return definition if definition.docstring and not str(definition.filepath).endswith(".pyi") else None
