"""Which nodes the engine takes, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphls.ir.graph import Node, Value, uses
from graphls.ir.types import TOKEN, bfloat16, float32
from graphls.runtime.onednn.binding import DATA_TYPES
from graphls.runtime.onednn.elementwise import elementwise, error_function  # noqa: F401
from graphls.runtime.onednn.elementwise.expressions import NAMES
from graphls.runtime.onednn.fusion import groups_of
from graphls.runtime.onednn.kernels import (  # noqa: F401
    block_maxima,
    convolution,
    low_precision,
    max_pooling,
    overflow,
    pooling,
    products,
    reductions,
    shapes,
    softmax,
)
from graphls.runtime.onednn.kernels.loops import MOST_CALLS, count_calls, unrolled
from graphls.runtime.onednn.numpy_nodes import computes
from graphls.runtime.onednn.program.program import Group, Program, computed
from graphls.runtime.onednn.registry import CONDITIONS, JOINS, RULES, Rule, rule

LOOPS = ("scan",)
NARROW = frozenset((
    *NAMES, *LOOPS, "constant", "reshape", "stop_gradient", "depend", "cast", "transpose", "broadcast_to", "slice",
    "slice_gradient", "concat", "matmul", "matmul_add", "convolution", "convolution_add", "convolution_input_gradient",
    "convolution_weight_gradient", "sum", "mean", "softmax", "max_pool", "avg_pool", "avg_pool_gradient",
    "quantize", "dequantize", "absolute_maximum", "round_stochastically",
))  # fmt: skip
"""Primitives with kernels for bfloat16; others are computed in float32."""
LOW = frozenset((
    "quantize", "dequantize", "round_stochastically", "shared_power", "cast", "constant", "reshape", "stop_gradient",
    "depend", "transpose", "broadcast_to", "slice", "concat",
))  # fmt: skip
"""Primitives with kernels for low dtypes, which are held as float32."""
MOST_AXES = 6
"""Axes up to which kernels are tried; reorders of more are slow."""


def takes(node: Node) -> bool:
    """Whether there is a rule for a node: floats, no empty values, and what its rule asks for besides."""
    name = node.primitive.name
    if node.regions:
        return name in LOOPS and all(map(_is_array, uses(node))) and _is_unrolled(node)
    values = (*node.inputs, *(node.outputs[:1] if name == "max_pool" else node.outputs))  # the positions are integers
    if name not in RULES or (name not in LOW and any(v.type.dtype.is_low for v in values if v.type != TOKEN)):
        return False
    if not all(v.type != TOKEN and _is_fit(v) for v in values):
        return False
    return name not in CONDITIONS or CONDITIONS[name](node)


def interprets(node: Node) -> bool:
    """Whether NumPy computes a node, which has no kernel, or the end of an overflow check."""
    return overflow.checks(node) or (computes(node) and not takes(node))


def _is_fit(value: Value) -> bool:
    kind = value.type
    is_held = kind.dtype in computed() or kind.dtype.is_low
    return is_held and not kind.stacked and kind.size > 0 and kind.rank <= MOST_AXES


def _is_array(value: Value) -> bool:
    """Whether a value has as many elements in each step, in a dtype that kernels or NumPy compute in."""
    kind = value.type
    is_known = not (kind.dtype.is_half or kind.dtype.is_low) or kind.dtype in computed()
    return kind != TOKEN and not kind.stacked and kind.size > 0 and is_known


def _is_unrolled(node: Node) -> bool:
    """Whether a loop is short enough, and kernels or NumPy compute each node of it."""
    inner = node.regions[0].nodes
    return count_calls(node) <= MOST_CALLS and all(
        takes(each) or interprets(each) or each.primitive.is_constant for each in inner
    )


def joins(group: Group, node: Node) -> bool:
    """Whether the kernel of a group can compute a node that reads its result, too."""
    condition = JOINS.get(group.nodes[0].primitive.name)
    return condition is not None and takes(group.nodes[0]) and takes(node) and condition(group, node)


def rule_of(node: Node) -> Rule:
    """The rule of a node, for it and those that have joined it."""
    if not takes(node):
        return _interpreted
    name, is_narrow = node.primitive.name, any(v.type.dtype is bfloat16 for v in (*node.inputs, *node.outputs))
    return _widened if is_narrow and name not in NARROW else RULES[name]


def _widened(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of a node that has no kernels for bfloat16: in float32, with one rounding at the end."""
    (node,) = nodes
    inputs, outputs = ([_wide(v) for v in values] for values in (node.inputs, node.outputs))
    for value, wide in zip(node.inputs, inputs, strict=True):
        program.alias(wide, program.stored(value))
    RULES[node.primitive.name](program, (replace(node, inputs=tuple(inputs), outputs=tuple(outputs)),))
    for value, wide in zip(node.outputs, outputs, strict=True):
        view = program.read(wide)
        layout = view.layout.with_dtype(DATA_TYPES[value.type.dtype])
        program.alias(value, program.converted(view, layout))


def _wide(value: Value) -> Value:
    return Value(value.name, value.type.with_dtype(float32))


def _interpreted(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of nodes without a kernel."""
    (node,) = nodes
    if node.primitive.is_constant:
        program.constant(node.output, np.ascontiguousarray(node.attrs["value"]))
    elif not any(v.type == TOKEN for v in node.outputs):
        program.interpret(node)


@rule(*LOOPS)
def _loop(program: Program, node: Node) -> None:
    unrolled(program, node, groups_of(node.regions[0], rule_of, joins, takes))
