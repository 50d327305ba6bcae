"""Which nodes the engine takes, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, float32
from graphls.runtime.onednn import (  # noqa: F401
    convolution,
    elementwise,
    max_pooling,
    overflow,
    pooling,
    products,
    reductions,
    shapes,
    softmax,
)
from graphls.runtime.onednn.numpy_nodes import computes
from graphls.runtime.onednn.program import Group, Program
from graphls.runtime.onednn.registry import CONDITIONS, JOINS, RULES, Rule

MOST_AXES = 6
"""Axes up to which kernels are tried; reorders of more are slow."""


def takes(node: Node) -> bool:
    """Whether there is a rule for a node: float32, no empty values, and what its rule asks for besides."""
    name = node.primitive.name
    values = (*node.inputs, *(node.outputs[:1] if name == "max_pool" else node.outputs))  # the positions are integers
    if name not in RULES or node.regions or not all(v.type != TOKEN and _is_fit(v) for v in values):
        return False
    return name not in CONDITIONS or CONDITIONS[name](node)


def interprets(node: Node) -> bool:
    """Whether NumPy computes a node, which has no kernel, or the end of an overflow check."""
    return overflow.checks(node) or (computes(node) and not takes(node))


def _is_fit(value: Value) -> bool:
    kind = value.type
    return kind.dtype is float32 and not kind.stacked and kind.size > 0 and kind.rank <= MOST_AXES


def joins(group: Group, node: Node) -> bool:
    """Whether the kernel of a group can compute a node that reads its result, too."""
    condition = JOINS.get(group.nodes[0].primitive.name)
    return condition is not None and takes(group.nodes[0]) and takes(node) and condition(group, node)


def rule_of(node: Node) -> Rule:
    """The rule of a node, for it and those that have joined it."""
    return RULES[node.primitive.name] if takes(node) else _interpreted


def _interpreted(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of nodes without a kernel."""
    (node,) = nodes
    if node.primitive.is_constant:
        program.constant(node.output, np.ascontiguousarray(node.attrs["value"]))
    elif node.primitive.is_check:
        overflow.check(program, node)
    elif not any(v.type == TOKEN for v in node.outputs):
        program.interpret(node)
