"""Builds the summary of a step from its trace and its final graph: operations, bytes and states by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.calls import CellCall
from graphls.frontend.trace.trace import Traced
from graphls.inspect.cell_tree import CellEntry, CellTree
from graphls.inspect.summary.summary import CellSummary, PhaseSummary, Summary
from graphls.ir.flops import own_flops, region_runs, runs
from graphls.ir.graph import PHASES, Graph, Node, Value, blocks, walk
from graphls.ir.types import Type


def summarise(graph: Graph, traced: Traced, notes: tuple[str, ...] = ()) -> Summary:
    """The summary of a step cell by cell, from its final graph, its trace, and notes on its device.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> from graphls.inspect.summary import summarise
        >>> traced = graphls.trace_graph(nn.SequentialCell(nn.Dense(3, 4), nn.ReLU()), np.ones((2, 3), np.float32))
        >>> [(cell.path, cell.parameters, cell.flops) for cell in summarise(traced.graph, traced).cells]
        [('', 16, 64), ('0', 16, 56), ('1', 0, 8)]
    """
    measures = measure(graph)
    tree = _tree(graph, traced)
    for scope in measures.flops:
        for cell in tree.around(scope):
            cell.flops += measures.flops[scope]
            cell.computed += measures.computed[scope]
            cell.retained += measures.retained[scope]
    for (phase, scope), states in measures.states.items():
        owned = dict.fromkeys(state for state in states if _belongs(state, phase, traced.parameters))
        for cell in tree.around(scope):
            cell.states.update(owned)
    root = tree.rows[""]
    others = [state for state in graph.states if state not in root.states]
    return Summary(
        name=graph.name,
        cells=tuple(_row(entry, traced.parameters, graph.name) for entry in tree.walk()),
        phases=tuple(
            PhaseSummary(phase, measures.phase_nodes[phase], measures.phase_flops[phase], measures.phase_made[phase])
            for phase in measures.phase_nodes
            if measures.phase_nodes[phase]
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
    page = Page("Compiled step", f"{shown(graph.name)}: a compiled step of {graph.node_count:,} nodes")
    page.facts(
        (
            ("inputs", ", ".join(map(str, (value.type for value in graph.inputs))) or "none"),
            ("outputs", ", ".join(map(str, (value.type for value in graph.outputs))) or "none"),
            ("nodes", f"{phases or 'none'}, those in regions included"),
            ("states", f"{len(graph.states):,}, of which a step writes {len(graph.writes):,}"),
            ("overflow windows", str(windows)),
        )
    )
    summary.add_to(page)
    return page.text()


@dataclass
class _Cell:
    """The sums of a cell that ran, with all cells inside of it."""

    kind: str
    outputs: tuple[Type, ...] = ()
    varies: bool = False
    calls: int = 0
    states: dict[Value, None] = field(default_factory=dict)
    flops: int = 0
    computed: int = 0
    retained: int = 0


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
    """The calls of cells with a path, without those of discarded traces."""
    values = {*traced.graph.inputs, *traced.graph.states}
    for node in walk(traced.graph):
        values.update(node.outputs, *(region.inputs for region in node.regions))
    return [call for call in traced.calls if call.path and (not call.values or not values.isdisjoint(call.values))]


def _counts(graph: Graph, calls: Iterable[CellCall]) -> Counter[str]:
    """The number of runs of the cell at each path."""
    ends: dict[Value, list[str]] = {}
    counts: Counter[str] = Counter()
    for call in calls:
        if call.values:
            ends.setdefault(call.values[-1], []).append(call.path)
        else:
            counts[call.path] += 1
    return counts + _counts_of(graph.nodes, (*graph.inputs, *graph.states), ends)


def _counts_of(nodes: Iterable[Node], inputs: Iterable[Value], ends: Mapping[Value, Sequence[str]]) -> Counter[str]:
    """The calls of cells that end with one of these inputs or a result of these nodes; of two branches, the most."""
    counts = Counter(path for value in inputs for path in ends.get(value, ()))
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
        made=cell.computed,
        kept=cell.retained,
    )


@dataclass
class Measures:
    """The operations, bytes and states of the nodes of each cell, without those of inner cells, and of each phase.

    By the path of the cell, for the forward: `flops` counts operations, `computed` the bytes of the values of its nodes
    and `retained` those of values that the backward reads. `states` are those that the nodes of a phase read, by phase
    and path, but for the seeds of random numbers. A result that shares the memory of an operand has no bytes, and
    neither have constants and results of branches. A loop counts each iteration, a condition its dearer branch.
    """

    flops: Counter[str] = field(default_factory=Counter)
    computed: Counter[str] = field(default_factory=Counter)
    retained: Counter[str] = field(default_factory=Counter)
    states: dict[tuple[str, str], dict[Value, None]] = field(default_factory=dict)
    phase_flops: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PHASES, 0)))
    phase_made: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PHASES, 0)))
    phase_nodes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PHASES, 0)))


def measure(graph: Graph) -> Measures:
    """The measures of a graph, by one walk over its nodes, those of regions included."""
    measures = Measures()
    unmade = not_computed(graph)
    memory, copies = Memory(measures), {state: state for state in graph.states}
    _note_copies(copies, graph)
    for node, count in runs(graph.nodes):
        count = 0 if node in unmade else count
        flops = count * own_flops(node)
        measures.phase_nodes[node.phase] += 1
        measures.phase_flops[node.phase] += flops
        if node.phase == "forward":
            measures.flops[node.scope] += flops
        read = [copies[value] for value in node.inputs if value in copies]
        if read and not (node.primitive.is_transparent or node.primitive.on_host):
            measures.states.setdefault((node.phase, node.scope), {}).update(dict.fromkeys(read))
        memory.note(node, count)
    return measures


def not_computed(graph: Graph) -> set[Node]:
    """The products that only an exact overflow check reads, which are computed where the bound is inconclusive."""
    from graphls.runtime.lowering.finite import only_checked  # which loads onnx

    products = (only_checked(b.nodes, (*b.outputs, *(w.value for w in b.writes))).values() for b in blocks(graph))
    return set(chain.from_iterable(products))


def _note_copies(copies: dict[Value, Value], graph: Graph) -> None:
    """Note the values that are a state in another form, or that begin as one in a loop."""
    for node in graph.nodes:
        if node.primitive.is_transparent and node.inputs[0] in copies:
            copies[node.outputs[0]] = copies[node.inputs[0]]
        for region in node.regions:
            pairs = zip(region.inputs, node.inputs, strict=False)
            copies.update((inner, copies[outer]) for inner, outer in pairs if outer in copies)
            _note_copies(copies, region)


class Memory:
    """Counts the bytes of the values of nodes, each of which is noted once, in order."""

    def __init__(self, measures: Measures) -> None:
        self.measures = measures
        self.source: dict[Value, Value] = {}
        self.maker: dict[Value, str] = {}

    def note(self, node: Node, count: int) -> None:
        """Count the results of a node, and the values that it retains if it belongs to the backward."""
        if node.phase == "backward":
            for value in (*node.inputs, *(v for region in node.regions for v in region.outputs)):
                self._retain(self.source.get(value, value))
        if self._shares(node):
            return
        for value in node.outputs:
            self.measures.phase_made[node.phase] += count * value.type.nbytes
            if node.phase == "forward":
                self.measures.computed[node.scope] += count * value.type.nbytes
                self.maker[value] = node.scope

    def _shares(self, node: Node) -> bool:
        """Whether the results of a node take no memory of their own; notes the values whose memory they share."""
        primitive = node.primitive
        if primitive.is_branch:
            chosen = next(region for region, count in region_runs(node) if count)
            self._join(node.outputs, chosen.outputs)
        elif primitive.is_view:
            self._join(node.outputs, node.inputs[: len(node.outputs)])
        return primitive.is_constant or primitive.is_branch or primitive.is_view

    def _join(self, results: tuple[Value, ...], sources: tuple[Value, ...]) -> None:
        for result, source in zip(results, sources, strict=True):
            self.source[result] = self.source.get(source, source)

    def _retain(self, value: Value) -> None:
        """Count a value of the forward as retained, the first time."""
        scope = self.maker.pop(value, None)
        if scope is not None:
            self.measures.retained[scope] += value.type.nbytes
