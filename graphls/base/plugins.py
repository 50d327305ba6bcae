"""Plugins: passes and primitives of other installed packages, by their entry points."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from graphls.base.errors import GraphImportError, GraphValueError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_PACKAGE = __name__.partition(".")[0] + "."


def check_name(kind: str, name: str, known: type | None, new: type) -> None:
    """Raise GraphValueError where a class from outside of graphls takes a name of graphls; others may be replaced."""
    is_taken = known is not None and known.__module__.startswith(_PACKAGE)
    if is_taken and not new.__module__.startswith(_PACKAGE):
        text = f"graphls has a {kind} {name!r} itself, which {new.__name__} would replace everywhere"
        raise GraphValueError(f'{text}; give it another name, such as name = "my_{name}".')


def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, none of them loaded: "graphls.passes" or "graphls.primitives"."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


def load_plugin(group: str, name: str, known: Container[str]) -> None:
    """Load the entry point of that name, if there is one, which makes the name known.

    Raises GraphImportError, in one sentence, where it fails or where the name is not known afterwards.
    """
    entry = plugins(group).get(name)
    if entry is None:
        return
    package = f" of the package {entry.dist.name!r}" if entry.dist else ""
    plugin = f"The plugin {name!r}{package} ({entry.value!r}, an entry point of {group})"
    try:
        entry.load()
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        message = f"{plugin} does not load: {type(error).__name__}: {reason}; mend the package or uninstall it."
        raise GraphImportError(message) from error
    if name not in known:
        advice = "let the module call register_pass" if group.endswith("passes") else "let the module define its class"
        raise GraphImportError(f"{plugin} registers nothing of that name; {advice}.")
