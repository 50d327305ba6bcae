"""Where the sign of a zero is read: sums of products are the same without it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from graphls.ir.graph import Node, Value, definers
from graphls.passes.rewriter import users
from graphls.primitives.arithmetic import Div, Mul
from graphls.primitives.cast import Cast
from graphls.primitives.extremes import OneOfTwo
from graphls.primitives.logic import Where
from graphls.primitives.scaling import AbsoluteMaximum, Dequantize, Quantize
from graphls.primitives.stochastic_rounding import RoundStochastically

_PRODUCTS = (Quantize, Dequantize, Mul)
"""Products that an engine computes in less time where signs of zeros are not read."""
_FEW = 64
"""Values among which the maximum of a scale is looked for."""
_KEEP_SIGNS = (Cast, Div, Mul, OneOfTwo, Where)
"""Primitives that make nothing negative of what is not."""


def signs_matter(value: Value, readers: Mapping[Value, Sequence[Node]], leaving: Collection[Value]) -> bool:
    """Whether the sign of a zero of a value, or of what it is moved or scaled to, is read by other than products."""
    return value in leaving or any(
        signs_matter(node.output, readers, leaving) if _passes(node) else not _ignores(node, value)
        for node in readers.get(value, ())
    )


def without_signs(nodes: Sequence[Node], leaving: Collection[Value]) -> set[Value]:
    """The results in a block of which products and stochastic roundings alone read what is quantized or scaled."""
    if not any(isinstance(node.primitive, Quantize | RoundStochastically) for node in nodes):
        return set()
    readers = users(nodes)
    products = (node.output for node in nodes if isinstance(node.primitive, _PRODUCTS))
    return {value for value in products if not signs_matter(value, readers, leaving)}


def of_positive(nodes: Sequence[Node]) -> set[Value]:
    """The results in a block of maxima and of casts to low dtypes whose operand is never negative."""
    definer = definers(nodes)
    rounded = (node.output for node in nodes if isinstance(node.primitive, AbsoluteMaximum) or _is_low_cast(node))
    return {value for value in rounded if is_never_negative(definer[value].inputs[0], definer)}


def with_nans(nodes: Sequence[Node]) -> set[Value]:
    """The results of roundings in a block that may be nan where their dtype has none, as their scale is nan then.

    All that reads them brings them back by scales that depend on the absolute maximum of what is rounded, as in all
    recipes: of a tensor with a nan this is nan (`passes.precision.scales.inverse`).
    """
    rounded = [node for node in nodes if isinstance(node.primitive, Quantize | RoundStochastically)]
    readers, definer = (users(nodes), definers(nodes)) if rounded else ({}, {})
    return {node.output for node in rounded if _are_nan_by_scale(node.output, _scaled(node, definer), readers, definer)}


def _scaled(node: Node | None, definer: Mapping[Value, Node]) -> set[Value]:
    """The operand of a rounding, and what it is the product of with a scale."""
    numbers: set[Value] = set()
    while node is not None and (not numbers or node.primitive.moves or isinstance(node.primitive, Mul)):
        numbers.add(node.inputs[0])
        node = definer.get(node.inputs[0])
    return numbers


def _are_nan_by_scale(
    value: Value, numbers: set[Value], readers: Mapping[Value, Sequence[Node]], definer: Mapping[Value, Node]
) -> bool:
    """Whether scales of the numbers multiply all that a value is moved to."""
    return all(
        _are_nan_by_scale(node.output, numbers, readers, definer) if node.primitive.moves
        else isinstance(node.primitive, Dequantize) and _is_of_maximum(node.inputs[1], numbers, definer)
        for node in readers.get(value, ())
    )  # fmt: skip


def _is_of_maximum(scale: Value, numbers: set[Value], definer: Mapping[Value, Node]) -> bool:
    """Whether a scale is computed of the absolute maximum of some numbers, a few nodes before."""
    values = [scale]
    for value in values:
        node = definer.get(value)
        if node is not None and isinstance(node.primitive, AbsoluteMaximum) and node.inputs[0] in numbers:
            return True
        if node is not None and len(values) < _FEW:
            values += (v for v in node.inputs if v not in values)
    return False


def _is_low_cast(node: Node) -> bool:
    return isinstance(node.primitive, Cast) and node.output.type.dtype.is_low


def is_never_negative(value: Value, definer: Mapping[Value, Node]) -> bool:
    """Whether a value has no negative number and no -0, as absolute maxima and scales that are computed of them."""
    node = definer.get(value)
    if node is None:
        return False
    primitive = node.primitive
    if primitive.is_constant:
        return not np.signbit(np.asarray(node.attrs["value"], np.float64)).any()
    if not (isinstance(primitive, _KEEP_SIGNS) or primitive.moves):
        return isinstance(primitive, AbsoluteMaximum)
    numbers = node.inputs[1:] if isinstance(primitive, Where) else node.inputs
    return all(is_never_negative(operand, definer) for operand in numbers)


def _passes(node: Node) -> bool:
    """Whether a node gives on the signs of its first operand."""
    return node.primitive.moves or isinstance(node.primitive, Dequantize)


def _ignores(node: Node, value: Value) -> bool:
    """Whether a node sums products of a value, or rounds to zeros without signs, and does not read it otherwise."""
    if isinstance(node.primitive, RoundStochastically):
        return True
    return node.primitive.summed_axes is not None and not node.regions and value not in node.inputs[2:]
