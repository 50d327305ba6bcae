"""The names, lines and numbers of a profile as text."""

from __future__ import annotations

from graphls.base.text.plain import shortened, shown
from graphls.ir.graph import Node
from graphls.ir.text import reference

LONGEST = 48
"""Characters of a name in a table."""


def name_text(name: str, most: int = LONGEST) -> str:
    """A name on one line; a long one is shortened in its middle, since paths differ at their ends."""
    return shown(shortened(name, most))


def line_of(node: Node) -> str:
    """The user's line that made a node."""
    return name_text(str(node.loc)) if node.loc else "-"


def name_of(node: Node) -> str:
    """The name of the first result of a node in the text form; the name of the primitive where there is none."""
    return name_text(reference(node.outputs[0])) if node.outputs else node.primitive.name


def milliseconds(seconds: float) -> str:
    """A time in milliseconds."""
    return f"{1000 * seconds:.3f}"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{share:.1%}"


def count(number: float) -> str:
    """A mean number of calls."""
    return f"{number:.0f}" if number == round(number) else f"{number:.1f}"
