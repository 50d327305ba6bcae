"""From a traced cell and its final graph to a summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphls.diagnosis.html import Page
from graphls.ir.flops import region_runs, runs
from graphls.ir.graph import Graph, Value
from graphls.ir.types import Type
from graphls.parameter import Parameter
from graphls.plain import shown
from graphls.summary.measure import Measures, bytes_of, measure
from graphls.summary.summary import CellSummary, PhaseSummary, Summary
from graphls.trace.trace import Traced
from graphls.trace.tracer import CellCall


def summarise(graph: Graph, traced: Traced) -> Summary:
    """What a step does cell by cell: its final graph, and the trace that it comes from."""
    found = measure(graph)
    tree = _tree(graph, traced)
    for scope in dict.fromkeys((*found.flops, *found.states)):
        _add(tree, found, scope)
    root = tree[""]
    others = [state for state in graph.states if state not in root.states]
    return Summary(
        name=graph.name,
        cells=tuple(_rows(tree, traced.parameters)),
        phases=tuple(
            PhaseSummary(phase, found.phase_nodes[phase], found.phase_flops[phase], found.phase_made[phase])
            for phase in found.phase_nodes
            if found.phase_nodes[phase]
        ),
        parameter_bytes=sum(map(bytes_of, root.states)),
        other_states=sum(state.type.size for state in others),
        other_bytes=sum(map(bytes_of, others)),
    )


def page_of(graph: Graph, traced: Traced) -> str:
    """A compiled step as HTML: its graph in a few words, and its summary."""
    summary = summarise(graph, traced)
    windows = sum(node.primitive.name == "overflow_start" for node, _ in runs(graph.nodes))
    phases = ", ".join(f"{phase.nodes:,} {phase.phase}" for phase in summary.phases)
    page = Page("Compiled step", f"{shown(graph.name)}: a compiled step of {len(graph.nodes):,} nodes")
    page.facts(
        (
            ("inputs", ", ".join(map(str, (value.type for value in graph.inputs))) or "none"),
            ("outputs", ", ".join(map(str, (value.type for value in graph.outputs))) or "none"),
            ("nodes", f"{phases or 'none'}, those of regions included"),
            ("states", f"{len(graph.states):,}, of which a step writes {len(graph.writes):,}"),
            ("overflow windows", str(windows)),
        )
    )
    summary.add_to(page)
    return page.text()


@dataclass
class _Cell:
    """A cell that ran, with all that is inside of it."""

    name: str
    kind: str
    outputs: tuple[Type, ...] = ()
    varies: bool = False
    calls: int = 0
    inner: list[str] = field(default_factory=list)
    states: dict[Value, None] = field(default_factory=dict)
    flops: int = 0
    made: int = 0
    kept: int = 0


def _tree(graph: Graph, traced: Traced) -> dict[str, _Cell]:
    """The cells that ran by their paths, each with those directly inside in the order in which they ran first."""
    tree = {"": _Cell(graph.name, "", tuple(v.type for v in graph.outputs), calls=1)}
    times = _times(traced.graph)
    for call in traced.calls:
        count = _count(call, times)
        if count and call.path:
            outputs = tuple(v.type for v in call.values)
            cell = tree.setdefault(call.path, _Cell(call.path, call.kind, outputs))
            cell.calls += count
            cell.varies = cell.varies or cell.outputs != outputs
    for path in list(tree)[1:]:
        parent = _owner(tree, path.rpartition(".")[0])
        tree[path].name = path[len(parent) + 1 :] if parent else path
        tree[parent].inner.append(path)
    return tree


def _times(graph: Graph) -> dict[Value, int]:
    """How often each value of a traced graph is made."""
    times = dict.fromkeys((*graph.inputs, *graph.states), 1)
    for node, count in runs(graph.nodes):
        times.update(dict.fromkeys(node.outputs, count))
        for region, inner in region_runs(node):
            times.update(dict.fromkeys(region.inputs, count * inner))
    return times


def _count(call: CellCall, times: Mapping[Value, int]) -> int:
    """How often a call runs: 0 for one of a trace that was thrown away, 1 in the cheaper answer of a branch."""
    known = [times[value] for value in call.values if value in times]
    return max(1, *known) if known else int(not call.values)


def _owner(tree: Mapping[str, _Cell], path: str) -> str:
    """The innermost cell that ran and whose path this is, or begins with."""
    while path and path not in tree:
        path = path.rpartition(".")[0]
    return path


def _add(tree: Mapping[str, _Cell], found: Measures, scope: str) -> None:
    """Count what the nodes of a scope take for its cell and for all around that."""
    path = _owner(tree, scope)
    for inner in (path, *_around(tree, path)):
        cell = tree[inner]
        cell.flops += found.flops[scope]
        cell.made += found.made[scope]
        cell.kept += found.kept[scope]
        cell.states.update(found.states.get(scope, {}))


def _around(tree: Mapping[str, _Cell], path: str) -> Iterable[str]:
    while path:
        path = _owner(tree, path.rpartition(".")[0])
        yield path


def _rows(tree: Mapping[str, _Cell], parameters: Mapping[str, Parameter]) -> list[CellSummary]:
    """All cells, each before those inside of it."""
    rows, waiting = [], [("", 0)]
    while waiting:
        path, depth = waiting.pop()
        cell = tree[path]
        rows.append(_row(cell, path, depth, parameters))
        waiting.extend((inner, depth + 1) for inner in reversed(cell.inner))
    return rows


def _row(cell: _Cell, path: str, depth: int, parameters: Mapping[str, Parameter]) -> CellSummary:
    trainable = (s for s in cell.states if s.name in parameters and parameters[s.name].requires_grad)
    return CellSummary(
        path=path,
        name=cell.name,
        kind=cell.kind,
        depth=depth,
        outputs=cell.outputs,
        varies=cell.varies,
        calls=cell.calls,
        parameters=sum(state.type.size for state in cell.states),
        trainable=sum(state.type.size for state in trainable),
        flops=cell.flops,
        made=cell.made,
        kept=cell.kept,
    )
