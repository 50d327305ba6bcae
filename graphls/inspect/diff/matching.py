"""Matches the nodes of two graphs, whatever their values are called and in which order they stand.

Nodes that are one object, or that define the same values, correspond: stages of one pipeline share most of theirs.
Others are paired where their Weisfeiler-Lehman hashes, those of their neighbourhoods, are equal and unique in their
graphs; pairs grow along operands and uses; the remaining nodes are paired in order. Every step takes nearly linear
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from graphls.inspect.diff.indexed_graph import IndexedGraph, corresponding, ends, is_first
from graphls.ir.compare import attributes_key
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.types import Type

Key = Callable[[Node], Hashable]


def match(before: Graph, after: Graph) -> Matching:
    """The nodes and values of two graphs that correspond; those of `match(after, before)` are the same ones."""
    first, second = IndexedGraph(before), IndexedGraph(after)
    if is_first(first, second):
        return Matching(first, second).run()
    return Matching(second, first).run().turned()


class Matching:
    """The pairs of two graphs: `nodes` leads from `before` to `after`, `values` as well.

    `level` is the likeness that nodes need to be paired because their neighbours are: 0 in attributes, types and
    position, 1 without the position, 2 in their primitive, 3 in their types and an operand.
    """

    def __init__(self, before: IndexedGraph, after: IndexedGraph) -> None:
        self.before, self.after = before, after
        self.coming, self.leaving = ends(before.graph, after.graph)
        self.values: dict[Value, Value] = dict(self.coming)
        self.nodes: dict[Node, Node] = {}
        self.origin: dict[Node, Node] = {}
        self.like = Likeness({}, {}, {}, {})
        self.level = 0
        self._waiting: deque[tuple[Node, Node]] = deque()

    def run(self) -> Matching:
        """Find the pairs, from the safest ones to those that only have like positions."""
        self._pair_identical()
        if not self._is_complete():
            self.like = Likeness.of((self.before, self.after), self.nodes.items())
            self._waiting.clear()
            self._pair_equal_hashes()
        if not self._is_complete():
            self._pair_similar()
        return self

    def turned(self) -> Matching:
        """The same pairs from `after` to `before`."""
        other = Matching(self.after, self.before)
        for a, b in self.nodes.items():
            other._pair(b, a)
        return other

    def _is_complete(self) -> bool:
        return len(self.nodes) == min(len(self.before.nodes), len(self.after.nodes))

    def _pair(self, a: Node, b: Node) -> None:
        self.nodes[a], self.origin[b] = b, a
        self.values.update((a.outputs[i], b.outputs[j]) for i, j in self._outputs(a, b))
        for pair in self._parameters(a, b):
            self.values[pair[0]] = pair[1]
        self._waiting.append((a, b))

    def _pair_identical(self) -> None:
        """Pair nodes that are one object, and those that define the same values."""
        for node in self.after.nodes:
            if node in self.before.holder:
                self._pair(node, node)
        for node in self.after.nodes:
            earlier = self.before.definer.get(node.outputs[0]) if node.outputs else None
            if earlier is not None and self._are_free(earlier, node):
                self._pair(earlier, node)

    def _pair_equal_hashes(self) -> None:
        """Pair nodes with the same hash: first those whose hash is unique, then the others in order."""
        like = self.like
        # Ancestors and descendants say more than a position, but equal branches, as the layers of a deep network or the
        # updates of its weights, share them: so unique nodes come first, with phase and cell as a hint, then their
        # neighbours, and only nodes that nothing tells apart are paired in order.
        keys: list[Key] = [
            lambda n: like.exact[n],
            lambda n: (like.down[n], n.phase, n.scope),
            lambda n: (like.up[n], n.phase, n.scope),
            lambda n: like.down[n],
            lambda n: like.up[n],
        ]
        for key in keys:
            self._pair_unique(key)
        self._grow_from_all(0)
        for key in keys:
            self._pair_in_order(key)

    def _pair_similar(self) -> None:
        """Pair nodes that differ, for their neighbours, and then for their primitive and position."""
        for level in (1, 2, 3):
            self._grow_from_all(level)
        # Of exp -> neg and exp -> abs -> neg, exp is paired for its operand, neg for its use, and abs is new.
        # A pair may identify another node, so this repeats as long as there are new pairs.
        count = -1
        while count < len(self.nodes):
            count = len(self.nodes)
            position = self._positions()
            self._pair_unique(partial(self._local_in, position))
            self._pair_in_order(partial(self._constant_in, position))
            for slot in (0, -1):
                self._pair_in_order(partial(self._use_in, position, slot))

    def _positions(self) -> dict[Node, Hashable]:
        """The region, the cell and the phase of each free node, the region in terms of `after`."""
        before, after = self._free()
        positions: dict[Node, Hashable] = {}
        for node in (*before, *after):
            holder = (self.after if node in self.after.holder else self.before).holder[node]
            region = (self.nodes.get(holder[0], holder[0]), holder[1]) if holder else None
            positions[node] = region, node.scope, node.phase
        return positions

    def _local_in(self, position: dict[Node, Hashable], node: Node) -> Hashable:
        return position[node], self.like.local[node]

    def _constant_in(self, position: dict[Node, Hashable], node: Node) -> Hashable:
        return node if node.inputs else (position[node], self.like.local[node])

    def _use_in(self, position: dict[Node, Hashable], slot: int, node: Node) -> Hashable:
        """The primitive and one operand, in terms of `after`."""
        if not node.inputs:
            return node
        return position[node], _form(node), self.values.get(node.inputs[slot], node.inputs[slot])

    def _free(self) -> tuple[list[Node], list[Node]]:
        before = [n for n in self.before.nodes if n not in self.nodes]
        return before, [n for n in self.after.nodes if n not in self.origin]

    def _are_free(self, a: Node, b: Node) -> bool:
        return a not in self.nodes and b not in self.origin

    def _groups(self, key: Key) -> list[tuple[list[Node], list[Node]]]:
        """The free nodes of both graphs that have a key, for each key that both have."""
        groups: dict[Hashable, tuple[list[Node], list[Node]]] = {}
        for side, nodes in enumerate(self._free()):
            for node in nodes:
                groups.setdefault(key(node), ([], []))[side].append(node)
        return [group for group in groups.values() if all(group)]

    def _pair_unique(self, key: Key) -> None:
        """Pair nodes whose key is unique in their graph, then grow."""
        for before, after in self._groups(key):
            if len(before) == len(after) == 1:
                self._pair(before[0], after[0])
        self._grow()

    def _pair_in_order(self, key: Key) -> None:
        """Pair nodes with the same key one after the other; each pair grows before the next one is made."""
        for before, after in self._groups(key):
            free = iter(before)
            for b in after:
                a = next((n for n in free if n not in self.nodes), None) if b not in self.origin else None
                if a is not None:
                    self._pair(a, b)
                    self._grow()

    def _grow_from_all(self, level: int) -> None:
        """Look at the neighbours of every pair, and at the ends of the graphs, once more."""
        self.level = level
        self._waiting.extend(self.nodes.items())
        self._grow()
        for pair in self.coming:
            self._pair_users(*pair)
        for pair in self.leaving:
            self._pair_definers(*pair)
        self._grow()

    def _grow(self) -> None:
        while self._waiting:
            a, b = self._waiting.popleft()
            for pair in zip(a.inputs, b.inputs, strict=False):
                self._pair_definers(*pair)
            for r, s in zip(a.regions, b.regions, strict=False):
                for pair in self._yields(a, r, b, s):
                    self._pair_definers(*pair)
            for pair in self._parameters(a, b):
                self._pair_users(*pair)
            for i, j in self._outputs(a, b):
                self._pair_users(a.outputs[i], b.outputs[j])
            self._pair_holders(a, b)

    def _outputs(self, a: Node, b: Node) -> list[tuple[int, int]]:
        return corresponding(a.outputs, self.before, b.outputs, self.after)

    def _parameters(self, a: Node, b: Node) -> Iterator[tuple[Value, Value]]:
        for r, s in zip(a.regions, b.regions, strict=False):
            for i, j in corresponding(r.inputs, self.before, s.inputs, self.after):
                yield r.inputs[i], s.inputs[j]

    def _yields(self, a: Node, r: Graph, b: Node, s: Graph) -> list[tuple[Value, Value]]:
        """The pairs of yielded values for outputs that correspond; regions of loops yield other values as well."""
        if (len(r.outputs), len(s.outputs)) != (len(a.outputs), len(b.outputs)):
            return list(zip(r.outputs, s.outputs, strict=False))
        return [(r.outputs[i], s.outputs[j]) for i, j in self._outputs(a, b)]

    def _pair_definers(self, v: Value, w: Value) -> None:
        a, b = self.before.definer.get(v), self.after.definer.get(w)
        if a is not None and b is not None:
            self._try(a, b)

    def _pair_holders(self, a: Node, b: Node) -> None:
        holder, other = self.before.holder[a], self.after.holder[b]
        if holder and other:
            self._try(holder[0], other[0])

    def _pair_users(self, v: Value, w: Value) -> None:
        """Pair users of two values where only one node of each graph reads the value as that operand with that key."""
        local = self.like.local
        keys: list[Key] = [lambda n: (local[n], n.phase, n.scope), lambda n: local[n], lambda n: n.primitive.name]
        for key in keys[: self.level + 1]:
            groups: dict[Hashable, tuple[list[Node], list[Node]]] = {}
            for node, slot in self.before.users.get(v, ()):
                if node not in self.nodes:
                    groups.setdefault((slot, key(node)), ([], []))[0].append(node)
            for node, slot in self.after.users.get(w, ()):
                if node not in self.origin:
                    groups.setdefault((slot, key(node)), ([], []))[1].append(node)
            for before, after in groups.values():
                if len(before) == len(after) == 1:
                    self._try(before[0], after[0])

    def _try(self, a: Node, b: Node) -> None:
        if self._are_free(a, b) and self._are_similar(a, b):
            self._pair(a, b)

    def _are_similar(self, a: Node, b: Node) -> bool:
        if self.like.local[a] == self.like.local[b]:
            return self.level >= 1 or self._have_equal_positions(a, b)
        if _form(a) == _form(b):
            return self.level >= 2
        return self.level == 3 and not (a.regions or b.regions) and _types(a) == _types(b) and self._share_operand(a, b)

    def _have_equal_positions(self, a: Node, b: Node) -> bool:
        holder, other = self.before.holder[a], self.after.holder[b]
        around = (holder and (self.nodes.get(holder[0]), holder[1])) == other
        return around and (a.phase, a.scope) == (b.phase, b.scope)

    def _share_operand(self, a: Node, b: Node) -> bool:
        return any(self.values.get(v) in b.inputs for v in a.inputs) or not (a.inputs or b.inputs)


def _form(node: Node) -> tuple[str, int]:
    return node.primitive.name, len(node.regions)


def _types(node: Node) -> tuple[Type, ...]:
    return tuple(v.type for v in node.outputs)


Hashes = dict[Node, int]


@dataclass(frozen=True)
class Likeness:
    """Weisfeiler-Lehman hashes of the nodes of two graphs: numbers that are equal where their neighbourhoods are.

    `local` covers the node alone, `down` its ancestors back to inputs and states, `up` its descendants as far as
    outputs and written states, and `exact` all of this with phases and cells, in two rounds.
    """

    local: Hashes
    exact: Hashes
    down: Hashes
    up: Hashes

    @classmethod
    def of(cls, graphs: Iterable[IndexedGraph], pairs: Iterable[tuple[Node, Node]]) -> Likeness:
        """The hashes where the nodes of these pairs are known to correspond."""
        numbers, likeness = _Numbers(), cls({}, {}, {}, {})
        fixed = {node: numbers.of("pair", i) for i, pair in enumerate(pairs) for node in pair}
        for indexed in graphs:
            local = {n: fixed[n] if n in fixed else numbers.local(n) for n in indexed.nodes}
            down, up = numbers.down(indexed, local, fixed), numbers.up(indexed, local, fixed)
            label = {n: numbers.of(down[n], up[n], n.phase, n.scope) for n in indexed.nodes}
            down_again, up_again = numbers.down(indexed, label, fixed), numbers.up(indexed, label, fixed)
            likeness.local.update(local)
            likeness.down.update(down)
            likeness.up.update(up)
            likeness.exact.update((n, numbers.of(down_again[n], up_again[n])) for n in indexed.nodes)
        return likeness


class _Numbers:
    """A number for each key; equal keys of both graphs have the same one."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def of(self, *key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def local(self, node: Node) -> int:
        """The number of a node by itself: primitive, attributes, types."""
        regions = tuple(tuple(v.type for v in region.inputs) for region in node.regions)
        return self.of(node.primitive.name, attributes_key(node.attrs), tuple(v.type for v in node.outputs), regions)

    def down(self, indexed: IndexedGraph, label: Mapping[Node, int], fixed: Mapping[Node, int]) -> Hashes:
        """The hashes of nodes by their labels, operands, control edges and yields of regions."""
        hashed: Hashes = {}
        values = {v: self.of("input", i) for i, v in enumerate(indexed.graph.inputs)}
        values.update((v, self.of("state", v.name)) for v in indexed.graph.states)
        for node in indexed.nodes:
            for r, region in enumerate(node.regions):
                values.update((v, self.of("parameter", label[node], r, i)) for i, v in enumerate(region.inputs))

        def hashes(several: Iterable[Value]) -> tuple[int, ...]:
            return tuple(values.get(v, -1) for v in several)

        for node in walk(indexed.graph):
            after, yielded = tuple(sorted(hashes(node.after))), tuple(hashes(r.outputs) for r in node.regions)
            number = self.of("from", label[node], hashes(node.inputs), after, yielded)
            hashed[node] = fixed.get(node, number)
            values.update((v, self.of("output", hashed[node], i)) for i, v in enumerate(node.outputs))
        return hashed

    def up(self, indexed: IndexedGraph, label: Mapping[Node, int], fixed: Mapping[Node, int]) -> Hashes:
        """The hashes of nodes by their labels, and by each use of their values with its position."""
        hashed: Hashes = {}
        uses: dict[Value, list[int]] = {}

        def use(several: Iterable[Value], *by: Hashable) -> None:
            for i, value in enumerate(several):
                uses.setdefault(value, []).append(self.of(*by, i))

        use(indexed.graph.outputs, "output")
        for write in indexed.graph.writes:
            use((write.value,), "write", write.state.name)
        for node in reversed(list(walk(indexed.graph))):
            holder = indexed.holder[node]
            inside = (hashed[holder[0]], holder[1]) if holder else None
            used = tuple(tuple(sorted(uses.get(v, ()))) for v in node.outputs)
            hashed[node] = fixed.get(node, self.of("used by", label[node], inside, used))
            use(node.inputs, "operand", hashed[node])
            for value in node.after:
                use((value,), "after", hashed[node])
            for r, region in enumerate(node.regions):
                use(region.outputs, "yield", hashed[node], r)
        return hashed
