"""Lowers overflow checks: a cheap bound first, and the exact check only where the bound is inconclusive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import GraphProto

from graphls.ir.graph import Node, Value, uses
from graphls.ir.types import Type, bool_, float32
from graphls.runtime.lowering.values import Values

PART = 64
"""The number of tensors that share one exact check, because loading an If takes quadratic time."""

LEAST = 1 << 14
"""Elements from which on a product is bounded by its operands."""

LARGEST = float(np.finfo(np.float32).max) / 8
"""A computed bound below this is valid in spite of rounding."""


def any_not_finite(e: Values, values: Sequence[Value]) -> str:
    """True if a float tensor among `values` has an infinity or nan.

    The sum of absolute values bounds every element of a tensor, and the product of Euclidean norms every element of
    a matrix product or a gradient of kernels (Cauchy and Schwarz), which costs a pass over the operands only; elements
    that are added to zeros by index are bounded by their sum of absolute values. If the sum of all bounds is finite,
    nothing else runs; else an If checks every element. On a GPU, for which an If would wait, every element is checked
    at once.
    """
    if e.is_gpu or not values:
        return _exact_check(e, values) if values else e.const(False)
    is_finite = e.Less(Bound(e, values).number(), e.const(LARGEST, float32))
    flags = [_part(e, is_finite, values[i : i + PART]) for i in range(0, len(values), PART)]
    while len(flags) > 1:
        flags[:2] = [e.Or(flags[0], flags[1])]
    return flags[0]


def _part(e: Values, is_finite: str, values: Sequence[Value]) -> str:
    finite, exact = GraphProto(name=e.names.fresh("finite")), GraphProto(name=e.names.fresh("exact"))
    with e.branch_body(finite):
        e.yield_from_branch(e.Identity(e.const(False)), Type(bool_))
    with e.branch_body(exact):
        _compute_deferred(e, values)
        e.yield_from_branch(_exact_check(e, values), Type(bool_))
    return e.operator("If", [is_finite], {"then_branch": finite, "else_branch": exact})


def _compute_deferred(e: Values, values: Iterable[Value]) -> None:
    """Compute in this branch the values that are deferred to the check."""
    check = e.node
    e.each(dict.fromkeys(node for value in values for node in _deferred_nodes(e, value)))
    e.node = check


def _deferred_nodes(e: Values, value: Value) -> list[Node]:
    """The node of a value that is deferred to the check, behind those of its operands."""
    node = e.deferred.get(value)
    return [] if node is None else [*(n for v in node.inputs for n in _deferred_nodes(e, v)), node]


def _exact_check(e: Values, values: Sequence[Value]) -> str:
    """The exact check: x - x is nan where x is an infinity or nan, and so is a sum with such a term."""
    names = [(e.form(v, e.computed(v.type).dtype), e.computed(v.type)) for v in values]
    zeros = [e.as_single(e.ReduceSum(e.Sub(name, name), keepdims=0), kind) for name, kind in names]
    return e.IsNaN(e.total(zeros))


class Bound:
    """An upper bound of the elements of some values, and of those in between; infinity or nan where it is unknown.

    It is a sum with a term for each value: the sum of absolute values, or the squares of the Euclidean norms of a
    product's operands, which together exceed the product of the norms. With the largest count of summed elements, it
    also exceeds the sum of a column of an operand. Such a value times some factors is bounded by the sum times these
    factors: the sum is multiplied by the factors of each value, so that one pass over an array serves all.
    """

    def __init__(self, e: Values, values: Sequence[Value]) -> None:
        self.e = e
        self.operands: dict[Value, None] = {}
        self.summed: dict[Value, None] = {}
        self.count = 1.0
        self.chains: dict[tuple[Value, ...], None] = {(): None}
        for value in sorted(values, key=self._is_known, reverse=True):  # sums are looked for among operands of products
            factors = self._factors(value)
            self.chains.update((factors[:i], None) for i in range(len(factors) + 1))

    def number(self) -> str:
        """The bound, as a float32 scalar."""
        e = self.e
        norms = [e.ReduceL2(e.form(v, float32), keepdims=0) for v in self.operands]
        terms = [e.const(self.count, float32), *(e.Mul(norm, norm) for norm in norms), *self._sums()]
        bounds: dict[tuple[Value, ...], str] = {(): e.total(terms)}
        for factors in self.chains:
            for i in range(1, len(factors) + 1):
                if factors[:i] not in bounds:
                    bounds[factors[:i]] = e.Mul(bounds[factors[: i - 1]], self._size_of(factors[i - 1]))
        return e.total(list(bounds.values()))

    def _size_of(self, factor: Value) -> str:
        """The absolute value of a value of one element, as a scalar."""
        name = self.e.form(factor, float32)
        return self.e.ReduceL1(name, keepdims=0) if factor.type.rank else self.e.Abs(name)

    def _factors(self, value: Value) -> tuple[Value, ...]:
        """Record the arrays whose norms bound a value; returns the factors of the bound."""
        node = self.e.definer.get(value)
        if node is not None and self._is_cheap(node) and not node.primitive.is_product:
            return self._factors_of_sum(node.inputs[0])
        if node is not None and self._is_cheap(node):
            return tuple(factor for operand in node.inputs for factor in self._of_operand(operand))
        if node is not None and _is_multiple(node):
            factor, other = scalar_first(node)
            return (*self._factors(other), factor)
        if summed := self._summed_up(node):
            self.count = max(self.count, summed.type.size / value.type.size)
            return self._of_operand(summed)
        return self._factors_of_sum(value)

    def _factors_of_sum(self, value: Value) -> tuple[Value, ...]:
        """Record a value that is bounded by its sum of absolute values, which also bounds sums of its elements."""
        self.summed[value] = None
        return ()

    def _of_operand(self, value: Value) -> tuple[Value, ...]:
        value, factors = self._stripped(value)
        self.operands[value] = None
        return factors

    def _stripped(self, value: Value) -> tuple[Value, tuple[Value, ...]]:
        """The value without its scalar factors, and the factors."""
        node = self.e.definer.get(value)
        if node is None or not _is_multiple(node):
            return value, ()
        factor, other = scalar_first(node)
        inner, factors = self._stripped(other)
        return inner, (*factors, factor)

    def _is_known(self, value: Value) -> bool:
        """True for a value that operands of products bound."""
        node = self.e.definer.get(value)
        if node is None:
            return False
        deferred = _is_multiple(node) and value in self.e.deferred and self._is_known(scalar_first(node)[1])
        return deferred or self._is_cheap(node) or self._summed_up(node) is not None

    def _summed_up(self, node: Node | None) -> Value | None:
        """The operand that a node sums, if it is an operand of a product."""
        is_sum = node is not None and node.primitive.name == "sum"
        return node.inputs[0] if node and is_sum and self._stripped(node.inputs[0])[0] in self.operands else None

    def _is_cheap(self, node: Node) -> bool:
        """True for a product whose operands are smaller than its result, or that is deferred to the check."""
        if not _is_bounded(node):
            return False
        size, operands = node.output.type.size, sum(v.type.size for v in node.inputs)
        return node.output in self.e.deferred or (size >= LEAST and operands + LEAST <= size)

    def _sums(self) -> list[str]:
        """The sums of absolute values; small arrays are concatenated first."""
        e, kinds = self.e, {v: self.e.computed(v.type) for v in self.summed}
        small = {v: None for v, kind in kinds.items() if kind.dtype is float32 and 1 < kind.size <= LEAST}
        if len(small) < 2:
            small = {}
        flat = ((e.form(v, float32), v.type.rank) for v in small)
        rows = [name if rank == 1 else e.Reshape(name, e.ints((-1,))) for name, rank in flat]
        joined = [e.ReduceL1(e.operator("Concat", rows, {"axis": 0}), keepdims=0)] if rows else []
        others = [(e.form(v, kind.dtype), kind) for v, kind in kinds.items() if v not in small]
        return joined + [e.as_single(e.ReduceL1(name, keepdims=0), kind) for name, kind in others]


def scalar_first(node: Node) -> tuple[Value, Value]:
    """The operands of a `mul`, that of one element first."""
    a, b = node.inputs
    return (a, b) if a.type.size == 1 else (b, a)


def only_checked(nodes: Sequence[Node], yielded: Iterable[Value]) -> dict[Value, Node]:
    """The bounded products, and scalar multiples of such, that only overflow checks of this block read."""
    candidates: dict[Value, Node] = {}
    for node in nodes:
        if _can_be_deferred(node, candidates):
            candidates[node.output] = node
    read = set(yielded)
    for node in reversed(nodes):
        is_deferred = any(v in candidates and v not in read for v in node.outputs)
        if not (is_deferred or node.primitive.is_check):
            read.update(uses(node))
    return {v: n for v, n in candidates.items() if v not in read}


def _can_be_deferred(node: Node, candidates: dict[Value, Node]) -> bool:
    """True if a node's result can be bounded without it: a bounded product, or such a product times a scalar."""
    if _is_bounded(node):
        return candidates.keys().isdisjoint(node.inputs)
    if not _is_multiple(node):
        return False
    factor, other = scalar_first(node)
    return factor not in candidates and other in candidates


def _is_bounded(node: Node) -> bool:
    return node.primitive.is_bounded and node.output.type.dtype is float32


def _is_multiple(node: Node) -> bool:
    """True for a scalar times a value, in float32."""
    is_product = node.primitive.name == "mul" and node.output.type.dtype is float32
    return is_product and scalar_first(node)[0].type.size == 1
