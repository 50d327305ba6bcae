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


class Reading(NamedTuple):
    """The product `node` of a layer, whose operand number `at` a rounded tensor is behind `moves`.

    `product` is its name, "" where that is not clear. `is_moved` says whether these nodes are all that there are but
    casts and factors of one number.
    """

    product: str
    node: Node
    at: int
    moves: tuple[Node, ...]
    is_moved: bool


@dataclass(frozen=True, eq=False)
class Rounding:
    """A tensor that `maker` rounds to a low dtype and `reader` brings back, behind nodes that move its elements.

    `scaled` says whether `maker` multiplies by a scale, its second operand; another one rounds what is scaled already,
    which is `plain` before that, None where the graph does not tell. `readings` are the products of a layer that read
    it, `state` the state that the scale is, `guards` the conditions of the branches around it, and `trips` the lengths
    of the loops.
    """

    maker: Node
    reader: Node
    moves: tuple[Node, ...]
    readings: tuple[Reading, ...]
    state: Value | None
    plain: Value | None
    guards: tuple[tuple[Value, bool], ...]
    trips: Trips

    @property
    def role(self) -> str:
        """What the tensor is for its products: "input", "weight" or "gradient", "operand" where nothing says it."""
        return str(self.reader.attrs.get("role") or "operand")

    @property
    def products(self) -> tuple[str, ...]:
        """The names of the products that read it."""
        return tuple(product for product in PRODUCTS if any(product == each.product for each in self.readings))

    @property
    def block(self) -> tuple[int, ...]:
        """The block of a scale, which has a size for each axis; empty where no scale is known."""
        return tuple((self.maker if self.scaled else self.reader).attrs.get("block", ()))

    @property
    def is_stochastic(self) -> bool:
        """Whether random numbers choose one of the two neighbours."""
        return len(self.maker.inputs) > 1 and not self.scaled

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
        """What is measured: the operand before and with its scale, the result, the scale, and the conditions."""
        some = (value for value in (self.scale, self.plain) if value is not None)
        return (self.maker.inputs[0], self.reader.output, *some, *(value for value, _ in self.guards))

    @property
    def is_measured(self) -> bool:
        """Whether all loops around it have a length that is there before they run."""
        return None not in self.trips


def roundings(graph: Graph) -> list[Rounding]:
    """The tensors that a graph rounds for products, each once, in the order of execution.

    What the backward rounds again of a forward that runs again has the numbers of the first run, and is left out.
    """
    definer = definers(walk(graph))
    readings = _readings(graph, definer)
    by_maker: dict[Node, Rounding] = {}
    for node, guards, trips in _placed(graph.nodes, (), ()):
        if not _brings_back(node) or not ("block" in node.attrs or node in readings):  # others are casts of scales
            continue
        maker, moves = _maker(node.inputs[0], definer)
        if maker is not None and maker not in by_maker:
            read = tuple(readings.get(node, ()))
            state = base(maker.inputs[1], definer) if len(maker.inputs) > 1 else None
            state = state if state is not None and state.is_state else None
            plain = None if "block" in maker.attrs or len(node.inputs) < 2 else _plain(maker.inputs[0], definer)
            by_maker[maker] = Rounding(maker, node, moves, read, state, plain, guards, trips)
    return list(_once(by_maker.values()))


def weights(graph: Graph, some: Iterable[Rounding]) -> dict[Rounding, str]:
    """The name of the weight that each rounding is of, or that a product of its layer reads with it, where it is clear.

    A gradient that only the product for the weight reads has that of the input there, and a transformed tensor that of
    the one that is not.
    """
    definer = definers(walk(graph))
    by_maker, names_of = {rounding.maker: rounding for rounding in some}, dict[Rounding, str]()
    plain: dict[tuple[str, str, Value], Rounding] = {}
    beside: dict[Rounding, list[Rounding]] = {}
    for rounding in by_maker.values():
        value = rounding.plain or rounding.maker.inputs[0]
        plain.setdefault((rounding.maker.scope, rounding.role, value), rounding)
        if rounding.role == "weight":
            names_of[rounding] = base(value, definer).name
        for reading in rounding.readings:
            other, *_ = _reader(reading.node.inputs[1 - reading.at], definer)
            maker = None if other is None else _maker(other.inputs[0], definer)[0]
            beside.setdefault(rounding, []).extend([by_maker[maker]] if maker in by_maker else [])
    for rounding in by_maker.values():
        for value in _before(rounding.plain or rounding.maker.inputs[0], definer):
            other_form = plain.get((rounding.maker.scope, rounding.role, value))
            beside.setdefault(rounding, []).extend([] if other_form is None else [other_form])
    for role in ("weight", "input", "gradient"):  # of those in its products the weight has its name first
        for rounding in (rounding for rounding in by_maker.values() if rounding.role == role):
            names = (names_of[each] for each in beside.get(rounding, ()) if each in names_of)
            if rounding not in names_of and (name := next(names, None)) is not None:
                names_of[rounding] = name
    return names_of


def _before(value: Value, definer: Mapping[Value, Node]) -> Iterator[Value]:
    """A value, and those that it is a few nodes behind, as where it is transformed."""
    values = [value]
    for _ in range(5):
        yield from values
        values = [operand for v in values if v in definer for operand in definer[v].inputs]


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


def _readings(graph: Graph, definer: Mapping[Value, Node]) -> dict[Node, list[Reading]]:
    """The products of layers that read what each node brings back from a low dtype."""
    readings: dict[Node, list[Reading]] = {}
    for node in walk(graph):
        if node.primitive.summed_axes is not None:
            read = [_reader(value, definer) for value in node.inputs[:2]]
            roles = [str(reader.attrs.get("role", "")) if reader is not None else "" for reader, *_ in read]
            product = product_of(roles) if all(roles) else None
            for at, (reader, moves, is_moved) in enumerate(read):
                if reader is not None:
                    readings.setdefault(reader, []).append(Reading(product or "", node, at, moves, is_moved))
    return readings


def _reader(value: Value, definer: Mapping[Value, Node]) -> tuple[Node | None, tuple[Node, ...], bool]:
    """The node that brings a value back from a low dtype, behind moves, casts and factors, and the moves.

    None where no node does; and whether the factors are one number each.
    """
    node, moves, is_moved = definer.get(value), list[Node](), True
    while node is not None and not _brings_back(node):
        factors = node.primitive.factors if node.primitive.summed_axes is None else ()
        if node.primitive.moves:
            moves.append(node)
        at = next((at for at in factors if node.inputs[at] in definer), None)
        is_moved &= at is not None and all(v.type.size == 1 for i, v in enumerate(node.inputs) if i != at)
        node = None if at is None else definer[node.inputs[at]]
    return node, tuple(reversed(moves)), is_moved


def _plain(value: Value, definer: Mapping[Value, Node]) -> Value | None:
    """What a value was before it was multiplied by scales of blocks; None where that is not clear."""
    size = value.type.size
    while (node := definer.get(value)) is not None and node.primitive.moves and len(node.inputs) == 1:
        (value,) = node.inputs
    if node is None or len(node.primitive.factors) < 2 or value.type.size != size:
        return None
    plain = [operand for operand in node.inputs if base(operand, definer).type.size >= size]
    return plain[0] if len(plain) == 1 and plain[0].type.size == size else None


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
