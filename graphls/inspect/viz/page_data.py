"""The data of the page of a graph, as JSON: each node, value, line and group once for all stages."""

from __future__ import annotations

import linecache
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphls.base.location import Location
from graphls.base.text.plain import clipped
from graphls.inspect.diff.diff import diff
from graphls.inspect.profile.memory import memory_of
from graphls.inspect.viz.layers import Edge, Layers, layered
from graphls.inspect.viz.links import Links
from graphls.inspect.viz.tree import Child, Group, Port, grouped, windows
from graphls.ir.flops import own_flops, runs
from graphls.ir.graph import Difference, Graph, Node, Value, Write, walk
from graphls.ir.plan import flattened, is_plan, plan_of
from graphls.ir.text import attribute_text, declarations, lines, reference, written

if TYPE_CHECKING:
    from graphls.inspect.diagnosis.recording import Recording
    from graphls.inspect.profile import Profile

NEIGHBOURS = 3
"""The lines of source that are shown before and after the line of a node."""

NAMELESS = ("<string>", "<stdin>")
"""The names of code from no file and no cell, whose lines may be those of other code."""

LONGEST_LINE = 2000
"""The most characters of a line of source or of text that are shown."""

_SAME: dict[str, Any] = {"added": [], "removed": [], "changed": [], "others": []}


