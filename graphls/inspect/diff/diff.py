"""The structural difference of two graphs, and its text; names, users' lines and the order of nodes do not count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeVar

from graphls.inspect.diff.matching import Matching, match
from graphls.ir.build import substitute
from graphls.ir.compare import attributes_key
from graphls.ir.graph import Difference, Graph, Node, Value, Write, filtered, inside, walk
from graphls.ir.plan import flattened, is_plan
from graphls.ir.text import attribute_text, declarations, dump, lines, quoted, reference, references
from graphls.ir.types import TOKEN

Item = TypeVar("Item")

CONTEXT = 1
LONGEST = 320
"""Longer lines, such as those of large constants, are cut in their middle."""


def diff(before: Graph, after: Graph) -> Difference:
    """The changes from one graph to another, in nearly linear time.

    Nodes correspond where they are one object, define the same values, or are alike in primitive, attributes, operands
    and uses. Names do not count, except those of states, which outlive the graph; neither do the name of the graph,
    users' lines, and the order of nodes beyond data and control edges. A plan is compared with a graph as if the nodes
    of its segments stood in the place of these.
    """
    return _to_plan(before, after) if is_plan(after) and not is_plan(before) else _diff(before, after)


def _to_plan(before: Graph, after: Graph) -> Difference:
    """The difference from a graph to a plan, of which the segments themselves are added."""
    own = {n.outputs or n: n for n in walk(after)}
    difference = _diff(before, _shared_constants(before, flattened(after)))
    shown = {b: own.get(b.outputs or b, b) for b in (*difference.paired, *difference.added)}
    left = _edges_out(difference, after)
    was = {
        b: tuple(text for text in texts if not (b in left and text.startswith("after(")))
        for b, texts in difference.was.items()
    }
    return replace(
        difference,
        after=after,
        added=(*(n for n in walk(after) if n.primitive.is_segment), *(shown[b] for b in difference.added)),
        changed=tuple((a, shown[b]) for a, b in difference.changed if was[b]),
        paired={shown[b]: a for b, a in difference.paired.items()},
        was={shown[b]: texts for b, texts in was.items() if texts},
    )


def _shared_constants(before: Graph, flat: Graph) -> Graph:
    """The flat graph of a plan with the constants of the graph itself in place of the copies in its segments."""
    known = {id(n.attrs): n for n in before.nodes if n.primitive.is_constant}
    copies = {n: known[id(n.attrs)] for n in walk(flat) if n.primitive.is_constant and id(n.attrs) in known}
    values = {v: w for n, k in copies.items() for v, w in zip(n.outputs, k.outputs, strict=True)}
    rest = filtered(flat.nodes, lambda node: node not in copies)
    outputs = tuple(values.get(v, v) for v in flat.outputs)
    writes = tuple(replace(w, value=values.get(w.value, w.value)) for w in flat.writes)
    nodes = (*dict.fromkeys(copies.values()), *(substitute(node, values) for node in rest))
    return flat.replace(nodes=nodes, outputs=outputs, writes=writes)


def _edges_out(difference: Difference, plan: Graph) -> set[Node]:
    """The nodes that lack only control edges to tokens or to other segments, which the order of segments replaces."""
    pairs = [(a, b) for b, a in difference.paired.items() if a.after]
    partner = {v: w for b, a in difference.paired.items() for v, w in zip(a.outputs, b.outputs, strict=False)}
    place = {v: n for n in walk(plan) if n.primitive.is_segment for m in inside(n) for v in m.outputs}

    def lacks_ordered_edges(b: Node, edges: set[Value]) -> bool:
        here = place.get(b.outputs[0]) if b.outputs else None
        lost = edges - set(b.after)
        opens = any(v.type == TOKEN for v in b.outputs)
        return edges >= set(b.after) and (opens or all(v.type == TOKEN or place.get(v) is not here for v in lost))

    return {b for a, b in pairs if lacks_ordered_edges(b, {partner.get(v, v) for v in a.after})}


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
    """The differences between corresponding nodes, and between corresponding inputs and outputs."""

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.before, self.after = matching.before.graph, matching.after.graph

    def equal(self, v: Value, w: Value) -> bool:
        return self.matching.values.get(v, v) is w

    def all_equal(self, several: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
        return len(several) == len(others) and all(map(self.equal, several, others))

    def of(self, a: Node, b: Node) -> Iterator[str]:
        """The parts of `a` in which `b` differs, as texts."""
        if a.primitive.name != b.primitive.name or not self.all_equal(a.inputs, b.inputs):
            yield f"{a.primitive.name}({references(a.inputs)})"
        if a.attrs is not b.attrs and attributes_key(a.attrs) != attributes_key(b.attrs):
            yield from _attributes(a.attrs, b.attrs)
        if {self.matching.values.get(v, v) for v in a.after} != set(b.after):
            yield f"after({references(a.after)})" if a.after else "without after"
        if [v.type for v in a.outputs] != [v.type for v in b.outputs]:
            yield f"types {', '.join(v.type_text for v in a.outputs)}"
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
        return (*((v, w) for v, w in pairs if w is None or v.type_text != w.type_text), *added)

    def states(self) -> tuple[tuple[Value | None, Value | None], ...]:
        earlier, later = ({v.name: v for v in graph.states} for graph in (self.before, self.after))
        pairs = _by_name(earlier, later)
        return tuple((v, w) for v, w in pairs if v is None or w is None or v.type_text != w.type_text)

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


def difference_text(difference: Difference) -> str:
    """Counts in the first line; then lines of IR text with `+` (added), `-` (removed) and `~` (changed) before them.

    A line `~   was:` below a changed one lists its parts in the graph before. One unchanged line above and below shows
    where it is, with the head of every region around it; `...` stands for the lines between.
    """
    if not difference:
        end = "." if dump(difference.before) == dump(difference.after) else ", but in names, lines of users or order."
        count = len(difference.paired)
        return f"No difference in {count} node{'' if count == 1 else 's'}{end}"
    return "\n".join([_counts(difference), *_hunks(_merged(difference))])


def _counts(difference: Difference) -> str:
    changed = len(difference.changed)
    parts = [f"{len(difference.added)} added", f"{len(difference.removed)} removed", f"{changed} changed"]
    text = f"Nodes: {', '.join(parts)}, {len(difference.paired) - changed} the same."
    ends = {"inputs": "input", "states": "state", "writes": "write", "outputs": "output", "meshes": "mesh"}
    counts = [(one, name, len(getattr(difference, name))) for name, one in ends.items()]
    listed = ", ".join(f"{count} {one if count == 1 else name}" for one, name, count in counts if count)
    return f"{text} Also different: {listed}." if listed else text


@dataclass(frozen=True)
class _Line:
    """A line of a text, with a key that both graphs share and the key of the line that opens its region."""

    key: Hashable
    text: str
    holder: tuple[Hashable, ...]
    mark: str = " "
    was: str = ""


def _merged(difference: Difference) -> list[_Line]:
    """The lines of the graph after, with removed ones at their former positions."""
    paired, was = difference.paired, _was(difference)
    after = list(_lines(difference.after, lambda node: paired.get(node, (node,))))
    keys = {line.key for line in after}
    removed: dict[Hashable, list[_Line]] = {}
    place: dict[Hashable, Hashable] = {}
    at: Hashable = None
    before = list(_lines(difference.before, lambda node: node))
    known = {line.key for line in before}
    for line in before:
        if line.key in keys:
            at = line.key
        else:
            place[line.key] = place.get(line.holder, at)
            removed.setdefault(place[line.key], []).append(_Line(line.key, line.text, line.holder, "-"))
    merged = []
    for line in after:
        mark = "+" if line.key not in known else "~" if line.key in was else " "
        merged += [_Line(line.key, line.text, line.holder, mark, was.get(line.key, "")), *removed.get(line.key, ())]
    return merged


def _was(difference: Difference) -> dict[Hashable, str]:
    """The former texts of changed lines, by their keys."""
    texts: dict[Hashable, str] = {(difference.paired[b], 0): "; ".join(parts) for b, parts in difference.was.items()}
    if difference.inputs or difference.meshes:
        mesh = f"{difference.before.mesh or 'no mesh'} " if difference.meshes else ""
        texts["graph"] = f"{mesh}({declarations(difference.before.inputs)})"
    for v, w in difference.states:
        if v and w:
            texts["state", v.name] = v.type_text
    for a, b in difference.writes:
        if a and b:
            texts["write", a.state.name] = f"{reference(a.value)}{' in place' if a.in_place else ''}"
    if difference.outputs:
        texts["return"] = references(difference.before.outputs)
    return texts


def _lines(graph: Graph, name: Callable[[Node], Hashable]) -> Iterator[_Line]:
    """The lines of a graph's text, with keys; those of a node with regions are numbered."""
    around: list[tuple[Node, int]] = []
    for text, shown in lines(graph):
        if isinstance(shown, Node):
            number = around.pop()[1] + 1 if around and around[-1][0] is shown else 0
            holder = (name(shown), 0) if number else _last(around, name)
            if number < len(shown.regions):
                around.append((shown, number))
            yield _Line((name(shown), number), text, holder)
        elif around:
            yield _Line((*_last(around, name), "yield"), text, _last(around, name))
        else:
            yield _Line(_end_key(shown), text, ())


