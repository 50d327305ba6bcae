"""The overflow check as ONNX operators: bounds first, and every element only where a bound says too little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import GraphProto

from graphls.backends.onnx.values import Values
from graphls.ir.graph import Node, Value, uses
from graphls.ir.types import Type, bool_, float32

PART = 64
"""How many tensors share one exact test, because loading an If takes quadratic time."""

LEAST = 1 << 14
"""Elements from which on a product is bounded by its operands."""

LARGEST = float(np.finfo(np.float32).max) / 8
"""A bound below this is one in spite of rounding."""


def any_not_finite(e: Values, values: Sequence[Value]) -> str:
    """Whether a float tensor among `values` holds an infinity or nan.

    The sum of absolute values bounds every element of a tensor, and the product of Euclidean norms every element of
    a matrix product or a gradient of kernels (Cauchy and Schwarz), which costs a pass over the operands only. Where
    all bounds are finite nothing else runs; else an If looks at every element. An If would wait for a GPU, which looks
    at once.
    """
    values = [v for v in values if v.type.size]
    if e.is_gpu:
        return _exactly(e, values) if values else e.const(False)
    found = [_part(e, values[i : i + PART]) for i in range(0, len(values), PART)] or [e.const(False)]
    while len(found) > 1:
        found[:2] = [e.Or(found[0], found[1])]
    return found[0]


def _part(e: Values, values: Sequence[Value]) -> str:
    bounds = Bounds(e)
    for value in values:
        bounds.of(value)
    is_finite = e.Less(e.total(bounds.terms), e.const(LARGEST, float32))
    finite, exact = GraphProto(name=e.names.fresh("finite")), GraphProto(name=e.names.fresh("exact"))
    with e.branch_body(finite):
        e.yield_from_branch(e.Identity(e.const(False)), Type(bool_))
    with e.branch_body(exact):
        _compute_here(e, values)
        e.yield_from_branch(_exactly(e, values), Type(bool_))
    return e.operator("If", [is_finite], {"then_branch": finite, "else_branch": exact})


def _compute_here(e: Values, values: Iterable[Value]) -> None:
    """Compute in this branch what of these values has been left for the check, or is computed once more for it."""
    check = e.node
    e.each(dict.fromkeys(node for value in values for node in _left_before(e, value)))
    e.node = check


def _left_before(e: Values, value: Value) -> list[Node]:
    """The node of a value, if it has been left for the check, behind those of its operands."""
    node = _left(e, value)
    return [] if node is None else [*(n for v in node.inputs for n in _left_before(e, v)), node]


def _left(e: Values, value: Value) -> Node | None:
    """The node of a value, if the check does not read it where it is computed for others."""
    return e.delayed.get(value) or e.again.get(value)


def _exactly(e: Values, values: Sequence[Value]) -> str:
    """x - x is nan where x is an infinity or nan, and so is a sum that holds one."""
    names = [(e.form(v, e.computed(v.type).dtype), e.computed(v.type)) for v in values]
    zeros = [e.as_single(e.ReduceSum(e.Sub(name, name), keepdims=0), kind) for name, kind in names]
    return e.IsNaN(e.total(zeros))


class Bounds:
    """Upper bounds of absolute values as scalars; every intermediate value's stands in `terms`."""

    def __init__(self, e: Values) -> None:
        self.e = e
        self.known: dict[Value, str] = {}
        self.norms: dict[Value, str] = {}
        self.terms: list[str] = []

    def of(self, value: Value) -> str:
        """A float32 scalar that no element of a value exceeds."""
        if value not in self.known:
            self.known[value] = self._made(value)
            self.terms.append(self.known[value])
        return self.known[value]

    def _made(self, value: Value) -> str:
        node, e = self.e.definer.get(value), self.e
        if node is not None and node.primitive.is_bounded and self._is_cheap(node):
            return e.Mul(self.norm(node.inputs[0]), self.norm(node.inputs[1]))
        if node is not None and _left(e, value):
            factor, other = scalar_first(node)
            return e.Mul(self.of(other), self.norm(factor))
        kind = e.computed(value.type)
        return e.as_single(e.ReduceL1(self._in_rows(value, kind), keepdims=0), kind)

    def _is_cheap(self, node: Node) -> bool:
        """Whether the operands of a product are much smaller than it, or the check does not read it."""
        if node.output.type.dtype is not float32:
            return False
        size, operands = node.output.type.size, sum(v.type.size for v in node.inputs)
        return _left(self.e, node.output) is not None or (size >= LEAST and 2 * operands <= size)

    def norm(self, value: Value) -> str:
        """The Euclidean norm of a float32 value that is computed."""
        if value not in self.norms:
            self.norms[value] = self.e.ReduceL2(self._in_rows(value, value.type), keepdims=0)
        return self.norms[value]

    def _in_rows(self, value: Value, kind: Type) -> str:
        """A value as a matrix: OpenVINO (2026.4.1) sums up more axes eight times as slowly."""
        name = self.e.form(value, kind.dtype)
        return self.e.Reshape(name, self.e.ints((0, -1))) if kind.rank > 2 and kind.size else name


def scalar_first(node: Node) -> tuple[Value, Value]:
    """The operands of a `mul`, that of one element first."""
    a, b = node.inputs
    return (a, b) if a.type.size == 1 else (b, a)


def only_checked(nodes: Sequence[Node], kept: Iterable[Value]) -> dict[Value, Node]:
    """The bounded products, and numbers times such, that nothing but overflow checks of this block looks at."""
    candidates: dict[Value, Node] = {}
    for node in nodes:
        if _can_wait(node, candidates):
            candidates[node.output] = node
    needed = set(kept)
    for node in reversed(nodes):
        waits = any(v in candidates and v not in needed for v in node.outputs)
        if not (waits or node.primitive.is_check):
            needed.update(uses(node))
    return {v: n for v, n in candidates.items() if v not in needed}


def checked_and_given(nodes: Sequence[Node], kept: Iterable[Value]) -> dict[Value, Node]:
    """The bounded products, and numbers times something, that a block yields and only its overflow checks look at."""
    read = {v for node in nodes if not node.primitive.is_check for v in uses(node)}
    given = set(kept) - read
    return {
        v: node for node in nodes for v in node.outputs if v in given and (_is_bounded(node) or _is_multiple(node))
    }


def _can_wait(node: Node, candidates: dict[Value, Node]) -> bool:
    """Whether the bounds know a node's result without it: a bounded product, or such a product times a number."""
    if _is_bounded(node):
        return candidates.keys().isdisjoint(node.inputs)
    if not _is_multiple(node):
        return False
    factor, other = scalar_first(node)
    return factor not in candidates and other in candidates


def _is_bounded(node: Node) -> bool:
    return node.primitive.is_bounded and node.output.type.dtype is float32


def _is_multiple(node: Node) -> bool:
    """Whether a node is a number times something, in float32."""
    is_product = node.primitive.name == "mul" and node.output.type.dtype is float32
    return is_product and scalar_first(node)[0].type.size == 1
