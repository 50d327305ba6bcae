"""Equality: of graphs by structure, and of attributes and constants by hashable keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.types import DType, type_of

_PLAIN = frozenset((bool, int, str, type(None), DType))


def same(first: Graph, second: Graph) -> bool:
    r"""Whether two graphs are equal in everything that the text form holds.

    Order, names, types, attributes (floats and arrays bit by bit, all nans of an attribute alike), control
    edges, regions, phases, scopes, lines and writes all count.

    Examples:
        >>> from graphls.ir import parse, same
        >>> text = "graph @main(%x: f32[2]) {\n  %y = exp(%x) : f32[2]\n  return %y\n}\n"
        >>> same(parse(text), parse(text)), same(parse(text), parse(text.replace("exp", "log")))
        (True, False)
    """
    return first.name == second.name and _Comparison().graphs(first, second)


class _Comparison:
    """Compares two graphs by structure; `partner` pairs the values at the same positions, one to one."""

    def __init__(self) -> None:
        self.partner: dict[Value, Value] = {}

    def graphs(self, a: Graph, b: Graph) -> bool:
        return (
            a.mesh == b.mesh
            and self.values(a.inputs, b.inputs)
            and self.values(a.states, b.states)
            and len(a.nodes) == len(b.nodes)
            and all(map(self.nodes, a.nodes, b.nodes))
            and len(a.writes) == len(b.writes)
            and all(map(self.writes, a.writes, b.writes))
            and self.values(a.outputs, b.outputs)
        )

    def nodes(self, a: Node, b: Node) -> bool:
        return (
            a.primitive is b.primitive
            and (a.phase, a.scope, a.loc, a.stage, a.micro) == (b.phase, b.scope, b.loc, b.stage, b.micro)
            and self.values(a.inputs, b.inputs)
            and self.values(a.after, b.after)
            and attributes_key(a.attrs) == attributes_key(b.attrs)
            and len(a.regions) == len(b.regions)
            and all(map(self.graphs, a.regions, b.regions))
            and self.values(a.outputs, b.outputs)
        )

    def writes(self, a: Write, b: Write) -> bool:
        return a.in_place == b.in_place and self.values((a.state, a.value), (b.state, b.value))

    def values(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> bool:
        return len(a) == len(b) and all(map(self.value, a, b))

    def value(self, a: Value, b: Value) -> bool:
        if a in self.partner or b in self.partner:
            return self.partner.get(a) is b and self.partner.get(b) is a
        self.partner[a], self.partner[b] = b, a
        return (a.name, a.type, a.is_state, a.sharding) == (b.name, b.type, b.is_state, b.sharding)


def structure_key(graph: Graph) -> tuple[Any, ...]:
    """A hashable key that is equal for graphs that compute the same, whatever the names, cells and lines in them."""
    numbers: dict[Value, int] = {}

    def number(values: Iterable[Value]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(value, len(numbers)) for value in values)

    def declared(values: Iterable[Value]) -> tuple[Any, ...]:
        return tuple((*number((v,)), v.type, v.sharding) for v in values)

    def of_node(node: Node) -> tuple[Any, ...]:
        own = node.primitive.name, number(node.inputs), number(node.after), attributes_key(node.attrs)
        return (*own, tuple(map(of_graph, node.regions)), declared(node.outputs))

    def of_graph(block: Graph) -> tuple[Any, ...]:
        ends = declared(block.inputs), declared(block.states)
        nodes = tuple(map(of_node, block.nodes))
        writes = tuple((*number((w.state, w.value)), w.in_place) for w in block.writes)
        return (*ends, nodes, writes, number(block.outputs), block.mesh)

    return of_graph(graph)


def attributes_key(attrs: Mapping[str, object]) -> tuple[Any, ...]:
    """A hashable key that is equal for nodes with the same attributes, in whatever order."""
    return tuple((name, _attribute_key(attrs[name])) for name in sorted(attrs))


def _attribute_key(value: object) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return tuple, *map(_attribute_key, value)
    if isinstance(value, np.ndarray):
        data = value.astype(type_of(value).dtype.numpy, copy=False)
        return np.ndarray, type_of(value), data.tobytes()
    for kind in (bool, int, float, str, DType, type(None)):
        if isinstance(value, kind):
            # The text of a float differs from that of every other one, also for -0.0 and nan.
            return kind, float.__repr__(value) if isinstance(value, float) else value
    return object, id(value)


def key_of_constant(constant: object) -> Hashable:
    """A key that is equal for constants that compile to the same graph; raises TypeError for other objects."""
    kind = type(constant)
    if kind in _PLAIN:
        return kind, constant
    if isinstance(constant, float):
        return kind, constant.hex()
    if isinstance(constant, (tuple, list)):
        return kind, *map(key_of_constant, constant)
    raise TypeError(f"{constant!r} is not a plain constant.")


def constant_key(constant: object) -> Any:
    """A key that is equal for interchangeable constants: of one class and value, zeros of one sign, all nans alike."""
    if isinstance(constant, float):
        return type(constant), constant.hex()
    if isinstance(constant, complex):
        return type(constant), constant.real.hex(), constant.imag.hex()
    return type(constant), constant
