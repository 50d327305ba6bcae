"""The difference of two graphs in structure: names, users' lines and the order of nodes do not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from graphls.inspect.diff.matching import Matching, match
from graphls.ir.build import substitute
from graphls.ir.compare import attributes_key
from graphls.ir.graph import Difference, Graph, Node, Value, Write, filtered, inside, walk
from graphls.ir.plan import flattened, is_plan
from graphls.ir.text import attribute_text, declarations, quoted, references
from graphls.ir.types import TOKEN

Item = TypeVar("Item")


def diff(before: Graph, after: Graph) -> Difference:
    """What changed from one graph to another, in nearly linear time.

    Nodes correspond where they are one object, define the same values, or are alike in primitive, attributes, operands
    and uses; names do not count, but those of states, which outlive the graph. Neither do the name of the
    graph, users' lines and the order of nodes, beyond what data and control edges say. A plan is compared with a graph
    as if the nodes of its segments stood where these do.
    """
    return _to_plan(before, after) if is_plan(after) and not is_plan(before) else _diff(before, after)


def _to_plan(before: Graph, after: Graph) -> Difference:
    """The difference from a graph to a plan, of which the segments themselves are added."""
    own = {n.outputs or n: n for n in walk(after)}
    found = _diff(before, _shared_constants(before, flattened(after)))
    shown = {b: own.get(b.outputs or b, b) for b in (*found.paired, *found.added)}
    left = _edges_out(found, after)
    was = {b: tuple(t for t in texts if not (b in left and t.startswith("after("))) for b, texts in found.was.items()}
    return replace(
        found,
        after=after,
        added=(*(n for n in walk(after) if n.primitive.is_segment), *(shown[b] for b in found.added)),
        changed=tuple((a, shown[b]) for a, b in found.changed if was[b]),
        paired={shown[b]: a for b, a in found.paired.items()},
        was={shown[b]: texts for b, texts in was.items() if texts},
    )


def _shared_constants(before: Graph, flat: Graph) -> Graph:
    """The flat graph of a plan with the constants of the graph itself in place of those that each segment has."""
    known = {id(n.attrs): n for n in before.nodes if n.primitive.is_constant}
    copies = {n: known[id(n.attrs)] for n in walk(flat) if n.primitive.is_constant and id(n.attrs) in known}
    values = {v: w for n, k in copies.items() for v, w in zip(n.outputs, k.outputs, strict=True)}
    rest = filtered(flat.nodes, lambda node: node not in copies)
    outputs = tuple(values.get(v, v) for v in flat.outputs)
    writes = tuple(replace(w, value=values.get(w.value, w.value)) for w in flat.writes)
    nodes = (*dict.fromkeys(copies.values()), *(substitute(node, values) for node in rest))
    return flat.replace(nodes=nodes, outputs=outputs, writes=writes)


def _edges_out(found: Difference, plan: Graph) -> set[Node]:
    """The nodes that lack control edges to other segments or tokens alone, for which the order of segments stands."""
    pairs = [(a, b) for b, a in found.paired.items() if a.after]
    partner = {v: w for b, a in found.paired.items() for v, w in zip(a.outputs, b.outputs, strict=False)}
    place = {v: n for n in walk(plan) if n.primitive.is_segment for m in inside(n) for v in m.outputs}

    def is_left(b: Node, wanted: set[Value]) -> bool:
        here = place.get(b.outputs[0]) if b.outputs else None
        lost = wanted - set(b.after)
        opens = any(v.type == TOKEN for v in b.outputs)
        return wanted >= set(b.after) and (opens or all(v.type == TOKEN or place.get(v) is not here for v in lost))

    return {b for a, b in pairs if is_left(b, {partner.get(v, v) for v in a.after})}


def _diff(before: Graph, after: Graph) -> Difference:
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
