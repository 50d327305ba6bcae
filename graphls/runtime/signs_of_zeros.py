"""What roundings need not compute: signs of zeros for products, those of what is positive, nans beside a nan scale."""

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
    """The results in a block of maxima and of casts to low dtypes whose operand is never negative, nor -0."""
    rounded = [node for node in nodes if isinstance(node.primitive, AbsoluteMaximum) or _is_low_cast(node)]
    positive = never_negative(nodes) if rounded else ()
    return {node.output for node in rounded if node.inputs[0] in positive}


def never_negative(nodes: Sequence[Node]) -> set[Value]:
    """The absolute maxima in a block, and what scales are computed of them: values without negative numbers and -0."""
    positive: set[Value] = set()
    for node in nodes:
        primitive = node.primitive
        numbers = node.inputs[1:] if isinstance(primitive, Where) else node.inputs
        is_number = primitive.is_constant and node.output.type.size == 1
        if (
            isinstance(primitive, AbsoluteMaximum)
            or (is_number and not np.signbit(np.asarray(node.attrs["value"], np.float64)).any())
            or ((isinstance(primitive, _KEEP_SIGNS) or primitive.moves) and numbers and positive.issuperset(numbers))
        ):
            positive.update(node.outputs)
    return positive


def with_nans(nodes: Sequence[Node], leaving: Collection[Value]) -> set[Value]:
    """The results of roundings in a block that may be nan where their dtype has none, as their scale is nan then.

    All that reads them brings them back by scales that depend on the absolute maximum of what is rounded, as in all
    recipes: of a tensor with a nan this is nan (`passes.precision.scales.inverse`).
    """
    rounded = [node for node in nodes if isinstance(node.primitive, Quantize | RoundStochastically)]
    readers, definer = (users(nodes), definers(nodes)) if rounded else ({}, {})

    def are_nan_by_scale(value: Value, numbers: set[Value]) -> bool:
        return value not in leaving and all(
            are_nan_by_scale(node.output, numbers) if node.primitive.moves
            else isinstance(node.primitive, Dequantize) and _is_of_maximum(node.inputs[1], numbers, definer)
            for node in readers.get(value, ())
        )  # fmt: skip

    return {node.output for node in rounded if are_nan_by_scale(node.output, _scaled(node, definer))}


def _scaled(node: Node, definer: Mapping[Value, Node]) -> set[Value]:
    """The operand of a rounding, what it is moved from, and what that is the product of with a scale."""
    numbers = {value := node.inputs[0]}
    products = isinstance(node.primitive, RoundStochastically)
    while (maker := definer.get(value)) is not None:
        if not (maker.primitive.moves or (products and isinstance(maker.primitive, Mul))):
            break
        products = products and maker.primitive.moves
        numbers.add(value := maker.inputs[0])
    return numbers


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


def _passes(node: Node) -> bool:
    """Whether a node gives on the signs of its first operand."""
    return node.primitive.moves or isinstance(node.primitive, Dequantize)


def _ignores(node: Node, value: Value) -> bool:
    """Whether a node sums products of a value, or rounds to zeros without signs, and does not read it otherwise."""
    if isinstance(node.primitive, RoundStochastically):
        return True
    return node.primitive.summed_axes is not None and not node.regions and value not in node.inputs[2:]
