"""Accumulation of gradients: collects the contributions to each value and sums them in its shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graphls.ir.build import Builder
from graphls.ir.graph import Node, Value, uses, with_blocks
from graphls.ir.types import Type
from graphls.primitives.faults import listed, mismatch
from graphls.primitives.loops import each_iteration


@dataclass
class Tape:
    """Records of the backward expansion: primitives without a rule, and loops that yield more values."""

    missing: dict[Node, None] = field(default_factory=dict)
    extended: dict[Node, Node] = field(default_factory=dict)

    def latest(self, node: Node) -> Node:
        """The node, or its latest replacement."""
        while node in self.extended:
            node = self.extended[node]
        return node

    def applied(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """The nodes, also in their regions, with the latest replacement of each."""
        return tuple(map(self._applied, nodes)) if self.extended else tuple(nodes)

    def _applied(self, node: Node) -> Node:
        return with_blocks(self.latest(node), self.applied)


def check_gradients(node: Node, values: Sequence[Value], results: tuple[object, ...]) -> None:
    """Raise GraphTypeError where a gradient rule from outside of graphls gives no gradients of its operands."""
    operands = [value.type for value in values[: len(node.inputs)]]
    if len(results) == len(operands) and all(map(_is_gradient, results, operands)):
        return
    received = listed(result.type if isinstance(result, Value) else result for result in results)
    text = f"a gradient, or None, is wanted for each operand: {listed(operands)}"
    raise mismatch(node.primitive, "vjp", received, text).at(node.loc)


def _is_gradient(result: object, operand: Type) -> bool:
    """Whether a result is None or fits as the gradient of an operand, possibly in its broadcast shape."""
    if not isinstance(result, Value):
        return result is None
    sizes, own = result.type.shape[::-1], operand.shape[::-1]
    fits = len(sizes) >= len(own) and all(size in (1, sizes[i]) for i, size in enumerate(own))
    return fits and result.type.dtype.is_float == operand.dtype.is_float


class Parts:
    """The gradients of values of a block, as parts that are summed; subclasses compute the parts.

    With `integers`, gradients flow through integers too; they do where one of the sources is an integer.
    """

    def __init__(self, builder: Builder, sources: Sequence[Value], tape: Tape, integers: bool = False) -> None:
        self.e = builder
        self.sources = sources
        self.tape = tape
        self.integers = integers or not all(v.type.dtype.is_float for v in sources)
        self.parts: dict[Value, list[Value]] = {}

    def accumulate(self, nodes: Sequence[Node], seeds: Iterable[tuple[Value, Value | None]]) -> None:
        """Collect the parts of all gradients of these nodes; `seeds` pairs results with their sensitivities."""
        raise NotImplementedError

    def inside(self, builder: Builder, sources: Sequence[Value]) -> Parts:
        """The accumulation for a region."""
        raise NotImplementedError

    def add(self, value: Value, gradient: Value) -> None:
        self.parts.setdefault(value, []).append(self.fitted(gradient, value))

    def fitted(self, gradient: Value, value: Value) -> Value:
        """The gradient in the shape of its value: axes that broadcasting made wide are summed."""
        shape, target = gradient.type.shape, value.type.shape
        if shape != target:
            extra = len(shape) - len(target)
            wide = [i + extra for i, n in enumerate(target) if n == 1 and shape[i + extra] != 1]
            axes = (*range(extra), *wide)
            if axes:
                gradient = self._summed(gradient, axes)
            if gradient.type.shape != target:
                gradient = self.e.reshape(gradient, shape=target)
        if gradient.type.dtype is not value.type.dtype:
            gradient = self.e.cast(gradient, dtype=value.type.dtype)
        return gradient

    def _summed(self, gradient: Value, axes: tuple[int, ...]) -> Value:
        """The sum over axes; of a negation it is negated after the sum, which takes fewer elements."""
        last = self.e.nodes[-1] if self.e.nodes else None
        if last is not None and last.primitive.name == "neg" and last.output is gradient:
            negated: Value = self.e.neg(self.e.sum(last.inputs[0], axis=axes, keepdims=False))
            return negated
        total: Value = self.e.sum(gradient, axis=axes, keepdims=False)
        return total

    def total(self, value: Value) -> Value | None:
        parts = self.parts.get(value)
        if not parts:
            return None
        result = parts[0]
        for part in parts[1:]:
            result = self.plus(result, part)
        parts[:] = [result]
        return result

    def plus(self, a: Value, b: Value) -> Value:
        """The sum of two gradients of one value."""
        if a.type.stacked:
            return each_iteration(self.e, lambda e, x, y: e.add(x, y), a, b)
        total: Value = self.e.add(a, b)
        return total

    def zeros(self, value: Value) -> Value:
        """The gradient of a value that the results do not depend on."""
        kind = value.type
        if kind.stacked:
            return each_iteration(self.e, lambda e, x: e.constant(0, kind.dtype, kind.shape), value)
        return self.e.constant(0, kind.dtype, kind.shape)


def active_values(nodes: Iterable[Node], sources: Iterable[Value], integers: bool = False) -> set[Value]:
    """The values that depend on the sources and can have a gradient: floats, and with `integers` all numbers.

    A float depends on integers by a cast or by the regions of a node; as indices they have no gradient.
    """
    active = set(sources)
    for node in nodes:
        are_floats = {v.type.dtype.is_float for v in uses(node) if v in active}
        if are_floats:
            primitive, holds = node.primitive, bool(node.regions)
            # A cast of an integer, or a region that captures one, is the only way from integers to floats.
            kinds = {"float"} if True in are_floats or holds or primitive.name == "cast" else set()
            kinds |= {"int", "uint"} if integers and (holds or primitive.integer_gradient != "none") else set()
            active.update(v for v in node.outputs if v.type.dtype.kind in kinds)
    return active
