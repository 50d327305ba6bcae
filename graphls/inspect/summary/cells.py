"""From a traced cell and its final graph to a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.calls import CellCall
from graphls.frontend.trace.trace import Traced
from graphls.inspect.cell_tree import CellEntry, CellTree
from graphls.inspect.summary.measure import measure
from graphls.inspect.summary.summary import CellSummary, PhaseSummary, Summary
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.types import Type


def summarise(graph: Graph, traced: Traced, notes: tuple[str, ...] = ()) -> Summary:
    """What a step does cell by cell: its final graph, the trace that it comes from, and notes on its device.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> from graphls.inspect.summary import summarise
        >>> traced = graphls.trace_graph(nn.SequentialCell(nn.Dense(3, 4), nn.ReLU()), np.ones((2, 3), np.float32))
        >>> [(cell.path, cell.parameters, cell.flops) for cell in summarise(traced.graph, traced).cells]
        [('', 16, 64), ('0', 16, 56), ('1', 0, 8)]
    """
    found = measure(graph)
    tree = _tree(graph, traced)
    for scope in found.flops:
        for cell in tree.around(scope):
            cell.flops += found.flops[scope]
            cell.made += found.made[scope]
            cell.kept += found.kept[scope]
    for (phase, scope), states in found.states.items():
        owned = dict.fromkeys(state for state in states if _belongs(state, phase, traced.parameters))
        for cell in tree.around(scope):
            cell.states.update(owned)
    root = tree.rows[""]
    others = [state for state in graph.states if state not in root.states]
    return Summary(
        name=graph.name,
        cells=tuple(_row(entry, traced.parameters, graph.name) for entry in tree.walk()),
        phases=tuple(
            PhaseSummary(phase, found.phase_nodes[phase], found.phase_flops[phase], found.phase_made[phase])
            for phase in found.phase_nodes
            if found.phase_nodes[phase]
        ),
        parameter_bytes=sum(state.type.nbytes for state in root.states),
        other_states=sum(state.type.size for state in others),
        other_bytes=sum(state.type.nbytes for state in others),
        notes=notes,
    )


def page_of(graph: Graph, traced: Traced, notes: tuple[str, ...] = ()) -> str:
    """A compiled step as HTML: its graph in a few words, and its summary.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> from graphls.inspect.summary import page_of
        >>> traced = graphls.trace_graph(nn.Dense(3, 4), np.ones((2, 3), np.float32))
        >>> page_of(traced.graph, traced)[:4]
        '<sty'
    """
    summary = summarise(graph, traced, notes)
    windows = sum(node.primitive.name == "overflow_start" for node in walk(graph))
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

    kind: str
    outputs: tuple[Type, ...] = ()
    varies: bool = False
    calls: int = 0
    states: dict[Value, None] = field(default_factory=dict)
    flops: int = 0
    made: int = 0
    kept: int = 0


def _tree(graph: Graph, traced: Traced) -> CellTree[_Cell]:
    """The cells that ran by their paths, in the order in which they ran first."""
    tree = CellTree(_Cell("", tuple(v.type for v in graph.outputs), calls=1))
    calls = _in_graph(traced)
    for call in calls:
        outputs = tuple(v.type for v in call.values)
        cell = tree.rows.setdefault(call.path, _Cell(call.kind, outputs))
        cell.varies = cell.varies or cell.outputs != outputs
    for path, count in _counts(traced.graph, calls).items():
        tree.rows[path].calls = count
    return tree


def _in_graph(traced: Traced) -> list[CellCall]:
    """The calls of cells with a path, without those of traces that were thrown away."""
    made = {*traced.graph.inputs, *traced.graph.states}
    for node in walk(traced.graph):
        made.update(node.outputs, *(region.inputs for region in node.regions))
    return [call for call in traced.calls if call.path and (not call.values or not made.isdisjoint(call.values))]


def _counts(graph: Graph, calls: Iterable[CellCall]) -> Counter[str]:
    """How often the cell at each path runs."""
    ends: dict[Value, list[str]] = {}
    counts: Counter[str] = Counter()
    for call in calls:
        if call.values:
            ends.setdefault(call.values[-1], []).append(call.path)
        else:
            counts[call.path] += 1
    return counts + _counts_of(graph.nodes, (*graph.inputs, *graph.states), ends)


def _counts_of(nodes: Iterable[Node], given: Iterable[Value], ends: Mapping[Value, Sequence[str]]) -> Counter[str]:
    """How often cells end with a value that is given or made by these nodes; of two answers, that with more calls."""
    counts = Counter(path for value in given for path in ends.get(value, ()))
    for node in nodes:
        counts.update(path for value in node.outputs for path in ends.get(value, ()))
        inner = [_counts_of(region.nodes, region.inputs, ends) for region in node.regions]
        if node.primitive.is_branch:
            counts += inner[0] | inner[1]
        elif node.primitive.is_loop:
            for part in inner:
                counts.update({path: count * node.attrs.get("length", 1) for path, count in part.items()})
    return counts


def _belongs(state: Value, phase: str, parameters: Mapping[str, Parameter]) -> bool:
    """Whether a state that a phase reads is a parameter of the cell: for the backward only if it is trainable."""
    return phase == "forward" or (phase == "backward" and _is_trainable(state, parameters))


def _is_trainable(state: Value, parameters: Mapping[str, Parameter]) -> bool:
    return state.name in parameters and parameters[state.name].requires_grad


def _row(entry: CellEntry[_Cell], parameters: Mapping[str, Parameter], graph_name: str) -> CellSummary:
    cell = entry.row
    trainable = (state for state in cell.states if _is_trainable(state, parameters))
    return CellSummary(
        path=entry.path,
        name=entry.name or graph_name,
        kind=cell.kind,
        depth=entry.depth,
        outputs=cell.outputs,
        varies=cell.varies,
        calls=cell.calls,
        parameters=sum(state.type.size for state in cell.states),
        trainable=sum(state.type.size for state in trainable),
        flops=cell.flops,
        made=cell.made,
        kept=cell.kept,
    )
