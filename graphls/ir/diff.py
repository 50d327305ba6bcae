"""The difference of two graphs in structure: names, users' lines and the order of nodes do not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TypeVar

from graphls.ir.compare import attributes_key
from graphls.ir.diff_text import difference_text
from graphls.ir.graph import Difference, Graph, Node, Value, Write
from graphls.ir.matching import Matching, match
from graphls.ir.text import attribute_text, declarations, quoted, references

Item = TypeVar("Item")


def diff(before: Graph, after: Graph) -> Difference:
    """What changed from one graph to another, in nearly linear time.

    Nodes correspond where they are one object, define the same values, or are alike in primitive, attributes, operands
    and uses; names do not count, but those of states, which outlive the graph. Neither do the name of the
    graph, users' lines and the order of nodes, beyond what data and control edges say.
    """
    matching = match(before, after)
    origin = matching.origin
    paired = {b: origin[b] for b in matching.after.nodes if b in origin}
    changes = _Changes(matching)
    was = {b: tuple(changes.of(a, b)) for b, a in paired.items()}
    return Difference(
        before,
        after,
        added=tuple(b for b in matching.after.nodes if b not in origin),
        removed=tuple(a for a in matching.before.nodes if a not in matching.nodes),
        changed=tuple((a, b) for b, a in paired.items() if was[b]),
        paired=paired,
        was={b: texts for b, texts in was.items() if texts},
        inputs=changes.inputs(),
        states=changes.states(),
        writes=changes.writes(),
        outputs=changes.outputs(),
    )


class _Changes:
    """What differs between nodes and ends that correspond."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.before, self.after = matching.before.graph, matching.after.graph

    def equal(self, v: Value, w: Value) -> bool:
        return self.matching.values.get(v, v) is w

    def all_equal(self, several: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
        return len(several) == len(others) and all(map(self.equal, several, others))

    def of(self, a: Node, b: Node) -> Iterator[str]:
        """What `a` says where `b` says something else."""
        if a.primitive.name != b.primitive.name or not self.all_equal(a.inputs, b.inputs):
            yield f"{a.primitive.name}({references(a.inputs)})"
        if a.attrs is not b.attrs and attributes_key(a.attrs) != attributes_key(b.attrs):
            yield from _attributes(a.attrs, b.attrs)
        if {self.matching.values.get(v, v) for v in a.after} != set(b.after):
            yield f"after({references(a.after)})" if a.after else "without after"
        if [v.type for v in a.outputs] != [v.type for v in b.outputs]:
            yield f"types {', '.join(str(v.type) for v in a.outputs)}"
        if a.phase != b.phase:
            yield f"phase {a.phase}"
        if a.scope != b.scope:
            yield f"cell {quoted(a.scope)}"
        yield from self.regions(a, b)

    def regions(self, a: Node, b: Node) -> Iterator[str]:
        holder, other = self.matching.before.holder[a], self.matching.after.holder[b]
        if (holder and (self.matching.nodes.get(holder[0]), holder[1])) != other:
            yield f"in region {holder[1] + 1} of {references(holder[0].outputs[:1])}" if holder else "in no region"
        if len(a.regions) != len(b.regions):
            yield f"{len(a.regions)} regions"
        for number, (r, s) in enumerate(zip(a.regions, b.regions, strict=False), start=1):
            if [v.type for v in r.inputs] != [v.type for v in s.inputs]:
                yield f"region {number} ({declarations(r.inputs)})"
            if not self.all_equal(r.outputs, s.outputs):
                yield f"region {number} yield {references(r.outputs)}"

    def inputs(self) -> tuple[tuple[Value | None, Value | None], ...]:
        partner = self.matching.values
        pairs = [(v, partner.get(v)) for v in self.before.inputs]
        known = {w for _, w in pairs}
        added = [(None, w) for w in self.after.inputs if w not in known]
        return (*((v, w) for v, w in pairs if w is None or v.type != w.type), *added)

    def states(self) -> tuple[tuple[Value | None, Value | None], ...]:
        earlier, later = ({v.name: v for v in graph.states} for graph in (self.before, self.after))
        return tuple((v, w) for v, w in _by_name(earlier, later) if v is None or w is None or v.type != w.type)

    def writes(self) -> tuple[tuple[Write | None, Write | None], ...]:
        earlier, later = ({w.state.name: w for w in graph.writes} for graph in (self.before, self.after))
        return tuple((a, b) for a, b in _by_name(earlier, later) if not self.same_write(a, b))

    def same_write(self, a: Write | None, b: Write | None) -> bool:
        return a is not None and b is not None and self.equal(a.value, b.value) and a.in_place == b.in_place

    def outputs(self) -> tuple[tuple[Value | None, Value | None], ...]:
        pairs = zip_longest(self.before.outputs, self.after.outputs)
        return tuple((v, w) for v, w in pairs if v is None or w is None or not self.equal(v, w))


def _by_name(first: Mapping[str, Item], second: Mapping[str, Item]) -> Iterator[tuple[Item | None, Item | None]]:
    for name in dict.fromkeys((*first, *second)):
        yield first.get(name), second.get(name)


def _attributes(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        if name not in before:
            yield f"without {name}"
        elif name not in after or attributes_key({name: before[name]}) != attributes_key({name: after[name]}):
            yield f"{name}={attribute_text(before[name])}"


Graph.difference, Difference.text = diff, difference_text
