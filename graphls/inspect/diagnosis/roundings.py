"""The tensors of a step that are rounded to a low dtype: where, in which role, and by which scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphls.ir.graph import Graph, Node, Value, definers, uses


@dataclass(frozen=True, eq=False)
class Rounding:
    """A tensor that `maker` rounds to a low dtype and `reader` brings back, behind nodes that move its elements.

    `scaled` says whether `maker` multiplies by a scale, its second operand; another one rounds what is scaled already.
    `state` is the state that the scale is, and `guards` are the conditions of the branches around it.
    """

    maker: Node
    reader: Node
    moves: tuple[Node, ...]
    role: str
    state: Value | None
    guards: tuple[tuple[Value, bool], ...]

    @property
    def scaled(self) -> bool:
        """Whether the maker multiplies by its scale."""
        return len(self.maker.inputs) > 1 and "block" in self.maker.attrs

    @property
    def values(self) -> tuple[Value, ...]:
        """What is measured: the operand, the scale or its inverse, the result, and the conditions."""
        scale = self.maker.inputs[1] if self.scaled else self.reader.inputs[1]
        return (self.maker.inputs[0], scale, self.reader.output, *(value for value, _ in self.guards))


def roundings(graph: Graph) -> list[Rounding]:
    """The tensors that a graph rounds, each once, in the order of execution; those in loops are left out."""
    placed = list(_placed(graph.nodes, ()))
    nodes = [node for node, _ in placed]
    definer, again = definers(nodes), _recomputed(nodes)
    by_maker: dict[Node, Rounding] = {}
    for node, guards in placed:
        if node.primitive.name != "dequantize":
            continue
        maker, moves = _maker(node.inputs[0], definer)
        if maker is not None and maker not in by_maker:
            role = _role(base(maker.inputs[0], definer), definer, again)
            scale = base(maker.inputs[1], definer) if len(maker.inputs) > 1 else None
            state = scale if scale is not None and scale.is_state else None
            by_maker[maker] = Rounding(maker, node, moves, role, state, guards)
    return list(by_maker.values())


def _placed(
    nodes: Iterable[Node], guards: tuple[tuple[Value, bool], ...]
) -> Iterator[tuple[Node, tuple[tuple[Value, bool], ...]]]:
    """The nodes that run at most once, with the conditions under which they do."""
    for node in nodes:
        if node.primitive.is_branch:
            for region, answer in zip(node.regions, (True, False), strict=True):
                yield from _placed(region.nodes, (*guards, (node.inputs[0], answer)))
        yield node, guards


def _maker(value: Value, definer: dict[Value, Node]) -> tuple[Node | None, tuple[Node, ...]]:
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


def _role(source: Value, definer: dict[Value, Node], again: set[Value]) -> str:
    """A weight is a state; what the backward computes, and not once more, is a gradient."""
    if source.is_state:
        return "weight"
    node = definer.get(source)
    return "gradient" if node is not None and node.phase == "backward" and source not in again else "input"


def _recomputed(nodes: Iterable[Node]) -> set[Value]:
    """The values of the forward that the backward computes once more.

    A recomputation reads values of the forward through `depend` alone, which marks them; states it may read as they
    are. Any other node of the backward that reads a value of the forward belongs to the gradient, and so does all that
    depends on it.
    """
    again, gradients = set[Value](), set[Value]()
    constant = set[Value]()
    for node in nodes:
        read = set(uses(node))
        if all(value.is_state or value in constant for value in read):
            constant.update(node.outputs)
        elif node.phase == "backward":
            others = {value for value in read - again - constant if not value.is_state}
            is_again = bool(node.attrs.get("recompute")) or (not others and not read.isdisjoint(again))
            (again if is_again and gradients.isdisjoint(read) else gradients).update(node.outputs)
    return again
