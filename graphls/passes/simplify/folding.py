"""The rewriter of the fold pass: queries for its rules, and evaluation of constant nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.interpret import Array, run_node
from graphls.ir.reachability import reached
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN, broadcast_shapes
from graphls.passes.rewriter import Rewriter

_REPEATED_LIMIT = 16


Folded = Node | Sequence[Value] | Value | None
"""A node or values in place of the node, a value in place of its only output, or None for no change."""


class Folding(Rewriter):
    """One sweep of the pass, with rules by the names of primitives."""

    def __init__(self, graph: Graph, rules: Mapping[str, Callable[[Folding, Node], Folded]], limit: int) -> None:
        super().__init__(graph)
        self.rules = rules
        self.limit = limit
        self.roots: dict[Value, Value] = {}
        self.numbers: dict[Value, Array | None] = {}
        self.checked = {v for node in walk(graph) if node.primitive.is_check for v in node.inputs}
        inputs = (v for n in walk(graph) for v in dict.fromkeys(n.inputs))
        self.times_used = Counter(inputs if self.checked else ())
        self.position: dict[Value, int] = {}

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.after:
            return node
        rule = self.rules.get(node.primitive.name)
        result = rule(self, node) if rule else self.without(node)
        if result is not None:
            return self.ordered(node, (result,) if isinstance(result, Value) else result)
        return self.computed(node) if self.computable(node) else self.narrowed(node)

    def define(self, node: Node) -> None:
        super().define(node)
        self.position.update(dict.fromkeys(node.outputs, len(self.position)))
        if node.primitive.is_constant:
            self.roots[node.output] = node.output
        elif node.primitive.moves and node.inputs[0] in self.roots and not node.after:
            self.roots[node.output] = self.roots[node.inputs[0]]

    def ordered(self, node: Node, result: Node | Sequence[Value]) -> Node | Sequence[Value]:
        """The replacement of a node, with control edges from the operands that it does not read any more.

        So a window that opens after the loss opens after all that the backward reads, and holds all of the backward.
        """
        if node.phase not in ("forward", "backward") or not self.checked:
            return result
        left = result.inputs if isinstance(result, Node) else tuple(result)
        lost = tuple(v for v in self.shared(uses(node)) if v not in left and not self.is_before(v, left))
        if not lost:
            return result
        if isinstance(result, Node):
            return replace(result, after=lost)
        return tuple(self.e.emit("depend", (v,), {}, after=lost)[0] for v in result)

    def shared(self, values: Iterable[Value]) -> list[Value]:
        """The nearest computed values behind these that other nodes read, too, or whose nodes have control edges."""

        def only_for(value: Value) -> tuple[Value, ...]:
            return () if self.is_shared(value) else self.computed_of(value)

        computed = (value for value in values if value in self.definer and value not in self.roots)
        return [value for value in reached(computed, only_for) if self.is_shared(value)]

    def is_shared(self, value: Value) -> bool:
        """Whether a value has several readers, or its node has control edges."""
        return self.times_used[value] != 1 or bool(self.definer[value].after)

    def computed_of(self, value: Value) -> tuple[Value, ...]:
        """The computed operands of a value, without constants."""
        return tuple(v for v in uses(self.definer[value]) if v in self.definer and v not in self.roots)

    def is_before(self, value: Value, results: Iterable[Value]) -> bool:
        """Whether one of these results depends on a value."""
        position = self.position[value]

        def later_operands(later: Value) -> tuple[Value, ...]:
            return uses(self.definer[later]) if self.position.get(later, -1) > position else ()

        return value in reached(results, later_operands)

    def number(self, value: Value) -> Array | None:
        """The number that all elements of a constant, also a moved or repeated one, have; else None."""
        root = self.roots.get(value)
        if root is None:
            return None
        if root not in self.numbers:
            self.numbers[root] = _repeated(self.definer[root].attrs["value"])
        return self.numbers[root]

    def is_number(self, value: Value, number: float) -> bool:
        """Whether all elements of a constant have the bits of this number."""
        repeated = self.number(value)
        return repeated is not None and repeated.tobytes() == np.asarray(number).astype(repeated.dtype).tobytes()

    def without(self, node: Node) -> Value | None:
        """The other operand, where one is a neutral number."""
        for position, number in node.primitive.neutral:
            other = node.inputs[1 - position]
            if other.type == node.output.type and self.is_number(node.inputs[position], number):
                return other
        return None

    def inner_operand(self, node: Node, value: Value | None = None, name: str = "") -> Value | None:
        """The operand of the node that defines `value` (by default the operand), if that has the same primitive."""
        before = self.definer.get(value or node.inputs[0])
        if before is None or before.after or before.primitive.name != (name or node.primitive.name):
            return None
        return before.inputs[0]

    def narrowed(self, node: Node) -> Node:
        """An elementwise node on operands that are not repeated: it broadcasts by itself, or its result is repeated."""
        if not node.primitive.elementwise:
            return node
        shape = node.output.type.shape
        narrow = tuple(self.inner_operand(node, value, "broadcast_to") or value for value in node.inputs)
        if narrow == node.inputs:
            return node
        if broadcast_shapes(*(v.type.shape for v in narrow)) != shape:
            small = self.e.emit(node.primitive, narrow, node.attrs)
            return replace(node, primitive=lookup("broadcast_to"), inputs=small, attrs={"shape": shape})
        return replace(node, inputs=narrow)

    def computable(self, node: Node) -> bool:
        primitive = node.primitive
        if node.regions or primitive.is_constant or primitive.takes_tokens:
            return False
        if primitive.on_host or primitive.calls_python or primitive.result_sharding(node.attrs) is not None:
            return False
        if not all(self.roots.get(v) is v for v in node.inputs):
            return False
        operand_size = sum(v.type.size for v in node.inputs)
        limit = min(_REPEATED_LIMIT, self.limit) if primitive.name == "broadcast_to" else max(self.limit, operand_size)
        return all(v.type != TOKEN and v.type.size <= limit for v in node.outputs)

    def computed(self, node: Node) -> Node | Sequence[Value]:
        arrays = {v: self.definer[v].attrs["value"] for v in node.inputs}
        try:
            with np.errstate(all="ignore"):
                results = run_node(node, arrays)
        except (ArithmeticError, ValueError, IndexError):
            return node
        for value, result in zip(node.outputs, results, strict=True):
            array = np.array(result)
            array.flags.writeable = False
            constant = replace(node, primitive=lookup("constant"), inputs=(), attrs={"value": array})
            self.e.append(replace(constant, outputs=(value,)))
        return node.outputs


def _repeated(array: Array) -> Array | None:
    if not array.size:
        return None
    elements = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
    return array.reshape(-1)[0] if (elements == elements[0]).all() else None
