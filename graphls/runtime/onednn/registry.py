"""The rules by which nodes become calls of oneDNN, by the names of their primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphls.ir.graph import Node
from graphls.runtime.onednn.program.program import Group, Program

Rule = Callable[[Program, Sequence[Node]], None]
"""Appends the calls for a node and those that have joined it."""
NodeRule = Callable[[Program, Node], None]
Condition = Callable[[Node], bool]

RULES: dict[str, Rule] = {}
CONDITIONS: dict[str, Condition] = {}
JOINS: dict[str, Callable[[Group, Node], bool]] = {}
"""Whether the kernel of a group can compute a node that reads its result, too, by the first primitive of the group."""


def rule(*names: str, where: Condition | None = None) -> Callable[[NodeRule], NodeRule]:
    """Register a rule for primitives that no other node joins, with a condition for the nodes that it takes."""

    def register(function: NodeRule) -> NodeRule:
        for name in names:
            RULES[name] = lambda program, nodes: function(program, nodes[0])
            if where is not None:
                CONDITIONS[name] = where
        return function

    return register
