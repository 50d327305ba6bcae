"""Colours of nodes: numbers that are equal for nodes of two graphs that are alike, whatever their names and order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from graphls.ir.block import Block
from graphls.ir.compare import attributes_key
from graphls.ir.graph import Node, Value, walk

Colours = dict[Node, int]


@dataclass(frozen=True)
class Likeness:
    """Colours of the nodes of two graphs.

    `local` is what a node says of itself, `down` what it is made of, back to inputs and states, `up` what is made of
    it, as far as outputs and written states, and `exact` all of this with phases and cells, looked at twice.
    """

    local: Colours
    exact: Colours
    down: Colours
    up: Colours

    @classmethod
    def of(cls, blocks: Iterable[Block], pairs: Iterable[tuple[Node, Node]]) -> Likeness:
        """The colours where the nodes of these pairs are known to correspond."""
        numbers, likeness = _Numbers(), cls({}, {}, {}, {})
        fixed = {node: numbers.of("pair", i) for i, pair in enumerate(pairs) for node in pair}
        for block in blocks:
            local = {n: fixed[n] if n in fixed else numbers.local(n) for n in block.nodes}
            down, up = numbers.down(block, local, fixed), numbers.up(block, local, fixed)
            label = {n: numbers.of(down[n], up[n], n.phase, n.scope) for n in block.nodes}
            down_again, up_again = numbers.down(block, label, fixed), numbers.up(block, label, fixed)
            likeness.local.update(local)
            likeness.down.update(down)
            likeness.up.update(up)
            likeness.exact.update((n, numbers.of(down_again[n], up_again[n])) for n in block.nodes)
        return likeness


class _Numbers:
    """A number for each key; equal keys of both graphs have the same one."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def local(self, node: Node) -> int:
        """The number of what a node says of itself: primitive, attributes, types."""
        regions = tuple(tuple(v.type for v in region.inputs) for region in node.regions)
        return self.of(node.primitive.name, attributes_key(node.attrs), tuple(v.type for v in node.outputs), regions)

    def down(self, block: Block, label: Mapping[Node, int], fixed: Mapping[Node, int]) -> Colours:
        """The colours of what nodes are made of: their labels, operands, control edges, and what regions yield."""
        colour: Colours = {}
        values = {v: self.of("input", i) for i, v in enumerate(block.graph.inputs)}
        values.update((v, self.of("state", v.name)) for v in block.graph.states)
        for node in block.nodes:
            for r, region in enumerate(node.regions):
                values.update((v, self.of("parameter", label[node], r, i)) for i, v in enumerate(region.inputs))

        def colours(several: Iterable[Value]) -> tuple[int, ...]:
            return tuple(values.get(v, -1) for v in several)

        for node in walk(block.graph):
            after, yielded = tuple(sorted(colours(node.after))), tuple(colours(r.outputs) for r in node.regions)
            made = self.of("made of", label[node], colours(node.inputs), after, yielded)
            colour[node] = fixed.get(node, made)
            values.update((v, self.of("output", colour[node], i)) for i, v in enumerate(node.outputs))
        return colour

    def up(self, block: Block, label: Mapping[Node, int], fixed: Mapping[Node, int]) -> Colours:
        """The colours of what is made of nodes: their labels, and each use of their values with its position."""
        colour: Colours = {}
        uses: dict[Value, list[int]] = {}

        def use(several: Iterable[Value], *by: Hashable) -> None:
            for i, value in enumerate(several):
                uses.setdefault(value, []).append(self.of(*by, i))

        use(block.graph.outputs, "output")
        for write in block.graph.writes:
            use((write.value,), "write", write.state.name)
        for node in reversed(list(walk(block.graph))):
            holder = block.holder[node]
            inside = (colour[holder[0]], holder[1]) if holder else None
            used = tuple(tuple(sorted(uses.get(v, ()))) for v in node.outputs)
            colour[node] = fixed.get(node, self.of("used by", label[node], inside, used))
            use(node.inputs, "operand", colour[node])
            for value in node.after:
                use((value,), "after", colour[node])
            for r, region in enumerate(node.regions):
                use(region.outputs, "yield", colour[node], r)
        return colour