def page_data(
    stages: Mapping[str, Graph], title: str, profile: Profile | None = None, below: Path | None = None,
    values: Recording | None = None, device: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The data of a page with a tab for each stage; a profile, the values of a run and memory belong to the last one.

    Sources are read from `.py` files and notebook cells; with `below` only from files in that folder, since a graph
    that is not trusted can name any file.
    """
    page = _PageData()
    data = page.of(stages, title, below)
    last = data["stages"][-1]
    if device is not None:
        last["course"] = page.course(list(stages.values())[-1], device)
    if profile is not None:
        last["profile"] = page.profile(profile)
    if values is not None:
        last["recorded"] = page.recorded(values)
    return data


class _Records:
    """Indices for keys in the order of their first use, with a record for each."""

    def __init__(self) -> None:
        self.indices: dict[Hashable, int] = {}
        self.records: list[Any] = []

    def __contains__(self, key: Hashable) -> bool:
        return key in self.indices

    def add(self, key: Hashable, record: object) -> int:
        index = self.indices.setdefault(key, len(self.records))
        if index == len(self.records):
            self.records.append(record)
        return index


class _PageData:
    def __init__(self) -> None:
        self.types, self.values, self.nodes = _Records(), _Records(), _Records()
        self.lines, self.groups, self.locations, self.files = _Records(), _Records(), _Records(), _Records()

    def of(self, stages: Mapping[str, Graph], title: str, below: Path | None) -> dict[str, Any]:
        records: list[dict[str, Any]] = []
        before = None
        for name, graph in stages.items():
            is_same = graph is before
            data = {**records[-1], "difference": _SAME} if is_same else self.stage(graph, before)
            records.append({**data, "name": name})
            before = graph
        return {
            "title": title,
            "types": self.types.records,
            "values": self.values.records,
            "nodes": self.nodes.records,
            "lines": self.lines.records,
            "groups": self.groups.records,
            "locations": self.locations.records,
            "files": [_file(location, numbers, below) for location, numbers in self.files.records],
            "stages": records,
        }

    def stage(self, graph: Graph, before: Graph | None) -> dict[str, Any]:
        shown = [self.line(*each) for each in lines(graph)]
        root = grouped(graph)
        return {
            "lines": shown,
            "root": self.group(root, Links(root)),
            "states": [self.value(state) for state in graph.states],
            "writes": [[self.value(write.state), self.value(write.value)] for write in graph.writes],
            "windows": [
                {"start": self.node(start), "get": self.node(get), "nodes": sorted(map(self.node, inside))}
                for start, get, inside in windows(graph)
            ],
            "difference": self.difference(before, graph),
            "profile": None,
            "recorded": None,
            "course": None,
        }

    def difference(self, before: Graph | None, after: Graph) -> dict[str, Any]:
        if before is None:
            return _SAME
        difference = diff(before, after)
        return {
            "added": [self.node(node) for node in difference.added],
            "removed": [self.node(node) for node in difference.removed],
            "changed": [[self.node(a), self.node(b), difference.was[b]] for a, b in difference.changed],
            "others": list(_others(difference)),
        }

    def profile(self, profile: Profile) -> dict[str, Any]:
        """Seconds of a step and of each of its nodes, bytes where memory is largest."""
        memory, known = profile.memory, self.nodes.indices
        times = [[known[node], seconds] for node, seconds in profile.node_seconds.items() if node in known]
        return {
            "step": profile.counted_seconds,
            "real": profile.unprofiled_seconds,
            "profiler": profile.profiler_seconds,
            "other": profile.other_seconds,
            "nodes": times,
            "peak": memory.peak,
            "fixed": [["states", memory.states], ["inputs", memory.inputs], ["constants", memory.constants]],
            "at": known.get(memory.at, -1),
            "live": [[self.value(held.value), held.bytes] for held in memory.live],
        }

    def recorded(self, values: Recording) -> list[list[Any]]:
        """For each value its minimum, maximum, mean, shares of zeros and of elements not finite, and histogram."""
        known = self.values.indices
        return [
            [known[v], *map(_short, (s.minimum, s.maximum, s.mean, s.zeros, s.not_finite)), list(s.histogram)]
            for v, s in values.items()
            if v in known
        ]

    def course(self, graph: Graph, device: str) -> dict[str, Any]:
        """The memory and the FLOPs of a step while its nodes run one after the other, each by its index."""
        flat = flattened(graph)
        memory = memory_of(flat, device, plan_of(graph) if is_plan(graph) else None)
        counts = dict(runs(flat.nodes))
        shown = {node.outputs: self.nodes.indices[node] for node in walk(graph) if node.outputs}
        known = [(shown.get(node.outputs, -1), node, held) for node, held in memory.while_running.items()]
        fixed = {"states": memory.states, "inputs": memory.inputs, "constants": memory.constants}
        return {
            "nodes": [index for index, _, _ in known],
            "held": [held for _, _, held in known],
            "flops": [own_flops(node) * counts[node] for _, node, _ in known],
            "fixed": [*fixed.items(), *([("crossing", memory.crossing)] if memory.crossing else [])],
            "peak": memory.peak,
            "meaning": memory.held,
            "alive": [[self.value(v), first, last, size] for v, first, last, size in memory.spans if size],
        }

    def type(self, value: Value) -> int:
        return self.types.add(value.type_text, [value.type_text, value.type.nbytes])

    def value(self, value: Value) -> int:
        if value in self.values:
            return self.values.indices[value]
        return self.values.add(value, [reference(value), self.type(value)])

    def node(self, node: Node) -> int:
        if node in self.nodes:
            return self.nodes.indices[node]
        record = {
            "primitive": node.primitive.name,
            "inputs": self.indices_of(node.inputs),
            "outputs": self.indices_of(node.outputs),
            "after": self.indices_of(node.after),
            "phase": node.phase,
            "scope": node.scope,
            "location": self.location(node),
            "attributes": _cut(", ".join(f"{key}={attribute_text(value)}" for key, value in node.attrs.items())),
        }
        if node.regions:
            record["parameters"] = self.indices_of(value for region in node.regions for value in region.inputs)
        return self.nodes.add(node, record)

    def indices_of(self, values: Iterable[Value]) -> list[int]:
        return [self.value(value) for value in values]

    def location(self, node: Node) -> int:
        if node.loc is None:
            return -1
        index = self.files.add(node.loc.file, (node.loc, set()))
        _, shown = self.files.records[index]
        shown.add(node.loc.line)
        return self.locations.add(node.loc, [index, node.loc.line])

    def line(self, text: str, what: object) -> int:
        """A line of text, with the node it shows or, where it shows none, the values in it."""
        if isinstance(what, Node):
            return self.lines.add((text, what), [_cut(text), self.node(what), []])
        values = tuple(_values_of(what))
        return self.lines.add((text, values), [_cut(text), -1, self.indices_of(values)])

    def group(self, group: Group, links: Links) -> int:
        """The index of a group; a group of several stages is laid out once."""
        owner = -1 if group.node is None else self.node(group.node)
        children = tuple(self.child(child, links) for child in group.children)
        key = (group.label, group.kind, group.path, group.phase, owner, children)
        if key in self.groups:
            return self.groups.indices[key]
        record = {"label": group.label, "kind": group.kind, "path": group.path, "phase": group.phase, "node": owner}
        if group.engine:
            record["engine"] = _cut(group.engine)
        layout = self.layout(group.children, layered(group, links))
        return self.groups.add(key, {**record, "children": children, **layout})

    def child(self, child: Child, links: Links) -> int | tuple[str, int]:
        """A node as its index, a group as -1 less its index, a port as its kind and value."""
        if isinstance(child, Port):
            return child.kind, self.value(child.value)
        return self.node(child) if isinstance(child, Node) else -1 - self.group(child, links)

    def layout(self, children: Sequence[Child], layers: Layers) -> dict[str, Any]:
        """Rows of indices in `children`, of waypoints as -1 less their index, and edges between those."""
        slots: dict[Any, int] = {child: i for i, child in enumerate(children)}
        waypoints = 0
        for slot in (slot for row in layers.rows for slot in row):
            if slot not in slots:
                waypoints += 1
                slots[slot] = -waypoints

        def edge(each: Edge) -> list[Any]:
            ends = [slots[each.source], slots[each.target], self.indices_of(each.values)]
            return [*ends, each.control + 2 * each.broken, [slots[slot] for slot in each.via]]

        return {"rows": [[slots[slot] for slot in row] for row in layers.rows], "edges": list(map(edge, layers.edges))}


def _others(difference: Difference) -> Iterator[list[str]]:
    """The changes besides nodes: the text before and after of each, "" where there is none."""
    pairs = {"input": difference.inputs, "state": difference.states, "return": difference.outputs}
    for kind, values in pairs.items():
        yield from ([f"{kind} {declarations((value,))}" if value else "" for value in pair] for pair in values)
    yield from ([written(write) if write else "" for write in pair] for pair in difference.writes)
    yield from ([str(mesh) if mesh else "" for mesh in pair] for pair in difference.meshes)


def _values_of(what: object) -> Iterable[Value]:
    if isinstance(what, Graph):
        return what.inputs
    if isinstance(what, Value):
        return (what,)
    if isinstance(what, Write):
        return what.state, what.value
    return what if isinstance(what, tuple) else ()


def _short(number: float | None) -> float | None:
    """A number with five digits."""
    return None if number is None else float(f"{number:.5g}")


def _cut(text: str) -> str:
    return clipped(text, LONGEST_LINE)


def _file(location: Location, numbers: set[int], below: Path | None) -> dict[str, Any]:
    """A file or a cell of a notebook, with the lines around these numbers."""
    lines = _source(location.code, numbers, below)
    return {"name": location.file, "before_line": location.before_line, "lines": lines}


def _source(file: str, numbers: set[int], below: Path | None) -> dict[str, str]:
    """The lines around these numbers; none where no file can have that name."""
    try:
        texts = linecache.getlines(file) if _is_source(file, below) else []
    except (OSError, ValueError):
        texts = []
    visible = {n + i for n in numbers for i in range(-NEIGHBOURS, NEIGHBOURS + 1)}
    return {str(n): _cut(texts[n - 1].rstrip("\n\r")) for n in sorted(visible) if 0 < n <= len(texts)}


def _is_source(file: str, below: Path | None) -> bool:
    if below is None:
        is_cell = file.startswith("<") and file not in NAMELESS
        return file.endswith(".py") or is_cell
    path = Path(file).resolve()
    return file.endswith(".py") and path.is_file() and path.is_relative_to(below.resolve())
