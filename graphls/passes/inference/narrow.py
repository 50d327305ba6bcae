"""Float16 inference graphs: casts at the boundaries, and float32 for nodes that need its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from graphls.ir.build import Builder, Names, copy_nodes
from graphls.ir.graph import Graph, Node, Value, captures
from graphls.ir.types import float16, float32
from graphls.passes.inference.fold_weights import Array, Weight
from graphls.passes.simplify.dce import Dce

LEVEL = "auto"
"""The level of mixed precision whose operations in float32 stay there."""


def narrowed(graph: Graph, weights: Mapping[str, Weight]) -> tuple[Graph, dict[str, Weight]]:
    """The graph computed in float16, with float32 inputs and outputs as before, and its weights.

    Products, compositions, moves, and elementwise operations between these are computed in 16 bits; reductions, softmax
    and what the level "auto" of mixed precision widens, in float32, and so are loops and branches, and nodes with a
    constant that float16 does not hold.
    """
    narrowing = _Narrowing(graph, weights)
    result = Dce().run(narrowing.run())
    read = {value for node in result.nodes for value in (*node.inputs, *_captured(node))} | {*result.outputs}
    states = tuple(value for value in narrowing.weights if value in read)
    return result.replace(states=states), {value.name: narrowing.weights[value] for value in states}


def _captured(node: Node) -> tuple[Value, ...]:
    return tuple(value for region in node.regions for value in captures(region))


class _Narrowing:
    """Each float32 value in one or both of two precisions: `singles` and `halves`, each a cast of the other."""

    def __init__(self, graph: Graph, weights: Mapping[str, Weight]) -> None:
        self.graph = graph
        self.weights = {state: weights[state.name] for state in graph.states}
        self.names = Names.of(graph)
        self.e = Builder(self.names)
        self.singles: dict[Value, Value] = {}
        self.halves: dict[Value, Value] = {}
        self.constants = {n.output: n.attrs["value"] for n in graph.nodes if n.primitive.is_constant}
        self.narrow = self.chosen()

    def run(self) -> Graph:
        """The graph with its nodes in their precisions."""
        for node in self.graph.nodes:
            self.e.follow(node)
            if node not in self.narrow:
                self.e.append(self.in_single(node))
            elif node.regions:
                self.composition(node)
            else:
                self.computed(node)
        outputs = tuple(self.single(value) for value in self.graph.outputs)
        return self.graph.replace(nodes=tuple(self.e.nodes), outputs=outputs)

    def chosen(self) -> set[Node]:
        """The nodes that are computed in 16 bits.

        Only products and compositions start it; other nodes join where a node in 16 bits reads them.
        """
        narrow: set[Node] = set()
        read_in_half: set[Value] = set()
        for node in reversed(self.graph.nodes):
            is_worth_it = node.primitive.is_product or bool(node.regions)
            if self.may_be_narrow(node) and (is_worth_it or not read_in_half.isdisjoint(node.outputs)):
                narrow.add(node)
                read_in_half.update(node.inputs)
        return narrow

    def may_be_narrow(self, node: Node) -> bool:
        """Whether a node may be computed in 16 bits."""
        primitive = node.primitive
        if node.after or primitive.is_constant or not any(v.type.dtype is float32 for v in node.outputs):
            return False
        if node.regions:
            return primitive.is_inlined
        moves = primitive.moves or (primitive.flops_per_element == 0 and not primitive.is_transparent)
        fits = primitive.is_product or primitive.half == "exact" or primitive.elementwise or moves
        is_safe = LEVEL not in primitive.widened_at and not primitive.on_host and not primitive.calls_python
        return fits and is_safe and all(_holds(self.constants[v]) for v in node.inputs if v in self.constants)

    def computed(self, node: Node) -> None:
        """Emit a node on 16-bit operands."""
        results = self.e.emit(node.primitive, map(self.half, node.inputs), node.attrs, name=node.outputs[0].name)
        self.take(node, results)

    def take(self, node: Node, results: Iterable[Value]) -> None:
        for value, result in zip(node.outputs, results, strict=True):
            (self.singles if result.type == value.type else self.halves)[value] = result

    def in_single(self, node: Node) -> Node:
        """A node on float32 operands, those that its regions capture included."""
        mapping = {value: self.single(value) for value in (*node.inputs, *_captured(node))}
        copied = copy_nodes([node], dict(mapping), self.names)[0]
        self.singles.update((value, value) for value in node.outputs)
        return replace(copied, outputs=node.outputs)

    def composition(self, node: Node) -> None:
        """Emit a composition in 16 bits, whose region computes in float32 and rounds the results."""
        (region,) = node.regions
        e = Builder(self.names)
        e.follow(node)
        mapping: dict[Value, Value] = {}
        for value in captures(region):
            half = self.half(value)
            mapping[value] = half if half.type == value.type else e.cast(half, dtype=float32)
        for copied in copy_nodes(region.nodes, mapping, self.names):
            e.append(copied)
        outputs = [mapping[v] for v in region.outputs]
        outputs = [e.cast(v, dtype=float16) if v.type.dtype is float32 else v for v in outputs]
        inner = region.replace(nodes=tuple(e.nodes), outputs=tuple(outputs))
        self.take(node, self.e.emit(node.primitive, map(self.half, node.inputs), node.attrs, regions=(inner,)))

    def single(self, value: Value) -> Value:
        """A value in its own dtype."""
        if value in self.halves and value not in self.singles:
            self.singles[value] = self.e.cast(self.halves[value], dtype=float32)
        return self.singles.get(value, value)

    def half(self, value: Value) -> Value:
        """A value in 16 bits, if it is float32: weights and numbers are rounded now."""
        if value.type.dtype is not float32:
            return self.single(value)
        if value not in self.halves:
            self.halves[value] = self.rounded(value)
        return self.halves[value]

    def rounded(self, value: Value) -> Value:
        if value in self.constants:
            return self.e.constant(_rounded(self.constants[value]))
        if value not in self.weights:
            return self.e.cast(self.single(value), dtype=float16)  # type: ignore[no-any-return]
        weight = self.weights[value]
        state = Value(self.names.fresh(value.name), value.type.with_dtype(float16), True, value.sharding)
        self.weights[state] = lambda: _rounded(weight())
        return state


def _rounded(array: Array) -> Array:
    with np.errstate(over="ignore"):
        return array.astype(np.float16)


def _holds(array: Array) -> bool:
    """Whether float16 holds the numbers of a constant without overflow or underflow."""
    if array.dtype != np.float32:
        return True
    half = _rounded(array)
    return bool(np.all(np.isfinite(half) | ~np.isfinite(array)) and np.all((half != 0) | (array == 0)))
