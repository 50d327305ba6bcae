"""Products of rounded operands in bfloat16, which has all digits of theirs; their sums are those of float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphls.ir.graph import Graph, Node, Value, definers
from graphls.ir.registry import lookup
from graphls.ir.types import bfloat16, float32
from graphls.passes.rewriter import Rewritten, TracedRewriter, users
from graphls.primitives.low_precision import DIGITS, FORMATS
from graphls.runtime.low_products import with_moved
from graphls.runtime.onednn.library import library

NARROW_DIGITS = 8
"""The significant bits of a bfloat16."""


def with_narrow_products(graph: Graph) -> Rewritten:
    """The graph whose products read rounded operands in bfloat16, with factors of float32 behind the sums.

    Numbers of few digits times scales of few digits are exact in bfloat16: a float8 times a power of two, a float4
    times a float8. A scale of float32 that all numbers share is left to the sum. Of

        %x = dequantize(%p, %s) {dtype=f32, block=[0, 0]} : f32[4,64]
        %y = dequantize(%q, %t) {dtype=f32, block=[0, 0]} : f32[64,8]
        %z = matmul(%x, %y) : f32[4,8]

    both operands are bfloat16 with the scale 1, and %z is the product with %s * %t of a sum in float32. Processors
    with units for bfloat16 compute it in a fifth of the time. What becomes subnormal there is 0, as on XLA.
    """
    if not library().has_bfloat16 or not any(node.primitive.name == "dequantize" for node in graph.nodes):
        return Rewritten(graph)
    operands = _Operands(graph)
    return _Narrow(graph, operands).rewritten() if operands.products else Rewritten(graph)


class _Operands:
    """The dequantized values that products alone read, both operands of which are such, and what moves them.

    `parts` has for each the scale that stays, None for 1, and the factor that goes behind the products, None for 1.
    """

    def __init__(self, graph: Graph) -> None:
        self.definer, self.readers = definers(graph.nodes), users(graph.nodes)
        self.leaving = {*graph.outputs, *(write.value for write in graph.writes)}
        self.parts = {node.output: parts for node in graph.nodes if (parts := self._parts(node)) is not None}
        self.sources = with_moved(graph.nodes, self.parts)
        while misread := {source for value, source in self.sources.items() if not self._is_fit(value)}:
            self.sources = {v: source for v, source in self.sources.items() if source not in misread}
        self.products = {node.output: self._factors(node) for node in graph.nodes if self._is_product(node)}

    def is_moved(self, value: Value) -> bool:
        """Whether a value is one that has been moved."""
        return self.sources.get(value, value) is not value

    def _is_fit(self, value: Value) -> bool:
        """Whether products alone read a value, or what moves it."""
        readers = self.readers.get(value, ())
        are_products = all(self._is_product(node) or any(map(self.is_moved, node.outputs)) for node in readers)
        return are_products and value not in self.leaving

    def _is_product(self, node: Node) -> bool:
        is_plain = node.primitive.name == "matmul" and node.output.type.dtype is float32
        return is_plain and all(v in self.sources for v in node.inputs)

    def _factors(self, product: Node) -> list[Value]:
        factors = (self.parts[self.sources[v]][1] for v in product.inputs)
        return [factor for factor in factors if factor is not None]

    def _parts(self, node: Node) -> tuple[Value | None, Value | None] | None:
        """The scale and the factor of a value; None where it is no rounded one, or has too many digits."""
        if node.primitive.name != "dequantize" or node.output.type.dtype is not float32:
            return None
        low, scale = node.inputs
        left = NARROW_DIGITS - FORMATS[low.type.dtype].mantissa - 1
        if self._digits(scale) <= left:
            return scale, None
        if scale.type.size == 1:
            return None, scale
        maker = self.definer.get(scale)
        if maker is not None and maker.primitive.name == "mul":
            for scale, factor in (maker.inputs, maker.inputs[::-1]):
                if factor.type.size == 1 and scale.type == maker.output.type and self._digits(scale) <= left:
                    return scale, factor
        return None

    def _digits(self, value: Value) -> int:
        """The most significant bits of the finite numbers of a value, as far as the nodes before it tell."""
        if value.type.dtype.is_low:
            return FORMATS[value.type.dtype].mantissa + 1
        node = self.definer.get(value)
        count = DIGITS[float32] + 1 if node is None else self._digits_of(node)
        return min(count, DIGITS[float32] + 1)

    def _digits_of(self, node: Node) -> int:
        name, inputs, most = node.primitive.name, node.inputs, DIGITS[float32] + 1
        if node.primitive.is_constant:
            return _digits_of_numbers(node.attrs["value"])
        if name == "cast" or (node.primitive.moves and len(inputs) == 1):
            return self._digits(inputs[0])
        if name == "mul":
            return sum(map(self._digits, inputs))
        if name == "div":
            return self._digits(inputs[0]) if self._digits(inputs[1]) == 1 else most
        if name == "where":
            return max(map(self._digits, inputs[1:2] if self._is_finite(inputs[0], inputs[2]) else inputs[1:]))
        return most

    def _is_finite(self, condition: Value, value: Value) -> bool:
        """Whether a condition says that a value is finite."""
        node = self.definer.get(condition)
        return node is not None and node.primitive.name == "is_finite" and node.inputs[0] is value


def _digits_of_numbers(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    """The most significant bits of finite numbers."""
    most = DIGITS[float32] + 1
    mantissas = np.frexp(np.asarray(array, np.float32))[0]
    return next((n for n in range(1, most) if not np.any(np.modf(mantissas * np.float32(2.0**n))[0])), most)


class _Narrow(TracedRewriter):
    def __init__(self, graph: Graph, operands: _Operands) -> None:
        super().__init__(graph)
        self.operands = operands

    def visit(self, node: Node) -> Node | Sequence[Value]:
        operands, output = self.operands, node.outputs[0] if len(node.outputs) == 1 else None
        if output in operands.products:
            return self._with_factors(node, operands.products[output])
        if output not in operands.sources:
            return node
        if operands.is_moved(output):
            return self.e.emit(node.primitive, node.inputs, node.attrs)
        low, inverse = node.inputs
        scale = operands.parts[output][0] or self.e.constant(np.ones(inverse.shape, np.float32))
        return self.e.emit(node.primitive, (low, scale), {**node.attrs, "dtype": bfloat16})

    def _with_factors(self, node: Node, factors: Sequence[Value]) -> Node:
        """A product whose operands have become bfloat16, with the factors behind it."""
        for factor in factors:
            product = Value(self.names.fresh(node.output.name), node.output.type)
            number = self.e.reshape(factor, shape=())
            self.e.append(replace(node, outputs=(product,)))
            node = replace(node, primitive=lookup("mul"), inputs=(product, number), attrs={})
        return node
