"""A difference of two graphs as text: the lines of both IR texts, with marks, where something changed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass

from graphls.ir.graph import Difference, Graph, Node, Value, Write
from graphls.ir.text import declarations, dump, lines, reference, references

CONTEXT = 1
LONGEST = 320
"""Longer lines, such as those of large constants, are cut in their middle."""


def difference_text(difference: Difference) -> str:
    """Counts in the first line; then lines of IR text with `+` (added), `-` (removed) and `~` (changed) before them.

    A line `~   was:` below a changed one lists what the graph before said in its place. One unchanged line above and
    below shows where it is, with the head of every region around it; `...` stands for the lines between.
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
    ends = ("inputs", "states", "writes", "outputs")
    counts = [(name, len(getattr(difference, name))) for name in ends]
    listed = ", ".join(f"{count} {name[:-1] if count == 1 else name}" for name, count in counts if count)
    return f"{text} Also different: {listed}." if listed else text


@dataclass(frozen=True)
class _Line:
    """A line of a text: a key of what it shows, which both graphs share, and the key of the line it stands under."""

    key: Hashable
    text: str
    holder: tuple[Hashable, ...]
    mark: str = " "
    was: str = ""


def _merged(difference: Difference) -> list[_Line]:
    """The lines of the graph after, with those that were removed where they have been."""
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
    """What stood in the places of changed lines, by their keys."""
    found: dict[Hashable, str] = {(difference.paired[b], 0): "; ".join(texts) for b, texts in difference.was.items()}
    if difference.inputs:
        found["graph"] = f"({declarations(difference.before.inputs)})"
    for v, w in difference.states:
        if v and w:
            found["state", v.name] = str(v.type)
    for a, b in difference.writes:
        if a and b:
            found["write", a.state.name] = f"{reference(a.value)}{' in place' if a.in_place else ''}"
    if difference.outputs:
        found["return"] = references(difference.before.outputs)
    return found


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
    kept: set[int] = set()
    for i, line in enumerate(merged):
        if line.mark != " ":
            kept.update(range(max(0, i - CONTEXT), min(len(merged), i + CONTEXT + 1)))
    for i in sorted(kept):
        kept.update(_heads(merged, place, i))
    last, moved = -1, 0
    for i in sorted(kept):
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
