"""Names with two underscores in front, as Python reads them in the body of a class."""

from __future__ import annotations

import ast
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


def mangled(node: Node, owner: str) -> Node:
    """A definition of a class in which private names have the form that they have outside of it."""
    prefix = owner.lstrip("_")
    if not prefix:
        return node
    for part in ast.walk(node):
        for field in ("id", "attr", "arg", "name"):
            name = getattr(part, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__") and "." not in name:
                setattr(part, field, f"_{prefix}{name}")
        if isinstance(part, ast.Nonlocal):
            part.names = [f"_{prefix}{n}" if n.startswith("__") and not n.endswith("__") else n for n in part.names]
    return node
