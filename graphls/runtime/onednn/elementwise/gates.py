"""Gradients that pass where numbers lie on one side of others: g * (y < c), as the gradients of clipped numbers are.

An infinite gradient that does not pass is nan here, as in that of a ReLU; a `where` gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import NamedTuple

from graphls.ir.graph import Node, Value
from graphls.ir.types import bfloat16, float32
from graphls.runtime.onednn.elementwise.algorithms import LESS, LESS_EQUAL

_SIDES: Mapping[str, tuple[float, int]] = {
    "less": (1.0, LESS), "less_equal": (1.0, LESS_EQUAL), "greater": (-1.0, LESS), "greater_equal": (-1.0, LESS_EQUAL),
}  # fmt: skip
"""Comparisons as those of a factor times each operand; oneDNN says of nan that it is greater than numbers."""

_MIRRORED: Mapping[str, str] = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal",
}  # fmt: skip


class Gate(NamedTuple):
    """A gradient passes where factor * value < number, or does not with `is_closed`."""

    gradient: Value
    value: Value
    factor: float
    algorithm: int
    number: float
    is_closed: bool = False


def gate_of(node: Node, definer: Mapping[Value, Node], numbers: Callable[[Value], float | None]) -> Gate | None:
    """The gate that a node is; None where it is none."""
    if node.primitive.name == "relu_gradient":
        return Gate(node.inputs[0], node.inputs[1], -1.0, LESS, 0.0)
    if node.primitive.name != "where" or node.inputs[0] not in definer:
        return None
    comparison, x, y = definer[node.inputs[0]], *node.inputs[1:]
    is_closed = numbers(x) == 0
    name = comparison.primitive.name
    if name not in _SIDES or (not is_closed and numbers(y) != 0):
        return None
    left, right = comparison.inputs
    gradient = y if is_closed else x
    return _gate(gradient, left, name, numbers(right), is_closed) or _gate(
        gradient, right, _MIRRORED[name], numbers(left), is_closed
    )


def _gate(gradient: Value, value: Value, name: str, number: float | None, is_closed: bool) -> Gate | None:
    if number is None or not isfinite(number) or value.type.dtype not in (float32, bfloat16):
        return None
    factor, algorithm = _SIDES[name]
    return Gate(gradient, value, factor, algorithm, factor * number, is_closed)
