"""Which nodes the engine takes, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, float32, int32, int64
from graphls.runtime.onednn import (  # noqa: F401
    convolution,
    elementwise,
    max_pooling,
    pooling,
    products,
    reductions,
    shapes,
    softmax,
)
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


MOST_BYTES = 1 << 16
"""Bytes up to which the values of a node are few enough for NumPy, where an engine of its own would take longer."""


def interprets(node: Node) -> bool:
    """Whether NumPy computes a node: one of few numbers, in the forward or the backward pass, without a kernel."""
    does = node.primitive
    values = (*node.inputs, *node.outputs)
    is_apart = node.regions or does.on_host or does.calls_python or does.has_effect or does.is_collective
    if is_apart or node.phase not in ("forward", "backward") or any(v.type == TOKEN or v.type.stacked for v in values):
        return False
    is_small = sum(v.type.nbytes for v in values) <= MOST_BYTES
    if any(v.type.dtype.is_half or not v.type.size for v in values):
        return False
    return (is_small or _moves_positions(node)) and not takes(node)


def _moves_positions(node: Node) -> bool:
    """Whether a node is like those of the gradient of a max pooling, for which there is a kernel where they are."""
    positions = node.inputs[-1].type if node.inputs else None
    if node.phase != "backward" or positions is None or positions.dtype not in (int32, int64):
        return False
    is_gradient = node.primitive.name == "gather_gradient" and node.inputs[0].type.shape == positions.shape
    return is_gradient or (node.primitive.name in ("cast", "reshape") and node.output.type.dtype in (int32, int64))


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
    else:
        program.interpret(node)
