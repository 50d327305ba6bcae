"""The tensors of a step that are rounded to a low dtype: where, in which role, for what, and by which scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from graphls.ir.graph import Graph, Node, Value, definers, walk
from graphls.passes.precision.recipes import PRODUCTS, product_of

Trips = tuple[int | None, ...]
"""The lengths of the loops around a node, the outermost first; None for one that only a run knows."""


class Placed(NamedTuple):
    """A node with the conditions of the branches and the lengths of the loops around it."""

    node: Node
    guards: tuple[tuple[Value, bool], ...]
    trips: Trips


@dataclass(frozen=True, eq=False)
class Rounding:
    """A tensor that `maker` rounds to a low dtype and `reader` brings back, behind nodes that move its elements.

    `scaled` says whether `maker` multiplies by a scale, its second operand; another one rounds what is scaled already.
    `products` are those of a layer that read it, `state` the state that the scale is, `guards` the conditions of the
    branches around it, and `trips` the lengths of the loops.
    """

    maker: Node
    reader: Node
    moves: tuple[Node, ...]
    products: tuple[str, ...]
    state: Value | None
    guards: tuple[tuple[Value, bool], ...]
    trips: Trips

    @property
    def role(self) -> str:
        """What the tensor is for its products: "input", "weight" or "gradient", "operand" where nothing says it."""
        return str(self.reader.attrs.get("role") or "operand")

    @property
    def scaled(self) -> bool:
        """Whether the maker multiplies by its scale."""
        return len(self.maker.inputs) > 1 and "block" in self.maker.attrs

    @property
    def scale(self) -> Value | None:
        """The scale, or its inverse; None where a dtype is all that there is."""
        return self.maker.inputs[1] if self.scaled else next(iter(self.reader.inputs[1:]), None)

    @property
    def values(self) -> tuple[Value, ...]:
        """What is measured: the operand, the result, the scale or its inverse if there is one, and the conditions."""
        scale = () if self.scale is None else (self.scale,)
        return (self.maker.inputs[0], self.reader.output, *scale, *(value for value, _ in self.guards))

    @property
    def is_measured(self) -> bool:
        """Whether all loops around it have a length that is there before they run."""
        return None not in self.trips


def roundings(graph: Graph) -> list[Rounding]:
    """The tensors that a graph rounds for products, each once, in the order of execution.

    What the backward rounds again of a forward that runs again has the numbers of the first run, and is left out.
    """
    definer = definers(walk(graph))
    products = _products(graph, definer)
    by_maker: dict[Node, Rounding] = {}
    for node, guards, trips in _placed(graph.nodes, (), ()):
        if not _brings_back(node) or not ("block" in node.attrs or node in products):  # others are casts of scales
            continue
        maker, moves = _maker(node.inputs[0], definer)
        if maker is not None and maker not in by_maker:
            read = tuple(product for product in PRODUCTS if product in products.get(node, ()))
            state = base(maker.inputs[1], definer) if len(maker.inputs) > 1 else None
            state = state if state is not None and state.is_state else None
            by_maker[maker] = Rounding(maker, node, moves, read, state, guards, trips)
    return list(_once(by_maker.values()))


def _once(all_of_them: Iterable[Rounding]) -> Iterator[Rounding]:
    """The roundings but those of a second run, whose products are those of the first one."""
    first: dict[tuple[str, str], Rounding] = {}
    for rounding in all_of_them:
        key = rounding.maker.scope, rounding.role
        if "forward" not in rounding.products:
            yield rounding
        elif rounding.maker.phase != "backward":
            first[key] = rounding
            yield rounding
        elif key not in first:
            yield rounding


def _placed(nodes: Iterable[Node], guards: tuple[tuple[Value, bool], ...], trips: Trips) -> Iterator[Placed]:
    """The nodes, and those in branches and in the bodies of loops."""
    for node in nodes:
        if node.primitive.is_branch:
            for region, answer in zip(node.regions, (True, False), strict=True):
                yield from _placed(region.nodes, (*guards, (node.inputs[0], answer)), trips)
        elif node.primitive.is_loop:
            yield from _placed(node.regions[-1].nodes, guards, (*trips, node.attrs.get("length")))
        yield Placed(node, guards, trips)


def _products(graph: Graph, definer: Mapping[Value, Node]) -> dict[Node, set[str]]:
    """The products of layers that read what each node brings back from a low dtype; "" for one that is not clear."""
    products: dict[Node, set[str]] = {}
    for node in walk(graph):
        if node.primitive.summed_axes is not None:
            read = [_reader(value, definer) for value in node.inputs[:2]]
            roles = [str(reader.attrs.get("role", "")) if reader is not None else "" for reader in read]
            product = product_of(roles) if all(roles) else None
            for reader in read:
                if reader is not None:
                    products.setdefault(reader, set()).add(product or "")
    return products


def _reader(value: Value, definer: Mapping[Value, Node]) -> Node | None:
    """The node that brings a value back from a low dtype, behind moves, casts and factors; None where none does."""
    node = definer.get(value)
    while node is not None and not _brings_back(node):
        factors = node.primitive.factors if node.primitive.summed_axes is None else ()
        node = next((definer[v] for at in factors if (v := node.inputs[at]) in definer), None)
    return node


def _brings_back(node: Node) -> bool:
    """Whether a node makes a float of a low dtype."""
    is_low = bool(node.inputs) and node.inputs[0].type.dtype.is_low
    return is_low and len(node.outputs) == 1 and node.output.type.dtype.is_float


def _maker(value: Value, definer: Mapping[Value, Node]) -> tuple[Node | None, tuple[Node, ...]]:
    """The node that rounds a low value from a float, and the nodes that move it from there on, in their order."""
    moves: list[Node] = []
    while (node := definer.get(value)) is not None:
        if node.inputs and node.inputs[0].type.dtype.is_float:
            return node, tuple(reversed(moves))
        if len(node.inputs) != 1:
            break
        moves.append(node)
        (value,) = node.inputs
    return None, ()


def base(value: Value, definer: Mapping[Value, Node]) -> Value:
    """The value behind nodes that only move or cast it."""
    while (node := definer.get(value)) is not None and node.primitive.is_transparent and len(node.inputs) == 1:
        (value,) = node.inputs
    return value