def _last(around: list[tuple[Node, int]], name: Callable[[Node], Hashable]) -> tuple[Hashable, ...]:
    """The key of the line that opens the innermost region."""
    return (name(around[-1][0]), around[-1][1]) if around else ()


def _end_key(shown: object) -> Hashable:
    if isinstance(shown, Graph):
        return "graph"
    if isinstance(shown, Value):
        return "state", shown.name
    if isinstance(shown, Write):
        return "write", shown.state.name
    return "end" if shown is None else "return"


def _hunks(merged: list[_Line]) -> Iterator[str]:
    place = {line.key: i for i, line in enumerate(merged)}
    visible: set[int] = set()
    for i, line in enumerate(merged):
        if line.mark != " ":
            visible.update(range(max(0, i - CONTEXT), min(len(merged), i + CONTEXT + 1)))
    for i in sorted(visible):
        visible.update(_heads(merged, place, i))
    last, moved = -1, 0
    for i in sorted(visible):
        if i == last + 1 and merged[i].was.startswith("in region") and merged[i].was == merged[last].was:
            last, moved = i, moved + 1
            continue
        if moved:
            yield f"~ {_indent(merged[last])}  and {moved} more"
        if i > last + 1:
            yield "  ..."
        line, last, moved = merged[i], i, 0
        yield f"{line.mark} {_short(line.text)}".rstrip()
        if line.was:
            yield f"~ {_indent(line)}  was: {_short(line.was)}"
    if last < len(merged) - 1:
        yield "  ..."


def _indent(line: _Line) -> str:
    return " " * (len(line.text) - len(line.text.lstrip()))


def _heads(merged: list[_Line], place: Mapping[object, int], i: int) -> Iterator[int]:
    while merged[i].holder:
        i = place[merged[i].holder]
        yield i


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
