"""Elementwise nodes as binary kernels: a tree of nodes is one kernel with operations behind it."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.elementwise.chain import compute
from graphls.runtime.onednn.elementwise.expressions import NAMES, expression_of
from graphls.runtime.onednn.program.program import Program
from graphls.runtime.onednn.registry import CONDITIONS, RULES


def takes(node: Node) -> bool:
    """Whether there is a kernel for a node."""
    return expression_of((node,), _no_number) is not None


def elementwise(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of a node; sums of numbers only are no kernel that knows the numbers."""
    expression = expression_of(nodes, program.number_of) or expression_of(nodes, _no_number)
    assert expression is not None, "Nodes that no kernel computes are not taken."
    compute(program, expression, nodes[-1].output)


def _no_number(value: Value) -> float | None:
    return None


RULES.update(dict.fromkeys(NAMES, elementwise))
CONDITIONS.update(dict.fromkeys(NAMES, takes))
